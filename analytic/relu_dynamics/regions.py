r"""Where on the circle a neuron sees which samples: rays, arcs and activation patterns, exactly.

A neuron in the direction $d(\theta)$ sees the sample x where $\langle(x, 1), d(\theta)\rangle > 0$. Each
sample has two rays, $-\arctan x$ (the neuron looks right: a > 0) and $\pi - \arctan x$ (it looks left).
The 2s rays of s samples cut the circle into 2s arcs, one of them dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import x as X
from analytic.relu_dynamics.exact_numbers import rational

Direction = tuple[Any, Any]  # (u, v), of any length above 0


@dataclass(frozen=True)
class Ray:
    """The directions that see the sample number `index`, at x, just not; counted from 0."""

    index: int
    x: sp.Rational
    right: bool

    @property
    def theta(self) -> sp.Expr:
        r"""In $(-\pi/2, 3\pi/2)$."""
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
    """Directions between two rays, and the samples that they see."""

    start: Ray
    stop: Ray
    pattern: range

    @property
    def dead(self) -> bool:
        return not self.pattern

    @property
    def angles(self) -> tuple[sp.Expr, sp.Expr]:
        r"""In increasing order; the dead arc goes on beyond $3\pi/2$."""
        turn = 2 * sp.pi if self.dead else 0
        return self.start.theta, self.stop.theta + turn


@dataclass(frozen=True)
class Samples:
    """Distinct inputs in increasing order."""

    x: tuple[sp.Rational, ...]

    @staticmethod
    def of(values: Iterable[Any]) -> Samples:
        x = tuple(sorted(rational(X, value) for value in values))
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
        r"""In increasing order of theta, from $-\arctan x_s$ on."""
        falling = list(enumerate(self.x))[::-1]
        return tuple(Ray(k, x, right) for right in (True, False) for k, x in falling)

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """In the same order: {s}, {s-1, s}, ..., all, {1, ..., s-1}, ..., {1}, and the dead one."""
        s = len(self.x)
        seen = [range(k, s) for k in range(s - 1, -1, -1)] + [
            range(k) for k in range(s - 1, -1, -1)
        ]
        ends = pairwise((*self.rays, self.rays[0]))
        return tuple(Arc(*pair, pattern) for pair, pattern in zip(ends, seen, strict=True))

    def pattern(self, direction: Direction) -> tuple[int, ...]:
        """The samples that a neuron in this direction sees; on a ray there is no answer."""
        u, v = direction
        seen = [sp.sympify(u * x + v) for x in self.x]
        if (not u and not v) or not all(value.is_number for value in seen):
            raise InputError(
                f"({u}, {v}) was given, but two numbers are needed that are not both 0."
            )
        if 0 in seen:
            raise InputError(
                f"({u}, {v}) lies on the ray of the sample {self.x[seen.index(0)]}, where a neuron "
                "belongs to two arcs: move it a little."
            )
        return tuple(k for k, value in enumerate(seen) if value > 0)

    def arc(self, direction: Direction) -> Arc:
        """The arc that holds a direction."""
        pattern = self.pattern(direction)
        return next(arc for arc in self.arcs if tuple(arc.pattern) == pattern)
