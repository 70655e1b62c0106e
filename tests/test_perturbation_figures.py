"""Pictures of one learned example show the closed forms, the numbers they get, and where theory ends."""

import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from analytic.perturbation import exact_chi, exact_fluctuation
from moves import check_moves, read_frames
from notebooks import panels
from notebooks.panels.style import BLUE, RED
from notebooks.topics import perturbation
from notebooks.topics import perturbation_figures as figures
from notebooks.topics.statistics import PowerLaw

START = {control.name: control.start for control in figures.CONTROLS}
CORRECTED, PRINTED, DOT, PRINTED_DOT = range(4)


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(perturbation.learned_example, figures.PANEL)


def line(panel: panels.Panel, axes: int, which: int) -> tuple[np.ndarray, np.ndarray]:
    data = panel.figure.axes[axes].lines[which].get_data()
    return tuple(np.asarray(part, dtype=float) for part in data)


def values(d: int, q: int, rho: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
    """Corrected and printed coefficients of 1/n, in fractions."""
    printed = (y**2 - 1) * (exact_chi(d, q, rho) - d) / 4
    return printed + exact_fluctuation(d, q), printed


@pytest.mark.parametrize(
    ("d", "q", "rho", "y"),
    [(1, 1, 1, 2), (2, 2, "1/2", "7/5"), (100, 3, 0, 0), (3, 10, "-3/4", 1), (20, 10, 1, 3)],
)
def test_both_coefficients_are_those_of_exact_arithmetic(
    d: int, q: int, rho: Fraction | str, y: Fraction | str
) -> None:
    rho, y = Fraction(rho), Fraction(y)
    corrected, printed = values(d, q, rho, y)
    at = (d, q, float(rho), float(y))
    assert perturbation.change(*at) == pytest.approx(float(corrected), rel=1e-12)
    assert perturbation.as_printed(*at) == pytest.approx(float(printed), rel=1e-12)


def test_small_cases_by_hand() -> None:
    assert perturbation.change(1, 1, 1.0, 1.0) == pytest.approx(-1 / 4)
    assert perturbation.as_printed(1, 1, 1.0, 1.0) == 0
    assert perturbation.change(2, 2, 1.0, 0.0) == pytest.approx(-11 / 3 - 23 / 6)
    assert perturbation.threshold(1, 1, 1.0) == pytest.approx(math.sqrt(3 / 2))
    assert perturbation.threshold(2, 2, 0.0) == pytest.approx(math.sqrt(29 / 6))


@pytest.mark.parametrize(("d", "q"), [(1, 1), (2, 2), (2, 5), (20, 3)])
def test_the_threshold_is_where_the_sign_turns(d: int, q: int) -> None:
    rho = np.array([0.0, 0.3, 1.0])
    y = perturbation.threshold(d, q, rho)
    assert (perturbation.change(d, q, rho, 0.999 * y) < 0).all()
    assert (perturbation.change(d, q, rho, 1.001 * y) > 0).all()


def test_figure_e1_draws_chi_and_circles_what_was_judged() -> None:
    curves = perturbation.chi_curves(lambda d, q, rho: d + 10 * q + rho, (2, 7), (1, 3))
    figure = figures.figure_e1(curves)
    share, other, excess, _ = figure.axes
    curve, inner, ends = excess.lines[3:6]  # of q = 3
    assert curve.get_ydata()[[0, -1]] == pytest.approx([6, float(exact_chi(2, 3, 1)) - 2])
    assert inner.get_ydata() == pytest.approx([30.25, 30.5, 30.75])
    assert ends.get_ydata() == pytest.approx([30, 31])
    assert share.lines[5].get_ydata() == pytest.approx([32 / 33, 1])
    assert share.lines[3].get_ydata()[-1] == 1
    assert "d = 7" in other.get_title()
    assert [text.get_text() for text in figure.legends[0].texts] == ["$q = 1$", "$q = 3$"]


def test_voices_stand_beside_both_formulas() -> None:
    lonely, plane = perturbation.by_target(1, 1, 1.0), perturbation.by_target(2, 2, 0.5)
    exact = {10: [1.0, 2.0], 100: [3.0, 4.0]}
    parts = ([0.0, 1.0], [1.0, 2.0], [0.1, 0.2])
    sampled = {50: perturbation.Sampled(*map(np.array, parts))}
    both = figures.figure_printed_corrected(lonely, [0.5, 1.5], exact, plane, sampled)
    left, right = both.axes
    assert "rho" not in left.get_title()
    assert r"\rho = 0.5" in right.get_title()
    _, printed, corrected, ten, hundred = left.lines
    assert np.ptp(printed.get_ydata() - corrected.get_ydata()) < 1e-12  # kappa = -1/4 everywhere
    assert printed.get_ydata()[0] - corrected.get_ydata()[0] == pytest.approx(1 / 4)
    assert (list(ten.get_ydata()), list(hundred.get_ydata())) == ([1, 2], [3, 4])
    (container,) = right.containers
    assert container.lines[0].get_ydata().tolist() == [1.0, 2.0]
    (bars,) = container.lines[2]
    heights = [float(np.ptp(segment[:, 1])) for segment in bars.get_segments()]
    assert heights == pytest.approx([0.2, 0.4])


def test_a_line_knows_its_value_at_zero_and_its_error() -> None:
    x, stderr = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.2, 0.1])
    fit = perturbation.LineFit.through(x, 3 - 0.5 * x, stderr)
    assert (fit.value, fit.slope) == pytest.approx((3, -0.5))
    design = np.stack([np.ones(3), x], 1) / stderr[:, None]
    assert fit.stderr == pytest.approx(np.linalg.inv(design.T @ design)[0, 0] ** 0.5)
    moved = perturbation.LineFit.through(x, 3 - 0.5 * x + np.array([0, 10, 0]), [0.1, 1e6, 0.1])
    assert moved.value == pytest.approx(3, abs=1e-6)  # what is not known does not pull


