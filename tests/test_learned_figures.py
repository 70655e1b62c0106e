"""Pictures of learned kernels show the metrics that the kernels state, to scale and in place."""

import numpy as np
import pytest
import torch

from moves import read_frames
from notebooks import panels
from notebooks.topics import learned
from notebooks.topics import learned_figures as figures
from notebooks.topics.learned import KernelMap, Plane
from notebooks.topics.statistics import LinePlot
from notebooks.topics.statistics_figures import figure_lines
from numeric.learned import FeatureMachine, Gaussian, Mahalanobis, SmoothedLaplace

PLANE = Plane(2.0, 21, 5)
WAY = np.array([0.6, 0.8, 0.0, 0.0])


def _random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def _classes() -> tuple[np.ndarray, np.ndarray]:
    x = np.tanh(_random(0, 80, 2))
    return x, np.where(x[:, 0] > 0.3 * np.sin(4 * x[:, 1]), 1, -1)


def _task() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = _random(1, 120, 4)
    return x, np.sin(2 * x @ WAY), WAY


PLAYS = {
    "magnified": (learned.magnified_kernel, figures.MAGNIFIED),
    "features": (learned.feature_learning, figures.FEATURES),
    "pairs": (learned.self_supervision, figures.PAIRS),
}


def play(name: str) -> panels.Panel:
    return panels.Panel(*PLAYS[name])


def test_grids_fill_the_square_from_below() -> None:
    assert PLANE.points[0].tolist() == [-2, -2]
    assert PLANE.points[1].tolist() == [-1.8, -2]  # across first
    assert PLANE.points[-1].tolist() == [2, 2]
    gaps = np.diff(np.unique(PLANE.centres[:, 0].round(12)))
    np.testing.assert_allclose(gaps, PLANE.spacing)
    assert PLANE.centres.min() == pytest.approx(-2 + PLANE.spacing / 2)


def test_ellipses_are_balls_of_one_radius() -> None:
    """v.g.v is the same all along each outline, for metrics that nothing clips."""
    roots = np.eye(2) + 0.15 * _random(4, len(PLANE.centres), 2, 2)
    metric = roots @ roots.transpose(0, 2, 1)
    steps = learned.ellipses(metric, PLANE.centres, PLANE.spacing) - PLANE.centres[:, None]
    lengths = np.einsum("nti,nij,ntj->nt", steps, metric, steps)
    assert np.abs(steps).max() < 0.46 * PLANE.spacing
    np.testing.assert_allclose(lengths, lengths[0, 0], rtol=1e-12)


@pytest.mark.parametrize("least", [0.0, 1e-30, 1e-5])
def test_a_forgotten_direction_stays_in_its_cell(least: float) -> None:
    metric = np.tile(np.diag([1.0, least]), (len(PLANE.centres), 1, 1))
    steps = learned.ellipses(metric, PLANE.centres, PLANE.spacing) - PLANE.centres[:, None]
    across, up = np.ptp(steps[0], 0)
    assert up == pytest.approx(0.94 * PLANE.spacing)
    assert across == pytest.approx(up / 10)


def test_larger_metrics_have_smaller_ellipses() -> None:
    scales = np.linspace(1, 9, len(PLANE.centres))
    outlines = learned.ellipses(scales[:, None, None] * np.eye(2), PLANE.centres, PLANE.spacing)
    widths = np.ptp(outlines[..., 0], 1)
    free = widths < 0.93 * PLANE.spacing
    np.testing.assert_allclose(widths[free] ** 2 * scales[free], 0.36 * PLANE.spacing**2 * 5)
    assert free.sum() > 15


def test_a_field_is_what_the_kernel_says_and_flat_where_it_is() -> None:
    M = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    field = KernelMap.of(Mahalanobis(Gaussian(0.5), M), PLANE)
    np.testing.assert_allclose(field.metric[7], M.numpy() / 0.25)
    np.testing.assert_allclose(field.log_volume, np.log10(1.75**0.5 / 0.25))
    assert abs(field.contrast).max() < 1e-12
    assert figures.colour_range(field) == figures.FAINT


def test_a_slice_is_the_block_of_the_first_two_inputs() -> None:
    x, y, _ = _task()
    machine = FeatureMachine(SmoothedLaplace(3.0, 0.2), iterations=2, device="cpu").fit(x, y)
    field = learned.slice_map(machine, PLANE)
    block = machine.matrices_[-1][:2, :2].numpy() / (3.0 * 0.2)  # -2 h'(0) M
    np.testing.assert_allclose(field.metric[3], block)
    np.testing.assert_allclose(field.log_volume, np.log10(np.linalg.det(block)) / 2)
    at = np.array([[*PLANE.points[30], 0.0, 0.0]])
    assert field.level[30] == pytest.approx(machine.predict(at)[0])


@pytest.mark.parametrize("noise", [0.0, 1e-17, -1e-17, 1e-9])
def test_a_forgotten_direction_is_left_out_of_the_volume_whatever_rounding_says(
    noise: float,
) -> None:
    """det M is 0 or noise of either sign on the plane, and what is left is the length along w."""
    x, y, way = _task()
    machine = FeatureMachine(SmoothedLaplace(3.0, 0.2), iterations=1, device="cpu").fit(x, y)
    M = 4 * np.outer(way, way) + noise * np.diag([1.0, 0, 0, 0])
    machine.kernel_ = Mahalanobis(machine.kernel_.base, torch.from_numpy(M))
    field = learned.slice_map(machine, PLANE)
    assert field.rank == (2 if noise == 1e-9 else 1)
    assert not field.contrast.any()
    if field.rank == 1:
        np.testing.assert_allclose(field.log_volume, np.log10(4 / (3.0 * 0.2)) / 2)


