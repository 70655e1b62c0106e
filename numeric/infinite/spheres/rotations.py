r"""Rotations of the sphere, which act on signals by $(\rho(R)f)(x) = f(R^{-1}x)$, and a grid of them.

A function on rotations below a band limit is $\kappa(R) = \sum_{l<L}\sum_{ab} c^l_{ab} D^l_{ab}(R)$. Its
coefficients are listed by l, then a and b from -l to l, along the first axis of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from scipy.special import roots_jacobi
from torch import Tensor

from numeric.infinite.groups.group import require_element
from numeric.infinite.spheres.harmonics import band_limit_of, require_band_limit, uniform_angles
from numeric.infinite.spheres.wigner import about_y, require_rotations, wigner
from numeric.inputs import ArrayLike, InputError, as_numbers, generator_for, whole

__all__ = ["RotationGrid", "Rotations", "Tables", "coefficient_pairs"]

CELLS = (
    2**17
)  # values of functions that are transformed at once: a few of them stay near the processor
LARGE = 2**24  # the same on other devices than the CPU


@dataclass(frozen=True, eq=False)
class Rotations:
    """Some rotations, which act on signals on the sphere: for checks and averages.

    Parameters: `matrices` (order, 3, 3). What is no rotation is refused, and so are signals that are no
    coefficients (n, channels, band_limit^2).

    >>> turns = Rotations([[[0, -1, 0], [1, 0, 0], [0, 0, 1]]])  # x to y
    >>> turns.act(0, torch.tensor([[[0.0, 0.0, 0.0, 1.0]]])).round().abs().tolist()
    [[[0.0, 1.0, 0.0, 0.0]]]
    """

    matrices: ArrayLike  # (order, 3, 3); a tensor of float64 once made

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrices", require_rotations(self.matrices).cpu())

    @classmethod
    def random(cls, count: int, seed: int = 0) -> Rotations:
        """So many drawn uniformly, from quaternions.

        >>> Rotations.random(5).order
        5
        """
        generator = generator_for("rotations", whole("seed", seed, least=0))
        q = torch.randn(whole("count", count), 4, generator=generator, dtype=torch.float64)
        a, b, c, d = (q / q.norm(dim=1, keepdim=True)).T
        rows = (
            (1 - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c)),
            (2 * (b * c + a * d), 1 - 2 * (b * b + d * d), 2 * (c * d - a * b)),
            (2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b * b + c * c)),
        )
        return cls(torch.stack([torch.stack(row, 1) for row in rows], 1))

    @property
    def order(self) -> int:
        return len(self._tensor)

    @property
    def _tensor(self) -> Tensor:
        return torch.as_tensor(self.matrices)

    def act(self, g: int, x: Tensor) -> Tensor:
        """rho(g) x of signals (n, channels, band_limit^2); what is no element or does not fit is refused."""
        g = require_element(g, self.order, f"{self.order} rotations")
        return Rotations(self._tensor[g : g + 1]).orbit(x)[0]

    def orbit(self, x: ArrayLike) -> Tensor:
        """Signals (n, channels, band_limit^2) under all rotations, (order, n, channels, band_limit^2).

        >>> Rotations.random(5).orbit(torch.ones(2, 3, 16)).shape
        torch.Size([5, 2, 3, 16])
        """
        x = as_numbers("x", x, "(n, channels, band_limit^2)")
        if x.ndim != 3:
            raise InputError(
                f"Rotations move signals (n, channels, band_limit^2), but shape {tuple(x.shape)} was given."
            )
        L = band_limit_of(x.shape[2])
        parts = x.split([2 * l + 1 for l in range(L)], 2)
        moved = [
            torch.einsum("gab,ncb->gnca", wigner(self._tensor, l).to(x), part)
            for l, part in enumerate(parts)
        ]
        return torch.cat(moved, 3)


@dataclass(frozen=True)
class RotationGrid:
    r"""Nodes and weights on rotations that integrate products of two functions below a band limit exactly.

    Parameters: `band_limit` B. Nodes are $R_z(\alpha)R_y(\beta)R_z(\gamma)$ with Gauss and Radau's B
    nodes in cos(beta), of which one is beta = 0, and 2B uniform angles alpha and gamma; together they are
    exact up to degree 2B - 2. The identity is node 0, and the inverse of each node is one.

    >>> grid = RotationGrid(3)
    >>> grid.order, grid.rotations.matrices[0].diagonal().tolist()
    (108, [1.0, 1.0, 1.0])
    """

    band_limit: int

    def __post_init__(self) -> None:
        whole("band_limit", self.band_limit)

    @property
    def order(self) -> int:
        """The number of nodes."""
        return 4 * self.band_limit**3

    @property
    def weights(self) -> Tensor:
        """Weights of the nodes, with sum 1, (order,)."""
        around = (2 * self.band_limit) ** 2
        return _tilts(self.band_limit)[1].repeat_interleave(around) / around

    @property
    def rotations(self) -> Rotations:
        """The nodes."""
        angles = uniform_angles(2 * self.band_limit)
        beta = _tilts(self.band_limit)[0]
        tilts = _matrices(beta, 2, 0)
        turns = _matrices(angles, 0, 1)
        grid = turns[None, :, None] @ tilts[:, None, None] @ turns  # beta, alpha, gamma
        return Rotations(grid.reshape(-1, 3, 3))

    def mean(self, values: Tensor) -> Tensor:
        """The Haar average of values (order, ...) at the nodes."""
        around = values.unflatten(0, (self.band_limit, -1)).mean(1)  # of alpha and gamma, in pairs
        return torch.tensordot(_tilts(self.band_limit)[1].to(values), around, 1)

    def values(self, coefficients: Tensor) -> Tensor:
        """Values at the nodes, (order, ...), of functions by their coefficients, (sum of (2l+1)^2, ...)."""
        L = _band_limit_of_matrices(len(coefficients))
        require_band_limit(self.band_limit, L)
        values = self._in_blocks(partial(self._synthesis, L), coefficients.flatten(1))
        return values.reshape(self.order, *coefficients.shape[1:])

    def coefficients(self, values: Tensor, band_limit: int | None = None) -> Tensor:
        r"""$c^l_{ab} = (2l+1)\int\kappa D^l_{ab}$ below a band limit, of values (order, ...) at the nodes."""
        L = self.band_limit if band_limit is None else whole("band_limit", band_limit)
        require_band_limit(self.band_limit, L)
        if len(values) != self.order:
            raise InputError(
                f"values must have shape ({self.order}, ...), one for each node of {self}, but "
                f"{tuple(values.shape)} was given."
            )
        c = self._in_blocks(partial(self._analysis, L), values.flatten(1))
        return c.reshape(-1, *values.shape[1:])

    def _in_blocks(self, transform: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """A transform of the columns of x, some at a time: what it needs between is then small."""
        step = max(1, (CELLS if x.device.type == "cpu" else LARGE) // self.order)
        return torch.cat([transform(part) for part in x.split(step, 1)], 1)

    def _synthesis(self, L: int, c: Tensor) -> Tensor:
        tables = _tables(self.band_limit, L)
        c = torch.cat([c, c.new_zeros(1, c.shape[1])])[tables.sources.to(c.device)]
        c = c.reshape(L, 2, L, 2, L, -1)  # l, cos or sin, |a|, cos or sin, |b|
        sign = _signs(c)
        # R_z(alpha) and R_z(gamma) mix orders a and -a, R_y(beta) does not: two products of three turns
        both = torch.cat([c * sign[:, None, None], c.flip(1, 3) * sign[:, None, None, None, None]])
        rows = torch.einsum("lsatbp,ljab->jsatbp", both, tables.tilts.to(c))
        trig = tables.trig.to(c)
        rows = torch.einsum("jacp,cy->jayp", rows.flatten(3, 4).flatten(1, 2), trig)
        return torch.einsum("jayp,ax->jxyp", rows, trig).flatten(0, 2)

    def _analysis(self, L: int, v: Tensor) -> Tensor:
        B, tables = self.band_limit, _tables(self.band_limit, L)
        v = v.reshape(B, 2 * B, 2 * B, -1)
        v = v * (_tilts(B)[1].to(v) / (2 * B) ** 2)[:, None, None, None]
        trig = tables.trig.to(v)
        rows = torch.einsum("jxyp,ax->jayp", v, trig)
        rows = torch.einsum("jayp,cy->jacp", rows, trig).reshape(B, 2, L, 2, L, -1)
        sign = _signs(rows)
        swapped = (rows * sign[:, None, None, None, None]).flip(1, 3)
        tilts = tables.tilts.to(v)
        c = torch.einsum("jsatbp,ljab->lsatbp", rows * sign[:, None, None], tilts[:L])
        c = c + torch.einsum("jsatbp,ljab->lsatbp", swapped, tilts[L:])
        places = tables.places.to(v.device)
        return c.reshape(4 * L**3, -1)[places] * tables.sizes.to(v)[:, None]


@dataclass(frozen=True, eq=False)
class Tables:
    """What transforms between a grid and coefficients below a band limit L need, on the host.

    Coefficients are kept in a box (L, 2, L, 2, L) by l, whether a is at least 0, |a|, the same of b.
    """

    tilts: Tensor  # (2 L, B, L, L): D^l of the nodes beta at orders |a|, |b|; of cosines, then of sines
    trig: Tensor  # (2 L, 2 B): cosines and sines of the angles
    sources: Tensor  # (4 L^3,): which coefficient is where in the box, with one more for none
    places: Tensor  # (sum of (2l+1)^2,): where in the box it is
    sizes: Tensor  # (sum of (2l+1)^2,): 2l + 1


@lru_cache(maxsize=16)
def _tables(band_limit: int, L: int) -> Tables:
    beta, angles = _tilts(band_limit)[0], uniform_angles(2 * band_limit)
    orders = torch.arange(L, dtype=torch.float64)[:, None]
    cosines, sines = torch.zeros(2, L, len(beta), L, L, dtype=torch.float64)
    places, sizes = [], []
    for l in range(L):
        turned = about_y(beta, l)
        cosines[l, :, : l + 1, : l + 1] = turned[:, l:, l:]
        sines[l, :, : l + 1, : l + 1] = turned.flip(1, 2)[:, l:, l:]
        sines[l, :, 0], sines[l, :, :, 0] = 0, 0  # there is no sine at order 0
        order = torch.arange(-l, l + 1)
        at = (order < 0) * L + order.abs()
        places.append((l * (2 * L) ** 2 + at[:, None] * 2 * L + at).flatten())
        sizes.append(torch.full((len(places[-1]),), 2.0 * l + 1, dtype=torch.float64))
    where = torch.cat(places)
    sources = torch.full((4 * L**3,), len(where))
    sources[where] = torch.arange(len(where))
    trig = torch.cat([(orders * angles).cos(), (orders * angles).sin()])
    return Tables(torch.cat([cosines, sines]), trig, sources, where, torch.cat(sizes))


@lru_cache(maxsize=16)
def _tilts(band_limit: int) -> tuple[Tensor, Tensor]:
    """Gauss and Radau's nodes, as angles beta from 0, and weights with sum 1: exact to degree 2B - 2."""
    end = 1 / band_limit**2
    if band_limit == 1:
        return torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    z, weights = roots_jacobi(band_limit - 1, 1, 0)
    z, weights = z[::-1], weights[::-1] / 2
    nodes = np.concatenate([[0.0], np.arccos(z)])
    return torch.from_numpy(nodes), torch.from_numpy(np.concatenate([[end], weights / (1 - z)]))


