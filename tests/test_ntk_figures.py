"""Pictures of NTK geometry show what the catalogue says, and say so where there is nothing to show."""

import math
import re

import numpy as np
import pytest
import torch
from mpmath import mp

from analytic import catalogue
from moves import check_moves, read_frames
from notebooks import panels
from notebooks.topics import ntk
from notebooks.topics import ntk_figures as figures
from notebooks.topics.statistics import PowerLaw
from notebooks.topics.statistics_figures import figure_laws
from numeric.estimate import Estimate
from numeric.experiments.width import Convergence

SETTING = {"d": 2, "sigma": 1.0, "zeta": 1.0, "xi": 1.0}
NNGP, NTK, DOT = range(3)


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(ntk.both_rays, figures.PANEL)


def line(panel: panels.Panel, axes: int, which: int) -> np.ndarray:
    return np.asarray(panel.figure.axes[axes].lines[which].get_ydata(), dtype=float)


def test_moved_sliders_show_the_catalogues_numbers_of_both_kernels(panel: panels.Panel) -> None:
    panel.move(activation="monomial", sigma=1.7, zeta=0.5, xi=0.3, q=3, d=4)
    at = {"d": 4, "sigma": 1.7, "zeta": 0.5, "r": 1, "q": 3}
    expected = []
    for kernel, extra in (("nngp", {}), ("ntk", {"xi": 0.3})):
        volume, scalar = (
            catalogue[f"{kernel}.monomial.{what}"].evaluate(20, **at, **extra)
            for what in ("magnification", "ricci")
        )
        expected += [
            f"log10 sqrt(det g) = {float(mp.log10(volume)):.8g}",
            f"R = {float(scalar):.8g}",
        ]
    shown = re.findall(r"(?:log10 sqrt\(det g\)|R) = [-\d.e]+\d", panel.numbers)
    assert shown == expected


def test_the_curves_are_those_of_the_catalogue(panel: panels.Panel) -> None:
    panel.move(xi=0.3, d=3)
    for which, kernel in ((NNGP, "nngp"), (NTK, "ntk")):
        for k in (0, -1):
            at = {"d": 3, "sigma": 1, "zeta": 1, "r": ntk.NEAR[k]}
            at |= {"xi": 0.3} if kernel == "ntk" else {}
            volume, scalar = (
                catalogue[f"{kernel}.erf.{what}"].evaluate(20, **at)
                for what in ("magnification", "ricci")
            )
            assert line(panel, 0, which)[k] == pytest.approx(float(mp.log10(volume)), rel=1e-9)
            assert line(panel, 1, which)[k] == pytest.approx(float(scalar), rel=1e-9)


def test_every_slider_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    moves = {"sigma": 2.0, "zeta": 0.3, "xi": 2.0, "d": 5, "activation": "monomial", "q": 4}
    check_moves(panel, moves)


def test_without_a_readout_both_curves_are_one(panel: panels.Panel) -> None:
    for activation in ("erf", "gelu", "monomial"):
        panel.move(activation=activation, xi=0.0, d=3)
        for axes in (0, 1):
            one, other = line(panel, axes, NNGP), line(panel, axes, NTK)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        panel.move(xi=0.5)
        assert abs(line(panel, 1, NNGP) - line(panel, 1, NTK)).max() > 1e-3


@pytest.mark.parametrize("name", figures.ACTIVATION.options)
def test_every_activation_draws_at_the_ends_of_its_sliders(panel: panels.Panel, name: str) -> None:
    panel.move(activation=name)
    for control in (panels.zeta, panels.xi, panels.dimension):
        for end in (control.low, control.high):
            panel.move(**{control.name: end})
            assert all(
                np.isfinite(line(panel, k, which)).all() for k in (0, 1) for which in (NNGP, NTK)
            )
            assert "nan" not in panel.numbers


def test_the_dot_is_where_the_curve_of_the_ntk_begins(panel: panels.Panel) -> None:
    for activation in ("erf", "gaussian", "relu_power"):
        panel.move(activation=activation, zeta=1.2, xi=0.7, d=3)
        (dot,) = line(panel, 1, DOT)
        beside = ntk.ricci("ntk", activation, d=3, sigma=1.0, zeta=1.2, xi=0.7, q=2, r=1e-4)
        assert dot == pytest.approx(beside, rel=1e-6)  # R is even in r, so off by r^2
        assert dot < -0.1


