"""Class means and deviations: (3.11) to (3.13) and corollary 3.2."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.ledger.output_flow.lines import DIGITS, START, adapted, t
from analytic.ledger.output_flow.model import EXTRAPOLATED, OUTPUTS, THETA, flow
from analytic.ledger.verification import Verification, real_symbols
from analytic.output_flow import ClassSplit

__all__ = ["ROUTES"]

# Three points with two outputs each; the first two are of one class.
OUTS = real_symbols("a1 a2 b1 b2 c1 c2")
MARKS = real_symbols("y1 y2 z1 z2")
COUNTS = (2, 1)
SPLIT = ClassSplit(sp.Matrix(3, 2, OUTS).T, sp.Matrix(2, 2, MARKS).T, COUNTS)


def _cost() -> Verification:
    """(3.11), lines 2 and 3."""
    args = (*OUTS, *MARKS)
    apart = SPLIT.means - SPLIT.labels
    squares = [apart[:, j].dot(apart[:, j]) for j in range(2)]
    second = sum(entry**2 for entry in SPLIT.deviations) + 2 * squares[0] + squares[1]

    def oracle(**values: Any) -> Any:
        outs = [values[s.name] for s in OUTS]
        first, last = ([values[f"{name}{k}"] for k in (1, 2)] for name in "yz")
        return sum((a - b) ** 2 for a, b in zip(outs, [*first, *first, *last], strict=True)) / 3

    route = "squares of all outputs less labels"
    lines = {"line 2": second / 3, "line 3": SPLIT.cost}
    claims = tuple(
        Claim(
            Formula(f"(3.11), {name}", args, expr),
            route,
            oracle,
            sample(Formula("", args, expr), 2),
        )
        for name, expr in lines.items()
    )
    return Verification(claims, Formula("means without shares", args, SPLIT.within + sum(squares)))


def _collapse() -> tuple[Claim, Claim]:
    """Mean and deviation of two points of one class, for the model trained by the adapted flow."""
    label = sp.Symbol("y", real=True)
    mean, half = sum(OUTPUTS) / 2, (OUTPUTS[0] - OUTPUTS[1]) / 2
    args = (*THETA, label, t)
    place = {name: START[name] for name in ("p", "q", "r")} | {"y": "0.8"}
    points = ({**place, "t": "0.5"}, {**place, "t": "0.95"})

    def ends(values: dict[str, Any]) -> list[Any]:
        both = {"y1": values["y"], "y2": values["y"]}
        return adapted({**values, **both}, values["t"])

    def average(**values: Any) -> Any:
        return sum(ends(values)) / 2

    def deviation(**values: Any) -> Any:
        first, second = ends(values)
        return first - (first + second) / 2

    route = "a model trained by the adapted flow"
    one = Formula("class mean", args, label + (1 - t) * (mean - label))
    two = Formula("deviation from it", args, (1 - t) * half)
    return (
        Claim(one, route, average, points, DIGITS, EXTRAPOLATED),
        Claim(two, route, deviation, points, DIGITS, EXTRAPOLATED),
    )


def _runs_away() -> tuple[Claim, Claim]:
    """Mean and deviation of two outputs tanh p and tanh q of one class, p > q, where their flow ends.

    D = diag(sech^2 p, sech^2 q) has rank 2 everywhere, but outputs stay below 1: on the way to a label above
    it p becomes infinite before t = 1.
    """
    p, q, y = args = real_symbols("p q y")
    left = (y - 1) / (y - sp.tanh(p))  # 1 - t at the end
    points = ({"p": "0.6", "q": "-0.2", "y": 2}, {"p": "0.9", "q": "-0.3", "y": "1.4"})

    def ends(p: Any, q: Any, y: Any) -> list[Any]:
        def velocity(theta: Any) -> Any:
            return (y - mp.tanh(theta)) / mp.sech(theta) ** 2

        places = [p + 2 * k for k in range(16)]  # beyond them a share of exp(-60) is left
        duration = mp.quad(lambda theta: 1 / velocity(theta), places)
        (second,) = flow(lambda _, theta: [velocity(theta[0])], [q], mp.mpf(0), duration)
        return [mp.mpf(1), mp.tanh(second)]

    def average(**values: Any) -> Any:
        return sum(ends(**values)) / 2 - values["y"]

    def deviation(**values: Any) -> Any:
        first, second = ends(**values)
        return first - (first + second) / 2

    route = "time until a parameter is infinite, by quadrature"
    mean = left * ((sp.tanh(p) + sp.tanh(q)) / 2 - y)
    half = left * (sp.tanh(p) - sp.tanh(q)) / 2
    one = Formula("class mean less its label, where a flow ends", args, mean)
    two = Formula("deviation from it, where a flow ends", args, half)
    return (
        Claim(one, route, average, points, DIGITS, EXTRAPOLATED),
        Claim(two, route, deviation, points, DIGITS, EXTRAPOLATED),
    )


_mean, _apart = _collapse()
_mean_left, _apart_left = _runs_away()
_gone = Formula("no distance left, as printed", _mean_left.statement.args, sp.S.Zero)
ROUTES: dict[str, Verification] = {
    "output-space-flow/3.11": _cost(),
    "output-space-flow/corollary-3.2": Verification(
        (_mean, _apart, _mean_left, _apart_left), _gone
    ),
    "output-space-flow/3.12": Verification((_mean, _mean_left), _gone),
    "output-space-flow/3.13": Verification((_apart, _apart_left), _gone),
}
