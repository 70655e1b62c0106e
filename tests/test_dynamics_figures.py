"""Pictures of training on a line show the flow's own numbers, and the panel follows delta."""

import json
import math
import re

import numpy as np
import pytest
import torch

from moves import read_frames
from notebooks import panels
from notebooks.topics import dynamics
from notebooks.topics import dynamics_figures as figures
from numeric.relu_dynamics import Flow, Neurons
from numeric.relu_dynamics.regimes import milestones

DELTAS = (-math.inf, -1.0, 0.0, 3.0, math.inf)
START = Neurons.drawn(40, 3, antisymmetric=True, device="cpu")
DATA = dynamics.sinusoid(6)
SPAN = 50.0


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    films = dynamics.Films(START, dict(zip(dynamics.TASKS, [DATA] * 3, strict=True)), SPAN)
    return panels.Panel(films.frame, figures.PANEL)


def drawn(panel: panels.Panel, axes: int, which: int) -> np.ndarray:
    return np.asarray(panel.figure.axes[axes].lines[which].get_xydata(), dtype=float)


@pytest.mark.parametrize("delta", [-1.0, 0.0, 3.0])
def test_finite_delta_is_the_flow_of_rescaled_neurons(panel: panels.Panel, delta: float) -> None:
    panel.move(delta=delta)
    time = SPAN / math.hypot(1, delta)
    run = Flow(DATA.x, DATA.y, START.rescaled(delta), time=time, tolerance=1e-3).run(progress=False)
    final = run.final
    np.testing.assert_allclose(drawn(panel, 0, 0)[:, 1], final.predict(dynamics.GRID), atol=1e-12)
    plane = np.stack([final.u, final.v], 1)
    shown = np.concatenate([drawn(panel, 1, 1), drawn(panel, 1, 2)])
    np.testing.assert_allclose(_ordered(shown), _ordered(plane), atol=1e-12)
    assert float(re.search(r"loss ([\d.e+-]+)", panel.numbers)[1]) == pytest.approx(
        run.losses[-1].item(), rel=1e-2
    )


def _ordered(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


def test_the_kernel_limit_is_least_squares_with_units_of_one_length(panel: panels.Panel) -> None:
    panel.move(delta=-math.inf)
    lengths = torch.hypot(START.a, START.b)
    a, b = START.a / lengths, START.b / lengths
    units = lambda x: torch.relu(x[:, None] * a - b)  # noqa: E731
    # f = 0 at the start, so that the shortest change of c is the pseudo-inverse's.
    c = torch.linalg.pinv(units(DATA.x)) @ DATA.y
    np.testing.assert_allclose(drawn(panel, 0, 0)[:, 1], units(dynamics.GRID) @ c, atol=1e-6)


def test_the_limits_keep_what_they_hold_still(panel: panels.Panel) -> None:
    knots = {}
    for delta in (-math.inf, math.inf):
        for progress in (0.0, 1.0):
            panel.move(delta=delta, progress=progress)
            knots[delta, progress] = drawn(panel, 0, 1)[:, 0]
    still, moved = (np.abs(knots[d, 1.0] - knots[d, 0.0]).max() for d in (-math.inf, math.inf))
    assert still < 1e-6 < 0.1 < moved


def test_training_begins_at_one_function_for_every_delta(panel: panels.Panel) -> None:
    for delta in DELTAS:
        panel.move(delta=delta, progress=0.0)
        assert np.abs(drawn(panel, 0, 0)[:, 1]).max() < 1e-6  # antisymmetric: f = 0


def test_progress_goes_equal_ways_of_the_residuals() -> None:
    run = Flow(DATA.x, DATA.y, START, 0.0, 20.0).run(progress=False)
    times = milestones(run, 5)
    assert times[0] == 0
    assert times[-1] == run.times[-1]
    rest = torch.stack([run.at(t).predict(DATA.x) for t in times]) - DATA.y
    ways = (rest[1:] - rest[:-1]).norm(dim=1)  # chords: a little shorter than the ways themselves
    whole = (run.residuals[1:] - run.residuals[:-1]).norm(dim=1).sum()
    assert (ways <= whole / 4 * (1 + 1e-3)).all()
    assert (ways > whole / 4 * 0.7).all()


@pytest.mark.sweep
def test_frames_show_every_delta(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    ticks = dynamics.DELTAS
    assert [frame["label"] for frame in frames["delta"]] == [
        f"δ, invariant of a neuron = {d:g}" for d in ticks
    ]
    assert len({frame["picture"] for frame in frames["delta"]}) == len(ticks)


def test_any_delta_may_be_typed_and_infinite_ones_reach_the_page_as_text(
    panel: panels.Panel,
) -> None:
    delta = panel.widgets["delta"]
    for text, value in {"0.5": 0.5, "inf": math.inf, "-∞": -math.inf, " 3 ": 3.0}.items():
        delta.type(text)
        assert (panel.values["delta"], panel.message) == (value, "")
        assert panel.numbers.startswith("loss ")
    assert json.dumps(delta.get_state(["value", "ticks", "low", "high"]), allow_nan=False)
    delta.value = "-inf"  # as the page sends it
    assert panel.values["delta"] == -math.inf
    delta.type("nan")
    assert "delta" in panel.message
    assert panel.values["delta"] == -math.inf


def test_the_field_marks_what_the_corrected_lemma_says() -> None:
    """One sample that pushes against its right neighbour: only its rays attract."""
    data = dynamics.LineData(
        "three", torch.tensor([-0.5, 0.0, 0.5]).double(), torch.zeros(3).double()
    )
    residuals = [0.25, 1.0, -0.25]
    state = dynamics.NetworkState.of(START, data)
    figure = figures.figure_field(state, dynamics.velocities(data, residuals))
    for axes, sign in zip(figure.axes[:2], (1, -1), strict=True):
        green = [line for line in axes.lines if line.get_color() == figures.GREEN]
        rays = {tuple(np.sign(np.round(line.get_xydata()[1], 9))) for line in green}
        # S = -1/4 beyond x = 0 on the right and +1/4 on the left: an attractor to the right for r > 0.
        assert ((1.0, 0.0) in rays) == (sign > 0)
        assert (-1.0, 0.0) not in rays
