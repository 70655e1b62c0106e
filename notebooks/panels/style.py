"""One style for all figures: their canvas, colours and frames, and where they are written."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from pathlib import Path

from IPython.display import HTML, Image
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image as Pixels

from notebooks.report.pictures import describe

BLUE, INK, RED, GREY = "#3465a4", "#222222", "#b5394c", "#888888"
GREEN, PURPLE = "#3a7d44", "#6a4c93"
PAUSE, LAST_PAUSE = 200, 2_000  # of a frame of a film and of the last one, in ms
SMALL = {"frameon": False, "fontsize": 8}  # legends
FIGURES = "KERNEL_GEOMETRY_FIGURES"  # names the folder; the runner sets it to the output of its run
FOLDER = Path(os.environ.get(FIGURES, Path(__file__).parents[2] / "build" / "figures"))


def new_figure(width: float = 9.0, height: float = 3.4) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def frame_axes(axes: Axes, title: str, xlabel: str = "", size: float | None = None) -> Axes:
    """Axes with a title of that font size, a label, and no lines above and to the right."""
    axes.set_title(title, fontsize=size)
    axes.set_xlabel(xlabel)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def save(figure: Figure, name: str) -> Image:
    """The figure as written under a short name to the folder of its run; parameters stand in the text."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return Image(path, alt=describe(figure))


def save_film(frames: Sequence[Pixels.Image], name: str, alt: str) -> HTML:
    """Frames written as a GIF beside the figures, and shown."""
    held = io.BytesIO()
    pauses = [PAUSE] * (len(frames) - 1) + [LAST_PAUSE]
    kind = {"save_all": True, "duration": pauses, "loop": 0, "optimize": False}
    frames[0].save(held, "gif", append_images=frames[1:], **kind)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.gif").write_bytes(held.getvalue())
    encoded = base64.b64encode(held.getvalue()).decode()
    return HTML(f'<img alt="{name}: {alt}" src="data:image/gif;base64,{encoded}">')
