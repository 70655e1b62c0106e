"""Kernels of infinitely wide networks, composed layer by layer from the activation's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mpmath import mp

from analytic.activations.activation import Activation
from analytic.checks.oracles import MetricJet, Vector, point_at_radius
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z

__all__ = ["WideNetwork", "oracle_at_radius"]


@dataclass(frozen=True)
class WideNetwork:
    """An infinitely wide network: hidden weights of scale sigma, biases zeta, readout weights xi."""

    act: Activation
    sigma: Any
    zeta: Any
    depth: int = 1
    xi: Any = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def nngp(self, x: Vector, y: Vector) -> Any:
        """E[phi phi] of the last hidden layer."""
        gram, _ = self._last_preactivations(x, y)
        return self._kernel(*gram)

    def ntk(self, x: Vector, y: Vector) -> Any:
        """The tangent kernel of all parameters; the readout has no bias."""
        gram, tangent = self._last_preactivations(x, y)
        return self._kernel(*gram) + self.xi**2 * self._slope(*gram) * tangent

    def _last_preactivations(self, x: Vector, y: Vector) -> tuple[tuple[Any, Any, Any], Any]:
        """Covariances (kxx, kxy, kyy) of the last preactivations, and their tangent kernel."""
        gram = tuple(self._preactivation(mp.fdot(*pair)) for pair in ((x, x), (x, y), (y, y)))
        tangent = 1 + mp.fdot(x, y)
        for _ in range(self.depth - 1):
            kxx, _, kyy = gram
            kernel = self._kernel(*gram)
            tangent = kernel + 1 + self.sigma**2 * self._slope(*gram) * tangent
            outputs = (self._kernel(kxx, kxx, kxx), kernel, self._kernel(kyy, kyy, kyy))
            gram = tuple(map(self._preactivation, outputs))
        return gram, tangent

    def _preactivation(self, covariance: Any) -> Any:
        return self.sigma**2 * covariance + self.zeta**2

    def _kernel(self, *gram: Any) -> Any:
        return self.act.kernel.mpmath(*gram, **self.parameters)

    def _slope(self, *gram: Any) -> Any:
        return self.act.require("slope").mpmath(*gram, **self.parameters)

    def phi(self, order: int) -> Callable[[Any], Any]:
        """The derivative of phi of this order, between kinks."""
        act = self.act
        expr = act.derivative(order) if order else act.phi.expr
        body = compile_mpmath((z, *act.parameters), expr)
        values = [self.parameters[symbol.name] for symbol in act.parameters]
        return lambda value: body(value, *values)


def oracle_at_radius(
    jet: Callable[[WideNetwork, Vector], MetricJet], act: Activation
) -> Callable[..., Any]:
    """Turn a function that computes a `MetricJet` into oracles with the arguments of formulas.

    The result takes a function `read` of the jet, such as `MetricJet.scalar`, and returns an oracle
    of (d, sigma, zeta, r, xi, depth, parameters). Oracles from the same call share their jets.
    """

    @cache
    def jet_at(
        digits: int,
        d: Any,
        sigma: Any,
        zeta: Any,
        r: Any = 0,
        xi: Any = 0,
        depth: Any = 1,
        **rest: Any,
    ) -> MetricJet:
        return jet(WideNetwork(act, sigma, zeta, int(depth), xi, rest), point_at_radius(r, int(d)))

    def oracle_of(read: Callable[[MetricJet], Any]) -> Callable[..., Any]:
        return lambda **values: read(jet_at(mp.dps, **values))

    return oracle_of