def coefficient_pairs(band_limit: int) -> tuple[Tensor, Tensor]:
    """For each coefficient of a function on rotations the numbers of Y_la and Y_lb."""
    rows, columns = [], []
    for l in range(band_limit):
        numbers = torch.arange(l * l, (l + 1) ** 2)
        rows.append(numbers.repeat_interleave(2 * l + 1))
        columns.append(numbers.repeat(2 * l + 1))
    return torch.cat(rows), torch.cat(columns)


def _band_limit_of_matrices(count: int) -> int:
    L, total = 0, 0
    while total < count:
        total += (2 * L + 1) ** 2
        L += 1
    if total != count or not L:
        raise InputError(
            f"{count} coefficients were given, but a function on rotations has 1, 10, 35, ..., the sum of "
            "(2l+1)^2 below its band limit."
        )
    return L


def _signs(like: Tensor) -> Tensor:
    return torch.tensor([1.0, -1.0], dtype=like.dtype, device=like.device)


def _matrices(angles: Tensor, i: int, j: int) -> Tensor:
    """Rotations in the plane of the axes i and j, (k, 3, 3)."""
    matrices = torch.eye(3, dtype=torch.float64).repeat(len(angles), 1, 1)
    matrices[:, i, i] = matrices[:, j, j] = angles.cos()
    matrices[:, j, i], matrices[:, i, j] = angles.sin(), -angles.sin()
    return matrices