@pytest.mark.parametrize("determinant", [0.0, 1e-17, -1e-17])
def test_volumes_of_singular_metrics_are_finite(determinant: float) -> None:
    """Where one metric of a plane is singular to rounding, all are measured along one direction."""
    metrics = np.stack([np.diag([4.0, determinant / 4]), np.diag([9.0, 1.0])])
    rank, log = learned.resolved_volume(metrics)
    assert rank == 1
    np.testing.assert_allclose(log, np.log([2.0, 3.0]))


def test_cosines_know_neither_sign_nor_the_first_matrix() -> None:
    other = np.array([0.8, -0.6, 0.0, 0.0])
    matrices = [np.eye(4), np.outer(WAY, WAY), np.outer(other, other) + 0.5 * np.outer(WAY, WAY)]
    np.testing.assert_allclose(learned.cosines(matrices, WAY), [1, 0], atol=1e-12)
    np.testing.assert_allclose(learned.cosines(matrices, -WAY), [1, 0], atol=1e-12)
    assert learned.cosines(matrices[:1], WAY).size == 0


def test_fields_share_a_scale_that_is_told_unless_all_are_flat() -> None:
    metric = np.tile(np.eye(2), (len(PLANE.centres), 1, 1))
    flat = KernelMap(PLANE, np.full(len(PLANE.points), 3.0), metric, PLANE.points[:, 0])
    tilted = KernelMap(PLANE, PLANE.points[:, 1], metric)
    x, y = _classes()
    both = figures.figure_kernels({"flat": flat, "tilted": tilted}, x, y)
    left, right, bar = both.axes
    limits = [axes.images[0].get_clim() for axes in (left, right)]
    assert limits[0] == limits[1] == pytest.approx((-1.8, 1.8))
    assert bar.get_ylabel() == figures.VOLUME
    assert not np.asarray(left.images[0].get_array()).any()
    assert right.images[0].get_array()[-1, 0] == 2  # x2 grows upwards
    assert len(left.collections) == len(right.collections) + 1  # one of them has a predictor
    counts = [len(line.get_xdata()) for line in left.lines]
    assert counts == [(y == -1).sum(), (y == 1).sum()]
    assert len(figures.figure_kernels({"flat": flat}, x, y).axes) == 1


def test_charts_have_bars_where_they_are_given() -> None:
    lines = {"bare": ([1, 2], [3.0, 4.0]), "barred": ([1, 2], [30.0, 40.0], [0.5, 0.25])}
    figure = figure_lines(LinePlot("one", "n", lines), LinePlot("two", "n", lines, log=True))
    one, two = figure.axes
    assert (one.get_yscale(), two.get_yscale()) == ("linear", "log")
    bare, barred = one.containers
    assert not bare.has_yerr
    heights = [np.ptp(segment[:, 1]) for segment in barred.lines[2][0].get_segments()]
    assert heights == pytest.approx([1.0, 0.5])
    assert [text.get_text() for text in two.get_legend().texts] == ["bare", "barred"]


@pytest.mark.parametrize("name", PLAYS)
def test_every_slider_moves_the_picture_and_reset_brings_it_back(name: str) -> None:
    panel = play(name)
    image, start = panel.picture, panel.picture.value
    for control in PLAYS[name][1].controls:
        stops = control.stops()
        for end in (stops[0], stops[-1]):
            panel.widgets[control.name].value = end
            plane, curve = panel.figure.axes[:2]
            assert image.value != start, (control.name, end)
            assert np.isfinite(plane.images[0].get_array()).all()
            assert np.isfinite(curve.lines[0].get_ydata()).all()
            assert "nan" not in panel.numbers
            panel.reset()
        assert image.value == start, control.name


def test_panels_draw_what_the_kernels_say() -> None:
    panel = play("magnified")
    panel.widgets["rounds"].value = 0
    assert abs(panel.figure.axes[1].lines[0].get_ydata()).max() < 1e-12  # not learned, so flat
    panel.widgets["rounds"].value = 1
    assert np.ptp(panel.figure.axes[1].lines[0].get_ydata()) > 0.1
    panel = play("features")
    panel.widgets["iterations"].value = 0
    assert "no direction yet" in panel.numbers
    panel.widgets["iterations"].value = 5
    cosine = panel.figure.axes[1].lines[0].get_ydata()
    assert len(cosine) == 5
    assert panel.numbers.endswith(f"{cosine[-1]:.6f}")
    assert cosine[-1] > 0.95
    panel = play("pairs")
    panel.widgets["components"].value = 4
    fourth = panel.figure.axes[1].lines[0].get_ydata()[3]
    assert panel.numbers.endswith(f"{fourth:.6g}")


def test_frames_are_whole_and_differ() -> None:
    frames = read_frames(play("pairs"))
    assert set(frames) == {"pairs_bandwidth", "components"}
    for control in figures.PAIRS.controls:
        pictures = {frame["picture"] for frame in frames[control.name]}
        assert len(pictures) == len(control.stops())
