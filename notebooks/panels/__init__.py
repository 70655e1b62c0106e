"""Panels: controls that redraw one figure, live in JupyterLab or as frames where no kernel runs."""

from notebooks.panels.controls import (
    Choice,
    Control,
    LogSlider,
    Scale,
    Slider,
    check_parameter,
    degree,
    dimension,
    sigma,
    xi,
    zeta,
)
from notebooks.panels.panel import FRAMES, Caption, Look, Panel, open_panel
from notebooks.panels.picture import RADIUS, curve, freeze

__all__ = [
    "FRAMES",
    "RADIUS",
    "Caption",
    "Choice",
    "Control",
    "LogSlider",
    "Look",
    "Panel",
    "Scale",
    "Slider",
    "check_parameter",
    "curve",
    "degree",
    "dimension",
    "freeze",
    "open_panel",
    "sigma",
    "xi",
    "zeta",
]
