"""The metric of a kernel and its derivatives, by differences in all coordinates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

from mpmath import mp, mpf

from analytic.checks.kernel_oracles.composed_kernel import Network
from analytic.checks.kernel_oracles.power_series import table
from analytic.checks.oracles import Jet, Vector

Shift = tuple[int, ...]  # of a point, in steps along each coordinate


def nested(kernel: Callable[[Vector, Vector], Any], x: Vector) -> Jet:
    r"""$g_{mn} = \partial_{x_m}\partial_{y_n} k$ of a symmetric kernel at y = x, and derivatives of g.

    A central difference with step h errs by h^2, and four of them divide the rounding by h^4: for n
    digits, h = 10^(-n/2 - 2) and 3n + 8 digits of work. A kernel may be less than smooth at y = x:
    moving both arguments leaves a term |x - y|^p alone, so that it errs by h^(p - 2) only.
    """
    digits = mp.dps
    with mp.workdps(3 * digits + 8):
        h = mpf(10) ** (-digits // 2 - 2)

        @cache
        def value(one: Shift, two: Shift) -> Any:
            return kernel(*([v + h * k for v, k in zip(x, c, strict=True)] for c in (one, two)))

        @cache
        def g(i: int, j: int, c: Shift) -> Any:
            signs = product((1, -1), repeat=2)
            terms = [p * q * value(*sorted((_moved(c, i, p), _moved(c, j, q)))) for p, q in signs]
            return mp.fsum(terms) / (4 * h**2)

        def along(f: Callable[[Shift], Any], k: int) -> Callable[[Shift], Any]:
            return lambda c: (f(_moved(c, k, 1)) - f(_moved(c, k, -1))) / (2 * h)

        def entry(i: int, j: int, *more: int) -> Any:
            def f(c: Shift) -> Any:
                return g(min(i, j), max(i, j), c)

            for k in more:
                f = along(f, k)
            return f((0,) * len(x))

        return Jet(*(table(entry, len(x), rank) for rank in (2, 3, 4)))


def _moved(c: Shift, k: int, by: int) -> Shift:
    return (*c[:k], c[k] + by, *c[k + 1 :])


def nested_nngp(net: Network, x: Vector) -> Jet:
    return nested(net.nngp, x)


def nested_ntk(net: Network, x: Vector) -> Jet:
    return nested(net.ntk, x)
