"""Panels: sliders draw what the catalogue says, and frames need no kernel."""

import builtins
import math
import re
import threading
import time
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from analytic import catalogue
from analytic.expressions.arguments import InputError
from moves import read_frames
from notebooks import panels
from notebooks.panels.picture import DARK_GROUND, MARGINS, Canvas
from notebooks.panels.worker import Worker
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


def test_a_panel_opens_at_the_parameters_of_a_notebook() -> None:
    surroundings = {"sigma": 0.15, "q": 3, "activation": "monomial", "d": np.arange(3), "seed": 7}
    panel = panels.open_panel(nngp.ray, figures.PANEL, surroundings)
    assert panel.values == {"activation": "monomial", "sigma": 0.15, "zeta": 1.0, "q": 3, "d": 2}
    panel.move(sigma=1.0)
    panel.reset()
    assert panel.values["sigma"] == 0.15
    frames = read_frames(panel, every=8)
    assert f"{panels.sigma.title} = 0.15" in [frame["label"] for frame in frames["sigma"]]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sigma", 0, "sigma must be a number above 0"),
        ("zeta", -0.1, "zeta must be a number at least 0"),
        ("q", 2.5, "q must be a whole number at least 1"),
        ("d", "two", "d = 'two' is no number"),
        ("activation", "tanhh", "activation must be one of"),
    ],
)
def test_a_panel_does_not_open_outside_a_domain(name: str, value: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        panels.open_panel(nngp.ray, figures.PANEL, {name: value})


def test_parameters_are_checked_by_the_symbol_of_their_name() -> None:
    for name, value in {
        "delta": math.inf,
        "rho": -1,
        "q": 2.0,
        "sigma": "1/3",
        "profile": "x",
    }.items():
        panels.check_parameter(name, value)
    for name, value in {"delta": math.nan, "rho": 1.01, "n": 0, "depth": True, "xi": -1}.items():
        with pytest.raises(InputError, match=rf"^{name} = .*\.$"):
            panels.check_parameter(name, value)


def test_a_typed_number_is_taken_as_typed_or_refused_in_words(panel: panels.Panel) -> None:
    panel.reset()
    sigma = panel.widgets["sigma"]
    sigma.type("0.15")
    assert (panel.values["sigma"], panel.message) == (0.15, "")
    sigma.type(" 7 ")
    assert (sigma.value, sigma.high) == (7.0, 7.0)
    exact = catalogue["nngp.erf.ricci"].evaluate(20, d=2, sigma=7, zeta=1, r=1)
    assert panel.numbers.endswith(f"R = {float(exact):.8g}")
    for text in ("-1", "0", "nan", "inf", "", "1e400", "1e-400", "σ"):  # noqa: RUF001
        sigma.type(text)
        assert re.match(r"sigma = .* (number|size)", panel.message), text
        assert panel.values["sigma"] == 7.0
    panel.widgets["d"].type("2.5")
    assert "d must be a whole number" in panel.message
    sigma.type("2")
    assert panel.message == ""
    panel.reset()
    assert (sigma.low, sigma.high) == (0.1, 3.0)
    with pytest.raises(InputError):
        sigma.value = -1.0
    assert sigma.value == 1.0


def test_what_compute_refuses_is_said_and_the_picture_stays() -> None:
    def compute(**values: float) -> nngp.Ray:
        if values["d"] == 3:
            raise InputError("d = 3 was given, but there are no three dimensions here.")
        return nngp.ray(**values)

    panel = panels.Panel(compute, figures.PANEL)
    before, numbers = panel.picture.value, panel.numbers
    panel.widgets["d"].value = 3
    assert panel.message.startswith("d = 3 was given, but there are no three dimensions here.")
    assert (panel.picture.value, panel.numbers) == (before, numbers)
    panel.widgets["d"].value = 4
    assert panel.message == ""
    assert panel.picture.value != before


def test_the_last_curve_stays_as_a_ghost_until_the_next_move(panel: panels.Panel) -> None:
    panel.reset()
    plain = panel.picture.value
    start = panel.figure.axes[0].lines[0].get_xydata().copy()
    panel.widgets["sigma"].value = 2.0
    ghost = panel.figure.artists[0]
    assert np.array_equal(ghost.get_segments()[0], start)
    panel.widgets["sigma"].set_state({"value": 2.1, "moving": True})  # amid a drag
    assert np.array_equal(panel.figure.artists[0].get_segments()[0], start)
    with_ghost = panel.picture.value
    panel.picture.ghost = False
    assert panel.picture.value != with_ghost
    assert not panel.figure.artists
    panel.picture.ghost = True
    panel.reset()
    assert panel.picture.value == plain


def test_a_ghost_takes_the_colours_of_the_page(panel: panels.Panel) -> None:
    panel.reset()
    panel.move(sigma=2.0)
    for dark in (True, False):
        panel.picture.dark = dark
        line, ghost = panel.figure.axes[0].lines[0], panel.figure.artists[0]
        assert to_hex(ghost.get_edgecolor()[0]) == to_hex(line.get_color())


def test_axes_are_locked_and_logarithmic_on_demand(panel: panels.Panel) -> None:
    panel.reset()
    axes = panel.figure.axes[0]
    free = axes.get_ylim()
    panel.picture.locked = True
    panel.move(zeta=3.0)
    assert axes.get_ylim() == free
    panel.picture.locked = False
    assert axes.get_ylim()[1] < free[1] / 2
    panel.reset()
    panel.picture.logarithmic = True
    assert [one.get_yscale() for one in panel.figure.axes] == ["log", "asinh"]
    kinds = [one["y"]["kind"] for one in panel.picture.axes]
    assert kinds == ["log", "table"]
    values = panel.picture.axes[1]["y"]["values"]
    assert values == sorted(values)
    assert (values[0], values[-1]) == pytest.approx(panel.figure.axes[1].get_ylim())
    panel.picture.logarithmic = False
    assert panel.figure.axes[0].get_ylim() == pytest.approx(free)


def test_numbers_on_logarithmic_axes_have_room_and_planes_stay_as_they_are() -> None:
    canvas = Canvas(("one sign", "both signs", "a plane"), 0, 1.0, dark=False)
    one, both, plane = canvas.axes
    x = np.linspace(0, 5, 50)
    one.plot(x, 0.3 * np.exp(-x / 2))
    both.plot(x, 5 * x**2 * (1 - x))
    plane.plot(x, x)
    plane.set_aspect("equal")
    canvas.settle(logarithmic=True)
    canvas.png()
    assert plane.get_yscale() == "linear"
    for axes in (one, both):
        axis = axes.yaxis
        labels = [axis.get_majorticklabels(), axis.get_minorticklabels()]
        low, high = axis.get_view_interval()
        boxes = [
            label.get_window_extent()
            for some in labels
            for label in some
            if label.get_text() and low <= label.get_position()[1] <= high
        ]
        assert len(boxes) > 1
        assert min(box.x0 for box in boxes) >= axes.get_window_extent().x0 - MARGINS["left"]
        boxes.sort(key=lambda box: box.y0)
        assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def test_a_setting_is_given_back_as_text(panel: panels.Panel) -> None:
    panel.reset()
    panel.move(sigma=1.5, activation="monomial", q=3)
    assert panel.as_parameters() == "-p activation=monomial -p sigma=1.5 -p zeta=1.0 -p q=3 -p d=2"
    scope: dict[str, object] = {}
    lines = panel.as_python().splitlines()
    exec("\n".join([*lines[:-1], f"ray = {lines[-1]}"]), scope)
    assert scope["ray"].ricci_at_one == nngp.ray("monomial", 1.5, 1.0, 3, 2).ricci_at_one
    assert "sigma = 1.5" in panel.picture.alt
    panel.move(activation="erf")
    assert "q = " not in panel.picture.alt  # which does not matter to it
    assert panel.numbers in panel.picture.alt


def test_the_picture_is_drawn_for_the_page(panel: panels.Panel) -> None:
    panel.reset()
    page = panel.picture
    page.set_state({"dark": True, "density": 2.0, "width": 400})
    assert panel.figure.get_facecolor()[:3] == pytest.approx([int(DARK_GROUND[1:3], 16) / 255] * 3)
    assert panel.figure.get_size_inches()[0] * panel.figure.dpi == 800
    tops = [axes.get_position().y1 for axes in panel.figure.axes]
    assert tops[0] > tops[1] + 0.3  # below each other
    page.set_state({"dark": False, "density": 1.0, "width": 0})
    assert panel.figure.get_size_inches()[0] == 9.0


def test_every_control_has_words_and_a_tooltip() -> None:
    for control in (panels.sigma, panels.zeta, panels.xi, panels.degree, panels.dimension):
        widget = control.widget()
        assert control.words in widget.label
        assert "type a number" in widget.tip
    assert "at least 0.001 and at most 1000" in panels.sigma.widget().tip


def test_frames_have_a_menu_for_a_choice_and_sliders_show_their_value(panel: panels.Panel) -> None:
    panel.reset()
    page = panel.frames(every=20)
    assert re.search(r'<select [^>]*data-name="activation"[^>]*><option', page)
    assert page.count('type="range"') == page.count("<output>") == 3
    assert 'aria-label="ζ, bias std"' in page


def test_letters_have_their_index_below_in_frames(panel: panels.Panel) -> None:
    slider = panels.Slider("s", "s_w", 1.0, 3.0, 0.5, 1.5, "weight std")
    look = panels.Look(lambda axes, arrays: panels.Caption("x", "1 < 2"), (slider,), ("one",))
    one = panels.Panel(lambda s: s, look)
    labels = [frame["label"] for frame in read_frames(one)["s"]]
    assert "s<sub>w</sub>, weight std = 2.5" in labels
    assert ">s<sub>w</sub>, weight std</span>" in one.frames()


def test_titles_stay_in_their_figure_and_off_each_other() -> None:
    titles = ("what training points added at ★", "error of rebuilt outputs", "third")
    for width in (240, 390, 700, 1200):
        canvas = Canvas(titles, width, 1.0, dark=False)
        canvas.png()
        boxes = [axes.title.get_window_extent() for axes in canvas.axes]
        assert all(box.x0 >= 0 and box.x1 <= canvas.width for box in boxes), width
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2)), width


