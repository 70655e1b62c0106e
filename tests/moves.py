"""What every panel does: each move is seen, and a reset undoes them all."""

from typing import Any

from notebooks.panels import Panel


def check_moves(panel: Panel, moves: dict[str, Any]) -> None:
    image = panel.view.children[3]
    start, seen = panel.values, [image.value]
    for name, value in moves.items():
        panel.move(**{name: value})
        seen.append(image.value)
    assert len(set(seen)) == len(seen)
    panel.reset()
    assert image.value == seen[0]
    assert panel.values == start
