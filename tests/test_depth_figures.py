"""The panel of depth draws what the catalogue and the fixed points say, and its pictures are whole."""

import re

import numpy as np
import pytest

from analytic import InputError, catalogue
from analytic.activations import erf, gaussian, sine
from analytic.signal_propagation import Signal
from moves import check_moves, read_frames
from notebooks import panels
from notebooks.topics import depth as deep
from notebooks.topics import depth_figures as figures
from notebooks.topics import nngp, nngp_figures

START = {"activation": "erf", "depth": 3, "sigma": 1.0, "zeta": 1.0, "xi": 1.0, "d": 2}


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(deep.deep_rays, figures.PANEL)


def formula(panel: panels.Panel) -> str:
    return panel.view.children[1].value


def test_moved_sliders_show_the_catalogues_numbers(panel: panels.Panel) -> None:
    at = {"depth": 7, "sigma": 1.7, "zeta": 0.4, "xi": 0.6, "d": 5}
    panel.move(activation="sine", **at)
    exactly = {"depth": 7, "sigma": "1.7", "zeta": "0.4", "d": 5, "r": 1, "w": 1}
    for kernel, more in {"nngp": {}, "ntk": {"xi": "0.6"}}.items():
        volume, scalar = (
            float(catalogue[f"deep.sine.{kernel}.{what}"].evaluate(20, **exactly, **more))
            for what in ("magnification", "ricci")
        )
        numbers = f"{kernel.upper()} log10 sqrt(det g) = {np.log10(volume):.8g}, R = {scalar:.8g}"
        assert numbers in panel.numbers


@pytest.mark.parametrize("act", [erf, sine(1), gaussian], ids=lambda act: act.name)
@pytest.mark.parametrize("sigma", [0.7, 2.6])
def test_the_caption_tells_the_phase_that_fixed_points_have(panel, act, sigma) -> None:
    panel.move(activation=act.name, sigma=sigma, zeta=0.5)
    signal = Signal(act, str(sigma), "0.5", digits=15)
    assert f"{float(signal.chi_1):.4g}" in formula(panel)
    assert f"({signal.phase})" in formula(panel)
    assert rf"\ell_c = {float(signal.xi_c):.4g} \text{{ layers}}" in formula(panel)


def test_a_signal_without_bias_vanishes_in_order_and_is_critical_at_the_edge(panel) -> None:
    panel.move(activation="sine", sigma=0.9, zeta=0.0)
    assert "(ordered)" in formula(panel)
    assert "the signal vanishes" in formula(panel)
    panel.move(sigma=1.0)  # sin'(0) = 1
    assert "(critical)" in formula(panel)
    assert r"\ell_c = \infty \text{ layers}" in formula(panel)


def test_the_marker_lies_where_the_sliders_are(panel: panels.Panel) -> None:
    panel.move(sigma=2.2, zeta=0.3)
    diagram = panel.figure.axes[2]
    assert np.ravel(diagram.lines[1].get_data()).tolist() == [0.3, 2.2]


@pytest.mark.parametrize("name", figures.ACTIVATION.options)
def test_every_activation_draws_at_the_ends_of_its_sliders(panel: panels.Panel, name: str) -> None:
    panel.move(activation=name)
    for control in figures.CONTROLS[1:]:
        for end in (control.low, control.high):
            panel.move(**{control.name: end})
            assert not re.search("nan|inf(?!ty)", panel.numbers + formula(panel))
            assert all(np.isfinite(line.get_ydata()).all() for line in panel.figure.axes[0].lines)
        panel.move(**{control.name: control.start})


def test_every_move_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    panel.reset()
    assert panel.values == START
    check_moves(panel, {"depth": 9, "sigma": 2.0, "zeta": 0.0, "xi": 2.0, "activation": "sine"})


def test_the_point_of_the_phase_diagram_is_dragged(panel: panels.Panel) -> None:
    drag = panel.picture._handle_custom_msg
    drag({"point": [0.4567, 2.0], "moving": False}, [])
    assert (panel.values["zeta"], panel.values["sigma"]) == (0.46, 2.0)
    assert panel.figure.axes[2].lines[1].get_xydata().tolist() == [[0.46, 2.0]]
    drag({"point": [-3.0, 99.0], "moving": True}, [])  # beyond the axes: to their edge
    assert (panel.values["zeta"], panel.values["sigma"]) == (0.0, 3.0)
    with pytest.raises(InputError, match="no point to drag"):
        panels.Panel(nngp.ray, nngp_figures.PANEL).drag((1.0, 1.0))


@pytest.mark.sweep
def test_frames_need_no_kernel(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    assert set(frames) == set(START)
    assert len({frame["picture"] for frame in frames["depth"]}) == len(figures.depth.stops())


def test_the_line_of_the_diagram_parts_order_from_chaos() -> None:
    for act in (erf, sine(1)):
        zeta, sigma = deep.critical_curve(act)
        for k in np.linspace(0, len(zeta) - 1, 5).astype(int)[1:]:
            below, above = (Signal(act, f * sigma[k], zeta[k], digits=15) for f in (0.99, 1.01))
            assert (below.phase, above.phase) == ("ordered", "chaotic")


def test_log_volume_is_the_catalogues_in_any_dimension() -> None:
    values = {"sigma": 1.4, "zeta": 0.3, "xi": 0.8, "r": 2.0, "depth": 4}
    for kernel in deep.KERNELS:
        direct = np.log10(deep.closed_form(kernel, "magnification", d=6, **values))
        assert np.isclose(deep.log_volume(kernel, d=6, **values), direct, rtol=1e-12)
