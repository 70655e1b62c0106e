"""A statement and a route to the same number that shares none of its code; whoever differs loses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z

Point = Mapping[str, Any]  # argument name -> exact value
SEEN_AT_ONCE = 10  # digits that show most mutants, which are off by a percent or more


@dataclass(frozen=True)
class Claim:
    """`statement` equals what `other` finds at every point, to `digits` digits.

    `other` is called with one mpf for each argument of the statement, under a working precision
    of ten digits more. `route` says in a few words what it does, `reason` why the tolerance is
    not zero. NaN, a refusal and an unknown are failures.
    """

    statement: Formula
    route: str
    other: Callable[..., Any]
    points: tuple[Point, ...]
    digits: int = 30
    reason: str = "rounding at the working precision"

    def __str__(self) -> str:
        return f"{self.statement.name} by {self.route}"

    @cached_property
    def route_values(self) -> tuple[Callable[[], Any], ...]:
        """The route's value at each point, computed when first asked for."""
        return tuple(cache(partial(self._other_at, point)) for point in self.points)

    def _other_at(self, point: Point) -> Any:
        with mp.workdps(self.digits + 10):
            values = {name: _mpf(value) for name, value in point.items()}
            return mp.mpmathify(self.other(**values))

    def worst_error(self) -> Any:
        """The largest relative difference; infinite where either side has no value."""
        return max(map(self._error, self.points, self.route_values), default=mp.inf)

    def _error(self, point: Point, route_value: Callable[[], Any]) -> Any:
        found = route_value()
        try:
            stated = self.statement.evaluate(self.digits + 3, **point)
        except (ValueError, ArithmeticError):
            return mp.inf
        if not mp.isfinite(found):
            return mp.inf
        with mp.workdps(self.digits + 10):
            scale = max(abs(stated), abs(found))
            error = abs(stated - found) / scale if scale else mpf(0)
        return error

    def holds(self) -> bool:
        """Whether no point differs; the first that does is enough."""
        errors, bound = map(self._error, self.points, self.route_values), mpf(10) ** -self.digits
        return bool(self.points) and all(error <= bound for error in errors)

    def about(self, statement: Formula, **more: Any) -> Claim:
        """The same route, asked about another statement; it may have more arguments, with values."""
        points = tuple(point | more for point in self.points)
        return self._sharing_route(replace(self, statement=statement, points=points))

    def to_digits(self, digits: int) -> Claim:
        """The same to fewer digits: what fails then fails here too, and is refused in less time."""
        return self._sharing_route(replace(self, digits=min(digits, self.digits)))

    def at_first(self, count: int) -> Claim:
        """The same at the first few points."""
        return self._sharing_route(replace(self, points=self.points[:count]))

    def _sharing_route(self, other: Claim) -> Claim:
        """Another claim by the same route, which runs once a point for both."""
        other.__dict__["route_values"] = self.route_values[: len(other.points)]
        return other


def _mpf(value: Any) -> Any:
    if isinstance(value, mp.mpf):
        return value
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def sample(formula: Formula, count: int, seed: int = 0, **fixed: Any) -> tuple[Point, ...]:
    """Random exact points of the domain: whole numbers up to 6, others log-uniform in [1/4, 4]."""
    rng = random.Random(seed)

    def draw(symbol: sp.Symbol) -> Any:
        if symbol.is_integer:
            return rng.randint(1, 6)
        size = Fraction(round(1000 * 4 ** rng.uniform(-1, 1)), 1000)
        return size if symbol.is_nonnegative else size * rng.choice((1, -1))

    points: list[Point] = []
    while len(points) < count:
        point = {symbol.name: draw(symbol) for symbol in formula.args} | fixed
        values = {symbol: point[symbol.name] for symbol in formula.args}
        if _inside(formula, values):
            points.append(point)
    return tuple(points)


