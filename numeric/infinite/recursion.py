"""The layer recursion of an infinite network, on single points and on tiles of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from numeric.infinite.layers import Layer, Pairs
from numeric.infinite.parametrisation import Parametrisation
from numeric.infinite.points import Points, PointSubset
from numeric.infinite.separation import separate
from numeric.infinite.tile_steps import (
    Advance,
    CheckedDeterminant,
    Determinant,
    FusedAdvance,
    PlainDeterminant,
    PositiveDeterminant,
    SeparateAdvance,
    TileState,
    constant,
    no_determinant,
)
from numeric.inputs import InputError
from numeric.kernels.scratch_memory import NoScratch, Scratch

if TYPE_CHECKING:
    from numeric.infinite.network import FullyConnected

__all__ = ["Recursion", "require_finite_variances", "require_representable"]

NEAR = 1e-2  # sin^2 of the angle below which the rounding of a matrix product costs digits
CLOSE = 1e-4  # the same for layers computed by quadrature, which are accurate to 1e-13 only
CELLS = 2**20  # numbers held at once when pairs are computed one by one
NODES = 64  # typical number of quadrature nodes for a pair


@dataclass(frozen=True)
class Recursion:
    """The layer recursion; `sigma_w` and `sigma_b` are floats, or tensors to differentiate by."""

    layers: tuple[Layer, ...]
    sigma_w: tuple[float, ...] | Tensor  # (layers + 1,)
    sigma_b: tuple[float, ...] | Tensor
    parametrisation: Parametrisation
    tangent: bool

    @classmethod
    def of(cls, net: FullyConnected, tangent: bool) -> Recursion:
        return cls(net.layers, net.sigma_w, net.sigma_b, net.parametrisation, tangent)

    @cached_property
    def numbers(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """sigma_w and sigma_b where they are floats; only an NNGP kernel is differentiated by them."""
        if isinstance(self.sigma_w, Tensor) or isinstance(self.sigma_b, Tensor):
            raise TypeError("Tangent kernels and jets need scales that are floats.")
        return self.sigma_w, self.sigma_b

    def points(self, x: Tensor) -> Points:
        """Variances of all layers at single points (n, d); NaN and infinite points are refused."""
        V = self._first_covariance(torch.linalg.vecdot(x, x), x.shape[1])
        require_finite_variances(V)
        theta = self._first(V, x.shape[1])
        variances, squares, rows, always_zero = [], [], [], V == 0
        for l, layer in enumerate(self.layers):
            V = layer.clamped(V)
            variances.append(V)
            rows.append(layer.rows(V, self.tangent))
            squares.append(F := layer.square(V))
            slope = layer.square_slope(V) if self.tangent else None
            V, theta = self._next(l, Pairs(F, slope), theta)
            always_zero = always_zero & (layer.keeps_zero and self.sigma_b[l + 1] == 0)
            require_representable(V, x, l)
        diagonal = theta if self.tangent else V
        return Points(
            x, torch.stack([*variances, V]), torch.stack(squares), tuple(rows), diagonal, always_zero,
        )  # fmt: skip

    def _first_covariance(self, xy: Tensor, d: int, out: Tensor | None = None) -> Tensor:
        scale, bias = self.sigma_w[0] ** 2 / d, self.sigma_b[0] ** 2
        if isinstance(scale, Tensor) or isinstance(bias, Tensor):
            return scale * xy + bias
        return torch.add(constant(bias, xy.dtype, xy.device), xy, alpha=scale, out=out)

    def tile(
        self,
        a: Points | PointSubset,
        b: Points | PointSubset,
        xy: Tensor,
        same: bool,
        memory: Scratch | NoScratch,
    ) -> Tensor:
        """The Gram matrix of two groups of points from their inner products.

        `same` says that the columns begin with the rows' own points. The diagonal is then meaningless
        here, and `gram.matrix` overwrites it with `Points.diagonal`.
        """
        memory.begin(*xy.shape)
        k = self._first_covariance(xy, a.d, memory[0])
        if same:
            k.fill_diagonal_(0)  # overwritten later: any value away from +-1 avoids a NaN here
        state = TileState(a, b, k, self._first(k, a.d), memory)
        for determinant, advance in self._steps:
            advance(state, determinant(state))
        out = state.theta if self.tangent else state.k
        return out if state.near is None else self._repair_near_collinear(out, state.near, a, b, xy)

    @cached_property
    def _steps(self) -> tuple[tuple[Determinant, Advance], ...]:
        """How a tile passes each hidden layer."""
        return tuple((self._determinant(l), self._advance(l)) for l in range(len(self.layers)))

    def _determinant(self, l: int) -> Determinant:
        layer = self.layers[l]
        if not layer.needs_det:
            return no_determinant
        determinant = PlainDeterminant(l)
        if self._loses_digits(l):
            determinant = CheckedDeterminant(determinant, self._near)
        positive = layer.jumps or not self._closed
        return PositiveDeterminant(determinant) if positive else determinant

    def _advance(self, l: int) -> Advance:
        layer = self.layers[l]
        if isinstance(self.sigma_w, Tensor) or not self._closed:
            return SeparateAdvance(l, layer, self.tangent, self._next)
        w, b = (sigma[l + 1] for sigma in self.numbers)
        covariance, rates = (w**2, b**2), self.parametrisation.rates(None, w, b)
        return FusedAdvance(l, layer.step(self.tangent, rates == covariance), covariance, rates)

    @cached_property
    def _closed(self) -> bool:
        return all(layer.has_closed_form for layer in self.layers)

    @property
    def _near(self) -> float:
        return NEAR if self._closed else CLOSE

    def _loses_digits(self, l: int) -> bool:
        """Whether nearly collinear pairs lose digits in layer l, and so must be recomputed one by one.

        Piecewise linear activations only decrease angles, so between them checking the first and the
        last layer is enough, unless derivatives are taken, where a NaN in between would matter.
        """
        plain = not isinstance(self.sigma_w, Tensor)
        inside = 0 < l < len(self.layers) - 1 and plain
        skipped = inside and all(layer.linear for layer in self.layers[l - 1 : l + 2])
        return not skipped and (self._closed or (plain and self.layers[l].angular))

    def _repair_near_collinear(
        self,
        out: Tensor,
        close: Tensor,
        a: Points | PointSubset,
        b: Points | PointSubset,
        xy: Tensor,
    ) -> Tensor:
        """The tile `out` with the pairs marked in `close` recomputed one by one."""
        i, j = close.nonzero(as_tuple=True)
        orders = (rows.order for rows in (*a.rows, *b.rows))
        size = max(1, CELLS // max(a.d, NODES, *orders))
        parts = [
            self._one_by_one(a[left], b[right], xy[left, right])
            for left, right in zip(i.split(size), j.split(size), strict=True)
        ]
        return out.index_put((i, j), torch.cat(parts))

    def _one_by_one(self, a: PointSubset, b: PointSubset, xy: Tensor) -> Tensor:
        """As `tile` for a list of pairs, with the determinant kxx kyy - kxy^2 propagated separately."""
        k = self._first_covariance(xy, a.d)
        theta, rounding = self._first(k, a.d), 64 * torch.finfo(k.dtype).eps
        least = (
            rounding**2 if isinstance(self.sigma_w, Tensor) else 0.0
        )  # keeps the derivative of a square root finite
        det = _orthogonal(self._vectors(a.x), self._vectors(b.x)) * a.variances[0]
        det = torch.where(
            k == 0, a.variances[0] * b.variances[0], det
        )  # a point at the origin counts as orthogonal to all
        for l, layer in enumerate(self.layers):
            kxx, kyy = a.variances[l], b.variances[l]
            aligned = (k > 0) & (det < rounding**2 * kxx * kyy)
            det = torch.maximum(det, least * kxx * kyy)
            pairs = layer.listed(a.rows[l], b.rows[l], k, det, self.tangent)
            before, (k, theta) = k, self._next(l, pairs, theta)
            if pairs.after is not None:
                det = self._determinant_from_gap(l, a, b, *pairs.after)
                continue
            same = aligned & (layer.homogeneous | ((kxx - kyy).abs() <= rounding * kxx))
            none = torch.zeros_like(k)  # a homogeneous layer keeps collinear points collinear
            plain = a.variances[l + 1] * b.variances[l + 1] - k * k
            if layer.needs_separation and self._feeds_angular_layer(l):
                near = plain < self._near * a.variances[l + 1] * b.variances[l + 1]
                layer_inputs = (kxx, kyy, before, det, pairs.kernel)
                if near.any():
                    apart = separate(layer, *(one[near] for one in layer_inputs))
                    better = self._determinant_from_spread(l, apart.spread, apart.det)
                    plain[near] = torch.where(apart.trusted, better, plain[near])
            det = torch.where(same, self._determinant_from_gap(l, a, b, none, none), plain)
        return theta if self.tangent else k

    def _feeds_angular_layer(self, l: int) -> bool:
        """Whether a layer after layer l needs angles more accurately than kxy determines them."""
        later = self.layers[l + 1 :]
        return not isinstance(self.sigma_w, Tensor) and any(layer.angular for layer in later)

    def _determinant_from_gap(
        self, l: int, a: PointSubset, b: PointSubset, gap: Tensor, det: Tensor
    ) -> Tensor:
        """The determinant of sigma_w^2 k + sigma_b^2 from that of k and gap = sqrt(F_x F_y) - k."""
        difference = a.squares[l].sqrt() - b.squares[l].sqrt()
        return self._determinant_from_spread(l, 2 * gap + difference**2, det)

    def _determinant_from_spread(self, l: int, spread: Tensor, det: Tensor) -> Tensor:
        """The determinant of sigma_w^2 k + sigma_b^2 from that of k and spread = F_x + F_y - 2 k."""
        scale, bias = self.sigma_w[l + 1] ** 2, self.sigma_b[l + 1] ** 2
        return scale**2 * det + scale * bias * spread

    def _vectors(self, x: Tensor) -> Tensor:
        """Vectors whose inner products are the covariances of the first layer."""
        bias = torch.as_tensor(self.sigma_b[0], dtype=x.dtype, device=x.device)
        return torch.cat([x * (self.sigma_w[0] / math.sqrt(x.shape[1])), bias.expand(len(x), 1)], 1)

    def _first(self, k: Tensor, fan_in: int) -> Tensor:
        """The tangent kernel of the first layer."""
        if not self.tangent:
            return k
        (w, *_), (b, *_) = self.numbers
        (weights, biases), rates = (w**2, b**2), self.parametrisation.rates(fan_in, w, b)
        if rates == (weights, biases):
            return k
        factor = rates[0] / weights
        return factor * k + (rates[1] - factor * biases)

    def _next(self, l: int, pairs: Pairs, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Covariance and tangent kernel after the hidden layer l."""
        scale, bias = self.sigma_w[l + 1], self.sigma_b[l + 1]
        k = pairs.kernel * scale**2
        if isinstance(bias, Tensor) or bias:
            k = k + bias**2
        if pairs.slope is None:  # no tangent kernel is asked for
            return k, k
        w, b = (sigma[l + 1] for sigma in self.numbers)
        weights, biases = self.parametrisation.rates(None, w, b)
        own = k if (weights, biases) == (w**2, b**2) else weights * pairs.kernel + biases
        return k, torch.addcmul(own, pairs.slope, theta, value=w**2)


def require_finite_variances(V: Tensor) -> None:
    """Refuse points whose variances in the first layer, or their squares, are not finite."""
    if bad := int((~torch.isfinite(V * V)).sum()):
        raise InputError(
            f"{bad} of {len(V)} points have NaN, infinite or too large entries: remove them."
        )


def require_representable(V: Tensor, x: Tensor, l: int) -> None:
    """Refuse variances after layer l that overflow, or that are all too small to be told from 0."""
    least = math.sqrt(torch.finfo(x.dtype).tiny)
    if not torch.isfinite(V * V).all() or (V.max() < least and x.any()):
        raise InputError(
            f"After layer {l + 1} variances are too large or too small for {x.dtype}: "
            "choose other scales, or float64."
        )


def _orthogonal(p: Tensor, q: Tensor) -> Tensor:
    """|q|^2 less its part along p, row by row, without forming a difference of squares."""
    square = (p * p).sum(1, keepdim=True)
    along = (p * q).sum(1, keepdim=True) / square.clamp_min(torch.finfo(p.dtype).tiny)
    return ((q - along * p) ** 2).sum(1)
