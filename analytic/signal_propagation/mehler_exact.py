r"""Two-point averages at equal variances to any digits, without a quadrature in the plane.

Mehler's series again, $E[\phi(u)\phi(v)] = \sum_k a_k^2 c^k$, for an analytic phi: the trapezoidal
rule gives $a_k = E[\phi(\sqrt V t) h_k(t)]$ with an error that falls geometrically with the step.
"""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from analytic.activations.activation import Activation

GRIDS = (8, 12, 20, 32, 50)  # nodes per standard deviation, tried in this order
TERMS = 3000  # of the series at most


def kernel_at(act: Activation, V: Any, c: Any) -> Any:
    r"""$E[\phi\phi]$ at (V, cV, V) at the working precision."""
    sums = _pair(act, V, c)
    return sums[0] if sums else act.kernel.mpmath(V, c * V, V)


def slope_at(act: Activation, V: Any, c: Any) -> Any:
    r"""$E[\phi'\phi']$ at (V, cV, V) at the working precision."""
    sums = _pair(act, V, c)
    return sums[1] if sums else act.slope.mpmath(V, c * V, V)


def _pair(act: Activation, V: Any, c: Any) -> tuple[Any, Any] | None:
    """Both averages, on finer and finer grids until two agree; None if the activation's own formulas
    are better (a kink, c = 1 or -1, closed forms) or no grid suffices."""
    if act.kinks or abs(c) == 1 or {"kernel", "slope"} <= set(act.closed_forms):
        return None
    F, VG, last = act.F.mpmath(V), V * act.G.mpmath(V), None
    for per_unit in GRIDS:
        sums = _sums(act, V, c, per_unit, F, VG)
        # The error is exponential in the nodes per unit. Each grid has at least 1.5 times those of
        # the previous one, so its error is that of the previous one to the power 1.5.
        enough = mpf(10) ** (-mp.dps / mpf("1.5"))
        if (
            sums
            and last
            and all(abs(x - y) < enough * size for x, y, size in zip(sums, last, (F, VG)))
        ):
            return sums[0], sums[1] / V
        last = sums
    return None


def _sums(
    act: Activation, V: Any, c: Any, per_unit: int, F: Any, VG: Any
) -> tuple[Any, Any] | None:
    """Both series on one grid, up to the term from which the remainder is below the precision."""
    nodes = [mpf(k) / per_unit for k in range(int(per_unit * mp.sqrt(10 * (mp.dps + 5))))]
    root = [mp.sqrt(mp.npdf(t)) for t in nodes]  # h_k is carried times the root of the density
    even, odd = _folded(act, mp.sqrt(V), nodes, [r / per_unit for r in root])
    floor = mpf(10) ** (-mp.dps - 2)
    kernel = slope = F_sum = VG_sum = lower = mpf(0)
    power, previous, current = mpf(1), root, root
    for k in range(TERMS):
        square = mp.fdot(odd if k % 2 else even, current) ** 2
        kernel, slope = kernel + square * power, slope + k * square * lower
        F_sum, VG_sum = F_sum + square, VG_sum + k * square
        lower, power = power, power * c
        remainder = max(abs(F - F_sum) / F, abs(VG - VG_sum) / VG)
        if remainder * abs(lower) < floor:
            return kernel, slope
        up, down = 1 / mp.sqrt(k + 1), mp.sqrt(mpf(k) / (k + 1))
        following = [up * t * x - down * y for t, x, y in zip(nodes, current, previous)]
        previous, current = current, following
    return None


def _folded(act: Activation, scale: Any, nodes: list, weights: list) -> tuple[list, list]:
    """The even and odd parts phi(t) + phi(-t) and phi(t) - phi(-t) on the half-line, times weights."""
    weights = [weights[0] / 2, *weights[1:]]
    right, left = ([act.phi.mpmath(side * scale * t) for t in nodes] for side in (1, -1))
    return tuple([w * (x + sign * y) for w, x, y in zip(weights, right, left)] for sign in (1, -1))