def test_only_the_newest_values_are_computed_and_stale_work_is_stopped() -> None:
    begun, finished, results = [], [], []
    started, rest = threading.Event(), threading.Event()

    def compute(values: int) -> int:
        begun.append(values)
        started.set()
        while values == 0:  # for ever, unless stopped
            time.sleep(0.001)
        finished.append(values)
        return values

    worker = Worker(compute, lambda values, result: results.append(result), rest.set)
    worker.ask(0)
    assert started.wait(20)
    for values in (1, 2, 3):
        worker.ask(values)
    assert worker.wait(20)
    assert (begun[0], begun[-1]) == (0, 3)
    assert 0 not in finished
    assert results[-1] == 3
    assert rest.is_set()
    started.clear()
    worker.ask(0)
    assert started.wait(20)
    worker.stop()
    assert worker.wait(20)
    assert 0 not in results


def test_the_newest_values_are_always_computed() -> None:
    """However an interrupt of stale work meets the work that comes after it."""
    results: list[int] = []
    worker = Worker(
        lambda values: sum(values for _ in range(2_000)) // 2_000,
        lambda values, result: results.append(result),
        lambda: None,
    )
    for burst in range(40):
        for k in range(25):
            worker.ask(100 * burst + k)
        assert worker.wait(20)
        assert results[-1] == 100 * burst + 24


