"""Play cells of notebooks, run alone: the panels that they show."""

import ast
from typing import Any

from notebooks.panels import Panel
from notebooks.panels.controls import Choice, Slider
from notebooks.report import anatomy
from notebooks.running import runner

SOURCES = [path for path in runner.find(()) if not path.stem.startswith("00")]


def played(source: runner.Source, **values: Any) -> list[Panel]:
    """What the cell shows; `values` are what cells before it would have set."""
    shown: list[Any] = []
    (cell,) = anatomy.tagged(source.node, "play")
    *first, last = ast.parse(cell["source"]).body
    space = dict(values)
    exec(compile(ast.Module(first, []), source.name, "exec"), space)
    space["display"] = lambda *some: shown.extend(some)  # not IPython's
    shown.append(eval(compile(ast.Expression(last.value), source.name, "eval"), space))
    return [panel for panel in shown if panel is not None]


def movable(panel: Panel) -> list[Slider | Choice]:
    """Controls that a parameter can start."""
    return [one for one in panel.controls if isinstance(one, Slider | Choice)]
