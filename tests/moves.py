"""What every panel does: each move is seen, a reset undoes them all, and frames need no kernel."""

import json
import re
from typing import Any

from notebooks.panels import Panel


def check_moves(panel: Panel, moves: dict[str, Any]) -> None:
    image = panel.picture
    start, seen = panel.values, [image.value]
    for name, value in moves.items():
        panel.move(**{name: value})
        seen.append(image.value)
    assert len(set(seen)) == len(seen)
    panel.reset()
    assert image.value == seen[0]
    assert panel.values == start


def read_frames(panel: Panel, every: int = 1) -> dict[str, list[dict[str, str]]]:
    """The frames of a page by control, which asks for nothing from outside and shows every formula."""
    page = panel.frames(every)
    assert not re.search(r"(src|href)=.?https?:|url\(", page)
    frames = json.loads(re.search(r"const frames = (\{.*?\}), root", page, re.DOTALL)[1])
    assert all("<math" in frame["formula"] for some in frames.values() for frame in some)
    return frames
