"""Numbers that a notebook reports: shown in it, and collected into the record of its run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from typing import Protocol, SupportsFloat

from analytic.expressions.arguments import InputError

MIME = "application/vnd.kernel-geometry.numbers+json"


class Scalar(Protocol):
    """An array or a tensor with one element."""

    def item(self) -> object: ...


def record(**numbers: SupportsFloat | Scalar) -> None:
    """Show numbers, and put them into the record of the run.

    numbers: each a real number, or an array or tensor with one element; what is not finite is recorded
    as text ("inf", "nan"), since JSON has no such numbers. A name that is recorded twice keeps its last
    number. Nothing is returned. Refused: no number at all, text, arrays with more than one element.

    >>> record(sigmas=2.5, networks=100)
    sigmas = 2.5, networks = 100
    """
    from IPython.display import display

    if not numbers:
        raise InputError("record() was called with no number: give some, as in record(error=0.1).")
    display(Numbers({name: _number(name, value) for name, value in numbers.items()}))


@dataclass(frozen=True)
class Numbers:
    """Named numbers as a notebook shows and stores them."""

    values: dict[str, int | float | str]

    def __repr__(self) -> str:
        return ", ".join(f"{name} = {_short(value)}" for name, value in self.values.items())

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        rows = (
            f"<tr><td>{escape(name)}</td><td>{_short(value)}</td></tr>"
            for name, value in self.values.items()
        )
        page = f'<table class="numbers"><tbody>{"".join(rows)}</tbody></table>'
        return {MIME: self.values, "text/plain": repr(self), "text/html": page}


def _number(name: str, value: object) -> int | float | str:
    try:
        one = value.item() if hasattr(value, "item") else value
    except (ValueError, RuntimeError):
        raise InputError(
            f"{name} has more than one element: record one number a name, such as its maximum."
        ) from None
    if isinstance(one, Integral):
        return int(one)
    try:
        real = float(one) if isinstance(one, Real) or hasattr(one, "__float__") else None
    except (TypeError, ValueError, OverflowError):
        real = None
    if real is None:
        raise InputError(f"{name} = {value!r} was recorded, but it must be a real number.")
    return real if math.isfinite(real) else str(real)


def _short(value: int | float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
