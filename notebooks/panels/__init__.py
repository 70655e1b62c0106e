"""Panels: controls that redraw one figure, live in JupyterLab or as frames where no kernel runs."""

from notebooks.panels.controls import (
    Choice,
    Control,
    Slider,
    check_parameter,
    degree,
    dimension,
    log_slider,
    sigma,
    tick_slider,
    xi,
    zeta,
)
from notebooks.panels.panel import FRAMES, Caption, DraggedPoint, Look, Panel, open_panel
from notebooks.panels.picture import RADIUS, curve, freeze, wipe

__all__ = [
    "FRAMES",
    "RADIUS",
    "Caption",
    "Choice",
    "Control",
    "DraggedPoint",
    "Look",
    "Panel",
    "Slider",
    "check_parameter",
    "curve",
    "degree",
    "dimension",
    "freeze",
    "log_slider",
    "open_panel",
    "sigma",
    "tick_slider",
    "wipe",
    "xi",
    "zeta",
]