def _inside(formula: Formula, values: Mapping[sp.Symbol, Any]) -> bool:
    try:
        formula.domain.check(formula.name, values)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Change:
    """What makes an expression wrong: a node of it changes by some part, as far as a switch is on."""

    node: sp.Expr
    part: sp.Expr
    what: str
    by: Callable[[sp.Expr, sp.Expr, sp.Expr], sp.Expr]  # node, part, switch

    def __str__(self) -> str:
        return self.what.format(node=self.node, part=self.part)


def _percent(node: sp.Expr, part: sp.Expr, on: sp.Expr) -> sp.Expr:
    return node + on * part / 100


def _sign(node: sp.Expr, part: sp.Expr, on: sp.Expr) -> sp.Expr:
    return node - 2 * on * part


def _power(node: sp.Expr, part: sp.Expr, on: sp.Expr) -> sp.Expr:
    return node * part**on


def changes(expr: sp.Expr) -> Iterator[Change]:
    """A coefficient off by one percent, a sign, an exponent."""
    yield Change(expr, expr, "the whole by one percent", _percent)
    nodes = sorted(set(sp.preorder_traversal(expr)), key=sp.default_sort_key)
    powers = [p.exp for p in expr.atoms(sp.Pow) if z in p.base.free_symbols]
    fixed = {node for power in powers for node in sp.preorder_traversal(power)}
    for node in nodes:
        averaged = z in node.free_symbols  # a new sign or power there might not be integrable
        if isinstance(node, sp.Add) and node not in fixed:
            yield Change(node, node.args[-1], "{part} by one percent", _percent)
            if not averaged:
                yield Change(node, node.args[0], "sign of {part}", _sign)
        elif isinstance(node, sp.Pow) and node.base.free_symbols and not averaged:
            yield Change(node, node.base, "exponent of {node}", _power)


def switched(expr: sp.Expr, chosen: Mapping[sp.Expr, Change]) -> sp.Expr:
    """The expression with a switch for each change, so that one compilation tries them all."""
    made: dict[sp.Basic, sp.Basic] = {}

    def build(node: sp.Basic) -> sp.Basic:
        if node not in made:
            args = tuple(map(build, node.args))
            new = node if args == node.args else node.func(*args)
            made[node] = new
            for switch, change in chosen.items():
                if change.node == node:
                    new = change.by(new, build(change.part), switch)
            made[node] = new
        return made[node]

    return build(expr)


def mutants(expr: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
    """Wrong versions of an expression."""
    return ((str(change), switched(expr, {sp.S.One: change})) for change in changes(expr))


def survivors(claim: Claim, most: int = 6) -> list[str]:
    """Mutants of the statement that the route fails to refuse; those equal to it do not count."""
    statement, found = claim.statement, list(changes(claim.statement.expr))
    chosen = found[:: max(1, len(found) // most)]
    switches = sp.symbols(f"wrong:{len(chosen)}", integer=True, nonnegative=True)
    family = replace(
        statement,
        args=(*statement.args, *switches),
        expr=switched(statement.expr, dict(zip(switches, chosen, strict=True))),
        stable=None,
    )
    off = dict.fromkeys(map(str, switches), 0)
    coarse = claim.about(family, **off).to_digits(SEEN_AT_ONCE)
    if not coarse.at_first(1).holds():  # else a refusal would say nothing about the change
        return ["the statement itself, once it has switches"]
    everywhere, alive, different = sample(statement, 2, seed=1), [], 0
    for switch, change in zip(switches, chosen, strict=True):
        on = off | {str(switch): 1}
        if not coarse.about(family, **on).holds() or not claim.about(family, **on).holds():
            different += 1
        elif not _same(statement, family, everywhere, on):
            alive.append(str(change))
    return alive if alive or different else ["every mutant equals the statement"]


def _same(one: Formula, two: Formula, points: tuple[Point, ...], more: Point) -> bool:
    """Whether two formulas agree at points that no route has chosen; the second has more arguments."""
    for point in points:
        try:
            left, right = one.evaluate(20, **point), two.evaluate(20, **point, **more)
        except (ValueError, ArithmeticError):
            return False
        if abs(left - right) > mpf(10) ** -18 * max(abs(left), abs(right)):
            return False
    return True
