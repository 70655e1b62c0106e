"""Pictures of univariate interpolants show the library's numbers, and the panel follows the data."""

import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from moves import check_moves, read_frames
from notebooks import panels
from notebooks.topics import splines
from notebooks.topics import splines_figures as figures
from notebooks.topics.statistics import PowerLaw
from numeric.estimate import Estimate
from numeric.experiments.random_features import RandomFeatures

X, Y = np.array(splines.FIVE).T
NETWORK, KERNEL, SPLINE, DATA = range(4)
RIGHTWARDS = [[0.1, 0.3], [0.3, -0.2], [0.5, 0.5], [0.7, 0.1], [0.9, -0.4]]


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(splines.interpolants, figures.PANEL)


def line(panel: panels.Panel, axes: int, which: int) -> np.ndarray:
    return np.asarray(panel.figure.axes[axes].lines[which].get_ydata(), dtype=float)


def dense(name: str, values: dict, x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Kernel regression by its textbook formula."""
    kernel = INITIALISATIONS[name].rf.numpy
    gram = kernel(x=x[:, None], y=x[None], **values) + ridge * np.eye(len(x))
    return kernel(x=splines.LINE[:, None], y=x[None], **values) @ np.linalg.solve(gram, y)


@pytest.mark.parametrize(
    ("law", "values"),
    [
        ("signs", {"B": 0.7}),
        ("uniform", {"A": 1.6, "B": 0.7}),
        ("gaussian", {"sa": 1.6, "sb": 0.7}),
        ("onesided", {}),
    ],
)
def test_the_panel_draws_kernel_regression_a_network_and_the_spline(
    panel: panels.Panel, law: str, values: dict
) -> None:
    panel.move(points=RIGHTWARDS)
    panel.move(law=law, A=1.6, B=0.7, m=300, ridge=1e-5)
    x, y = np.array(RIGHTWARDS).T
    kernel = dense(law, values, x, y, 1e-5)
    np.testing.assert_allclose(line(panel, 0, KERNEL), kernel, atol=1e-8)
    hidden = RandomFeatures(INITIALISATIONS[law], values, 300, device="cpu")
    network = hidden.fit(x, y, 1e-5).predict(splines.LINE).numpy()
    np.testing.assert_allclose(line(panel, 0, NETWORK), network, atol=1e-12)
    between = (splines.LINE >= 0.1) & (splines.LINE <= 0.9)
    spline = CubicSpline(x, y, bc_type="natural")(splines.LINE)
    np.testing.assert_allclose(line(panel, 0, SPLINE)[between], spline[between], atol=1e-13)
    np.testing.assert_allclose(
        line(panel, 1, KERNEL)[between], abs(kernel - spline)[between], atol=1e-8
    )
    assert panel.figure.axes[0].lines[DATA].get_xydata().tolist() == RIGHTWARDS


def test_at_the_start_the_distance_is_the_known_one(panel: panels.Panel) -> None:
    distance = float(re.search(r"kernel ([\d.e+-]+)", panel.numbers)[1])
    assert distance == pytest.approx(1.467e-2, rel=1e-3)


def test_every_control_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    moved = [[0.2, -1.0], *map(list, splines.FIVE[1:])]
    moves = {"law": "uniform", "A": 2.0, "B": 3.0, "m": 50, "ridge": 0.01, "points": moved}
    check_moves(panel, moves)


def test_points_may_pass_each_other_but_not_stand_above_each_other(panel: panels.Panel) -> None:
    before = line(panel, 0, KERNEL)
    panel.move(points=[list(p) for p in splines.FIVE[::-1]])
    np.testing.assert_allclose(line(panel, 0, KERNEL), before, atol=1e-12)
    panel.move(points=[[0.0, 1.0], *map(list, splines.FIVE[1:])])
    assert "x = 0.0 has two different targets" in panel.numbers
    assert not any(line(panel, axes, which).size for axes in (0, 1) for which in (NETWORK, KERNEL))
    assert line(panel, 0, DATA).tolist() == [1.0, -0.2, 0.5, 0.1, -0.4]
    panel.move(points=[[0.0, 0.5], *map(list, splines.FIVE[1:])])  # on top of another
    assert line(panel, 0, KERNEL).size
    panel.move(points=[list(p) for p in splines.FIVE])
    np.testing.assert_allclose(line(panel, 0, KERNEL), before)


def test_units_that_look_to_the_right_refuse_data_on_the_left(panel: panels.Panel) -> None:
    panel.move(law="onesided")
    assert "-0.8" in panel.numbers
    assert not line(panel, 0, KERNEL).size


@pytest.mark.parametrize("law", ["signs", "uniform", "gaussian"])
def test_laws_draw_at_the_ends_of_their_sliders(panel: panels.Panel, law: str) -> None:
    panel.move(law=law)
    for control in (figures.A, figures.B, figures.units, figures.ridge):
        for end in (control.low, control.high):
            panel.move(**{control.name: end})
            drawn = [line(panel, axes, which) for axes in (0, 1) for which in (NETWORK, KERNEL)]
            assert all(curve.shape == splines.LINE.shape for curve in drawn), panel.numbers
            assert np.isfinite(drawn).all()


def test_scales_are_shown_to_laws_that_have_them() -> None:
    shown = {law: [figures.relevant(s, {"law": law}) for s in "ABm"] for law in INITIALISATIONS}
    assert shown["uniform"] == shown["gaussian"] == [True, True, True]
    assert shown["signs"] == [False, True, True]
    assert shown["onesided"] == [False, False, True]


def test_frames_drag_a_point(panel: panels.Panel) -> None:
    frames = read_frames(panel, every=2)
    assert set(frames) == {"law", "B", "m", "ridge", "points"}
    pictures = {frame["picture"] for frame in frames["points"]}
    assert len(pictures) == len(frames["points"]) > 2


def test_the_natural_spline_is_straight_beyond_its_ends_in_any_order() -> None:
    spline = splines.natural(X[::-1], Y[::-1])
    np.testing.assert_allclose(spline(X), Y, atol=1e-15)
    for far in (np.array([-3.0, -2.0, -0.8]), np.array([0.9, 2.0, 3.1])):
        left, right = splines.slopes(spline, far)
        assert left == pytest.approx(right, rel=1e-12)
        assert abs(left) > 0.1
    with pytest.raises(InputError, match=r"x = 0\.0 has two different targets"):
        splines.natural([0.0, 0.0, 1.0], [1.0, 2.0, 3.0])


def test_the_farthest_distance_is_between_the_data_only() -> None:
    assert splines.largest_distance(lambda x: x**2, lambda x: 0 * x, [0.5, -2.0, 1.0]) == 4.0


def test_terms_add_up_to_the_tangent_kernel() -> None:
    for name in INITIALISATIONS:
        setting = splines.Setting.of(name, 1.3, 0.8)
        y = np.linspace(-2, 2, 9)
        whole = setting.initialisation.ntk.numpy(x=0.5, y=y, ec2=0.4, **setting.values)
        np.testing.assert_allclose(sum(setting.terms(0.5, y, 0.4).values()), whole, rtol=1e-13)
    assert splines.Setting.of("gaussian", 1.3, 0.8).values == {"sa": 1.3, "sb": 0.8}
    with pytest.raises(InputError):
        splines.Setting.of("signs", B=-1.0).terms(0.5, y, 0.4)


def one_slice() -> splines.KernelSlice:
    """A network whose means are two standard errors too high."""
    setting, y = splines.Setting.of("uniform"), np.linspace(-1, 1, 5)
    one = torch.ones(5, dtype=torch.float64)
    network = {
        name: Estimate(torch.from_numpy(np.asarray(exact)) + 0.02 * one, 0.1 * one, 100)
        for name, exact in setting.terms(0.5, y, 1 / 3).items()
    }
    return splines.kernel_slice(setting, 0.5, y, 1 / 3, network)


def test_slices_show_closed_forms_and_errors_in_units_of_their_size() -> None:
    for sigmas in one_slice().sigmas.values():
        np.testing.assert_allclose(sigmas, 2.0, rtol=1e-12)
    figure = figures.figure_slices({"one": one_slice(), "two": one_slice()}, 4.0)
    above, _, below, _ = figure.axes
    exact, circles = above.lines[:2]
    np.testing.assert_allclose(
        np.interp(one_slice().points, *exact.get_data()) + 0.02, circles.get_ydata(), atol=1e-4
    )
    assert [line.get_ydata()[0] for line in below.lines] == pytest.approx([2, 2, 2, 4])


def test_the_fit_shows_every_curve_and_the_limit_of_distances() -> None:
    network, kernel, spline = (np.poly1d([k]) for k in (0, 0.5, 2))
    laws = {
        "independent": PowerLaw.fit([1, 2, 4], [4.0, 3.0, 2.0]),
        "grid": PowerLaw.fit([1, 2, 4], [2.0, 1.5, 1.5]),
    }
    fit = splines.fit((X, Y), {"m = 9": network}, kernel, spline, laws)
    left, right = figures.figure_fit(fit).axes
    assert [line.get_ydata()[0] for line in left.lines[:3]] == [0, 0.5, 2]
    assert left.lines[3].get_xydata().tolist() == np.stack([X, Y], 1).tolist()
    assert right.lines[0].get_ydata().tolist() == [4.0, 3.0, 2.0]
    assert "kernel interpolant: 1.5" in [text.get_text() for text in right.get_legend().texts]


def not_splines(grid: np.ndarray) -> Figure:
    cube = splines.second_derivative("cube", lambda x: x**3, lambda x: 6 * x, (-0.5, 0.5), grid)
    functions = {"square": np.square, "kink": np.abs}
    return figures.figure_not_splines(splines.not_splines((X, Y), grid, functions, [cube]))


def test_slopes_and_bending_are_those_of_known_functions() -> None:
    slope, bend = not_splines(np.linspace(-1, 1, 201)).axes
    square, kink = slope.lines[:2]
    np.testing.assert_allclose(square.get_ydata(), 2 * square.get_xdata(), atol=1e-12)
    assert set(np.round(kink.get_ydata(), 9)) == {-1.0, 1.0}
    differences, circles = bend.lines[:2]
    np.testing.assert_allclose(differences.get_ydata(), 6 * differences.get_xdata(), atol=1e-9)
    np.testing.assert_allclose(circles.get_ydata(), 6 * circles.get_xdata())
    assert [line.get_xdata()[0] for line in bend.lines[3:5]] == [-0.5, 0.5]
