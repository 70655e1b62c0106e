r"""Layers from the sphere to rotations and between rotations: $N(R) = \int\kappa(R^{-1}x) f(x)\,dx$ and on.

Filters are white noise on all of the sphere or of the rotations. So covariances depend on one rotation, not
on two: $K_{R,R'}(f, f') = \kappa(RR'^{-1})$. After the first layer $\kappa(S) = \sum_l f_l^T D^l(S) f'_l$
with the Wigner matrices $D^l$; it is kept at the nodes of a grid, where activations act.
Finite networks of the public code need not reach these kernels: see entry equivariant-ntk/14 of the ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Weights
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal, require_scales
from numeric.infinite.spheres.harmonics import band_limit_of, require_band_limit
from numeric.infinite.spheres.rotations import RotationGrid, coefficient_pairs
from numeric.inputs import InputError, whole

__all__ = ["S2Convolution", "SO3Convolution"]


@dataclass(frozen=True)
class S2Convolution:
    r"""From the sphere to rotations, $N(R) = \frac1{\sqrt n}\int\kappa(R^{-1}x) f(x)\,dx$.

    Signals are coefficients (n, channels, L^2) of real harmonics, see `spheres`. Parameters: `band_limit` B
    of the grid of rotations on which activations act, at least L; `sigma_w` and `sigma_b` are the network's
    unless given here. The grid is exact to degree 2B - 2, which activations multiply: pools of polynomial
    ones of degree q, of all layers together, are exact where q(L - 1) is no more. Others approach their
    limit as B grows: geometrically for smooth activations, as B^-5 (NNGP) and B^-3 (NTK) for ReLU at equal
    signals; only to that error are their pools invariant and Gram matrices of many signals positive, for
    which B about 2L is a start. Refused are signals on a group, numbers of coefficients other than 1, 4, 9,
    ..., and signals beyond the band limit.

    >>> S2Convolution(3).after(Signal((4,), 2)).over
    RotationGrid(band_limit=3)
    """

    band_limit: int
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        whole("band_limit", self.band_limit)
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        if signal.over is not None or len(signal.space) != 1:
            kind = "a lifted signal" if signal.over is not None else f"positions {signal.space}"
            raise InputError(
                "S2Convolution takes coefficients of signals on the sphere, (n, channels, band_limit^2), but "
                f"it gets {kind}."
            )
        require_band_limit(self.band_limit, band_limit_of(signal.positions))
        return signal.weighted(space=(), over=RotationGrid(self.band_limit))

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        grid, positions = RotationGrid(self.band_limit), state.signal.positions
        a, b = coefficient_pairs(band_limit_of(positions))

        def correlate(k: Tensor) -> Tensor:
            if not state.pairs:  # equal rotations: D^l is 1
                return k.sum(1)
            return grid.values(k[0][:, a.to(k.device), :, b.to(k.device)])

        sums = state.map(correlate, self.after(state.signal))
        return state.weighted(sums, scales.of(self.sigma_w, self.sigma_b), 1, copies=positions)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        grid, positions = RotationGrid(self.band_limit), signal.positions
        a, b = coefficient_pairs(band_limit_of(positions))

        def contract(h: Tensor, weight: Tensor) -> Tensor:
            products = torch.einsum(
                "ncs,ocs->sno", h[:, :, a.to(h.device)], weight[:, :, b.to(h.device)]
            )
            return math.sqrt(positions) * grid.values(products).movedim(0, 2)

        draw = draw.with_scales(self.sigma_w, self.sigma_b)
        return Weights(draw, inputs, outputs, (positions,), contract)


@dataclass(frozen=True)
class SO3Convolution:
    r"""Between functions on rotations, $N'(R) = \frac1{\sqrt n}\int\kappa(S)\,N(RS)\,dS$ with Haar's measure.

    Parameters: `band_limit` of the filter, at most that of the grid, beyond which N' has nothing; None for
    a filter without one, which leaves the covariance as it is, and in a finite network is taken to that of
    the grid. `sigma_w` and `sigma_b` are the network's unless given here. Refused are signals that are not
    on rotations.

    >>> SO3Convolution().after(Signal((), None, over=RotationGrid(3))).orbit
    108
    """

    band_limit: int | None = None
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        if self.band_limit is not None:
            whole("band_limit", self.band_limit)
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(pairs=self.band_limit is not None)

    def after(self, signal: Signal) -> Signal:
        self._filter(signal)
        return signal.weighted()

    def _filter(self, signal: Signal) -> tuple[RotationGrid, int]:
        """The grid of a signal, and the band limit of the filter on it."""
        if not isinstance(signal.over, RotationGrid):
            raise InputError(
                "SO3Convolution takes signals on rotations: put S2Convolution before it."
            )
        limit = signal.over.band_limit
        if self.band_limit is not None and self.band_limit > limit:
            raise InputError(
                f"band_limit = {self.band_limit} is above that of the grid, {limit}: give S2Convolution as "
                "much."
            )
        return signal.over, self.band_limit or limit

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        grid, limit = self._filter(state.signal)

        def project(k: Tensor) -> Tensor:
            return k if self.band_limit is None else grid.values(grid.coefficients(k, limit))

        sums = state.map(project, self.after(state.signal))
        copies = len(coefficient_pairs(limit)[0])
        return state.weighted(sums, scales.of(self.sigma_w, self.sigma_b), 1, copies=copies)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        grid, limit = self._filter(signal)
        sizes = [(2 * l + 1) ** 2 for l in range(limit)]

        def contract(h: Tensor, weight: Tensor) -> Tensor:  # (n, in, nodes), (out, in, sizes)
            values = grid.coefficients(h.movedim(2, 0), limit)
            products = []
            for l, (c, w) in enumerate(
                zip(values.split(sizes), weight.split(sizes, 2), strict=True)
            ):
                c, w = c.unflatten(0, (2 * l + 1, -1)), w.unflatten(2, (2 * l + 1, -1))
                product = torch.einsum("abni,oicb->acno", c, w) / math.sqrt(2 * l + 1)
                products.append(product.flatten(0, 1))
            return math.sqrt(sum(sizes)) * grid.values(torch.cat(products)).movedim(0, 2)

        draw = draw.with_scales(self.sigma_w, self.sigma_b)
        return Weights(draw, inputs, outputs, (sum(sizes),), contract)
