"""What settles an entry: claims that hold and, for an erratum, the printed form that fails them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula


@dataclass(frozen=True)
class Settled:
    """The claims about an entry; `printed` is what the paper says where that is false."""

    claims: tuple[Claim, ...]
    printed: Formula | None = None

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """The printed statement put to every route about the same quantity."""
        if self.printed is None:
            return ()
        same = [c for c in self.claims if c.statement.args == self.printed.args]
        return tuple(claim.about(self.printed) for claim in same)


def holds(*claims: Claim) -> Settled:
    return Settled(claims)


def threefold(*claims: Claim) -> Settled:
    """An entry whose printed form is the first claim's statement times three."""
    true = claims[0].statement
    return Settled(
        claims, replace(true, name=f"{true.name} as printed", expr=3 * true.expr, stable=None)
    )


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """The inner product of two vectors of symbols or of numbers."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def shifted(x: Sequence[Any], way: Sequence[Any], step: Any) -> list[Any]:
    """A point after a step along a vector."""
    return [c + step * e for c, e in zip(x, way, strict=True)]


def mixed(kernel: Callable[[Any, Any], Any], x: Any, u: Any, v: Any) -> Any:
    """u.g.v of a kernel's metric at x: its first argument moved along u, its second along v."""
    return mp.diff(lambda s, t: kernel(shifted(x, u, s), shifted(x, v, t)), (0, 0), (1, 1))


def reals(names: str) -> tuple[sp.Symbol, ...]:
    """Real symbols for statements that are not in the catalogue."""
    return tuple(sp.symbols(names, real=True, seq=True))
