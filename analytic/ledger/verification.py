"""The verification of an entry: claims that hold and, for an erratum, the printed form, which fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula

__all__ = [
    "Verification", "dot", "holds", "metric_along", "printed_times_three", "real_symbols", "shifted",
]  # fmt: skip


@dataclass(frozen=True)
class Verification:
    """The claims about an entry; `printed` is the paper's formula if that is false."""

    claims: tuple[Claim, ...]
    printed: Formula | None = None

    @property
    def printed_claims(self) -> tuple[Claim, ...]:
        """Claims that the printed formula holds, by every oracle with the same arguments: all must fail."""
        if self.printed is None:
            return ()
        same = [c for c in self.claims if c.statement.args == self.printed.args]
        return tuple(claim.about(self.printed) for claim in same)


def holds(*claims: Claim) -> Verification:
    """A statement that is correct as printed."""
    return Verification(claims)


def printed_times_three(*claims: Claim) -> Verification:
    """An erratum: the printed form is three times the statement of the first claim."""
    true = claims[0].statement
    return Verification(
        claims, replace(true, name=f"{true.name} as printed", expr=3 * true.expr, stable=None)
    )


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """The inner product of two vectors of symbols or of numbers."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def shifted(x: Sequence[Any], way: Sequence[Any], step: Any) -> list[Any]:
    """x + step * way for vectors x and way."""
    return [c + step * e for c, e in zip(x, way, strict=True)]


def metric_along(kernel: Callable[[Any, Any], Any], x: Any, u: Any, v: Any) -> Any:
    """u.g.v for the metric g of a kernel at x: its derivative by the first argument along u and by the
    second along v."""
    return mp.diff(lambda s, t: kernel(shifted(x, u, s), shifted(x, v, t)), (0, 0), (1, 1))


def real_symbols(names: str) -> tuple[sp.Symbol, ...]:
    """Real symbols for statements that are not in the catalogue."""
    return tuple(sp.symbols(names, real=True, seq=True))
