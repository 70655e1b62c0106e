"""Sliders: from key press to changed picture, in a real browser; and what of that Python takes to draw."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from notebooks.panels import Control, Panel
from notebooks.running.browser import chromium, open_browser
from notebooks.topics import (
    boundaries,
    boundaries_figures,
    dynamics,
    dynamics_figures,
    finite,
    finite_figures,
    splines,
    splines_figures,
)

ASKED = 150  # ms
CLOSED_FORMS = (
    "01_nngp_geometry", "02_ntk_geometry", "03_depth", "04_infinite_predictors", "05_perturbation",
    "06_finite_networks", "08_spline_kernels",
)  # fmt: skip


def run() -> Iterator[str]:
    yield from in_a_browser()
    yield from in_python()


def in_a_browser(presses: int = 15) -> Iterator[str]:
    """Closed forms, from key to picture."""
    if chromium() is None:
        yield "no Chromium here: not measured"
        return
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as lab:
        yield f"asked of the medians of closed forms: {ASKED} ms from key to picture at most"
        for name in CLOSED_FORMS:
            with lab.notebook(f"{name}.py"):
                lab.run("play")
                times = lab.redraw_milliseconds(lab.slider(0), presses=presses)
            yield (
                f"first slider of {name}: median {statistics.median(times):.0f} ms, "
                f"worst {max(times):.0f} ms of {presses} presses"
            )


def in_python() -> Iterator[str]:
    """CPU time of a redraw where all has been drawn once: what is trained or solved is not done again."""
    texts = []
    for name, (control, panel) in panels().items():
        times = []
        for stop in 2 * control.stops():
            before = time.process_time()
            panel.move(**{control.name: stop})
            times.append(time.process_time() - before)
        last = times[len(times) // 2 :]
        texts.append(f"{name} {1e3 * statistics.median(last):.0f} ms (worst {1e3 * max(last):.0f})")
    yield f"redraw in Python, median of CPU time: {', '.join(texts)}"


def panels() -> dict[str, tuple[Control, Panel]]:
    """A control that is moved, and its panel."""
    return {
        "06, weights": (finite_figures.bias, Panel(finite.panel_network, finite_figures.PANEL)),
        "08, splines": (splines_figures.A, Panel(splines.interpolants, splines_figures.PANEL)),
        "09, delta": (
            dynamics_figures.CONTROLS[1],
            Panel(dynamics.trained_neurons, dynamics_figures.PANEL),
        ),
        "10, training": (
            boundaries_figures.step,
            Panel(boundaries.trained_network, boundaries_figures.PANEL),
        ),
    }
