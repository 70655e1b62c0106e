"""Claims about every spline.* formula, by averages of ReLU units over the distribution of (a, b)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.checks.claims import Claim, Point
from analytic.splines import INITIALISATIONS

__all__ = ["CLAIMS"]

Unit = Callable[[Any], Any]  # of z = a x - b
HiddenAverage = Callable[..., Any]  # (f, x, y, parameters) -> E[f(ax - b) f(ay - b)]

# Inside the interval of constant knot density, across its edge, outside it, and equal inputs.
PAIRS = (
    ("0.3", "-0.2"), ("0.4", "1.7"), ("-0.8", "0.5"), ("1.1", "2.5"), ("-1.9", "0.1"), ("0.6", "0.6"),
)  # fmt: skip
SINGLES = ("0.3", "-0.8", "1.7")
VALUES: Point = {"A": "1.25", "B": "0.9", "sa": "1.2", "sb": "0.7", "ec2": "0.3"}  # B/A = 0.72
KNOTS = {  # positions where the density of knots is positive
    "signs": ("0.1", "-0.7"), "uniform": ("0.1", "-0.7", "0.9", "-2.3"),
    "gaussian": ("0.1", "-0.7", "2.3"), "onesided": ("0.1", "0.7"),
}  # fmt: skip


def _ramp(z: Any) -> Any:
    return max(z, mpf(0))


def _step(z: Any) -> Any:
    return mpf(1) if z > 0 else mpf(0)


def _pieces(f: Callable[[Any], Any], ends: Any, cuts: Any, rule: Any = mp.quad) -> Any:
    """The integral of a function that is smooth between the cuts."""
    low, high = ends
    inner = sorted(cut for cut in set(cuts) if low < cut < high)
    return sum(rule(f, pair) for pair in pairwise([low, *inner, high]))


def _simpson(f: Callable[[Any], Any], pair: tuple[Any, Any]) -> Any:
    """Exact for a cubic polynomial. f may jump at the ends, so it is evaluated just inside of them."""
    low, high = pair
    inside = (high - low) * mp.sqrt(mp.eps)
    return (high - low) * (f(low + inside) + 4 * f((low + high) / 2) + f(high - inside)) / 6


def _uniform_bias(f: Unit, a: Any, x: Any, y: Any, low: Any, high: Any) -> Any:
    """E[f(ax - b) f(ay - b)] over b."""
    with mp.workdps(2 * mp.dps):
        cuts = (a * x, a * y)
        total = _pieces(lambda b: f(a * x - b) * f(a * y - b), (low, high), cuts, _simpson)
        return total / (high - low)


def _signs(f: Unit, x: Any, y: Any, B: Any) -> Any:
    return sum(_uniform_bias(f, a, x, y, -B, B) for a in (mpf(1), mpf(-1))) / 2


def _uniform(f: Unit, x: Any, y: Any, A: Any, B: Any) -> Any:
    cuts = [0, *(sign * B / one for one in (x, y) if one for sign in (1, -1))]
    return _pieces(lambda a: _uniform_bias(f, a, x, y, -B, B), (-A, A), cuts) / (2 * A)


def _gaussian(f: Unit, x: Any, y: Any, sa: Any, sb: Any) -> Any:
    """In polar coordinates of (a/sa, b/sb): E[R^2] = 2, and the ramp is proportional to the radius R."""

    def around(angle: Any) -> Any:
        a, b = sa * mp.cos(angle), sb * mp.sin(angle)
        return f(a * x - b) * f(a * y - b)

    zeros = [mp.atan(sa * one / sb) + turn for one in (x, y) for turn in (-mp.pi, 0, mp.pi)]
    square = 2 if f is _ramp else 1
    return square * _pieces(around, (-mp.pi, mp.pi), zeros) / (2 * mp.pi)


def _onesided(f: Unit, x: Any, y: Any) -> Any:
    return _uniform_bias(f, mpf(1), x, y, mpf(0), mpf(1))


AVERAGES: dict[str, HiddenAverage] = {
    "signs": _signs, "uniform": _uniform, "gaussian": _gaussian, "onesided": _onesided,
}  # fmt: skip


def _moment(name: str, power: int) -> Callable[..., Any]:
    """nu_power(u), the integral of |a|^power p(a, a u) over a, or a sum where a is 1 or -1."""

    def inside(u: Any, low: Any, high: Any) -> Any:
        return 1 / (high - low) if low < u < high else mpf(0)

    def over_uniform(u: Any, A: Any, B: Any) -> Any:
        cuts = (B / abs(u), -B / abs(u), mpf(0))
        return _pieces(lambda a: abs(a) ** power * inside(a * u, -B, B), (-A, A), cuts) / (2 * A)

    def over_normal(u: Any, sa: Any, sb: Any) -> Any:
        def term(a: Any) -> Any:
            return abs(a) ** power * mp.npdf(a, 0, sa) * mp.npdf(a * u, 0, sb)

        return _pieces(term, (-mp.inf, mp.inf), (mpf(0),))

    return {
        "signs": lambda u, B: (inside(u, -B, B) + inside(-u, -B, B)) / 2,
        "uniform": over_uniform,
        "gaussian": over_normal,
        "onesided": lambda u: inside(u, mpf(0), mpf(1)),
    }[name]


def _points(names: tuple[str, ...]) -> tuple[Point, ...]:
    fixed = {key: VALUES[key] for key in names}
    return tuple({"x": x, "y": y, **fixed} for x, y in PAIRS)


def _claims(name: str) -> Iterator[Claim]:
    init, average = INITIALISATIONS[name], AVERAGES[name]
    own = tuple(symbol.name for symbol in init.parameters)

    def ramps(x: Any, y: Any, **values: Any) -> Any:
        return average(_ramp, x, y, **values)

    def steps(x: Any, y: Any, **values: Any) -> Any:
        return average(_step, x, y, **values)

    def gradients(x: Any, y: Any, ec2: Any, **values: Any) -> Any:
        """The tangent kernel: gradients by c, and by a and b."""
        return ramps(x, y, **values) + ec2 * (1 + x * y) * steps(x, y, **values)

    def kernel_slope(x: Any, y: Any, **values: Any) -> Any:
        """A central difference of the average, whose second derivative has a kink at y = x."""
        step = mpf(10) ** -(mp.dps + 5)
        with mp.workdps(3 * mp.dps + 20):
            return (ramps(x + step, y, **values) - ramps(x - step, y, **values)) / (2 * step)

    def drift(x: Any, **values: Any) -> Any:
        """A central difference of the average at (x, x), half of the derivative of the diagonal."""
        step = mpf(10) ** -(mp.dps + 5)
        with mp.workdps(3 * mp.dps + 20):
            right, left = (ramps(one, one, **values) for one in (x + step, x - step))
            return (right - left) / (4 * step)

    def metric(x: Any, **values: Any) -> Any:
        """A mixed difference of the average: the squared length of a step of the features, over its own."""
        step = mpf(10) ** -(mp.dps + 5)
        with mp.workdps(4 * mp.dps + 30):
            left, right = x - step / 2, x + step / 2
            ends = ramps(left, left, **values) + ramps(right, right, **values)
            return (ends - 2 * ramps(left, right, **values)) / step**2

    route = "average over the law"
    yield Claim(init.rf, route, ramps, _points(own))
    yield Claim(init.both, route, steps, _points(own))
    yield Claim(init.ntk, route, gradients, _points((*own, "ec2")))
    yield Claim(init.slope, "difference of the average", kernel_slope, _points(own)[1:5])
    singles = tuple({"x": one, **{key: VALUES[key] for key in own}} for one in SINGLES)
    yield Claim(init.drift, "difference of the average", drift, singles)
    yield Claim(init.metric, "mixed difference of the average", metric, singles)
    places = tuple({"u": knot, **{key: VALUES[key] for key in own}} for knot in KNOTS[name])
    for formula, power in ((init.density, 3), (init.knots, 1)):
        yield Claim(formula, "average over slopes", _moment(name, power), places)


CLAIMS = {f"spline.{name}": partial(_claims, name) for name in INITIALISATIONS}