def test_limits_show_slopes_samples_and_the_extrapolation() -> None:
    n = [10, 100, 1000]
    laws = {f"of order {p}": PowerLaw.fit(n, [0.25 * k**-p for k in n]) for p in (1.0, 2.0, 0.0)}
    fit = perturbation.LineFit(-2.0, 0.3, 10.0)
    at = perturbation.Sampled(*map(np.array, ([10, 20], [-1.0, -1.5], [0.1, 0.2])))
    left, right = figures.figure_limits(laws, at, fit, -2.1, 1.0).axes
    texts = [text.get_text() for text in left.get_legend().texts]
    assert [text.split()[-1].lstrip("-") for text in texts] == ["1.000", "2.000", "0.000"]
    samples, limit = right.containers
    assert samples.lines[0].get_xdata() == pytest.approx([0.1, 0.05])
    assert samples.lines[0].get_ydata() == pytest.approx([-1.0, -1.5])
    assert limit.lines[0].get_ydata() == pytest.approx([-2.0])
    here, _, fitted = (line.get_ydata() for line in right.lines[:3])
    assert (list(here), list(fitted)) == ([-2.1, -2.1], [-2.0, -1.0])
    legend = " ".join(text.get_text() for text in right.get_legend().texts[:2])
    assert re.findall(r"[-+][\d.]+", legend) == ["-2.100", "+1.000"]


def test_the_map_is_symmetric_about_the_example_and_draws_the_border() -> None:
    figure = figures.figure_map(perturbation.area_maps((0.0, 1.8), 2, (1.0, 1.0)))
    shrink, both, untrained, grow = figure.axes[:4]
    for axes in (shrink, both, untrained, grow):
        picture = np.asarray(axes.collections[0].get_array()).reshape(200, 200)
        np.testing.assert_allclose(picture, picture.T, atol=1e-12)  # x1 and x2 exchanged
        np.testing.assert_allclose(picture, picture[::-1, ::-1], atol=1e-12)  # x and -x
        low, high = axes.collections[0].get_clim()
        assert np.abs(picture).max() <= high == -low
        assert bool(len(axes.collections[1].get_paths()[0].vertices)) == (axes is both)
    along, across = (float(text.get_text()) for text in both.texts)
    assert along == pytest.approx(perturbation.change(2, 2, 1.0, 1.8), abs=0.005)
    assert across == pytest.approx(perturbation.change(2, 2, 0.0, 1.8), abs=0.005)
    assert both.texts[1].get_position() == (-1.0, 1.0)  # at a right angle to (1, 1)
    signs = [text.get_text()[0] for axes in figure.axes[:4] for text in axes.texts]
    assert signs == list("--+---++")


