"""Sliders: from key press to changed picture, in a real browser; and what of that Python takes to draw."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from notebooks.panels import Panel
from notebooks.running.browser import chromium, opened
from notebooks.topics import boundaries_panel as boundary_panel
from notebooks.topics import dynamics_figures, finite_figures
from notebooks.topics import splines_figures as spline_figures
from notebooks.topics.dynamics_panel import TITLES, Show
from numeric.relu_dynamics import Neurons


def run() -> Iterator[str]:
    yield from in_a_browser()
    yield from in_python()


def in_a_browser(presses: int = 15) -> Iterator[str]:
    if chromium() is None:
        yield "no Chromium here: not measured"
        return
    with tempfile.TemporaryDirectory() as folder, opened("01_nngp_geometry", Path(folder)) as page:
        page.run()
        times = page.redraw_milliseconds(0, presses)
    yield (
        f"sigma slider of 01_nngp_geometry: median {statistics.median(times):.0f} ms, "
        f"worst {max(times):.0f} ms of {presses} presses (limit 150 ms)"
    )


def in_python() -> Iterator[str]:
    """CPU time of a redraw where all has been drawn once: what is trained or solved is kept."""
    start = Neurons.drawn(100, seed=0, antisymmetric=True, device="cpu")
    show = Show.of(start, [dynamics_figures.sinusoid(10)], span=100.0)
    finite, spline, boundary = finite_figures, spline_figures, boundary_panel
    panels = {
        "06, weights": (finite.bias, Panel(finite.network, [finite.W, finite.bias], finite.TITLES)),
        "08, splines": (
            spline.CONTROLS[1], Panel(spline.play, spline.CONTROLS, spline.TITLES, spline.relevant)
        ),
        "09, delta": (show.controls[0], Panel(show.play, show.controls, TITLES)),
        "10, training": (
            boundary.step,
            Panel(boundary.play, boundary.CONTROLS, boundary.TITLES, boundary.relevant),
        ),
    }  # fmt: skip
    told = []
    for name, (control, panel) in panels.items():
        times = []
        for stop in 2 * control.stops():
            before = time.process_time()
            panel.move(**{control.name: stop})
            times.append(time.process_time() - before)
        last = times[len(times) // 2 :]
        told.append(f"{name} {1e3 * statistics.median(last):.0f} ms (worst {1e3 * max(last):.0f})")
    yield f"redraw in Python, median of CPU time: {', '.join(told)}"
