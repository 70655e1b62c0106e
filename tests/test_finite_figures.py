"""Maps of three units show what exact curvature says, and the panel follows the weights."""

import math

import numpy as np
import pytest
import torch
from mpmath import mp

from analytic.activations import erf
from analytic.expressions.arguments import InputError
from analytic.finite import erf3
from analytic.finite.units import Units
from moves import read_frames
from notebooks import panels
from notebooks.topics import finite
from notebooks.topics import finite_figures as figures
from numeric.models.shallow import ShallowNetwork

AWRY = ((0.2, -0.8), (1.2, -1.6), (1.0, 1.4))
CASES = [(finite.CIRCLE, 1.0), (finite.CIRCLE, 0.0), (AWRY, 0.6), (AWRY, -0.3)]
PARALLEL = ((1.0, 0.0), (-0.5, 0.75), (0.8, -1.2))  # the last two


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(finite.panel_network, figures.PANEL)


def drawn(panel: panels.Panel, axes: int) -> np.ndarray:
    return np.ma.filled(panel.figure.axes[axes].images[0].get_array(), np.nan)


@pytest.mark.parametrize(("weights", "bias"), CASES)
def test_maps_are_those_of_units_in_any_precision(weights: tuple, bias: float) -> None:
    x = np.random.default_rng(0).uniform(-3, 3, (12, 2))
    geometry = finite.Triple(weights, bias).at(x)
    for k, point in enumerate(x.tolist()):
        with mp.workdps(40):
            units = Units.of(erf, weights, [bias] * 3, point)
            volume, scalar = mp.log(units.determinant()) / 2, units.scalar()
        assert geometry.log_volume[k] == pytest.approx(float(volume), rel=1e-13)
        assert geometry.ricci[k] == pytest.approx(
            float(scalar), rel=1e-11
        )  # cancels near the conic


def test_maps_are_those_of_the_closed_form_and_of_torch() -> None:
    x = finite.grid(9).reshape(-1, 2) / 2
    geometry = finite.Triple(finite.CIRCLE, 0.7).at(x)
    at = {"x1": x[:, 0], "x2": x[:, 1], "b": 0.7}
    np.testing.assert_allclose(
        np.exp(geometry.log_volume), erf3.magnification.numpy(**at), rtol=1e-13
    )
    np.testing.assert_allclose(geometry.ricci, erf3.ricci.numpy(**at), rtol=1e-12)
    weights = torch.tensor(finite.CIRCLE, dtype=torch.float64)
    network = ShallowNetwork(erf, weights, torch.full((3,), 0.7, dtype=torch.float64))
    np.testing.assert_allclose(
        network.ricci_scalar(torch.from_numpy(x)), geometry.ricci, atol=1e-11
    )


def test_far_out_and_for_large_weights_nothing_overflows() -> None:
    geometry = finite.Triple(np.array(finite.CIRCLE) * 2.8, 1.5).at(finite.grid(41) * 3)
    assert np.isfinite(geometry.log_volume).all()
    assert np.isfinite(geometry.ricci).all()
    assert geometry.log_volume.min() < -700  # beyond what det g could hold as a float


def test_centres_are_the_papers_and_lie_on_the_conic() -> None:
    for b in (1.0, -0.5):
        triple = finite.Triple(finite.CIRCLE, b)
        expected = {(-1.0 * b, -(3**0.5) * b), (-1.0 * b, 3**0.5 * b), (2.0 * b, 0.0)}  # (B.66)
        assert {tuple(np.round(c, 9) + 0.0) for c in triple.centres} == {
            tuple(np.round(c, 9) + 0.0) for c in expected
        }
    for triple in (finite.Triple(finite.CIRCLE, 1.0), finite.Triple(AWRY, 0.6)):
        np.testing.assert_allclose(triple.conic(triple.centres), 0, atol=1e-12)
        assert abs(triple.conic(np.zeros(2))) > 0.1


@pytest.mark.parametrize(
    ("weights", "bias", "zeros"),
    [
        (finite.CIRCLE, 1.0, "on an ellipse"),
        (finite.CIRCLE, 0.0, "at one point"),
        (AWRY, 0.6, "on a hyperbola"),
        (AWRY, 0.0, "on two lines"),
        (((1, 0), (0, 1), (1, 2)), 1.0, "on a parabola"),  # areas 1, 1 and 2
        (((1, 0), (0, 1), (0.5, 0.5)), 1.0, "on a line"),  # all three lines meet
        (PARALLEL, 0.6, "everywhere"),
    ],
)
def test_where_the_curvature_vanishes(weights: tuple, bias: float, zeros: str) -> None:
    triple = finite.Triple(weights, bias)
    assert triple.zeros == zeros
    scalar = triple.at(finite.grid(41)).ricci
    signs = {int(v) for v in np.sign(scalar).flat} - {0}
    many = {"on an ellipse", "on a hyperbola", "on two lines", "on a parabola"}
    assert len(signs) == (0 if zeros == "everywhere" else 2 if zeros in many else 1)