def test_a_defect_is_told_and_what_comes_after_it_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defects, results = [], []
    monkeypatch.setattr(threading, "excepthook", lambda about: defects.append(about.exc_value))
    worker = Worker(
        lambda values: 1 // values, lambda values, result: results.append(result), lambda: None
    )
    worker.ask(0)
    assert worker.wait(20)
    worker.ask(1)
    assert worker.wait(20)
    assert [type(defect) for defect in defects] == [ZeroDivisionError]
    assert results == [1]


def test_a_stop_gives_up_what_is_computed_and_says_nothing_of_what_is_drawn() -> None:
    """The button is told late that all is done, so that a stop may come when the picture is new."""
    started, drawing, drawn = threading.Event(), threading.Event(), threading.Event()

    def compute(sigma: float) -> float:
        while sigma == 2:  # for ever, unless stopped
            started.set()
            time.sleep(0.001)
        return sigma

    def draw(axes: object, sigma: float) -> panels.Caption:
        drawing.set()
        assert sigma != 3 or drawn.wait(20)
        return panels.Caption("", f"sigma = {sigma}")

    panel = panels.Panel(compute, panels.Look(draw, (panels.sigma,), ("one",), heavy=True))
    panel._ipython_display_()  # from now on live
    stop, worker = partial(panel._on_message, None, {"stop": True}, None), panel._worker
    panel.widgets["sigma"].value = 2.0
    assert started.wait(20)
    stop()
    assert worker.wait(20)
    assert panel.message == "Stopped: the picture shows the setting before."
    assert panel.numbers == "sigma = 1.0"
    drawing.clear()
    panel.widgets["sigma"].value = 3.0
    assert drawing.wait(20)
    stop()  # while it is drawn
    drawn.set()
    assert worker.wait(20)
    stop()  # and after it
    assert (panel.message, panel.numbers) == ("", "sigma = 3.0")


