"""The panel of predictors shows what dense linear algebra says, and its figures draw the numbers they get."""

import re
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.linalg import expm

from moves import check_moves, read_frames
from notebooks import panels
from notebooks.topics import predictors
from notebooks.topics import predictors_figures as figures
from notebooks.topics.predictors import LINE, NOISE, Band, X, Y
from notebooks.topics.statistics import Mean, PowerLaw
from numeric.estimate import Estimate
from numeric.infinite import FullyConnected, gradient_flow, posterior

START = {control.name: control.start for control in figures.CONTROLS}
SLIDERS = [control for control in figures.CONTROLS if not isinstance(control, panels.Choice)]
NET = FullyConnected(predictors.erf, 1, 1.5, 1.0)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small matrices: threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(predictors.panel_predictions, figures.PANEL)


def kernels(x: np.ndarray, y: np.ndarray, w: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """NNGP and NTK of one hidden layer of erf(z/sqrt 2) on a line, by Williams' arcsine."""
    xx, yy = w**2 * x[:, None] ** 2 + b**2, w**2 * y[None, :] ** 2 + b**2
    xy = w**2 * np.outer(x, y) + b**2
    both = (1 + xx) * (1 + yy)
    nngp = w**2 * 2 / np.pi * np.arcsin(xy / np.sqrt(both)) + b**2
    return nngp, nngp + w**2 * 2 / np.pi / np.sqrt(both - xy**2) * xy


def test_a_moved_slider_shows_what_dense_algebra_says(panel: panels.Panel) -> None:
    w, b, noise, t = 1.3, 0.7, 1e-3, 100.0
    for name, value in {"sigma_w": w, "sigma_b": b, "noise": noise, "t": t}.items():
        panel.widgets[name].value = value
    x, y, new = X[:, 0].numpy(), Y.numpy(), np.array([1.0])
    (K, T), (Kn, Tn), (Knn, _) = (kernels(*pair, w, b) for pair in ((x, x), (new, x), (new, new)))
    one = np.eye(len(x))
    maps = {
        "NNGP posterior": (Kn @ np.linalg.inv(K + noise * one), noise),
        "NTK flow": (Tn @ np.linalg.inv(T + noise * one) @ (one - expm(-t * (T + noise * one))), 0),
    }
    expected = []
    for name, (A, extra) in maps.items():
        variance = Knn - A @ Kn.T - Kn @ A.T + A @ (K + extra * one) @ A.T
        expected.append(f"{name} {(A @ y).item():.6f} +- {variance.item() ** 0.5:.6f}")
    assert panel.numbers == f"at x = 1: {'; '.join(expected)}"


def test_every_move_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    panel.reset()
    assert panel.values == START
    moves = {"sigma_w": 2.0, "sigma_b": 0.0, "depth": 4, "noise": 0.1, "t": 1e3}
    check_moves(panel, {**moves, "activation": "relu", "predictor": "NTK flow"})


def test_each_predictor_is_shown_alone_with_the_controls_it_has(panel: panels.Panel) -> None:
    both = panel.numbers
    panel.widgets["predictor"].value = "NNGP posterior"
    assert panel.widgets["t"].layout.display == "none"
    bayes = panel.numbers
    panel.widgets["predictor"].value = "NTK flow"
    assert panel.widgets["t"].layout.display is None
    assert both == f"{bayes}; {panel.numbers.removeprefix('at x = 1: ')}"


@pytest.mark.parametrize("activation", predictors.ACTIVATIONS)
def test_every_corner_of_the_sliders_has_finite_numbers_and_no_warning(activation: str) -> None:
    axes = Figure().subplots(1, 2)
    for corner in product((0, -1), repeat=len(SLIDERS)):
        ends = {one.name: one.stops()[end] for one, end in zip(SLIDERS, corner, strict=True)}
        caption = figures.draw_predictions(
            axes, predictors.panel_predictions(activation, "both", **ends)
        ).numbers
        numbers = [float(word) for word in re.findall(r"-?[\d.]+(?=;| \+-|$)", caption)]
        assert len(numbers) == 4, caption
        assert np.isfinite(numbers).all()


@pytest.mark.sweep
def test_frames_are_whole_and_move_every_control(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    assert set(frames) == set(START)
    for control in figures.CONTROLS:
        pictures = {frame["picture"] for frame in frames[control.name]}
        assert len(pictures) == len(control.stops()), control.name


def test_a_logarithmic_slider_holds_its_ends_and_its_start() -> None:
    for slider in (one for one in SLIDERS if one.log):
        stops, widget = slider.stops(), slider.widget()
        assert stops == sorted(set(stops))
        assert (stops[0], stops[-1]) == (slider.low, slider.high)
        assert slider.start in stops
        assert widget.value == slider.start
        assert widget.low == pytest.approx(stops[0])


def test_draws_are_those_of_the_prior_and_move_smoothly() -> None:
    x = LINE[:, 0].numpy()
    some = predictors.prior_draws(NET, count=4000).T[:, ::20]
    pairs = Estimate.of(some[:, :, None] * some[:, None, :])
    exact = torch.from_numpy(kernels(x[::20], x[::20], 1.5, 1.0)[0])
    assert pairs.sigmas_from(exact).max() < 4.5  # 21 pairs: once in 7,000 seeds
    near = FullyConnected(predictors.erf, 1, 1.5 + 1e-6, 1.0)
    torch.testing.assert_close(
        predictors.prior_draws(near), predictors.prior_draws(NET), rtol=0, atol=1e-5
    )


def edges(axes: object) -> np.ndarray:
    """The heights of a band that was drawn, lower and upper, at every point of the line."""
    vertices = axes.collections[0].get_paths()[0].vertices
    at = [vertices[np.isclose(vertices[:, 0], x), 1] for x in LINE[:, 0].numpy()]
    return np.array([[heights.min(), heights.max()] for heights in at])


def test_bands_are_two_standard_deviations_wide(panel: panels.Panel) -> None:
    bayes = posterior(NET, X, Y, LINE, noise=NOISE)
    flow = gradient_flow(NET, X, Y, LINE, t=(1.0, 30.0, 1000.0))
    times = (1.0, 30.0, 1000.0)
    figure = figures.figure_predictors(predictors.predictors(NET, bayes, flow, times))
    band = torch.stack([bayes.mean - 2 * bayes.std, bayes.mean + 2 * bayes.std], 1).numpy()
    np.testing.assert_allclose(edges(figure.axes[1]), band)
    last = torch.stack([flow.mean[2] - 2 * flow.std[2], flow.mean[2] + 2 * flow.std[2]], 1)
    np.testing.assert_allclose(edges(figure.axes[-1]), last.numpy())
    np.testing.assert_allclose(edges(panel.figure.axes[1]), band)  # moved, not drawn anew


def test_a_negative_variance_is_marked() -> None:
    x = np.linspace(-1, 1, 5)
    plain, positive = np.array([1e-15, -2e-15, 3e-15, -4e-15, -5e-15]), np.full(5, 1e-14)
    one = {name: ([1e2, 1e4], [1e2, 1e4]) for name in ("erf", "gaussian", "ReLU")}
    singular = predictors.NearlySingular((4, 8), one, x, plain, positive, positive)
    right = figures.figure_singular(singular).axes[1]
    positive_part, negative_part = (line.get_ydata() for line in right.lines[:2])
    np.testing.assert_array_equal(positive_part[[0, 2]], plain[[0, 2]])
    np.testing.assert_array_equal(negative_part[[1, 3, 4]], -plain[[1, 3, 4]])
    assert np.isnan(positive_part).sum() == 3
    assert np.isnan(negative_part).sum() == 2


def test_networks_and_evidence_say_their_numbers() -> None:
    times, widths = (0.1, 1.0, 10.0), (50, 200, 800)
    flow = gradient_flow(NET, X, Y, LINE, t=times)
    laws = {t: PowerLaw.fit(widths, [width**-0.5 for width in widths]) for t in times}
    some = Mean.of(Estimate(flow.mean[:, ::10], flow.std[:, ::10], 10))
    bands = dict(zip(times, Band.at_times(flow), strict=True))
    networks = figures.figure_networks(
        bands, LINE[::10, 0].numpy(), {"raw": some, "extrapolated": some}, laws
    )
    assert networks.axes[-1].get_legend_handles_labels()[1][0].endswith("slope -0.50")
    scales = np.array([1.0, 2.0, 3.0])
    ends = (bands[times[0]], bands[times[1]])
    value = -np.add.outer((scales - 2) ** 2, (scales - 2) ** 2)
    path = np.array([[1.0, 3.0], [2.5, 2.0], [2.0, 2.0]])
    landscape = predictors.EvidenceMap(scales, scales, value, path, ends)
    left, right, _ = figures.figure_evidence(landscape).axes
    np.testing.assert_array_equal(np.array(left.lines[0].get_data()).T, path)
    labels = right.get_legend_handles_labels()[1]
    assert [re.findall(r"\d\.\d\d", label) for label in labels] == [["1.00", "3.00"], ["2.00"] * 2]