@pytest.mark.parametrize(
    "weights", [((1, 0), (2, 0), (-1, 0)), ((0.1, 0.2), (0.3, 0.6), (-0.7, -1.4)), ((0, 0),) * 3]
)
def test_parallel_weights_are_refused(weights: tuple) -> None:
    with pytest.raises(InputError, match="not all parallel"):
        finite.Triple(weights, 1.0)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="three pairs are needed"):
        finite.Triple(((1, 0), (0, 1)), 1.0)


def test_outlines_are_the_circle_and_nothing_where_nothing_vanishes() -> None:
    x = finite.grid(81)
    ring = finite.outline(finite.Triple(finite.CIRCLE, 1.0).conic(x), x)
    radii = np.hypot(*ring)
    assert np.nanmax(np.abs(radii - 2)) < 2e-3  # a chord of the grid's size: step^2 / 8
    assert np.isfinite(radii).sum() > 100
    assert not np.isfinite(finite.outline(finite.Triple(PARALLEL, 0.6).conic(x), x)).any()


def test_a_dragged_weight_and_a_moved_bias_redraw_numbers_and_maps(panel: panels.Panel) -> None:
    start = panel.picture.value
    panel.widgets["w"].value = AWRY
    panel.widgets["b"].value = 0.6
    units = Units.of(erf, AWRY, [0.6] * 3, (0.0, 0.0))
    volume, scalar = float(mp.sqrt(units.determinant())), float(units.scalar())
    assert panel.numbers == (
        f"at x = 0: sqrt(det g) = {volume:.8g}, R = {scalar:.8g}; R = 0 on a hyperbola"
    )
    assert panel.picture.value != start
    geometry = finite.Triple(AWRY, 0.6).at(finite.COARSE)
    np.testing.assert_array_equal(drawn(panel, 1), geometry.ricci)
    np.testing.assert_allclose(drawn(panel, 0), geometry.log_volume / math.log(10))
    panel.reset()
    assert panel.picture.value == start


def test_the_panels_lines_are_those_of_the_units(panel: panels.Panel) -> None:
    panel.widgets["w"].value = AWRY
    lines = panel.figure.axes[0].lines
    for weight, position in zip(AWRY, figures.UNITS, strict=True):
        points = np.array(lines[position].get_data())
        heights = np.array(weight) @ points + 1.0
        assert np.nanmax(np.abs(heights)) < 1e-12
        assert np.isfinite(heights).sum() >= 2
    centres = np.array(lines[figures.CENTRES].get_data()).T
    np.testing.assert_array_equal(centres, finite.Triple(AWRY, 1.0).centres)


def test_parallel_weights_leave_the_panel_empty_with_the_reason(panel: panels.Panel) -> None:
    panel.widgets["w"].value = [[1, 0], [2, 0], [-1, 0]]
    assert "not all parallel" in panel.numbers
    assert np.isnan(drawn(panel, 0)).all()
    assert not len(panel.figure.axes[1].lines[figures.CENTRES].get_xdata())
    panel.widgets["w"].value = [[1, 0], [2, 0], [-1, 0.5]]
    assert np.isfinite(drawn(panel, 0)).all()


def test_frames_walk_the_first_weight_through_flatness(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    assert set(frames) == {"w", "b"}
    assert len({frame["picture"] for frame in frames["w"]}) == len(figures.WEIGHTS.tour)
    (flat,) = [frame for frame in frames["w"] if frame["numbers"].endswith("everywhere")]
    assert "R = 0; R = 0 everywhere" in flat["numbers"]
    assert flat["label"].startswith("weights = (0.5, 0.866)")


def test_figures_show_every_network_and_every_point() -> None:
    networks = {"one": finite.Triple(finite.CIRCLE, 1.0), "two": finite.Triple(PARALLEL, 0.6)}
    figure = figures.figure_maps(finite.network_maps(networks, points=21))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert [title.split(", ")[1] for title in titles] == ["one"] * 3 + ["two"] * 3
    top = figure.axes[0].images[0].get_array().max()
    assert top == pytest.approx(1 / (3 * math.pi**2), rel=0.05)  # one bump; the others add little
    along = np.linspace(-3, 3, 5)
    surface = figures.figure_surface(finite.surface(networks["one"], along, along**2))
    curve, printed, checks = surface.axes[1].lines
    np.testing.assert_allclose(printed.get_ydata(), 3 * curve.get_ydata())
    assert checks.get_ydata().tolist() == (along**2).tolist()
