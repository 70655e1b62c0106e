"""Nodes of Gauss and Legendre on [0, 1], and Bernstein coefficients of polynomials by their values there."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["gauss_legendre", "to_bernstein"]


@cache
def _on_unit_interval(count: int) -> tuple[np.ndarray, np.ndarray]:
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def gauss_legendre(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """So many nodes and weights on [0, 1], with the dtype and device of a tensor."""
    places, weights = (torch.from_numpy(v.copy()).to(like) for v in _on_unit_interval(count))
    return places, weights


@cache
def _bernstein(count: int) -> np.ndarray:
    from scipy.special import binom

    grid = np.concatenate([[0.0], _on_unit_interval(count)[0], [1.0]])
    degree = len(grid) - 1
    k = np.arange(degree + 1)
    basis = binom(degree, k) * grid[:, None] ** k * (1 - grid[:, None]) ** (degree - k)
    return np.linalg.inv(basis)


def to_bernstein(count: int, like: Tensor) -> Tensor:
    """A matrix from values at 0, the nodes and 1 to Bernstein coefficients of the polynomial of these."""
    return torch.from_numpy(_bernstein(count).copy()).to(like)
