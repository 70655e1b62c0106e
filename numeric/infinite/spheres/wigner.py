r"""Wigner matrices $D^l(R)$ of rotations, real, orthogonal to rounding at every degree.

They act on the real harmonics of `harmonics`, which have cos(m phi) at m >= 0 and sin(|m| phi) at m < 0. A
rotation by beta about y is one about z between quarter turns about x, and entries of quarter turns are
whole numbers, times roots of ratios of binomials: so no recurrence in floats loses digits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_finite, whole

__all__ = ["about_y", "about_z", "euler_angles", "require_rotations", "wigner"]

ROUNDING = 1e-6  # what matrices made in float32 leave in R R^T


def wigner(rotations: ArrayLike, degree: int) -> Tensor:
    r"""$D^l(R)$ with $Y_l(Rx) = D^l(R)\,Y_l(x)$, in float64.

    Parameters: `rotations` (k, 3, 3), and the `degree` l. Returned is (k, 2l+1, 2l+1), orders from -l to l,
    with $D(RS) = D(R)D(S)$. Refused are matrices that are no rotations, and degrees below 0.

    >>> quarter_turn = [[[0, -1, 0], [1, 0, 0], [0, 0, 1]]]
    >>> wigner(quarter_turn, 1)[0].round().int().tolist()  # of y, z and x
    [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    """
    alpha, beta, gamma = euler_angles(require_rotations(rotations))
    degree = whole("degree", degree, least=0)
    return about_z(alpha, degree) @ about_y(beta, degree) @ about_z(gamma, degree)


def require_rotations(rotations: ArrayLike) -> Tensor:
    """Rotation matrices (k, 3, 3) in float64; others are refused."""
    matrices = as_numbers("rotations", rotations, "(k, 3, 3)").double()
    if matrices.ndim != 3 or matrices.shape[1:] != (3, 3) or not len(matrices):
        shape = tuple(matrices.shape)
        raise InputError(f"rotations must have shape (k, 3, 3), but {shape} was given.")
    require_finite("rotations", matrices)
    off = (matrices @ matrices.mT - torch.eye(3, device=matrices.device)).abs().amax()
    if off > ROUNDING or torch.linalg.det(matrices).amin() < 0:
        raise InputError(
            f"rotations must be orthogonal with determinant 1, but R R^T - I is up to {off:.2g} or a mirror "
            "image is among them: Rotations.random(5) draws some."
        )
    return matrices


def about_z(angles: Tensor, degree: int) -> Tensor:
    """D^l of rotations about z, (k, 2l+1, 2l+1): a turn of each pair of orders m and -m."""
    orders = torch.arange(-degree, degree + 1, device=angles.device)
    turned = orders * angles[:, None]
    return torch.diag_embed(turned.cos()) - torch.diag_embed(turned.sin()).flip(-1)


def about_y(angles: Tensor, degree: int) -> Tensor:
    """D^l of rotations about y, (k, 2l+1, 2l+1)."""
    tilt = _tilt(degree).to(angles.device)
    return tilt @ about_z(angles, degree) @ tilt.T


def euler_angles(rotations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Angles with R = R_z(alpha) R_y(beta) R_z(gamma); also near beta = 0 they are those of R to rounding."""
    alpha = torch.atan2(rotations[:, 1, 2], rotations[:, 0, 2])
    c, s = alpha.cos(), alpha.sin()
    beta = torch.atan2(c * rotations[:, 0, 2] + s * rotations[:, 1, 2], rotations[:, 2, 2])
    middle = c[:, None] * rotations[:, 1] - s[:, None] * rotations[:, 0]  # a row of R_z(-alpha) R
    return alpha, beta, torch.atan2(middle[:, 0], middle[:, 1])


@lru_cache(maxsize=256)
def _tilt(degree: int) -> Tensor:
    """D^l of the quarter turn about x that takes z to y, (2l+1, 2l+1)."""
    orders = np.arange(-degree, degree + 1)
    turn = (
        1j ** orders[:, None] * _quarter_turn(degree).T * 1j ** (-orders)
    )  # about y, between ones about z
    to_real = _real_harmonics(degree)
    return torch.from_numpy(np.ascontiguousarray((to_real @ turn @ to_real.conj().T).real))


def _quarter_turn(degree: int) -> np.ndarray:
    r"""$d^l_{mn}(\pi/2)$ of complex harmonics, from the coefficients of (1 + u)^(l+n) (1 - u)^(l-n)."""
    top = 2 * degree
    binomials = [math.comb(top, k) for k in range(top + 1)]
    column = [(-1) ** k * b for k, b in enumerate(binomials)]  # (1 - u)^(2l)
    entries = np.empty((top + 1, top + 1))
    for n in range(top + 1):
        entries[:, n] = [
            c / 2**degree * math.sqrt(binomials[n] / b)
            for c, b in zip(column, binomials, strict=True)
        ]
        if n < top:  # divide by 1 - u, multiply by 1 + u
            quotient = np.cumsum(np.array(column[:-1], dtype=object))
            column = [a + b for a, b in zip([*quotient, 0], [0, *quotient], strict=True)]
    return entries


def _real_harmonics(degree: int) -> np.ndarray:
    """The unitary matrix from coefficients of complex harmonics, with phases (-1)^m, to real ones."""
    matrix = np.zeros((2 * degree + 1, 2 * degree + 1), dtype=complex)
    matrix[degree, degree] = 1
    for m in range(1, degree + 1):
        plus, minus = degree + m, degree - m
        matrix[plus, [plus, minus]] = np.array([(-1) ** m, 1]) / math.sqrt(2)
        matrix[minus, [plus, minus]] = np.array([1j * (-1) ** m, -1j]) / math.sqrt(2)
    return matrix
