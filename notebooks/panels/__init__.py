"""Panels: controls that redraw one figure, live in JupyterLab or as frames where no kernel runs."""

from notebooks.panels.controls import (
    Choice,
    Control,
    LogSlider,
    Scale,
    Slider,
    degree,
    dimension,
    sigma,
    xi,
    zeta,
)
from notebooks.panels.panel import FRAMES, Caption, Look, Panel, curve, freeze

__all__ = [
    "FRAMES",
    "Caption",
    "Choice",
    "Control",
    "LogSlider",
    "Look",
    "Panel",
    "Scale",
    "Slider",
    "curve",
    "degree",
    "dimension",
    "freeze",
    "sigma",
    "xi",
    "zeta",
]
