"""Numbers that a notebook reports: shown in it, and collected into the record of its run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from typing import Protocol, SupportsFloat

from analytic.expressions.arguments import InputError

MIME = "application/vnd.kernel-geometry.numbers+json"

PLAY = "Play"  # opens the names of numbers that a panel shows
# Not the digits of names, as in log10, x1, C4 or |x|^2.
_NUMBER = re.compile(r"(?<![\w.^])[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?!\w)")


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


def of_panel(line: str) -> dict[str, int | float | str]:
    """The numbers in a panel's line, each named by the words around it.

    line: as a panel shows it, whose parts are divided by commas and semicolons; a place that it opens with,
    such as "at |x| = 1:", is left out. Returned by name: where a part holds several numbers, # is the one
    that is named and _ another; a name that comes again gets a number of its own. Nothing is refused: a
    line without numbers gives none.

    >>> of_panel("at |x| = 1: NNGP log10 volume = -0.5, R = -2; NTK log10 volume = 1e3, R = inf")
    {'Play: NNGP log10 volume': -0.5, 'Play: R': -2, 'Play: NTK log10 volume': 1000.0, 'Play: R (2)': 'inf'}
    >>> of_panel("loss 0.25, 7 of 8 right")
    {'Play: loss': 0.25, 'Play: # of _ right': 7, 'Play: _ of # right': 8}
    """
    numbers: dict[str, int | float | str] = {}
    for part in re.split(r"[,;]", re.sub(r"^at [^:]*:", "", line)):
        for here in _NUMBER.finditer(part):
            before, after = (
                _NUMBER.sub("_", side) for side in (part[: here.start()], part[here.end() :])
            )
            words = f"{PLAY}: {f'{before}#{after}'.strip().removesuffix('#').rstrip(' =')}"
            again = sum(name == words or name.startswith(f"{words} (") for name in numbers)
            text = here[0]
            value = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
            numbers[f"{words} ({again + 1})" if again else words] = _number(words, value)
    return numbers


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
