"""Controls that a person may move, for panels and for frames where no kernel runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ipywidgets as W


@dataclass(frozen=True)
class Slider:
    """A number that a person may move."""

    name: str
    label: str  # LaTeX
    low: float
    high: float
    step: float
    start: float

    def widget(self) -> W.Widget:
        whole = isinstance(self.start, int)
        kind, text = (W.IntSlider, "d") if whole else (W.FloatSlider, ".2f")
        return kind(
            value=self.start,
            min=self.low,
            max=self.high,
            step=self.step,
            description=f"${self.label}$",
            readout_format=text,
            continuous_update=True,
            style={"description_width": "3em"},
        )

    def stops(self, most: int = 9) -> list[Any]:
        """Evenly spaced values with the start among them, for frames."""
        count = round((self.high - self.low) / self.step)
        ticks = [self.low + self.step * round(k * count / (most - 1)) for k in range(most)]
        rounded = {round(tick, 10) for tick in ticks} | {self.start}
        return sorted(int(v) if isinstance(self.start, int) else float(v) for v in rounded)


@dataclass(frozen=True)
class LogSlider:
    """A positive number that moves by factors."""

    name: str
    label: str  # LaTeX
    low: int  # powers of ten
    high: int
    start: float

    def widget(self) -> W.Widget:
        return W.FloatLogSlider(
            value=self.start, min=self.low, max=self.high, step=0.25, description=f"${self.label}$",
            readout_format=".1e", style={"description_width": "3em"},
        )  # fmt: skip

    def stops(self) -> list[float]:
        """Powers of ten and the start, for frames."""
        return sorted({10.0**k for k in range(self.low, self.high + 1)} | {self.start})


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    name: str
    label: str
    options: tuple[str, ...]
    start: str

    def widget(self) -> W.Widget:
        return W.Dropdown(
            options=self.options,
            value=self.start,
            description=self.label,
            style={"description_width": "5em"},
        )

    def stops(self) -> list[str]:
        return list(self.options)


@dataclass(frozen=True)
class Scale:
    """One of several numbers in order, which need not be evenly spaced, nor finite."""

    name: str
    label: str  # LaTeX
    values: tuple[float, ...]
    start: float

    def widget(self) -> W.Widget:
        return W.SelectionSlider(
            options=[(f"{value:g}".replace("inf", "∞"), value) for value in self.values],
            value=self.start,
            description=f"${self.label}$",
            style={"description_width": "3em"},
        )

    def stops(self) -> list[float]:
        return list(self.values)


Control = Slider | LogSlider | Choice | Scale

# The sliders of the suite: the same letter has the same range, start and label in every notebook.
sigma = Slider("sigma", r"\sigma", 0.1, 3.0, 0.1, 1.0)
zeta = Slider("zeta", r"\zeta", 0.0, 3.0, 0.1, 1.0)
xi = Slider("xi", r"\xi", 0.0, 3.0, 0.1, 1.0)
degree = Slider("q", "q", 1, 10, 1, 2)
dimension = Slider("d", "d", 1, 20, 1, 2)
