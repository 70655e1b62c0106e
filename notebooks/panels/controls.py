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


def _to_page(value: float, _: Any = None) -> float | str:
    """As JSON, which has no infinite numbers."""
    return str(float(value)) if math.isinf(value) else value


class Number(anywidget.AnyWidget):
    """A slider with a field beside it that takes a number as it is typed; drawn by panel.js."""

    _esm = Path(__file__).with_name("panel.js")
    kind = traitlets.Unicode("number").tag(sync=True)
    value = traitlets.Any().tag(sync=True, to_json=_to_page)
    label = traitlets.Unicode().tag(sync=True)
    tip = traitlets.Unicode().tag(sync=True)
    low = traitlets.Float().tag(sync=True)
    high = traitlets.Float().tag(sync=True)
    step = traitlets.Float().tag(sync=True)  # of powers of ten where `log`
    log = traitlets.Bool().tag(sync=True)
    ticks = traitlets.List().tag(sync=True)  # where the slider stops, if not by steps
    whole = traitlets.Bool().tag(sync=True)
    playable = traitlets.Bool().tag(sync=True)
    moving = traitlets.Bool().tag(sync=True)  # in the midst of a drag
    typed = traitlets.List().tag(
        sync=True
    )  # text, and the how-manieth: so it never overtakes a drag
    refusal = traitlets.Unicode()  # of what was typed last

    def __init__(self, control: Slider) -> None:
        self._accept = control.accept
        self._range = ends = () if control.ticks else (control.low, control.high)
        super().__init__(
            label=control.title, tip=_tooltip(control), value=control.start, whole=control.whole,
            playable=control.play, step=control.step, log=control.log,
            ticks=[_to_page(tick) for tick in control.ticks],
            **dict(zip(("low", "high"), ends, strict=False)),
        )  # fmt: skip
        self.observe(lambda change: self.type(change["new"][0]), "typed")

    def type(self, text: str) -> None:
        """What a person typed: taken as it is, or refused with the reason and the old value shown again."""
        try:
            self.refusal, self.value = "", self._accept(text.strip().replace("∞", "inf"))
        except InputError as refusal:
            self.refusal = str(refusal)
        self.send({"shown": _to_page(self.value)})  # the field may show something else

    def narrow(self) -> None:
        """The range as it was before numbers beyond it were typed."""
        if self._range:
            self.low, self.high = self._range

    @traitlets.validate("value")
    def _check(self, proposal: dict[str, Any]) -> float:
        value = self._accept(proposal["value"])
        if self._range:
            self.low, self.high = min(self.low, value), max(self.high, value)
        return value


@dataclass(frozen=True)
class Slider:
    """A number that a person may move; `log_slider` and `tick_slider` make those that do not move evenly.

    Its domain is that of the symbol of this name, cut to `least` and `most` where a panel would take
    too long beyond; a typed number may leave the range from `low` to `high`, but not the domain.
    """

    name: str
    label: str  # a letter
    low: float
    high: float
    step: float  # between ticks, if there are any, 1
    start: float
    words: str = ""  # what the letter means
    above: float = -math.inf  # the number itself is not taken
    least: float = -math.inf
    most: float = math.inf
    play: bool = False  # a button that lets it run
    log: bool = False  # steps are of powers of ten
    ticks: tuple[float, ...] = ()  # where it stops, if not by steps; the ends may be infinite

    @property
    def whole(self) -> bool:
        return isinstance(self.start, int)

    @property
    def title(self) -> str:
        return f"{self.label}, {self.words}" if self.words else self.label

    def accept(self, value: Any) -> float:
        """The number, if it is in the domain."""
        name = self.name
        check_parameter(name, value)
        if _is_infinite(value) and float(value) in self.ticks:
            return float(value)
        number = exact(_symbol(name) or sp.Symbol(name, real=True), value)
        if number and not TINY <= abs(number) <= 1 / TINY:
            raise InputError(
                f"{name} = {value} was given, but a panel draws {name} of a size from 1e-100 to 1e100."
            )
        inside = self.above < number and self.least <= number <= self.most
        if not inside or (self.whole and number.denominator != 1):
            raise InputError(f"{name} = {value} was given, but {name} must be {_need(self)} here.")
        return int(number) if self.whole else float(number)

    def widget(self) -> Number:
        return Number(self)

    def stops(self, most: int = 9) -> list[Any]:
        """For frames: evenly spaced values, powers of ten or ticks, with the start among them."""
        if self.ticks:
            return sorted({*self.ticks, self.start})
        if self.log:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return sorted({type(self.start)(10.0**k) for k in powers} | {self.start})
        low, high = min(self.low, self.start), max(self.high, self.start)
        count = round((high - low) / self.step)
        ticks = [low + self.step * round(k * count / (most - 1)) for k in range(most)]
        rounded = {round(tick, 10) for tick in ticks} | {self.start}
        return sorted(int(v) if self.whole else float(v) for v in rounded)


def log_slider(
    name: str, label: str, low: int, high: int, start: float, words: str = "", play: bool = False
) -> Slider:
    """A positive number that moves by factors, from 10^low to 10^high."""
    ends = (type(start)(10.0**low), type(start)(10.0**high))
    return Slider(name, label, *ends, 0.25, start, words, above=0.0, play=play, log=True)


def tick_slider(
    name: str, label: str, ticks: tuple[float, ...], start: float, words: str = ""
) -> Slider:
    """A number that moves along ticks, evenly spaced or not, with ends that may be infinite."""
    return Slider(name, label, ticks[0], ticks[-1], 1.0, start, words, ticks=ticks)


def _tooltip(control: Slider) -> str:
    """What the letter means, and which numbers may be typed."""
    symbol = _symbol(control.name)
    meaning = control.words or (symbols.MEANING[symbol.name] if symbol else control.name)
    return f"{meaning}: {_need(control)}; drag, press arrow keys, or type a number"


def _need(control: Slider) -> str:
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
        f"at least {least:.10g}" if least > above else "",
        f"at most {most:.10g}" if most < math.inf else "",
    ]
    kind = "a whole number" if control.whole else "a number"
    endless = ", inf or -inf" if any(map(math.isinf, control.ticks)) else ""
    return f"{kind} {' and '.join(filter(None, parts))}".strip() + endless


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


Control = Slider | Choice


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
