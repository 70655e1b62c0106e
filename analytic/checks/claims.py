"""A claim: a formula, and an oracle that computes the same number without sharing its code.

That an oracle can detect errors is shown by mutation: it must refuse slightly wrong formulas.
"""

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

__all__ = ["Change", "Claim", "Point", "changes", "mutants", "sample", "survivors", "with_switches"]

Point = Mapping[str, Any]  # argument name -> exact value
COARSE_DIGITS = 10  # enough to refuse most mutants, which differ by a percent or more


@dataclass(frozen=True)
class Claim:
    """`statement` equals `oracle` at every point, to `digits` digits.

    `oracle` is called with one mpf for each argument of the statement, at a working precision of
    ten digits more. `route` says in a few words how it computes the number, `reason` why the
    tolerance is not zero. NaN, infinity and an error raised by the statement count as failures.
    """

    statement: Formula
    route: str
    oracle: Callable[..., Any]
    points: tuple[Point, ...]
    digits: int = 30
    reason: str = "rounding at the working precision"

    def __str__(self) -> str:
        return f"{self.statement.name} by {self.route}"

    @cached_property
    def route_values(self) -> tuple[Callable[[], Any], ...]:
        """The oracle's value at each point, computed on first use."""
        return tuple(cache(partial(self._oracle_at, point)) for point in self.points)

    def _oracle_at(self, point: Point) -> Any:
        with mp.workdps(self.digits + 10):
            values = {name: _mpf(value) for name, value in point.items()}
            return mp.mpmathify(self.oracle(**values))

    def worst_error(self) -> Any:
        """The largest relative difference; infinite where either side has no value."""
        return max(map(self._error, self.points, self.route_values), default=mp.inf)

    def _error(self, point: Point, route_value: Callable[[], Any]) -> Any:
        expected = route_value()
        try:
            stated = self.statement.evaluate(self.digits + 3, **point)
        except (ValueError, ArithmeticError):
            return mp.inf
        if not mp.isfinite(expected):
            return mp.inf
        with mp.workdps(self.digits + 10):
            scale = max(abs(stated), abs(expected))
            error = abs(stated - expected) / scale if scale else mpf(0)
        return error

    def holds(self) -> bool:
        """Whether statement and oracle agree at every point; stops at the first that differs."""
        errors, bound = map(self._error, self.points, self.route_values), mpf(10) ** -self.digits
        return bool(self.points) and all(error <= bound for error in errors)

    def about(self, statement: Formula, **more: Any) -> Claim:
        """The same oracle about another statement, whose additional arguments have the values `more`."""
        points = tuple({**point, **more} for point in self.points)
        return self._sharing_route(replace(self, statement=statement, points=points))

    def to_digits(self, digits: int) -> Claim:
        """The same claim to fewer digits: quicker, and what it refuses, the full claim refuses too."""
        return self._sharing_route(replace(self, digits=min(digits, self.digits)))

    def at_first(self, count: int) -> Claim:
        """The same claim at the first `count` points."""
        return self._sharing_route(replace(self, points=self.points[:count]))

    def _sharing_route(self, other: Claim) -> Claim:
        """Let another claim reuse the oracle's values, so that each is computed once for both."""
        other.__dict__["route_values"] = self.route_values[: len(other.points)]
        return other


def _mpf(value: Any) -> Any:
    if isinstance(value, mp.mpf):
        return value
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def sample(formula: Formula, count: int, seed: int = 0, **fixed: Any) -> tuple[Point, ...]:
    """Random exact points of the domain: integers up to 6, other sizes log-uniform in [1/4, 4]."""
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
        if _in_domain(formula, values):
            points.append(point)
    return tuple(points)


def _in_domain(formula: Formula, values: Mapping[sp.Symbol, Any]) -> bool:
    try:
        formula.domain.check(formula.name, values)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Change:
    """A mutation of an expression: where its switch is 1, `by` changes `node`, using `part` of it."""

    node: sp.Expr
    part: sp.Expr
    description: str
    by: Callable[[sp.Expr, sp.Expr, sp.Expr], sp.Expr]  # of (node, part, switch)

    def __str__(self) -> str:
        return self.description.format(node=self.node, part=self.part)


