r"""Activations: $K' = E[\phi\phi]$ and $\Theta' = E[\phi'\phi']\,\Theta$ at each pair of positions.

Averages are those of `infinite.layers`. A pair whose correlation is 1 to rounding counts as collinear, so
that coincident points get the exact slope; at an angle a above that a kink's is accurate to 1e-16 / a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from numeric.infinite.composition import rectified
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Function
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal, require_centred
from numeric.infinite.layers import Layer, Rows, full
from numeric.inputs import InputError
from numeric.kernels.scratch_memory import NoScratch, Scratch

__all__ = ["Nonlinearity", "Variances"]

NEAR = (
    1e-2  # sin^2 of the angle below which the arc sine loses digits, and the arc tangent is taken
)
SNAP = 64  # ulps of sin^2 that the rounding of covariances leaves at coincident points
CELLS = 2**17  # numbers of a block: a few of them stay near the processor
LARGE = 2**24  # the same on other devices than the CPU


@dataclass(frozen=True, eq=False)
class Variances:
    """Variances of signals as rows of a Gram matrix: each position of each signal is one."""

    rows: Rows  # n * positions
    positions: int

    def __getitem__(self, index: slice) -> Variances:
        ends = (None if end is None else end * self.positions for end in (index.start, index.stop))
        return Variances(self.rows[slice(*ends)], self.positions)


@dataclass(frozen=True)
class Nonlinearity:
    """An activation of `analytic`; Network makes it from the activation itself.

    Refused are signals that are not Gaussian, because no weights come just before.

    >>> from analytic.activations import relu
    >>> Nonlinearity(Layer(relu)).after(Signal((), None, centred=True)).centred
    False
    """

    layer: Layer

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(own=True)

    def after(self, signal: Signal) -> Signal:
        require_centred(signal, self.layer.activation.name)
        return replace(signal, centred=False)

    def observe(self, own: Covariance, tangent: bool, scales: Scales) -> Variances:
        variances = own.variances().reshape(-1)
        if not torch.isfinite(variances * variances).all():
            raise InputError(
                f"Variances before {self.layer.activation.name} are too large for {variances.dtype}, or "
                "points are NaN or infinite: remove those, scale the points or sigma_w down, or use float64."
            )
        return Variances(
            self.layer.rows(self.layer.clamped(variances), tangent), own.signal.positions
        )

    def advance(
        self, state: Covariance, rows: Variances, columns: Variances, scales: Scales
    ) -> Covariance:
        signal = self.after(state.signal)
        if state.own and state.same and not state.pairs:
            V = state.matrices(state.k)
            V = self.layer.clamped(V)
            if state.theta is not None:
                state.matrices(state.theta).mul_(full(self.layer.square_slope(V), V))
            state.matrices(state.k).copy_(full(self.layer.square(V), V))
        elif self.layer.has_closed_form:
            self._closed_forms(state, rows.rows.V, columns.rows.V)
        else:
            self._series(state, rows.rows, columns.rows)
        if state.theta_only and state.theta is not None:
            return replace(state, signal=signal, k=state.theta)
        return replace(state, signal=signal)

    def _closed_forms(self, state: Covariance, rows: Tensor, columns: Tensor) -> None:
        k = state.matrices(state.k)
        theta = None if state.theta is None else state.matrices(state.theta)
        coincident = _Coincident.of(self.layer, state, rows) if state.own and state.same else None
        kxx, kyy = state.row_values(rows), state.column_values(columns)
        on_host = k.device.type == "cpu"
        height, width = k.shape[1:]
        cells = CELLS if on_host else LARGE
        flat = height * width > cells  # a block is then part of one matrix
        memory = Scratch(max(cells, width), k) if on_host and flat else NoScratch()
        for b, i in _blocks(k.shape, cells):
            x = kxx[b if len(kxx) > 1 else slice(None), i]
            y = kyy[b if len(kyy) > 1 else slice(None)]
            tangent = None if theta is None else theta[b, i]
            block = (k[b, i], x, y, tangent)
            if flat:
                block = (k[b, i][0], x[0], y[0], None if tangent is None else tangent[0])
            memory.begin(*block[0].shape[-2:])
            self._block(*block, state.theta_only, memory)
        if coincident is not None:
            coincident.write(state)

    def _block(
        self,
        k: Tensor,
        kxx: Tensor,
        kyy: Tensor,
        theta: Tensor | None,
        theta_only: bool,
        memory: Scratch | NoScratch,
    ) -> None:
        """One block, in place; nearly collinear pairs by themselves."""
        if not self.layer.needs_det:
            self._far(k, kxx, kyy, None, theta, theta_only, memory)
            return
        det = torch.mul(kxx, kyy, out=memory[0]).addcmul_(k, k, value=-1)
        near = _nearly_collinear(det, kxx, kyy, memory)
        memory.keep(det)
        listed = None if near is None else _Listed.of(near, k, kxx, kyy, theta)
        if listed is not None:  # taken for orthogonal, and overwritten below
            k[listed.at], det[listed.at] = 0.0, listed.kxx * listed.kyy
        self._far(k, kxx, kyy, det, theta, theta_only, memory)
        if listed is not None:
            self._near(listed, k, theta)

    def _far(
        self,
        k: Tensor,
        kxx: Tensor,
        kyy: Tensor,
        det: Tensor | None,
        theta: Tensor | None,
        theta_only: bool,
        memory: Scratch | NoScratch,
    ) -> None:
        """Averages of pairs that are not nearly collinear, in place."""
        if self.layer.sides is not None and det is not None:
            rectified.averages(k, det, theta, self.layer.sides, theta_only, memory)
            return
        program = self.layer.averages(theta is not None, theta_only and theta is not None)
        kernel, slope = program(kxx, k, kyy, det, theta, memory)
        for values, into in ((kernel, k), (slope, theta)):
            if values is not None and into is not None and values is not into:
                into.copy_(full(values, into))

    def _near(self, listed: _Listed, k: Tensor, theta: Tensor | None) -> None:
        """Averages of nearly collinear pairs, in their places."""
        kxx, kyy, det = listed.kxx, listed.kyy, listed.det
        det = torch.where(det < SNAP * torch.finfo(k.dtype).eps * kxx * kyy, 0.0, det)
        if self.layer.jumps:
            det = det.clamp_min(torch.finfo(det.dtype).tiny)
        pairs = self.layer.elements(kxx, kyy, listed.kxy, det, theta is not None)
        k[listed.at] = pairs.kernel
        if theta is not None and listed.theta is not None and pairs.slope is not None:
            theta[listed.at] = pairs.slope * listed.theta

    def _series(self, state: Covariance, rows: Rows, columns: Rows) -> None:
        """Averages by quadrature, one matrix at a time."""
        k = state.matrices(state.k)
        theta = None if state.theta is None else state.matrices(state.theta)
        i = state.row_values(torch.arange(len(rows.V), device=k.device)).squeeze(2)
        j = state.column_values(torch.arange(len(columns.V), device=k.device)).squeeze(1)
        for b in range(len(k)):
            row, column = rows[i[b % len(i)]], columns[j[b % len(j)]]
            coincident = _coincident(row.V[:, None], column.V, k[b])
            at = coincident.nonzero(as_tuple=True)
            k[b][at] = 0.0  # overwritten below: a correlation of 1 would be integrated by itself
            pairs = self.layer.pairs(row, column, k[b], None, theta is not None)
            k[b] = pairs.kernel
            k[b][at] = self.layer.square(row.V)[at[0]]
            if theta is not None and pairs.slope is not None:
                slope = pairs.slope
                slope[at] = self.layer.square_slope(row.V)[at[0]]
                theta[b] *= slope

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return Function(self.layer.activation.phi.torch)


@dataclass(frozen=True, eq=False)
class _Listed:
    """Some pairs of a block by themselves."""

    at: tuple[Tensor, ...]
    kxx: Tensor  # (pairs,)
    kyy: Tensor
    kxy: Tensor
    theta: Tensor | None

    @classmethod
    def of(
        cls, where: Tensor, k: Tensor, kxx: Tensor, kyy: Tensor, theta: Tensor | None
    ) -> _Listed:
        at = where.nonzero(as_tuple=True)
        x, y, xy = (part.expand_as(k)[at] for part in (kxx, kyy, k))
        return cls(at, x, y, xy, None if theta is None else theta[at])

    @property
    def det(self) -> Tensor:
        return torch.addcmul(self.kxx * self.kyy, self.kxy, self.kxy, value=-1)


@dataclass(frozen=True, eq=False)
class _Coincident:
    """Pairs of each position with itself: their averages are those of one variable, and need no angle."""

    kernel: Tensor  # (n, p)
    theta: Tensor | None

    @classmethod
    def of(cls, layer: Layer, state: Covariance, rows: Tensor) -> _Coincident:
        """From variances, before the layer; in the covariance they are taken for orthogonal until `write`."""
        V = rows.view(state.n, -1)
        theta = None
        if state.theta is not None:
            theta = cls._diagonal(state, state.theta) * full(layer.square_slope(V), V)
        cls._diagonal(state, state.k).zero_()
        return cls(full(layer.square(V), V), theta)

    @staticmethod
    def _diagonal(state: Covariance, k: Tensor) -> Tensor:
        """Of the matrices of signals with themselves, which come before those with their images."""
        return state.matrices(k)[: state.n].diagonal(dim1=1, dim2=2)

    def write(self, state: Covariance) -> None:
        self._diagonal(state, state.k).copy_(self.kernel)
        if state.theta is not None and self.theta is not None:
            self._diagonal(state, state.theta).copy_(self.theta)


def _blocks(shape: torch.Size, cells: int) -> Iterator[tuple[slice, slice]]:
    """Matrices and rows of blocks of so many numbers at most, or of one row."""
    count, height, width = shape
    if height * width <= cells:
        step = max(1, cells // (height * width))
        yield from ((slice(b, b + step), slice(None)) for b in range(0, count, step))
        return
    step = max(1, cells // width)
    for b in range(count):
        yield from ((slice(b, b + 1), slice(i, i + step)) for i in range(0, height, step))


def _nearly_collinear(
    det: Tensor, kxx: Tensor, kyy: Tensor, memory: Scratch | NoScratch
) -> Tensor | None:
    """Where sin^2 of the angle is below NEAR, or None if nowhere; the cheapest test comes first."""
    if det.amin() >= NEAR * kxx.amax() * kyy.amax():
        return None
    least = torch.addcmul(det, -NEAR * kxx, kyy, out=memory[1])
    if least.amin() >= 0:
        return None
    return ~(least >= 0)


def _coincident(kxx: Tensor, kyy: Tensor, k: Tensor) -> Tensor:
    """Where two Gaussian variables are one to rounding, so that averages are those of one variable."""
    rounding = SNAP * torch.finfo(k.dtype).eps
    return ((kxx - kyy).abs() <= rounding * kxx) & (k >= (1 - rounding) * kxx)