def test_where_the_metric_vanishes_at_the_origin_there_is_no_dot(panel: panels.Panel) -> None:
    panel.move(activation="monomial", q=3, zeta=0.0)
    assert not line(panel, 1, DOT).size
    assert "does not exist" in panel.view.children[1].value
    assert np.isfinite(line(panel, 1, NTK)).all()


def test_the_relu_has_no_tangent_metric_and_the_panel_says_why(panel: panels.Panel) -> None:
    panel.move(activation="relu_power", q=1)
    assert np.isfinite(line(panel, 0, NNGP)).all()
    assert not np.isfinite(line(panel, 0, NTK)).any()
    assert "needs q > 3/2" in panel.numbers
    assert "needs q &gt; 3/2" in panel.view.children[2].value
    panel.move(q=2)
    assert np.isfinite(line(panel, 0, NTK)).all()


def test_volumes_of_high_dimension_stay_within_the_floats() -> None:
    at = {"sigma": 3.0, "zeta": 3.0, "xi": 2.0, "q": 10}
    for kernel in ntk.KERNELS:
        formula = catalogue[f"{kernel}.relu_power.magnification"]
        names = {symbol.name for symbol in formula.args}
        arguments = {name: value for name, value in at.items() if name in names}
        exact = mp.log10(formula.evaluate(20, d=20, r=5, **arguments))
        assert exact > math.log10(np.finfo(float).max)
        computed = ntk.log_volume(kernel, "relu_power", d=20, r=5.0, **at)
        assert computed == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.sweep
def test_frames_are_whole_and_hold_the_readout(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    assert set(frames) == {"activation", "sigma", "zeta", "xi", "d"}
    assert len({frame["picture"] for frame in frames["xi"]}) == len(panels.xi.stops())
    assert {panels.xi.low, panels.xi.high, panels.xi.start} <= set(panels.xi.stops())


def test_the_geometry_figure_has_a_circle_for_every_judged_number() -> None:
    radii, count = (0.0, 1.0, 3.0), len(ntk.SHOWN)
    judged = {
        (kernel, one.label, what): 10.0 ** np.arange(3) * (k + 1)
        for kernel in ntk.KERNELS
        for k, one in enumerate(ntk.SHOWN)
        for what in ntk.QUANTITIES
    }
    figure = figures.figure_geometry(ntk.geometry_along_ray(radii, judged, SETTING))
    volume, _, erf, _, monomials, tangent = figure.axes
    drawn = [line.get_ydata() for line in volume.lines if len(line.get_xdata()) == 3]
    np.testing.assert_allclose(drawn, np.arange(3) + np.log10(np.arange(count) + 1)[:, None])
    assert "0$" in erf.get_legend().texts[0].get_text()
    (dot,) = [line for line in tangent.lines if len(line.get_xdata()) == 1][:1]
    assert dot.get_ydata()[0] == pytest.approx(-1 / 3)  # -2d(d-1)c/a^2 with a = 4, c = 4/3
    assert "-0.333" in tangent.get_legend().texts[0].get_text()
    assert len(monomials.get_legend().texts) == count - 1


def test_the_width_figure_has_mean_and_spread_of_every_width() -> None:
    radii = torch.tensor([0.0, 2.0], dtype=torch.float64)
    draws = torch.tensor([[1.0, 2.0], [3.0, 6.0]], dtype=torch.float64)
    sweep = Convergence(radii, draws[0], {10: Estimate.of(draws), 20: Estimate.of(draws + 1)})
    figure = figures.figure_width(
        ntk.tangent_networks({"erf": dict.fromkeys(ntk.QUANTITIES, sweep)}, SETTING)
    )
    for axes in figure.axes:
        first, second = axes.containers
        assert first.lines[0].get_ydata().tolist() == [2.0, 4.0]
        assert second.lines[0].get_ydata().tolist() == [3.0, 5.0]
        (bars,) = first.lines[2]
        heights = [float(np.ptp(segment[:, 1])) for segment in bars.get_segments()]
        assert heights == pytest.approx([2 * math.sqrt(2), 2 * math.sqrt(8)])


def test_laws_are_told_by_their_slopes() -> None:
    x = [1e-3, 1e-2, 1e-1]
    laws = {
        "square": PowerLaw.fit(x, [3 * v**2 for v in x]),
        "root": PowerLaw.fit(x, [v**0.5 for v in x]),
    }
    figure = figure_laws({"one": laws, "two": laws}, "h")
    texts = [text.get_text() for text in figure.axes[1].get_legend().texts]
    assert texts == ["square: slope 2.000", "root: slope 0.500"]
    assert figure.axes[0].get_xlabel() == "h"
