"""Play cells of notebooks, run alone: the panels that they show."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from notebooks.panels import Caption, Control, Look, Panel, open_panel
from notebooks.panels.controls import Choice, Slider
from notebooks.panels.picture import Canvas
from notebooks.report import anatomy
from notebooks.running import runner

SOURCES = [path for path in runner.find(()) if not path.stem.startswith("00")]


@dataclass(frozen=True)
class Twin:
    """A panel that is not drawn before it is asked for its numbers."""

    compute: Callable[..., Any]
    look: Look

    @property
    def controls(self) -> tuple[Control, ...]:
        return self.look.controls

    def caption(self, **values: Any) -> Caption:
        canvas = Canvas(self.look.titles, 0, 1.0, dark=False)
        return self.look.draw(canvas.axes, self.compute(**values))


def twins(source: runner.Source) -> list[Twin]:
    """Of the panels that the cell shows."""
    return played(source, open_panel=lambda compute, look, _: Twin(compute, look))


def played(source: runner.Source, open_panel: Any = open_panel, **values: Any) -> list[Any]:
    """What the cell shows; `values` are what cells before it would have set."""
    shown: list[Any] = []
    (cell,) = anatomy.tagged(source.node, "play")
    *first, last = ast.parse(cell["source"]).body
    space = dict(values)
    exec(compile(ast.Module(first, []), source.name, "exec"), space)
    space["open_panel"] = open_panel
    space["display"] = lambda *some: shown.extend(some)  # not IPython's
    shown.append(eval(compile(ast.Expression(last.value), source.name, "eval"), space))
    return [panel for panel in shown if panel is not None]


def movable(panel: Panel | Twin) -> list[Slider | Choice]:
    """Controls that a parameter can start."""
    return [one for one in panel.controls if isinstance(one, Slider | Choice)]