def test_negative_coefficients_are_red() -> None:
    turns = {1: {2: 1.01, 3: 1.001}, 5: {2: 3.0, 3: 2.0}}
    left, right = figures.figure_monotone("here", [2.0, 5.0, -1.0], turns).axes
    assert [to_hex(bar.get_facecolor()) for bar in left.patches] == [BLUE, BLUE, RED]
    assert [bar.get_height() for bar in left.patches] == [2.0, 5.0, -1.0]
    assert right.lines[0].get_ydata() == pytest.approx([0.01, 0.001])
    assert right.lines[1].get_xdata().tolist() == [2, 3]


def test_moved_sliders_show_exact_numbers(panel: panels.Panel) -> None:
    panel.move(q=3, d=5, rho=0.25, y=1.5, n=1e4)
    corrected, printed = (
        float(1 + value / 10_000) for value in values(5, 3, Fraction(1, 4), Fraction(3, 2))
    )
    assert panel.numbers.startswith(f"corrected {corrected:.8g}, as printed {printed:.8g};")
    excess = exact_chi(5, 3, Fraction(1, 4)) - 5
    grows = math.sqrt(1 - 4 * exact_fluctuation(5, 3) / excess)
    assert panel.numbers.endswith(f"areas grow from y = {grows:.6g} |x_a|^3")
    formula = panel.view.children[1].value
    assert (
        rf"\frac{{1}}{{10000}}\left[\frac{{2.25 - 1}}{{4}}\cdot {float(excess):.6g} - " in formula
    )


def test_dots_lie_on_their_curves(panel: panels.Panel) -> None:
    panel.move(rho=0.35, y=1.2)
    for axes, at in ((0, 0.35), (1, 1.2)):
        for curve, dot in ((CORRECTED, DOT), (PRINTED, PRINTED_DOT)):
            (x,), (y,) = line(panel, axes, dot)
            assert x == pytest.approx(at)
            assert y == pytest.approx(np.interp(at, *line(panel, axes, curve)), rel=1e-6)


def test_every_slider_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    panel.reset()
    assert panel.values == START
    check_moves(panel, {"q": 3, "d": 4, "rho": 0.9, "y": 0.5, "n": 1e5})


def test_on_a_line_there_is_one_overlap(panel: panels.Panel) -> None:
    panel.move(d=1, q=1, rho=0.2)
    assert panel.widgets["rho"].layout.display == "none"
    assert line(panel, 0, CORRECTED)[0].tolist() == line(panel, 0, DOT)[0].tolist() == [1.0]
    panel.move(rho=0.9)
    assert line(panel, 0, DOT)[0].tolist() == [1.0]
    panel.move(d=2)
    assert panel.widgets["rho"].layout.display is None
    assert len(line(panel, 0, CORRECTED)[0]) == len(perturbation.OVERLAPS)


def test_a_network_too_narrow_for_the_expansion_is_told_so(panel: panels.Panel) -> None:
    assert "too narrow" not in panel.numbers
    panel.move(q=4, n=10.0)
    assert "too narrow for a first order" in panel.numbers
    panel.move(n=1e6)
    assert "too narrow" not in panel.numbers


def test_every_corner_of_the_sliders_has_finite_numbers() -> None:
    axes = Figure().subplots(1, 2)
    for corner in product((0, -1), repeat=len(figures.CONTROLS)):
        at = {c.name: c.stops()[end] for c, end in zip(figures.CONTROLS, corner, strict=True)}
        caption = figures.draw_example(axes, perturbation.learned_example(**at))
        numbers = [
            float(word)
            for word in re.findall(r"(?:corrected|printed|=) (-?[\d.e+]+)", caption.numbers)
        ]
        assert len(numbers) == 3, caption
        assert np.isfinite(numbers).all(), caption
        assert all(np.isfinite(one.get_ydata()).all() for side in axes for one in side.lines)


@pytest.mark.sweep
def test_frames_are_whole_and_move_every_control(panel: panels.Panel) -> None:
    frames = read_frames(panel, every=2)
    assert set(frames) == set(START)
    for control in figures.CONTROLS:
        pictures = {frame["picture"] for frame in frames[control.name]}
        assert len(control.stops()) > len(pictures) == len(frames[control.name]) > 2, control.name
