"""How a tile of pairs passes a layer: its determinants, then its covariances, each in a way chosen once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from numeric.infinite.layers import Layer, Pairs, full
from numeric.infinite.points import Points, PointSubset
from numeric.kernels.scratch_memory import NoScratch, Scratch

__all__ = [
    "Advance", "CheckedDeterminant", "Determinant", "FusedAdvance", "PlainDeterminant",
    "PositiveDeterminant", "SeparateAdvance", "TileState", "constant", "no_determinant",
]  # fmt: skip


@dataclass
class TileState:
    """A tile between two layers: covariances and tangent kernel of pairs of rows and columns."""

    rows: Points | PointSubset  # (n)
    columns: Points | PointSubset  # (m)
    k: Tensor  # (n, m)
    theta: Tensor  # (n, m)
    memory: Scratch | NoScratch
    near: Tensor | None = None  # (n, m): True where a pair is to be recomputed by itself

    def __post_init__(self) -> None:
        rows, columns = self.rows.variances[..., None], self.columns.variances[:, None]
        self.variances = list(
            zip(rows.unbind(), columns.unbind(), strict=True)
        )  # (n, 1), (1, m) by layer


Determinant = Callable[[TileState], Tensor | None]
Advance = Callable[[TileState, Tensor | None], None]


def no_determinant(state: TileState) -> None:
    """For layers whose averages do not contain it."""


@dataclass(frozen=True)
class PlainDeterminant:
    """kxx kyy - kxy^2."""

    l: int

    def __call__(self, state: TileState) -> Tensor:
        kxx, kyy = state.variances[self.l]
        state.memory.keep(state.k, state.theta)
        return torch.mul(kxx, kyy, out=state.memory[0]).addcmul_(state.k, state.k, value=-1)


@dataclass(frozen=True)
class CheckedDeterminant:
    """The same where nearly collinear pairs lose digits: they are marked, and taken for orthogonal ones."""

    plain: PlainDeterminant
    near: float  # sin^2 of the angle below which a pair is recomputed

    def __call__(self, state: TileState) -> Tensor:
        l, det = self.plain.l, self.plain(state)
        if det.amin().item() >= self.near * state.rows.most[l] * state.columns.most[l]:
            return det
        kxx, kyy = state.variances[l]
        both = kxx * kyy
        near = ~(det >= self.near * both)  # True for NaN as well, from a layer without this check
        state.near = near if state.near is None else state.near | near
        state.k = state.k.masked_fill(near, 0.0)
        return torch.where(near, both, det)


@dataclass(frozen=True)
class PositiveDeterminant:
    """The same with 0, and what rounding put below it, raised to the least positive number."""

    determinant: PlainDeterminant | CheckedDeterminant

    def __call__(self, state: TileState) -> Tensor:
        det = self.determinant(state)
        return det.clamp_min(torch.finfo(det.dtype).tiny)


@dataclass(frozen=True)
class FusedAdvance:
    """The closed form of a layer and its scales in one program of in-place torch calls."""

    l: int
    program: Callable[..., tuple[Tensor, ...]]  # of `fused_layers.layer`
    covariance: tuple[float, float]  # factors of E[phi phi] and of 1 in the covariance
    rates: tuple[float, float]  # the same in the tangent kernel

    def __call__(self, state: TileState, det: Tensor | None) -> None:
        k, theta = state.k, state.theta
        state.memory.keep(k, theta, det)
        (scale, bias), (weights, biases) = self.covariance, self.rates
        bias, biases = (constant(c, k.dtype, k.device) for c in (bias, biases))
        kxx, kyy = state.variances[self.l]
        numbers = scale, bias, weights, biases
        parts = self.program(kxx, k, kyy, det, theta, *numbers, state.memory)
        state.k, *tangent = (full(part, k) for part in parts)
        state.theta = tangent[0] if tangent else theta


@dataclass(frozen=True)
class SeparateAdvance:
    """Averages over pairs, by quadrature or to be differentiated by the scales; then the scales."""

    l: int
    layer: Layer
    slopes: bool
    scales: Callable[[int, Pairs, Tensor], tuple[Tensor, Tensor]]  # to k and theta after the layer

    def __call__(self, state: TileState, det: Tensor | None) -> None:
        rows, columns = state.rows.rows[self.l], state.columns.rows[self.l]
        pairs = self.layer.pairs(rows, columns, state.k, det, self.slopes)
        state.k, state.theta = self.scales(self.l, pairs, state.theta)


@lru_cache
def constant(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A number as a tensor without a dimension, made once."""
    return torch.tensor(value, dtype=dtype, device=device)
