"""Sliders: from key press to changed picture, timed inside a real browser."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from notebooks.browser import chromium, opened


def run(presses: int = 15) -> Iterator[str]:
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