def _percent(node: sp.Expr, part: sp.Expr, switch: sp.Expr) -> sp.Expr:
    return node + switch * part / 100


def _sign(node: sp.Expr, part: sp.Expr, switch: sp.Expr) -> sp.Expr:
    return node - 2 * switch * part


def _power(node: sp.Expr, part: sp.Expr, switch: sp.Expr) -> sp.Expr:
    return node * part**switch


def changes(expr: sp.Expr) -> Iterator[Change]:
    """Every mutation of an expression: a coefficient by one percent, a sign, or an exponent."""
    yield Change(expr, expr, "the whole by one percent", _percent)
    nodes = sorted(set(sp.preorder_traversal(expr)), key=sp.default_sort_key)
    powers = [p.exp for p in expr.atoms(sp.Pow) if z in p.base.free_symbols]
    fixed = {node for power in powers for node in sp.preorder_traversal(power)}
    for node in nodes:
        averaged = z in node.free_symbols  # under a Gaussian average, which might then diverge
        if isinstance(node, sp.Add) and node not in fixed:
            yield Change(node, node.args[-1], "{part} by one percent", _percent)
            if not averaged:
                yield Change(node, node.args[0], "sign of {part}", _sign)
        elif isinstance(node, sp.Pow) and node.base.free_symbols and not averaged:
            yield Change(node, node.base, "exponent of {node}", _power)


def with_switches(expr: sp.Expr, chosen: Mapping[sp.Expr, Change]) -> sp.Expr:
    """The expression with a switch symbol for each change, so that one compilation serves all."""
    rebuilt: dict[sp.Basic, sp.Basic] = {}

    def build(node: sp.Basic) -> sp.Basic:
        if node not in rebuilt:
            args = tuple(map(build, node.args))
            new = node if args == node.args else node.func(*args)
            rebuilt[node] = new
            for switch, change in chosen.items():
                if change.node == node:
                    new = change.by(new, build(change.part), switch)
            rebuilt[node] = new
        return rebuilt[node]

    return build(expr)


def mutants(expr: sp.Expr) -> Iterator[tuple[str, sp.Expr]]:
    """Mutated expressions, each with a description of its change."""
    return ((str(change), with_switches(expr, {sp.S.One: change})) for change in changes(expr))


def survivors(claim: Claim, most: int = 6) -> list[str]:
    """About `most` mutants of the statement are tried; those that the claim's oracle does not refuse.

    Mutants that equal the statement everywhere do not count.
    """
    statement, candidates = claim.statement, list(changes(claim.statement.expr))
    chosen = candidates[:: max(1, len(candidates) // most)]
    switches = sp.symbols(f"wrong:{len(chosen)}", integer=True, nonnegative=True)
    family = replace(
        statement,
        args=(*statement.args, *switches),
        expr=with_switches(statement.expr, dict(zip(switches, chosen, strict=True))),
        stable=None,
    )
    all_off = dict.fromkeys(map(str, switches), 0)
    coarse = claim.about(family, **all_off).to_digits(COARSE_DIGITS)
    # With all switches off the claim must hold: otherwise refusing a mutant would prove nothing.
    if not coarse.at_first(1).holds():
        return ["the statement itself, once it has switches"]
    random_points, surviving, refused = sample(statement, 2, seed=1), [], 0
    for switch, change in zip(switches, chosen, strict=True):
        one_on = all_off | {str(switch): 1}
        if not coarse.about(family, **one_on).holds() or not claim.about(family, **one_on).holds():
            refused += 1
        elif not _agree(statement, family, random_points, one_on):
            surviving.append(str(change))
    return surviving if surviving or refused else ["every mutant equals the statement"]


def _agree(one: Formula, two: Formula, points: tuple[Point, ...], more: Point) -> bool:
    """Whether two formulas agree at all points; `more` has the additional arguments of the second."""
    for point in points:
        try:
            left, right = one.evaluate(20, **point), two.evaluate(20, **point, **more)
        except (ValueError, ArithmeticError):
            return False
        if abs(left - right) > mpf(10) ** -18 * max(abs(left), abs(right)):
            return False
    return True
