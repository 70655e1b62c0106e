"""The metric of a kernel and its first two derivatives, by central differences of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

from mpmath import mp, mpf

from analytic.checks.kernel_oracles.composed_kernel import WideNetwork
from analytic.checks.kernel_oracles.power_series import table
from analytic.checks.oracles import MetricJet, Vector

__all__ = ["metric_by_differences", "nngp_by_differences", "ntk_by_differences"]

Shift = tuple[int, ...]  # of a point, in steps along each coordinate


def metric_by_differences(kernel: Callable[[Vector, Vector], Any], x: Vector) -> MetricJet:
    r"""$g_{mn} = \partial_{x_m}\partial_{y_n} k$ of a symmetric kernel at y = x, and derivatives of g.

    A central difference with step h has an error of order h^2, and four of them divide rounding
    errors by h^4: n digits need h = 10^(-n/2 - 2) and a working precision of 3n + 8 digits. If the
    kernel has a term |x - y|^p, which is not smooth at y = x, derivatives of g move both arguments
    and leave it unchanged, so that the error is of order h^(p - 2).
    """
    digits = mp.dps
    with mp.workdps(3 * digits + 8):
        h = mpf(10) ** (-digits // 2 - 2)

        @cache
        def kernel_value(one: Shift, two: Shift) -> Any:
            return kernel(*([v + h * k for v, k in zip(x, c, strict=True)] for c in (one, two)))

        @cache
        def g(i: int, j: int, c: Shift) -> Any:
            signs = product((1, -1), repeat=2)
            terms = [
                p * q * kernel_value(*sorted((_shifted(c, i, p), _shifted(c, j, q))))
                for p, q in signs
            ]
            return mp.fsum(terms) / (4 * h**2)

        def derivative(f: Callable[[Shift], Any], k: int) -> Callable[[Shift], Any]:
            return lambda c: (f(_shifted(c, k, 1)) - f(_shifted(c, k, -1))) / (2 * h)

        def component(i: int, j: int, *more: int) -> Any:
            def f(c: Shift) -> Any:
                return g(min(i, j), max(i, j), c)

            for k in more:
                f = derivative(f, k)
            return f((0,) * len(x))

        return MetricJet(*(table(component, len(x), rank) for rank in (2, 3, 4)))


def _shifted(c: Shift, k: int, by: int) -> Shift:
    return (*c[:k], c[k] + by, *c[k + 1 :])


def nngp_by_differences(net: WideNetwork, x: Vector) -> MetricJet:
    return metric_by_differences(net.nngp, x)


def ntk_by_differences(net: WideNetwork, x: Vector) -> MetricJet:
    return metric_by_differences(net.ntk, x)
