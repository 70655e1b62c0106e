"""One nonlinear layer on Gaussian variances and covariances: compiled closed forms, or quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import sympy as sp
import torch
from torch import Tensor

from analytic.activations.activation import Activation
from analytic.activations.gram_tiles import ARGS, Tile, tile
from analytic.activations.log_derivatives import log_derivatives
from analytic.expressions.backends import compile_together
from analytic.expressions.expectation import Moment, one_sided
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, z
from analytic.geometry.layer_moments import require_finite_G2
from numeric.infinite import fused_layers
from numeric.infinite.mehler import Expansion, Mehler
from numeric.infinite.mehler.expansion import TOLERANCE, attainable
from numeric.inputs import InputError

__all__ = ["Layer", "OnePointMoments", "Pairs", "Rows", "Sides", "full"]


@dataclass(frozen=True)
class Pairs:
    """Averages over pairs: E[phi phi]; if requested E[phi' phi'] and the outputs of `Tile.after`."""

    kernel: Tensor
    slope: Tensor | None = None
    after: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class OnePointMoments:
    """F = E[f^2] and G = E[f'^2] of a function f, and their derivatives, as functions of the variance V."""

    F: Callable[[Tensor], Tensor]
    dF: Callable[[Tensor], Tensor]
    G: Callable[[Tensor], Tensor]
    dG: Callable[[Tensor], Tensor]
    zero_at_zero: bool  # whether F is 0 at V = 0 exactly

    @classmethod
    def of(cls, F: Formula, G: Formula, zero_at_zero: bool) -> OnePointMoments:
        return cls(F.torch, _derivative(F).torch, G.torch, _derivative(G).torch, zero_at_zero)


@lru_cache  # compiled once for all networks
def _derivative(moment: Formula) -> Formula:
    """d/dV of a moment, in a form for floats."""
    name, expr = f"d({moment.name})/dV", sp.S.Zero
    if V in moment.expr.free_symbols:
        expr = moment.floating * log_derivatives(moment).eps_over_V
    return Formula(name, (V,), expr)


@dataclass(frozen=True)
class Sides:
    """What averages of a function that is linear on both sides of 0 take from its slopes there."""

    mean: float  # the mean slope, squared
    jump: float  # the squared difference over 2 pi


@dataclass(frozen=True)
class Layer:
    """An activation without open parameters, ready for tensors of variances and covariances."""

    activation: Activation

    def __post_init__(self) -> None:
        if not isinstance(self.activation, Activation):
            raise InputError(
                f"activation must be an Activation such as erf or relu, not {self.activation!r}: "
                "see analytic.activations, or Activation.of(expression)."
            )
        if self.activation.parameters:
            names = ", ".join(map(str, self.activation.parameters))
            raise InputError(
                f"{self.activation.name} leaves {names} open: fix it, as in monomial(2)."
            )

    def __getstate__(self) -> dict[str, Activation]:
        """Pickle the activation only: each process compiles its own functions."""
        return {"activation": self.activation}

    @cached_property
    def _tile(self) -> Tile | None:
        return tile(self.activation)

    @cached_property
    def _closed_form(self) -> Tile:
        """The expressions of averages over pairs, for layers that are `closed`."""
        if self._tile is None:
            raise TypeError(f"{self.activation.name} has no closed form of averages over pairs.")
        return self._tile

    @cached_property
    def needs_det(self) -> bool:
        return self.angular if self._tile is None else self._tile.needs_det

    @cached_property
    def square(self) -> Callable[[Tensor], Tensor]:
        """V -> E[phi^2]."""
        return self.activation.F.torch

    @cached_property
    def square_slope(self) -> Callable[[Tensor], Tensor]:
        """V -> E[phi'^2]."""
        return self.activation.require("G").torch

    @cached_property
    def moments(self) -> OnePointMoments:
        """Those of phi, with derivatives by V."""
        act = self.activation
        return OnePointMoments.of(act.F, act.require("G"), self.keeps_zero)

    @cached_property
    def slope_moments(self) -> OnePointMoments:
        """Those of phi', with derivatives by V; refused where phi' jumps."""
        act = self.activation
        return OnePointMoments.of(act.require("G"), require_finite_G2(act), False)

    def clamped(self, variances: Tensor) -> Tensor:
        """Variances at least so large that the limit of small ones stands for 0, unless phi jumps there."""
        least = math.sqrt(torch.finfo(variances.dtype).tiny)
        return variances if self.jumps else variances.clamp_min(least)

    @cached_property
    def has_closed_form(self) -> bool:
        """Whether averages over pairs have a closed form."""
        return self._tile is not None

    @cached_property
    def linear(self) -> bool:
        """Whether phi is linear on both sides of 0: angles then decrease, and are propagated exactly."""
        return self._tile is not None and self._tile.after is not None

    @cached_property
    def sides(self) -> Sides | None:
        """Of a function that is linear on both sides of 0 with a kink between; None for others."""
        if not (self.linear and self.needs_det):
            return None
        slope = sp.expand(self._closed_form.far_from_collinear.slope)
        (angle,) = slope.atoms(sp.asin)
        return Sides(float(slope.xreplace({angle: sp.S.Zero})), float(slope.coeff(angle)))

    @cached_property
    def jumps(self) -> bool:
        """Whether E[phi^2] is discontinuous at variance 0, as for the sign."""
        F = self.activation.F.expr
        outside = F.xreplace({average: sp.Dummy() for average in F.atoms(Moment)})
        return outside.has(sp.Piecewise)

    @cached_property
    def keeps_zero(self) -> bool:
        """Whether phi(0) = 0."""
        return self.activation.phi.mpmath(0) == 0

    @cached_property
    def homogeneous(self) -> bool:
        """Whether phi(c z) is a multiple of phi(z) for c > 0, so that collinear points stay collinear."""
        size = sp.Symbol("size", positive=True)
        sides = [self.activation.phi.expr.subs(z, side * size) for side in (-1, 1)]
        degrees = {sp.cancel(size * sp.diff(f, size) / f) for f in sides if f != 0}
        return len(degrees) == 1 and degrees.pop().is_number

    @cached_property
    def angular(self) -> bool:
        """Whether averages need angles more accurately than kxy determines them, as at kinks and jumps."""
        if self._tile is not None:
            return self._tile.angular
        act = self.activation
        if act.slope is None:  # phi jumps
            return True
        slope, kinks = act.derivative(), act.kinks
        return any(one_sided(slope, b, kinks, 1) != one_sided(slope, b, kinks, -1) for b in kinks)

    @cached_property
    def needs_separation(self) -> bool:
        """Whether small angles after this layer are computed by `separation.separate`."""
        return not self.linear and (self._tile is None or self._tile.slope is not None)

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        return tuple(map(float, self.activation.kinks))

    def rows(self, variances: Tensor, slopes: bool) -> Rows:
        """What `pairs` precomputes for each variance, indexed like a tensor."""
        if self.has_closed_form:
            return Rows(variances)
        series, slope_series = self._series
        phi = series.rows(variances)
        if not slopes:
            return Rows(variances, phi)
        slope = slope_series.rows(variances)
        self._check_slope(phi, slope)
        return Rows(variances, phi, slope)

    @torch.no_grad()
    def _check_slope(self, phi: Expansion, slope: Expansion) -> None:
        r"""Refuse an unresolved slope: $\sqrt{k+1}\,a_{k+1} = \sqrt V a'_k$ at k = 0, 1.

        This identity is integration by parts. At the nodes a steep phi may look like a step with slope
        0, and two quadrature rules may then agree on a wrong value.
        """
        root = phi.V.sqrt()
        by_parts = phi.coefficients[:, 1:3] * torch.arange(1, 3).to(root).sqrt()
        off = (by_parts - root[:, None] * slope.coefficients[:, :2]).abs().amax(1)
        # A coefficient is accurate to `attainable` times the size of its function; 64 for safety
        allowed = 64 * attainable(TOLERANCE, root.dtype) * (phi.size + root * slope.size)
        if (off > allowed).any():
            worst = (off / allowed).nan_to_num(0.0).argmax()
            raise InputError(
                f"{self.activation.name} at variance {phi.V[worst].item():.3g} is too steep for averages of "
                "its slope by quadrature: lower the variance, or scale the activation down."
            )

    def pairs(self, rows: Rows, cols: Rows, kxy: Tensor, det: Tensor | None, slopes: bool) -> Pairs:
        """A tile of rows (n), columns (m), and covariances and determinants (n, m)."""
        if rows.phi is None or cols.phi is None:
            return self.elements(rows.V[:, None], cols.V[None, :], kxy, det, slopes)
        series, slope_series = self._series
        kernel = series.pairs(rows.phi, cols.phi, kxy)
        if rows.slope is None or cols.slope is None:
            return Pairs(kernel)
        return Pairs(kernel, slope_series.pairs(rows.slope, cols.slope, kxy))

    def listed(self, rows: Rows, cols: Rows, kxy: Tensor, det: Tensor, slopes: bool) -> Pairs:
        """As `pairs` for each row with the column of the same index, (n,), and `Pairs.after`."""
        if rows.phi is None or cols.phi is None:
            return self.elements(rows.V, cols.V, kxy, det, slopes, after=True)
        series, slope_series = self._series
        kernel = series.listed(rows.phi, cols.phi, kxy, det)
        if rows.slope is None or cols.slope is None:
            return Pairs(kernel)
        return Pairs(kernel, slope_series.listed(rows.slope, cols.slope, kxy, det))

    def step(self, tangent: bool, plain: bool) -> Callable[..., tuple[Tensor, ...]]:
        """Closed forms for a tile of points that are far from collinear, see `fused_layers.layer`."""
        steps = self._steps  # shared by threads: each may store its own, equal, function
        if (tangent, plain) not in steps:
            steps[tangent, plain] = fused_layers.layer(
                self._closed_form.far_from_collinear, tangent, plain
            )
        return steps[tangent, plain]

    def averages(
        self, tangent: bool, theta_only: bool = False
    ) -> Callable[..., tuple[Tensor | None, Tensor | None]]:
        """E[phi phi] unless `theta_only`; with `tangent` E[phi' phi'] theta: see `fused_layers.averages`."""
        return _averages(self._closed_form, tangent, theta_only)

    @cached_property
    def _steps(self) -> dict[tuple[bool, bool], Callable[..., tuple[Tensor, ...]]]:
        return {}

    def elements(
        self,
        kxx: Tensor,
        kyy: Tensor,
        kxy: Tensor,
        det: Tensor | None,
        slopes: bool,
        after: bool = False,
    ) -> Pairs:
        """Closed forms, element by element."""
        after = after and self.linear
        compiled = _compiled(self._closed_form, slopes, after)
        values = (full(value, kxy) for value in compiled(kxx, kxy, kyy, det))
        kernel, slope = next(values), next(values) if slopes else None
        return Pairs(kernel, slope, (next(values), next(values)) if after else None)

    def slope_elements(self, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor) -> Tensor:
        """The closed form of E[phi' phi'], element by element."""
        _, slope = _compiled(self._closed_form, True, False)(kxx, kxy, kyy, det)
        return full(slope, kxy)

    @cached_property
    def _series(self) -> tuple[Mehler, Mehler]:
        act = self.activation
        slope = Formula(f"{act.name}'", (z,), act.derivative())
        return Mehler(act.phi.torch, self.kinks), Mehler(slope.torch, self.kinks)


@dataclass(frozen=True)
class Rows:
    """Variances of n points, with the series of phi where it has no closed form, and of phi' if needed."""

    V: Tensor  # (n,)
    phi: Expansion | None = None
    slope: Expansion | None = None

    @property
    def order(self) -> int:
        """The most terms of a series, or 0 without one."""
        return max((part.order for part in (self.phi, self.slope) if part is not None), default=0)

    def __getitem__(self, index: slice | Tensor) -> Rows:
        phi = None if self.phi is None else self.phi[index]
        return Rows(self.V[index], phi, None if self.slope is None else self.slope[index])


@lru_cache  # compiled once for all networks
def _averages(
    tile: Tile, tangent: bool, theta_only: bool
) -> Callable[..., tuple[Tensor | None, Tensor | None]]:
    return fused_layers.averages(tile.far_from_collinear, tangent, theta_only)


@lru_cache
def _compiled(tile: Tile, slopes: bool, after: bool) -> Callable[..., tuple[Tensor | float, ...]]:
    next_layer = tile.after if after and tile.after is not None else ()
    parts = [tile.kernel, *([tile.slope] if slopes else []), *next_layer]
    return compile_together(ARGS, parts)


def full(value: Tensor | float, like: Tensor) -> Tensor:
    """Expand a constant average, such as the slope of a linear phi, to a tensor shaped `like`."""
    if isinstance(value, Tensor) and value.shape == like.shape:
        return value
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand(like.shape)
