"""Panels: sliders draw what the catalogue says, and frames need no kernel."""

import pytest

from analytic import catalogue
from moves import read_frames
from notebooks import panels
from notebooks.topics import nngp
from notebooks.topics import nngp_figures as figures


@pytest.fixture(scope="module")
def panel() -> panels.Panel:
    return panels.Panel(nngp.ray, figures.PANEL)


def test_a_moved_slider_shows_the_catalogues_number(panel: panels.Panel) -> None:
    panel.widgets["activation"].value = "relu_power"
    panel.widgets["sigma"].value = 1.7
    panel.widgets["q"].value = 4
    exact = catalogue["nngp.relu_power.ricci"].evaluate(20, d=2, sigma=1.7, zeta=1, r=1, q=4)
    assert panel.numbers.endswith(f"R = {float(exact):.8g}")


def test_every_move_changes_the_picture_and_reset_undoes_it(panel: panels.Panel) -> None:
    image = panel.picture
    seen = [image.value]
    for name, value in (("sigma", 2.0), ("zeta", 0.0), ("d", 5), ("activation", "gelu")):
        panel.widgets[name].value = value
        seen.append(image.value)
    assert len(set(seen)) == len(seen)
    panel.reset()
    assert panel.values == {"activation": "erf", "sigma": 1.0, "zeta": 1.0, "q": 2, "d": 2}
    assert panel.numbers.startswith("at |x| = 1")


@pytest.mark.parametrize("name", figures.ACTIVATION.options)
def test_every_activation_draws_at_the_ends_of_its_sliders(panel: panels.Panel, name: str) -> None:
    panel.widgets["activation"].value = name
    for control in (panels.zeta, panels.dimension):
        for end in (control.low, control.high):
            panel.widgets[control.name].value = end
            assert "nan" not in panel.numbers


def test_the_degree_hides_where_it_does_not_matter(panel: panels.Panel) -> None:
    assert panel.widgets["q"].layout.display == "none"
    panel.widgets["activation"].value = "monomial"
    assert panel.widgets["q"].layout.display is None


@pytest.mark.sweep
def test_frames_are_whole_and_ask_for_nothing_from_outside(panel: panels.Panel) -> None:
    frames = read_frames(panel)
    assert set(frames) == {"activation", "sigma", "zeta", "d"}
    assert len({frame["picture"] for frame in frames["sigma"]}) == len(panels.sigma.stops())


def test_stops_hold_both_ends_and_the_start() -> None:
    for slider in (panels.sigma, panels.zeta, panels.degree, panels.dimension):
        stops = slider.stops()
        assert stops == sorted(set(stops))
        assert {stops[0], stops[-1]} == {slider.low, slider.high}
        assert slider.start in stops
