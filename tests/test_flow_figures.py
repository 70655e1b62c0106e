"""Pictures of flows in output space show the arrays that they are given, and the panel what was computed."""

import math

import numpy as np
import pytest
import torch

from moves import check_moves
from notebooks.panels import open_panel
from notebooks.topics import flows as topic
from notebooks.topics import flows_figures as figures


@pytest.fixture(scope="module")
def adapted() -> topic.FlowInPlane:
    return topic.flow_in_plane(1.0, 0.45, 10)


def test_the_adapted_flow_is_straight_and_its_kernel_the_identity(
    adapted: topic.FlowInPlane,
) -> None:
    share = (1 - adapted.times)[:, None, None]
    line = adapted.labels + share * (adapted.paths[0] - adapted.labels)
    assert np.abs(adapted.paths - line).max() < 1e-2  # at the rough tolerance of sliders
    assert np.abs(adapted.losses - adapted.straight).max() < 1e-2
    assert np.abs(adapted.kernel - np.eye(topic.COUNT)).max() < 1e-8
    assert (adapted.rank, adapted.parameters) == (16, 52)


def test_paths_end_where_the_outputs_are(adapted: topic.FlowInPlane) -> None:
    axes = figures.figure_flows({"a": [adapted], "b": [adapted], "c": [adapted]}).axes[0]
    straight, path, dot = axes.lines[:3]
    assert path.get_xydata()[-1] == pytest.approx(adapted.outputs[0])
    assert dot.get_xydata()[0] == pytest.approx(adapted.outputs[0])
    assert straight.get_xydata() == pytest.approx(
        np.stack([adapted.paths[0, 0], adapted.labels[0]])
    )


def test_the_panel_shows_what_was_computed(adapted: topic.FlowInPlane) -> None:
    panel = open_panel(topic.flow_in_plane, figures.PANEL, {})
    check_moves(panel, {"t": 0.45, "adapted": 1.0 - 1e-3})
    panel.move(t=0.45)
    cost = float(panel.numbers.partition("cost ")[2].partition(",")[0])
    assert cost == pytest.approx(adapted.losses[0] * 0.55**2, rel=0.02)  # drawn between 60 times
    assert "rank 16, 52 parameters" in panel.numbers


def test_operations_are_those_of_the_factorisation() -> None:
    """The Cholesky factorisation of a (60, 60) matrix takes 60^3 / 3, as one solution takes 2 x 60^2."""
    matrix = torch.eye(60, dtype=torch.float64)
    with topic.counter() as count:
        factor, _ = torch.linalg.cholesky_ex(matrix)
        torch.cholesky_solve(matrix[:, :1], factor)
        matrix @ matrix
    assert count.get_total_flops() == 60**3 // 3 + 2 * 60**2 + 2 * 60**3


def test_a_race_knows_what_a_cost_took() -> None:
    race = topic.Race(
        np.array([1.0, 0.1, 0.01]), np.array([0.0, 2.0, 3.0]), np.array([0.0, 5.0, 7.0])
    )
    assert race.until(0.1) == (2.0, 5.0)
    assert race.until(1e-9) == (math.inf, math.inf)