def test_an_import_is_not_stopped_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would leave a package without its modules behind, for all that comes after."""
    started, stopped = threading.Event(), threading.Event()
    lines = (
        "from builtins import STARTED, STOPPED",
        "import slow_package.part",
        "STARTED.set()",
        "assert STOPPED.wait(20)",
        "END = slow_package.part.END",
    )
    (tmp_path / "slow_package").mkdir()
    (tmp_path / "slow_package" / "__init__.py").write_text("\n".join(lines))
    (tmp_path / "slow_package" / "part.py").write_text("END = 7")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(builtins, "STARTED", started, raising=False)
    monkeypatch.setattr(builtins, "STOPPED", stopped, raising=False)
    results: list[int] = []

    def compute(values: int) -> int:
        import slow_package

        return slow_package.END + values

    worker = Worker(compute, lambda values, result: results.append(result), lambda: None)
    worker.ask(0)
    assert started.wait(20)
    assert worker.stop()
    stopped.set()
    assert worker.wait(20)
    worker.ask(1)
    assert worker.wait(20)
    assert results == [8]


@pytest.mark.parametrize("of", ["the same panel", "another"])
def test_a_page_that_changes_its_width_waits_until_a_picture_is_drawn(of: str) -> None:
    """Messages of a page and the workers of heavy panels come in different threads.

    Colours of dark pages are settings of Matplotlib, which another panel would draw with, or set back.
    """
    inside, most, begun = [0], [0], threading.Event()

    def draw(axes: object, arrays: object) -> panels.Caption:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        begun.set()
        time.sleep(0.05)
        inside[0] -= 1
        return panels.Caption("", "")

    look = panels.Look(draw, (panels.sigma,), ("one",))
    panel, other = (panels.Panel(lambda sigma: sigma, look) for _ in range(2))
    begun.clear()
    moving = threading.Thread(target=panel.move, kwargs={"sigma": 2.0})
    moving.start()
    assert begun.wait(20)
    (panel if of == "the same panel" else other).picture.width = 500
    moving.join(20)
    assert most == [1]
