"""A network that learns, as a moving picture: volume element and curvature at every hidden layer."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from IPython.display import HTML
from matplotlib.artist import Artist
from PIL import Image

from notebooks.panels.style import FOLDER, new
from notebooks.topics.boundaries_figures import RICCI, VOLUME, dots, outline
from numeric.experiments.decision_boundaries import GeometryMap

PAUSE, REST = 200, 2_000  # of a frame and of the last one, in ms


def moving(maps: Mapping[int, GeometryMap], name: str, data: Any = None, unit: float = 1) -> HTML:
    """One frame for each step, written to figures/; `unit` is how many steps make an epoch."""
    frames = _frames(maps, data, unit)
    held = io.BytesIO()
    pauses = [PAUSE] * (len(frames) - 1) + [REST]
    frames[0].save(
        held,
        "gif",
        save_all=True,
        append_images=frames[1:],
        duration=pauses,
        loop=0,
        optimize=False,
    )
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.gif").write_bytes(held.getvalue())
    encoded = base64.b64encode(held.getvalue()).decode()
    return HTML(f'<img alt="{name}: a network that learns" src="data:image/gif;base64,{encoded}">')


def _frames(maps: Mapping[int, GeometryMap], data: Any, unit: float) -> list[Image.Image]:
    """Axes are drawn once; what moves are colours, boundaries and the number of the epoch."""
    first = next(iter(maps.values()))
    layers = len(first.log_volume)
    figure = new(4.5, 2.0 * layers + 0.2)
    grid = figure.subplots(layers, 2, squeeze=False)
    moved: list[tuple[Artist, Artist, Any, int]] = []
    for layer, row in enumerate(grid):
        for axes, what in zip(row, (VOLUME, RICCI), strict=True):
            norm = what.norm(np.stack([what.of(one)[layer] for one in maps.values()]))
            image = what.draw(axes, first, layer, norm)
            moved.append((image, axes.lines[-1], what, layer))
            axes.set_title(what.title if layer == 0 else "", fontsize=9)
            if data is not None:
                dots(axes, *data)
        row[0].set_ylabel(f"layer {layer + 1}" if layers > 1 else "", fontsize=9)
    frames = []
    for step, one in maps.items():
        for image, line, what, layer in moved:
            image.set_data(what.of(one)[layer])
            line.set_data(*outline(one))
        grid[-1, 0].set_xlabel(f"epoch {round(step / unit)}", fontsize=9)
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
        frames.append(Image.fromarray(pixels).quantize(128))
    return frames
