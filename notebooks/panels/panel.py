"""Sliders that redraw one figure: live in JupyterLab, precomputed frames where no kernel runs."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any

import ipywidgets as W
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analytic.expressions.arguments import InputError
from notebooks.panels.controls import Choice, Control, Number, starting_at
from notebooks.panels.pad import Pad
from notebooks.panels.picture import Canvas, Picture
from notebooks.panels.worker import Worker
from notebooks.report import mathml
from notebooks.running.numbers import MIME, of_panel

FRAMES = "KERNEL_GEOMETRY_FRAMES"  # set by the runner: every k-th stop as a frame, no live widgets
DRAGGED_DIGITS = 2  # after the point, of coordinates that a person drags
COLUMNS = "repeat(auto-fill, minmax(min(290px, 100%), 1fr))"  # of controls, as many as fit
Values = Mapping[str, Any]
# A page may change its width while a worker draws, and Matplotlib's settings, colours among them, are those
# of the whole process: of all panels one draws at a time.
DRAWING = threading.RLock()


@dataclass(frozen=True)
class Caption:
    """What stands above the figure: a formula in LaTeX and one line of numbers."""

    formula: str
    numbers: str


def always(name: str, values: Values) -> bool:
    """Every control matters, whatever the others are."""
    return True


@dataclass(frozen=True)
class DraggedPoint:
    """A point of the picture that a person may drag: on which axes, and the sliders of its coordinates."""

    axes: int
    x: str
    y: str


@dataclass(frozen=True)
class Look:
    """How a panel looks: what draws it, its controls, a title for each axes, and which controls matter.

    `draw(axes, arrays)` moves curves to the arrays and returns the caption; a control is hidden where
    `relevant(name, values)` is false. What is `heavy` is computed beside the kernel and can be stopped.
    """

    draw: Callable[[Sequence[Axes], Any], Caption]
    controls: tuple[Control, ...]
    titles: tuple[str, ...]
    relevant: Callable[[str, Values], bool] = always
    heavy: bool = False
    point: DraggedPoint | None = None


def open_panel(compute: Callable[..., Any], look: Look, values: Values) -> Panel:
    """A panel whose controls start at those numbers and texts in `values` that are named like one.

    `values` may be a notebook's `globals()`: other names, and arrays or modules under a control's name, are
    passed over; a number outside a control's domain is refused.
    """
    known = (int, float, str, Real, Fraction)
    controls = tuple(
        starting_at(control, values[control.name])
        if hasattr(control, "accept") and isinstance(values.get(control.name), known)
        else control
        for control in look.controls
    )
    return Panel(compute, replace(look, controls=controls))


class Panel:
    """Axes side by side under controls; `compute(**values)` turns their values into named arrays."""

    def __init__(self, compute: Callable[..., Any], look: Look) -> None:
        self._compute, self._look, self._controls = compute, look, look.controls
        self.widgets = {control.name: control.widget() for control in self._controls}
        drag = {"drag_axes": look.point.axes} if look.point else {}
        layout = W.Layout(flex="1 1 380px", min_width="0")
        self.picture = Picture(heavy=look.heavy, layout=layout, **drag)
        self._formula = W.HTMLMath(layout=W.Layout(overflow="auto hidden"))
        self._numbers = W.HTML()
        for widget in self.widgets.values():
            widget.observe(self._on_value, "value")
            if isinstance(widget, Number):
                widget.observe(lambda change: self._say(change["new"]), "refusal")
        columns = W.Layout(grid_template_columns=COLUMNS, align_items="center", grid_gap="0 12px")
        widgets = list(self.widgets.values())
        pads = [widget for widget in widgets if isinstance(widget, Pad)]  # beside the picture
        sliders = W.GridBox([one for one in widgets if one not in pads], layout=columns)
        below = W.Box([*pads, self.picture], layout=W.Layout(flex_flow="row wrap"))
        self.view = W.VBox([sliders, self._formula, self._numbers, below])
        self.view.add_class("panel")
        self.picture.observe(self._on_page, ["dark", "density", "width"])
        self.picture.observe(self._on_look, ["ghost", "locked", "logarithmic"])
        self.picture.on_msg(self._on_message)
        self._quiet = False
        self._worker: Worker | None = None  # once it is shown live, if heavy
        self._shown: tuple[Values, Any] | None = None  # the last values that gave arrays, and these
        self._ghost: list[Any] = []
        self._fresh = True  # no ghost of what was before
        self._amid_drag = False
        self._canvas = self._new_canvas()
        self.redraw()

    def _new_canvas(self) -> Canvas:
        page = self.picture
        with DRAWING:
            return Canvas(self._look.titles, page.width, page.density, page.dark)

    @property
    def figure(self) -> Figure:
        return self._canvas.figure

    @property
    def numbers(self) -> str:
        """The line of numbers that is shown, as plain text."""
        return html.unescape(re.sub("<.*?>", "", self._numbers.value))

    @property
    def message(self) -> str:
        """Why the last setting was refused; empty if it was not."""
        return self.picture.message

    @property
    def look(self) -> Look:
        return self._look

    @property
    def controls(self) -> tuple[Control, ...]:
        return self._controls

    @property
    def values(self) -> dict[str, Any]:
        return {name: widget.value for name, widget in self.widgets.items()}

    def as_python(self) -> str:
        """The call that computes what is shown, or the values alone where the function has no name."""
        setting = ", ".join(f"{name}={_literal(value)}" for name, value in self.values.items())
        function = self._compute
        module = getattr(function, "__module__", "") or ""
        name = getattr(function, "__qualname__", "")
        if isinstance(function, partial) or not name.isidentifier() or "." not in module:
            return f"dict({setting})"
        package, _, short = module.rpartition(".")
        return f"from {package} import {short}\n\n{short}.{name}({setting})"

    def as_parameters(self) -> str:
        """The numbers and names that matter as options of `python -m notebooks run`."""
        values = self.values
        pairs = [
            f"{name}={value}"
            for name, value in values.items()
            if isinstance(value, Real | str) and self._look.relevant(name, values)
        ]
        return " ".join(f"-p {shlex.quote(pair)}" for pair in pairs)

    def left_out(self) -> str:
        """What no option gives: points and arrows that a person drags."""
        values = self.values
        drawn = [
            control.label
            for control in self._controls
            if isinstance(self.widgets[control.name], Pad)
            and self._look.relevant(control.name, values)
        ]
        return f"-p has no {' and no '.join(drawn)}: copy as Python for these." if drawn else ""

    def reset(self) -> None:
        """Every control back to where it started, and no ghosts."""
        self._fresh = True
        self.move(**{control.name: control.start for control in self._controls})
        for widget in self.widgets.values():
            if isinstance(widget, Number):
                widget.refusal = ""
                widget.narrow()

    def move(self, *, amid_drag: bool = False, **values: Any) -> None:
        """Controls to new values, with one redraw."""
        self._quiet = True
        try:
            for name, value in values.items():
                self.widgets[name].value = value
        finally:
            self._quiet, self._amid_drag = False, amid_drag
        self.redraw()
        if self._worker:
            self._worker.wait()

    def _on_value(self, change: dict[str, Any]) -> None:
        self._amid_drag = getattr(change["owner"], "moving", False)
        self.redraw()

    def redraw(self) -> None:
        if self._quiet:
            return
        values = self.values
        for name, widget in self.widgets.items():
            widget.layout.display = None if self._look.relevant(name, values) else "none"
        if self._worker:
            self.picture.busy = True
            self._worker.ask(values)
        else:
            self._finish(values, self._try(values))
            self._tell_films(drawn=True)

    def _tell_films(self, **word: bool) -> None:
        """To sliders that run: the picture is drawn, so that they may go on, or they are to stop."""
        for widget in self.widgets.values():
            if isinstance(widget, Number) and widget.playable:
                widget.send(word)

    def _try(self, values: Values) -> Any:
        """The arrays, or the reason why there are none."""
        try:
            return self._compute(**values)
        except InputError as refusal:
            return refusal

    def _finish(self, values: Values, arrays: Any) -> None:
        """Shows what was computed; the picture before stays as a ghost, but not amid a drag."""
        if isinstance(arrays, InputError):
            return self._say(f"{arrays} The picture shows the setting before.")
        with DRAWING:
            if self._fresh:
                self._ghost = []
            elif not self._amid_drag:
                self._ghost = self._canvas.curves()
            self._fresh = False
            self._shown = values, arrays
            self._show(values, arrays)
            self._say("")

    def _show(self, values: Values, arrays: Any) -> None:
        page, canvas = self.picture, self._canvas
        caption = self._draw(canvas, arrays)
        canvas.settle(page.logarithmic)
        canvas.show_ghosts(self._ghost if page.ghost else [])
        with page.hold_sync():
            page.value, page.axes = canvas.png(), canvas.coordinates()
            page.shown_width, page.can_log = canvas.width, canvas.can_log
            page.alt = self._describe(values, caption)
            page.python, page.parameters = self.as_python(), self.as_parameters()
            page.left_out = self.left_out()
        # Words last: who reads them can rely on the picture.
        self._formula.value = f"$\\displaystyle {caption.formula}$"
        style = 'class="panel-numbers" style="line-height: 1.4"'
        self._numbers.value = f"<code {style}>{html.escape(caption.numbers)}</code>"

    def _draw(self, canvas: Canvas, arrays: Any) -> Caption:
        with canvas.colours():
            return self._look.draw(canvas.axes, arrays)

    def _describe(self, values: Values, caption: Caption) -> str:
        """The picture in words."""
        titles = " and ".join(_plain(title) for title in self._look.titles)
        matter = {n: v for n, v in values.items() if self._look.relevant(n, values)}
        return f"{titles} for {_setting(matter)}: {caption.numbers}"

    def _say(self, message: str) -> None:
        self.picture.message = message

    def _on_look(self, _: dict[str, Any]) -> None:
        """The same arrays with other ghosts, limits or scale."""
        with DRAWING:
            if self._shown is None:
                return
            if self.picture.locked != self._canvas.locked:
                self._canvas.lock(self.picture.locked)
            self._show(*self._shown)

    def _on_page(self, _: dict[str, Any]) -> None:
        """The same arrays on a page of another width, theme or density."""
        with DRAWING:
            old, self._canvas = self._canvas, self._new_canvas()
            self._ghost = [
                (self._canvas.axes[old.axes.index(axes)], colour, data)
                for axes, colour, data in self._ghost
            ]
            if self._shown is not None:
                self._show(*self._shown)
                if old.locked:
                    self._canvas.lock(True, old)
                    self._show(*self._shown)

    def _on_message(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if "reset" in content:
            self.reset()
        if "stop" in content and self._worker:
            self._tell_films(stopped=True)
            if self._worker.stop():  # else the result has come already
                self._say("Stopped: the picture shows the setting before.")
        if "point" in content and self._look.point:
            self.drag(content["point"], bool(content.get("moving")))
            self.picture.send({"drawn": True})  # the page may send the next place

    def drag(self, place: Sequence[float], moving: bool = False) -> None:
        """The point of the picture to a place, or to the nearest one that its sliders reach."""
        point = self._look.point
        if point is None:
            raise InputError("This picture has no point to drag.")
        controls = {control.name: control for control in self._controls}
        values = {
            name: min(max(round(float(v), DRAGGED_DIGITS), controls[name].low), controls[name].high)
            for name, v in zip((point.x, point.y), place, strict=True)
        }
        if any(self.widgets[name].value != value for name, value in values.items()):
            self.move(amid_drag=moving, **values)

    def frames(self, every: int = 1) -> str:
        """A self-contained page fragment: one control moves at a time, the others stay at their start."""
        start = {control.name: control.start for control in self._controls}
        begin = self._frame(start)  # drawn once, since every control has it
        pictures: dict[str, list[dict[str, str]]] = {}
        rows = []
        for control in self._controls:
            if not self._look.relevant(control.name, start):
                continue
            stops = [
                stop
                for k, stop in enumerate(control.stops(), 1)
                if k % every == 0 or stop == control.start
            ]
            pictures[control.name] = [
                {"label": _letters(f"{control.title} = {_short(stop)}")}
                | (begin if stop == control.start else self._frame(start | {control.name: stop}))
                for stop in stops
            ]
            rows.append(_row(control, stops))
        first = next(name for name in ("sigma", *pictures) if name in pictures)
        body = _TEMPLATE.replace("ROWS", "".join(rows)).replace("FIRST", json.dumps(first))
        return body.replace("FRAMES", json.dumps(pictures))

    def _frame(self, values: Values) -> dict[str, str]:
        canvas = self._canvas
        canvas.show_ghosts([])
        caption = self._draw(canvas, self._compute(**values))
        return {
            "formula": mathml.display(caption.formula),
            "numbers": caption.numbers,
            "alt": self._describe(values, caption),
            "picture": base64.b64encode(canvas.png()).decode(),
        }

    def _ipython_display_(self) -> None:
        if every := int(os.environ.get(FRAMES, "0")):  # a run: its record tells what Play shows
            page = self.frames(every)
            display({"text/html": page, MIME: of_panel(self.numbers)}, raw=True)
            return
        if self._look.heavy and self._worker is None:
            self._worker = Worker(self._try, self._finish, self._rest)
        display(self.view)

    def _rest(self) -> None:
        self.picture.busy = False
        self._tell_films(drawn=True)


def _plain(title: str) -> str:
    """A title without LaTeX, for those who listen."""
    text = title.replace(r"\sqrt{\det g}", "sqrt(det g)").replace(r"\log_{10}", "log10 of ")
    text = re.sub(r"\\(?:mathrm|text)|[${}]", "", text)
    return re.sub(r"\\(\w+)", r"\1", text).replace(r"\|", "|").strip()


def _setting(values: Values) -> str:
    return ", ".join(
        f"{name} = {_short(value)}"
        for name, value in values.items()
        if isinstance(value, Real | str)
    )


def _literal(value: Any) -> str:
    """As Python reads it: an infinite number has no literal of its own."""
    infinite = isinstance(value, float) and math.isinf(value)
    return f"float('{value}')" if infinite else repr(value)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, Real) else str(value)


def _letters(title: str) -> str:
    """As HTML, with an index below its letter."""
    return re.sub(r"_(\w)", r"<sub>\1</sub>", html.escape(title))


def _row(control: Control, stops: Sequence[Any]) -> str:
    """A choice is a menu; what has an order is a slider that shows its value."""
    at, name, title = (
        stops.index(control.start),
        html.escape(control.name),
        html.escape(control.title),
    )
    own = f'data-start="{at}" data-name="{name}" aria-label="{title}"'
    texts = [html.escape(_short(stop)) for stop in stops]
    if isinstance(control, Choice):
        options = "".join(
            f'<option value="{k}"{" selected" if k == at else ""}>{text}</option>'
            for k, text in enumerate(texts)
        )
        control_html = f"<select {own}>{options}</select>"
    else:
        shown = html.escape(json.dumps([_short(stop) for stop in stops]))
        control_html = (
            f'<input type="range" min="0" max="{len(stops) - 1}" value="{at}" {own} data-texts="{shown}">'
            f" <output>{texts[at]}</output>"
        )
    label = f'<span style="display:inline-block;min-width:13em">{_letters(control.title)}</span>'
    return f'<label style="display:block">{label} {control_html}</label>'


_TEMPLATE = """<div class="panel-frames">
<div>ROWS</div>
<div class="panel-formula"></div>
<p><code class="panel-numbers"></code></p>
<div class="panel-scroll" style="overflow-x:auto"><img style="max-width:max(100%, 42em)" alt=""></div>
<p class="panel-hint" hidden><small>→ The picture goes on to the right: scroll it sideways.</small></p>
<p><small>One setting moves at a time here; the notebook itself moves them all.</small></p>
<script>(() => {
  const frames = FRAMES, root = document.currentScript.closest(".panel-frames");
  const inputs = [...root.querySelectorAll("input, select")];
  const scroll = root.querySelector(".panel-scroll"), hint = root.querySelector(".panel-hint");
  const look = () => (hint.hidden = scroll.scrollWidth <= scroll.clientWidth);
  new ResizeObserver(look).observe(scroll);
  root.querySelector("img").addEventListener("load", look);
  const tell = (input) => {
    if (!input.dataset.texts) return;
    const text = JSON.parse(input.dataset.texts)[+input.value];
    input.nextElementSibling.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  const show = (input) => {
    for (const other of inputs) if (other !== input) other.value = other.dataset.start;
    inputs.forEach(tell);
    const frame = frames[input.dataset.name][+input.value], image = root.querySelector("img");
    image.src = "data:image/png;base64," + frame.picture;
    image.alt = frame.alt;
    root.querySelector(".panel-formula").innerHTML = frame.formula;
    const told = root.querySelector(".panel-numbers");
    told.innerHTML = frame.label;
    told.append(": " + frame.numbers);
  };
  for (const input of inputs) input.addEventListener("input", () => show(input));
  show(inputs.find((input) => input.dataset.name === FIRST));
})();</script>
</div>"""
