"""Controls that a person may move, for panels and for frames where no kernel runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as W
import sympy as sp
import traitlets

from analytic.expressions import symbols
from analytic.expressions.arguments import InputError, exact

TINY = Fraction(1, 10**100)  # floats would soon over- or underflow
LABEL = "10.5em"  # wide enough for a letter and what it means


def _symbol(name: str) -> sp.Symbol | None:
    return getattr(symbols, name) if name in symbols.MEANING else None


def check_parameter(name: str, value: Any) -> None:
    """Refuse a slider parameter outside its domain; names that no symbol has are let pass.

    >>> check_parameter("sigma", 0.5)
    >>> check_parameter("rho", 1.5)
    Traceback (most recent call last):
    ...
    analytic.expressions.arguments.InputError: rho = 1.5 was given, but rho must be a number from -1 to 1.
    """
    symbol = _symbol(name)
    if symbol is None or (name == "delta" and _is_infinite(value)):
        return
    number = exact(symbol, value)
    if name == "rho" and abs(number) > 1:
        raise InputError(f"rho = {value} was given, but rho must be a number from -1 to 1.")


def _is_infinite(value: Any) -> bool:
    try:
        return math.isinf(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


class Number(anywidget.AnyWidget):
    """A slider with a field beside it that takes a number as it is typed; drawn by panel.js."""

    _esm = Path(__file__).with_name("panel.js")
    kind = traitlets.Unicode("number").tag(sync=True)
    value = traitlets.Any().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    tip = traitlets.Unicode().tag(sync=True)
    low = traitlets.Float().tag(sync=True)
    high = traitlets.Float().tag(sync=True)
    step = traitlets.Float().tag(sync=True)  # of powers of ten where `log`
    log = traitlets.Bool().tag(sync=True)
    whole = traitlets.Bool().tag(sync=True)
    playable = traitlets.Bool().tag(sync=True)
    moving = traitlets.Bool().tag(sync=True)  # in the midst of a drag
    refusal = traitlets.Unicode()  # of what was typed last

    def __init__(self, control: Slider | LogSlider, **traits: Any) -> None:
        self._accept = control.accept
        self._range = (traits["low"], traits["high"])
        super().__init__(
            label=control.title, tip=_tooltip(control), value=control.start, whole=control.whole,
            playable=control.play, **traits,
        )  # fmt: skip
        self.on_msg(self._on_message)

    def _on_message(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if "typed" in content:
            self.type(content["typed"])

    def type(self, text: str) -> None:
        """What a person typed: taken as it is, or refused with the reason and the old value shown again."""
        try:
            self.refusal, self.value = "", self._accept(text.strip())
        except InputError as refusal:
            self.refusal = str(refusal)
        self.send({"shown": self.value})  # the field may show something else

    def narrow(self) -> None:
        """The range as it was before numbers beyond it were typed."""
        self.low, self.high = self._range

    @traitlets.validate("value")
    def _check(self, proposal: dict[str, Any]) -> float:
        value = self._accept(proposal["value"])
        self.low, self.high = min(self.low, value), max(self.high, value)
        return value


@dataclass(frozen=True)
class Slider:
    """A number that a person may move.

    Its domain is that of the symbol of this name, cut to `least` and `most` where a panel would take
    too long beyond; a typed number may leave the range from `low` to `high`, but not the domain.
    """

    name: str
    label: str  # a letter
    low: float
    high: float
    step: float
    start: float
    words: str = ""  # what the letter means
    above: float = -math.inf  # the number itself is not taken
    least: float = -math.inf
    most: float = math.inf
    play: bool = False  # a button that lets it run

    @property
    def whole(self) -> bool:
        return isinstance(self.start, int)

    @property
    def title(self) -> str:
        return _title(self.label, self.words)

    def accept(self, value: Any) -> float:
        """The number, if it is in the domain."""
        return _accept(self, value)

    def widget(self) -> Number:
        return Number(self, low=self.low, high=self.high, step=self.step)

    def stops(self, most: int = 9) -> list[Any]:
        """Evenly spaced values with the start among them, for frames."""
        low, high = min(self.low, self.start), max(self.high, self.start)
        count = round((high - low) / self.step)
        ticks = [low + self.step * round(k * count / (most - 1)) for k in range(most)]
        rounded = {round(tick, 10) for tick in ticks} | {self.start}
        return sorted(int(v) if self.whole else float(v) for v in rounded)


@dataclass(frozen=True)
class LogSlider:
    """A positive number that moves by factors."""

    name: str
    label: str  # a letter
    low: int  # powers of ten
    high: int
    start: float
    words: str = ""
    above: float = 0.0
    least: float = -math.inf
    most: float = math.inf
    play: bool = False

    @property
    def whole(self) -> bool:
        symbol = _symbol(self.name)
        return symbol is not None and bool(symbol.is_integer)

    @property
    def title(self) -> str:
        return _title(self.label, self.words)

    def accept(self, value: Any) -> float:
        """The number, if it is in the domain."""
        return _accept(self, value)

    def widget(self) -> Number:
        return Number(self, low=10.0**self.low, high=10.0**self.high, step=0.25, log=True)

    def stops(self) -> list[float]:
        """Powers of ten and the start, for frames."""
        return sorted({10.0**k for k in range(self.low, self.high + 1)} | {self.start})


def _title(label: str, words: str) -> str:
    return f"{label}, {words}" if words else label


def _tooltip(control: Slider | LogSlider) -> str:
    """What the letter means, and which numbers may be typed."""
    symbol = _symbol(control.name)
    meaning = control.words or (symbols.MEANING[symbol.name] if symbol else control.name)
    return f"{meaning}: {_need(control)}; drag, press arrow keys, or type a number"


def _need(control: Slider | LogSlider) -> str:
    """The domain in words."""
    symbol = _symbol(control.name)
    above, least, most = control.above, control.least, control.most
    if symbol is not None and symbol.is_positive:
        above, least = (above, max(least, 1)) if symbol.is_integer else (max(above, 0), least)
    elif symbol is not None and symbol.is_nonnegative:
        least = max(least, 0)
    if control.name == "rho":
        least, most = max(least, -1), min(most, 1)
    parts = [
        f"above {above:g}" if above >= least and above > -math.inf else "",
        f"at least {least:g}" if least > above else "",
        f"at most {most:g}" if most < math.inf else "",
    ]
    kind = "a whole number" if control.whole else "a number"
    return f"{kind} {' and '.join(filter(None, parts))}".strip()


def _accept(control: Slider | LogSlider, value: Any) -> float:
    name = control.name
    check_parameter(name, value)
    number = exact(_symbol(name) or sp.Symbol(name, real=True), value)
    if number and not TINY <= abs(number) <= 1 / TINY:
        raise InputError(
            f"{name} = {value} was given, but a panel draws {name} of a size from 1e-100 to 1e100."
        )
    inside = control.above < number and control.least <= number <= control.most
    if not inside or (control.whole and number.denominator != 1):
        raise InputError(f"{name} = {value} was given, but {name} must be {_need(control)} here.")
    return int(number) if control.whole else float(number)


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    name: str
    label: str
    options: tuple[str, ...]
    start: str

    @property
    def title(self) -> str:
        return self.label

    def accept(self, value: Any) -> str:
        """The option, if it is one."""
        if value not in self.options:
            known = ", ".join(self.options)
            raise InputError(
                f"{self.name} = {value!r} was given, but {self.name} must be one of {known}."
            )
        return value

    def widget(self) -> W.Widget:
        return W.Dropdown(
            options=self.options,
            value=self.start,
            description=self.label,
            tooltip=f"{self.label}: one of {len(self.options)}",
            style={"description_width": LABEL},
            layout=W.Layout(width="auto", max_width="440px"),
        )

    def stops(self) -> list[str]:
        return list(self.options)


@dataclass(frozen=True)
class Scale:
    """One of several numbers in order, which need not be evenly spaced, nor finite."""

    name: str
    label: str  # a letter
    values: tuple[float, ...]
    start: float
    words: str = ""

    @property
    def title(self) -> str:
        return _title(self.label, self.words)

    def accept(self, value: Any) -> float:
        """The number, if it is one of those that there are."""
        check_parameter(self.name, value)
        if float(value) not in self.values:
            known = ", ".join(f"{one:g}" for one in self.values)
            raise InputError(
                f"{self.name} = {value} was given, but {self.name} must be one of {known} here."
            )
        return float(value)

    def widget(self) -> W.Widget:
        return W.SelectionSlider(
            options=[(f"{value:g}".replace("inf", "∞"), value) for value in self.values],
            value=self.start,
            description=self.title,
            tooltip=f"{self.title}: {len(self.values)} values",
            style={"description_width": LABEL},
            layout=W.Layout(width="auto", max_width="440px"),
        )

    def stops(self) -> list[float]:
        return list(self.values)


Control = Slider | LogSlider | Choice | Scale


def starting_at(control: Control, value: Any) -> Control:
    """The control with another start, which is refused outside its domain."""
    return replace(control, start=control.accept(value))


# The sliders of the suite: the same letter has the same range, start and label in every notebook.
# Far beyond their ranges floats over- or underflow in powers and exponentials, hence `least` and `most`.
sigma = Slider("sigma", "σ", 0.1, 3.0, 0.1, 1.0, "weight std", least=1e-3, most=1e3)  # noqa: RUF001
zeta = Slider("zeta", "ζ", 0.0, 3.0, 0.1, 1.0, "bias std", most=1e3)
xi = Slider("xi", "ξ", 0.0, 3.0, 0.1, 1.0, "readout std", most=1e3)
degree = Slider("q", "q", 1, 10, 1, 2, "degree", most=100)
dimension = Slider("d", "d", 1, 20, 1, 2, "input dimension", most=1_000_000)
