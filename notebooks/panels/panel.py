"""Sliders that redraw one figure: live in JupyterLab, precomputed frames where no kernel runs."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as W
import numpy as np
from IPython.display import HTML, display
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from notebooks.panels.controls import Control
from notebooks.report import mathml

FRAMES = "KERNEL_GEOMETRY_FRAMES"  # set by the runner: every k-th stop as a frame, no live widgets
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Caption:
    """What stands above the figure: a formula in LaTeX and one line of numbers."""

    formula: str
    numbers: str


def curve(axes: Axes, x: Any, y: Any, **style: Any) -> None:
    """One line that moves: three times faster than clearing the axes and plotting again."""
    if axes.lines:
        axes.lines[0].set_data(x, y)
        axes.relim()
        axes.autoscale_view()
    else:
        axes.plot(x, y, **style)


def freeze(axes: Sequence[Axes]) -> None:
    """Frames, numbers, legends and colour bars become a picture behind the rest: they cost most to draw."""
    figure = axes[0].figure
    figure.canvas.draw()
    still = np.array(figure.canvas.buffer_rgba())
    for where in axes:
        where.set_axis_off()
        where.set_title("", y=1)
        if legend := where.get_legend():
            legend.remove()
    for bar in figure.axes[len(axes) :]:
        bar.set_visible(False)
    figure.figimage(still, zorder=-1)


def always(name: str, values: Values) -> bool:
    """Every control matters, whatever the others are."""
    return True


@dataclass(frozen=True)
class Look:
    """How a panel looks: what draws it, its controls, a title for each axes, and which controls matter.

    `draw(axes, arrays)` moves curves to the arrays and returns the caption; a control is hidden where
    `relevant(name, values)` is false.
    """

    draw: Callable[[Sequence[Axes], Any], Caption]
    controls: tuple[Control, ...]
    titles: tuple[str, ...]
    relevant: Callable[[str, Values], bool] = always


class Panel:
    """Axes side by side under controls; `compute(**values)` turns their values into named arrays."""

    def __init__(self, compute: Callable[..., Any], look: Look) -> None:
        self._compute, self._draw = compute, look.draw
        self._controls, self._relevant, titles = look.controls, look.relevant, look.titles
        self.figure = Figure(figsize=(4.5 * len(titles), 3.4))
        self._canvas = FigureCanvasAgg(self.figure)
        self._axes = self.figure.subplots(1, len(titles), squeeze=False)[0]
        self.figure.subplots_adjust(left=0.08, right=0.98, bottom=0.16, top=0.9)
        for axes, title in zip(self._axes, titles, strict=True):
            axes.set(title=title, xlabel=r"$\|x\|$")
            axes.spines[["top", "right"]].set_visible(False)
        self.widgets = {control.name: control.widget() for control in self._controls}
        self._image = W.Image(format="png", layout=W.Layout(max_width="100%"))
        self._formula = W.HTMLMath()
        self._numbers = W.HTML()
        reset = W.Button(description="reset", icon="undo", layout=W.Layout(width="7em"))
        reset.on_click(lambda _: self.reset())
        for widget in self.widgets.values():
            widget.observe(lambda _: self.redraw(), "value")
        controls_box = W.Box([*self.widgets.values(), reset], layout=W.Layout(flex_flow="row wrap"))
        self.view = W.VBox([controls_box, self._formula, self._numbers, self._image])
        self._quiet = False
        self.redraw()

    @property
    def numbers(self) -> str:
        """The line of numbers that is shown, as plain text."""
        return html.unescape(re.sub("<.*?>", "", self._numbers.value))

    @property
    def values(self) -> dict[str, Any]:
        return {name: widget.value for name, widget in self.widgets.items()}

    def reset(self) -> None:
        """Every control back to where it started."""
        self.move(**{control.name: control.start for control in self._controls})

    def move(self, **values: Any) -> None:
        """Controls to new values, with one redraw."""
        self._quiet = True
        for name, value in values.items():
            self.widgets[name].value = value
        self._quiet = False
        self.redraw()

    def redraw(self) -> None:
        if self._quiet:
            return
        values = self.values
        for name, widget in self.widgets.items():
            widget.layout.display = None if self._relevant(name, values) else "none"
        caption, self._image.value = self._render(values)
        self._formula.value = f"$\\displaystyle {caption.formula}$"
        self._numbers.value = f'<code class="panel-numbers">{html.escape(caption.numbers)}</code>'

    def _render(self, values: Values) -> tuple[Caption, bytes]:
        caption = self._draw(self._axes, self._compute(**values))
        buffer = io.BytesIO()
        self._canvas.print_png(buffer, pil_kwargs={"compress_level": 1})  # faster than smaller
        return caption, buffer.getvalue()

    def frames(self, every: int = 1) -> str:
        """A self-contained page fragment: one control moves at a time, the others stay at their start."""
        start = {control.name: control.start for control in self._controls}
        pictures: dict[str, list[dict[str, str]]] = {}
        rows = []
        for control in self._controls:
            if not self._relevant(control.name, start):
                continue
            stops = [
                stop
                for k, stop in enumerate(control.stops())
                if k % every == 0 or stop == control.start
            ]
            pictures[control.name] = [
                self._frame(start | {control.name: stop}, f"{control.name} = {stop}")
                for stop in stops
            ]
            rows.append(_row(control, stops))
        first = next(name for name in ("sigma", *pictures) if name in pictures)
        body = _TEMPLATE.replace("ROWS", "".join(rows)).replace("FIRST", json.dumps(first))
        return body.replace("FRAMES", json.dumps(pictures))

    def _frame(self, values: Values, label: str) -> dict[str, str]:
        caption, picture = self._render(values)
        return {
            "label": label,
            "formula": mathml.display(caption.formula),
            "numbers": caption.numbers,
            "picture": base64.b64encode(picture).decode(),
        }

    def _ipython_display_(self) -> None:
        every = int(os.environ.get(FRAMES, "0"))
        display(HTML(self.frames(every)) if every else self.view)


def _row(control: Control, stops: Sequence[Any]) -> str:
    at = stops.index(control.start)
    return (
        f'<label style="display:block"><span style="display:inline-block;min-width:6em">'
        f"{html.escape(control.name)}</span>"
        f'<input type="range" min="0" max="{len(stops) - 1}" value="{at}" data-start="{at}" '
        f'data-name="{html.escape(control.name)}"></label>'
    )


_TEMPLATE = """<div class="panel-frames">
<div>ROWS</div>
<div class="panel-formula"></div>
<p><code class="panel-numbers"></code></p>
<img style="max-width:100%" alt="figure for the chosen setting">
<p><small>One setting moves at a time here; the notebook itself moves them all.</small></p>
<script>(() => {
  const frames = FRAMES, root = document.currentScript.closest(".panel-frames");
  const inputs = [...root.querySelectorAll("input")];
  const show = (input) => {
    for (const other of inputs) if (other !== input) other.value = other.dataset.start;
    const frame = frames[input.dataset.name][+input.value];
    root.querySelector("img").src = "data:image/png;base64," + frame.picture;
    root.querySelector(".panel-formula").innerHTML = frame.formula;
    root.querySelector(".panel-numbers").textContent = frame.label + ": " + frame.numbers;
  };
  for (const input of inputs) input.addEventListener("input", () => show(input));
  show(inputs.find((input) => input.dataset.name === FIRST));
})();</script>
</div>"""
