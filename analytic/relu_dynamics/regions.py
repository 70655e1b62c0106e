r"""Activation patterns by angle: rays of the samples, and the arcs between them, exactly.

A neuron in the direction $d(\theta)$ is active at the sample x if $\langle(x, 1), d(\theta)\rangle > 0$.
Each sample has two rays, $-\arctan x$ (a > 0: the neuron is active to the right of its knot) and
$\pi - \arctan x$ (a < 0: to the left). The 2s rays of s samples divide the circle into 2s arcs of
constant activation pattern; one arc is dead: active at no sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError, Number, listed
from analytic.expressions.symbols import x as X
from analytic.relu_dynamics.exact_numbers import exact_rational

__all__ = ["Arc", "Ray", "Samples"]

Direction = tuple[Any, Any]  # (u, v), of any length above 0


@dataclass(frozen=True)
class Ray:
    """The direction in which a neuron's knot lies at the sample x, number `index` from 0."""

    index: int
    x: sp.Rational
    right: bool

    @property
    def theta(self) -> sp.Expr:
        r"""The angle, in $(-\pi/2, 3\pi/2)$."""
        return -sp.atan(self.x) if self.right else sp.pi - sp.atan(self.x)

    @property
    def direction(self) -> Direction:
        r"""$\sqrt{1+x^2}\,d(\theta)$."""
        return (sp.S.One, -self.x) if self.right else (sp.S.NegativeOne, self.x)

    @property
    def tangent(self) -> Direction:
        r"""$\sqrt{1+x^2}\,t(\theta)$, which is (x, 1) or its opposite."""
        u, v = self.direction
        return -v, u


@dataclass(frozen=True)
class Arc:
    """The directions between two rays, and the samples (`pattern`) at which they are active."""

    start: Ray
    stop: Ray
    pattern: range

    @property
    def dead(self) -> bool:
        return not self.pattern

    @property
    def angles(self) -> tuple[sp.Expr, sp.Expr]:
        r"""Of both ends, in increasing order; the dead arc extends beyond $3\pi/2$."""
        turn = 2 * sp.pi if self.dead else 0
        return self.start.theta, self.stop.theta + turn


@dataclass(frozen=True)
class Samples:
    """Distinct inputs in increasing order."""

    x: tuple[sp.Rational, ...]

    @staticmethod
    def of(values: Iterable[Number]) -> Samples:
        x = tuple(sorted(exact_rational(X, value) for value in listed("x", values)))
        if not x:
            raise InputError("No samples were given, but at least one is needed.")
        for one, other in pairwise(x):
            if one == other:
                raise InputError(
                    f"x = {one} was given twice, but samples must differ: merge equal ones, with the "
                    "sum of their residuals."
                )
        return Samples(x)

    @cached_property
    def rays(self) -> tuple[Ray, ...]:
        r"""All rays in increasing order of theta, starting at $-\arctan x_s$."""
        falling = list(enumerate(self.x))[::-1]
        return tuple(Ray(k, x, right) for right in (True, False) for k, x in falling)

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """All arcs in that order: {s}, {s-1, s}, ..., all, {1, ..., s-1}, ..., {1}, and the dead one."""
        s = len(self.x)
        patterns = [range(k, s) for k in range(s - 1, -1, -1)] + [
            range(k) for k in range(s - 1, -1, -1)
        ]
        ends = pairwise((*self.rays, self.rays[0]))
        return tuple(Arc(*pair, pattern) for pair, pattern in zip(ends, patterns, strict=True))

    def pattern(self, direction: Direction) -> tuple[int, ...]:
        """The samples at which a neuron in this direction is active; a direction on a ray is refused."""
        u, v = direction
        preactivations = [sp.sympify(u * x + v) for x in self.x]
        if (not u and not v) or not all(value.is_number for value in preactivations):
            raise InputError(
                f"({u}, {v}) was given, but two numbers are needed that are not both 0."
            )
        if 0 in preactivations:
            sample = self.x[preactivations.index(0)]
            raise InputError(
                f"({u}, {v}) lies on the ray of the sample {sample}, where a neuron "
                "belongs to two arcs: move it a little."
            )
        return tuple(k for k, value in enumerate(preactivations) if value > 0)

    def arc(self, direction: Direction) -> Arc:
        """The arc that contains a direction."""
        pattern = self.pattern(direction)
        return next(arc for arc in self.arcs if tuple(arc.pattern) == pattern)
