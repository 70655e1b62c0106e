"""A signal in a deep network of infinite width: its fixed points, depth scales and phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mpmath import mp

from analytic.activations.activation import Activation
from analytic.expressions import symbols
from analytic.expressions.arguments import InputError, RealNumber
from analytic.signal_propagation.correlation import CorrelationMap
from analytic.signal_propagation.exact_inputs import exact_number, require_fixed_parameters
from analytic.signal_propagation.variance import FixedPoint, VarianceMap

__all__ = ["Signal"]


@dataclass(frozen=True)
class Signal:
    """Hidden layers z <- sigma W phi(z) + zeta b, from the variance `start`, to `digits` digits.

    act: an activation without open parameters.
    sigma, zeta: standard deviations of weights and biases. Numbers are exact: sigma may be sqrt(2) of
        SymPy, and a float is the rational number that it stores.
    start: the variance of the first layer.
    digits: how many digits of each result are correct, at least 10. Slopes within 10^(5 - digits) of 1
        count as 1, because computed slopes err by as much.

    Its properties are the fixed points `variance` and `correlation`, the factors `chi_V` and `chi_1` per
    layer, the depth scales `xi_V` and `xi_c`, `lyapunov` and `phase`. What is no number, or out of range,
    is refused with an InputError.

    >>> import sympy
    >>> from analytic.activations import erf, relu
    >>> from analytic.signal_propagation import Signal
    >>> Signal(relu, sympy.sqrt(2)).phase, Signal(erf, 3, "1/2").phase
    ('critical', 'chaotic')
    """

    act: Activation
    sigma: RealNumber
    zeta: RealNumber = 0
    start: RealNumber = 1
    digits: int = 30

    def __post_init__(self) -> None:
        require_fixed_parameters(self.act, "G", "slope")
        if isinstance(self.digits, bool) or not isinstance(self.digits, int) or self.digits < 10:
            raise InputError(f"digits must be a whole number at least 10, not {self.digits!r}.")
        for name, symbol in (
            ("sigma", symbols.sigma),
            ("zeta", symbols.zeta),
            ("start", symbols.V),
        ):
            object.__setattr__(self, name, exact_number(symbol, getattr(self, name)))

    @cached_property
    def variance_map(self) -> VarianceMap:
        """V -> sigma^2 F(V) + zeta^2, with its fixed points."""
        return VarianceMap(self.act, self.sigma, self.zeta, self.digits)

    @cached_property
    def variance(self) -> FixedPoint:
        """V*, the fixed point reached from `start`, with the slope chi_V."""
        return self.variance_map.fixed_point(self.start)

    @cached_property
    def correlation_map(self) -> CorrelationMap:
        """The correlation map at the fixed variance V*, with its fixed points."""
        if not self.variance.value:
            raise ArithmeticError(
                f"The signal of {self.act.name} vanishes at sigma = {self.sigma}, zeta = {self.zeta}, so "
                "its correlations have no map of their own: raise sigma or zeta, or follow a trajectory."
            )
        return CorrelationMap(self.act, self.sigma, self.zeta, self.variance.value, self.digits)

    @property
    def correlation(self) -> FixedPoint:
        """c*, the stable fixed point of the correlation, with the slope of the map there."""
        return self.correlation_map.attractor

    @property
    def chi_V(self) -> Any:
        """sigma^2 F'(V*): the factor by which a layer multiplies a small difference in variance."""
        return self.variance.slope

    @cached_property
    def chi_1(self) -> Any:
        """sigma^2 G(V*): growth per layer of squared gradients, and of squared small distances."""
        return self.variance_map.chi_1(self.variance.value)

    @property
    def lyapunov(self) -> Any:
        """log(chi_1)/2, the growth rate of a gradient, or of a small distance, per layer."""
        return mp.log(self.chi_1) / 2 if self.chi_1 else -mp.inf

    @property
    def phase(self) -> str:
        """ordered, critical or chaotic, by chi_1 below, at or above 1."""
        return "critical" if self.chi_1 == 1 else "ordered" if self.chi_1 < 1 else "chaotic"

    @property
    def xi_V(self) -> Any:
        """Depth scale of the variance: |V - V*| falls by e in so many layers (Schoenholz et al. 2017)."""
        return self.variance.depth_scale

    @property
    def xi_c(self) -> Any:
        """Depth scale of the correlation: |c - c*| falls by e in so many layers; infinite if critical."""
        return self.correlation.depth_scale
