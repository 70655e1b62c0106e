"""The panel of boundaries trains, looks steps up, and takes clicks."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from moves import check_moves, read_frames
from notebooks import panels
from notebooks.topics import boundaries
from notebooks.topics import boundaries_figures as figures
from numeric import geometry
from numeric.experiments.decision_boundaries import perceptron, xor


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(boundaries.trained_network, figures.PANEL)


def shown(panel: panels.Panel, axes: int) -> np.ndarray:
    return np.asarray(panel.figure.axes[axes].images[0].get_array(), dtype=float)


def test_the_panel_shows_the_geometry_of_a_trained_network(panel: panels.Panel) -> None:
    panel.move(step=120, n=7, rate=10**-0.5)
    x, y = xor().data(0)
    net = perceptron(7)
    optimizer = torch.optim.Adam(net.parameters(), lr=10**-0.5)
    for _ in range(120):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    at = boundaries.LATTICE.x
    volume = geometry.log_volume(net, at, layer="phi1", progress=False).value / math.log(10)
    expected = boundaries.LATTICE.square(volume - volume.max()).numpy()
    np.testing.assert_allclose(shown(panel, 0), expected, atol=1e-9)
    ricci = 7 * geometry.ricci_scalar(net, at, layer="phi1").value
    np.testing.assert_allclose(
        shown(panel, 1), boundaries.LATTICE.square(ricci).numpy(), rtol=1e-6, atol=1e-6
    )
    assert f"loss {F.cross_entropy(net(x), y).item():.4g}, 4 of 4 right" in panel.numbers


def test_two_units_are_flat_in_the_panel(panel: panels.Panel) -> None:
    panel.move(n=2)
    assert np.abs(shown(panel, 1)).max() < 1e-3
    assert np.abs(shown(panel, 0)).max() > 1


def test_every_control_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    moved = [[0.2, -1.0, 0], *map(list, figures.EIGHT[1:])]
    moves = {"step": 50, "n": 4, "rate": 0.03, "task": boundaries.OWN, "points": moved}
    check_moves(panel, moves)


def test_points_are_trained_on_where_they_are_clicked_and_dragged(panel: panels.Panel) -> None:
    panel.move(task=boundaries.OWN, step=50)
    lines = panel.figure.axes[0].lines

    def drawn() -> list[list[list[float]]]:
        return [lines[line].get_xydata().tolist() for line in (figures.ZERO, figures.ONE)]

    expected = [[[x, y] for x, y, own in figures.EIGHT if own == label] for label in (0, 1)]
    assert drawn() == expected
    seen = [shown(panel, 0)]
    for points in (
        [[0.3, 0.1, 0], *figures.EIGHT[1:]],  # dragged
        [*figures.EIGHT, [0.3, 0.1, 0], [0.0, 0.0, 1]],  # two more
        figures.EIGHT[2:6],  # fewer
    ):
        panel.move(points=points)
        assert drawn() == [[[x, y] for x, y, own in points if own == label] for label in (0, 1)]
        assert f"of {len(points)} right" in panel.numbers
        assert not any(np.allclose(shown(panel, 0), before) for before in seen)
        seen.append(shown(panel, 0))
    # All in one place, with both labels: no boundary decides them.
    panel.move(points=[[0.5, 0.5, k % 2] for k in range(8)])
    assert "4 of 8 right" in panel.numbers


@pytest.mark.parametrize("points", [[], [[0.0, 0.0, 1]], [[0.0, 0.0, 0], [1.0, 0.0, 0]]])
def test_too_few_points_are_told_what_to_do(panel: panels.Panel, points: list) -> None:
    panel.move(task=boundaries.OWN, points=points)
    assert panel.numbers == "Click on the square to place points of both labels."
    panel.reset()
    assert "4 of 4 right" in panel.numbers


def test_steps_are_looked_up_and_not_trained_again(panel: panels.Panel) -> None:
    boundaries.panel_run.cache_clear()
    for step in (0, 100, 200, 300):
        panel.move(step=step)
    computed = boundaries.panel_run.cache_info()
    assert (computed.misses, computed.hits) == (1, 3)
    assert "t = 300" in panel.numbers


def test_a_network_that_learned_nothing_says_so(panel: panels.Panel) -> None:
    panel.move(step=0)
    assert "no boundary in sight" in panel.numbers
    panel.move(step=300)
    assert float(re.search(r"log volume ([+-][\d.]+) larger", panel.numbers)[1]) > 0.5


def test_a_refusal_is_told_and_leaves_no_picture(panel: panels.Panel) -> None:
    axes = panel.figure.axes[:2]
    network = boundaries.trained_network("xor", 300, 5, 1e300, figures.EIGHT)
    computed = figures.draw_network(axes, network).numbers
    assert "Units are saturated" in computed
    assert np.isnan(shown(panel, 0)).all()
    assert not any(line.get_xydata().size for line in axes[0].lines)


def test_points_are_offered_where_they_are_the_task() -> None:
    assert figures.relevant("points", {"task": boundaries.OWN})
    assert not figures.relevant("points", {"task": "xor"})
    assert figures.relevant("n", {"task": "xor"})


def test_frames_show_training_step_by_step(panel: panels.Panel) -> None:
    frames = read_frames(panel, every=3)
    assert set(frames) == {"task", "step", "n", "rate"}
    assert len({frame["picture"] for frame in frames["step"]}) == len(frames["step"]) > 2
