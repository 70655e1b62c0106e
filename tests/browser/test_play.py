"""A person opens each notebook in JupyterLab and plays: by key, by drag and by a typed number."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jupytext
import pytest
from dragging import click_points_together, drag_weights
from papermill.parameterize import parameterize_notebook

from notebooks.panels.controls import Choice, Slider
from notebooks.running import runner
from notebooks.running.browser import LabPage, onwards
from play_cells import SOURCES, Twin, twins

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?|-?inf")
READ = """panel => [
  [...panel.querySelectorAll('.panel-range')].map((range) => range.dataset.value),
  [...panel.querySelectorAll('.widget-dropdown select')].map((menu) => menu.value),
]"""
# Remembers what the pictures are of that a panel shows from now on.
WATCH = """panel => {
  const image = panel.querySelector('img.panel-picture'), filter = {attributeFilter: ['alt']};
  panel.seen = new Set();
  new MutationObserver(() => panel.seen.add(image.alt)).observe(image, filter);
}"""
# At once, for where pictures are quick and steps are few a film may end by itself at any time.
PAUSE = """(panel, title) => {
  [...panel.querySelectorAll('button')].find((one) => one.ariaLabel === `pause ${title}`)?.click();
}"""
BY_NUMBER = {path.stem[:2]: path for path in SOURCES}
ELSEWHERE = {  # what -p gives
    "03": {"activation": "gaussian", "depth": 5, "sigma": 2.25, "zeta": 0.75, "xi": 0.5, "d": 3},
    "09": {"task": "square wave", "delta": -math.inf, "progress": 0.5},
}


class PanelOnPage:
    """One panel of the page, beside its twin in this process."""

    def __init__(self, lab: LabPage, panel: Twin, position: int = 0) -> None:
        self.lab, self.panel = lab, panel
        self.scope = lab.page.locator(".panel").nth(position)

    def range(self, control: Slider) -> Any:
        return self.scope.get_by_label(control.title, exact=True)

    def sliders(self) -> list[Slider]:
        """Those that matter now."""
        sliders = [one for one in self.panel.controls if isinstance(one, Slider)]
        values = self.values()
        matter = [one for one in sliders if self.panel.look.relevant(one.name, values)]
        shown = lambda: [one for one in sliders if self.range(one).is_visible()]  # noqa: E731
        self.until(lambda: shown() == matter, f"sliders {[one.name for one in matter]}")
        return matter

    def wait_until_whole(self) -> None:
        """Until all its controls and its numbers are there: widgets load one by one."""
        count = [
            sum(isinstance(one, kind) for one in self.panel.controls) for kind in (Slider, Choice)
        ]
        self.until(lambda: list(map(len, self.scope.evaluate(READ))) == count, f"{count} controls")
        self.check()

    def values(self) -> dict[str, Any]:
        """Of all controls, as the page has them."""
        sliders, menus = map(iter, self.scope.evaluate(READ))
        values = {}
        for control in self.panel.controls:
            if isinstance(control, Slider):
                values[control.name] = control.accept(next(sliders))
            elif isinstance(control, Choice):
                values[control.name] = next(menus)
            else:
                values[control.name] = control.start
        return values

    def picture(self) -> str | None:
        return self.scope.locator("img.panel-picture").get_attribute("src")

    def shown(self) -> str | None:
        """What the picture is of, which a page of another width does not change."""
        return self.scope.locator("img.panel-picture").get_attribute("alt")

    def numbers(self) -> str:
        return self.scope.locator("code.panel-numbers").inner_text()

    def check(self) -> None:
        """The line of numbers is that of the controls, once it is computed, and no message stands there."""
        expected = self.panel.caption(**self.values()).numbers
        self.until(lambda: _alike(self.numbers(), expected), expected)
        self.scope.locator(".panel-message").wait_for(state="hidden")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        said = self.lab.holds(holds) or self.scope.inner_text()
        assert said is True, f"{what} was waited for in vain; the page shows {said}"

    @contextmanager
    def changes(self, control: Slider) -> Iterator[None]:
        """What is done inside moves the control and changes the picture."""
        before, picture = self.values()[control.name], self.picture()
        yield
        self.until(lambda: self.values()[control.name] != before, f"another {control.name}")
        self.until(lambda: self.picture() != picture, "another picture")

    def by_key(self, control: Slider) -> None:
        with self.changes(control):
            slider = self.range(control)
            slider.press(onwards(slider))

    def by_drag(self, control: Slider) -> None:
        handle, mouse = self.range(control), self.lab.page.mouse
        with self.changes(control):
            box = self.lab.box(handle)
            middle = box["y"] + box["height"] / 2
            share = float(handle.evaluate("e => (e.value - e.min) / (e.max - e.min)"))
            # Where a slider has three stops, both ways end at another one.
            way = (0.3, 0.45, 0.35) if share > 0.5 else (0.75, 0.6, 0.78)
            mouse.move(box["x"] + box["width"] * way[0], middle)
            mouse.down()
            for part in way[1:]:
                mouse.move(box["x"] + box["width"] * part, middle)
            mouse.up()

    def by_typing(self, control: Slider) -> None:
        field = self.scope.get_by_label(f"{control.title}, typed")
        value = _between(control, self.values()[control.name])
        with self.changes(control):
            field.fill(f"{value:g}")
            field.press("Enter")
        self.until(lambda: self.values()[control.name] == value, f"{value}, as typed")
        assert control.accept(field.input_value().replace("∞", "inf")) == value


def _alike(shown: str, expected: str) -> bool:
    """The same words and, but for rounding in another process, the same numbers."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", expected):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(expected), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-12) for a, b in pairs)


def _between(control: Slider, now: float) -> float:
    """A number off the grid of a slider, in its range and not where it is."""
    low, high = control.low, control.high
    if control.ticks:  # between the last two that are finite
        low, high = [tick for tick in control.ticks if math.isfinite(tick)][-2:]
    for share in (0.37, 0.63):
        if control.log:
            value = 10 ** (math.log10(low) + share * math.log10(high / low))
        else:
            value = low + share * (high - low)
        value = round(value) if control.whole else float(f"{value:.3g}")
        if value != now:
            return value
    raise AssertionError(f"{control.name} has no room")


WAYS = (PanelOnPage.by_key, PanelOnPage.by_drag, PanelOnPage.by_typing)


@contextmanager
def play_alone(lab: LabPage, number: str) -> Iterator[list[PanelOnPage]]:
    """The panels of a notebook of which nothing but Play has run; at the end it is saved."""
    path = BY_NUMBER[number]
    panels, before = twins(runner.read(path)), (lab.folder / path.name).read_bytes()
    with lab.notebook(path.name):
        lab.run("play")
        shown = [PanelOnPage(lab, panel, k) for k, panel in enumerate(panels)]
        for panel in shown:
            panel.wait_until_whole()
        cell = lab.page.locator(".jp-CodeCell").filter(has=lab.page.locator(".panel"))
        cell.locator(".jp-InputPlaceholder").wait_for()  # its code is folded
        yield shown
    assert (lab.folder / path.name).read_bytes() == before  # no trace of having run


@pytest.mark.parametrize("number", [number for number in BY_NUMBER if number != "01"])
def test_play_runs_alone_and_follows_a_move(lab: LabPage, number: str) -> None:
    """One way a panel, in turns; `make sweep` moves every slider in every way."""
    with play_alone(lab, number) as panels:
        for k, panel in enumerate(panels, int(number)):
            sliders = panel.sliders()
            WAYS[k % len(WAYS)](panel, sliders[k % len(sliders)])
            panel.check()
        if number == "03":
            check_play_button(panels[0])
            check_point(panels[0])
        if number == "06":
            drag_weights(lab)
        if number == "10":
            click_points_together(lab)
        if number == "14":
            check_stop(panels[0])


@pytest.mark.sweep
@pytest.mark.parametrize("number", BY_NUMBER)
def test_every_slider_follows_every_kind_of_move(lab: LabPage, number: str) -> None:
    with play_alone(lab, number) as panels:
        for panel in panels:
            for control in panel.sliders():
                for way in WAYS:
                    way(panel, control)
                    panel.check()
                if control.play:
                    check_play_button(panel, control)


def check_play_button(panel: PanelOnPage, control: Slider | None = None) -> None:
    """A press lets a slider run, and pictures with it, not only at its end; another press stops it."""
    control = control or next(one for one in panel.sliders() if one.play)
    panel.range(control).press("Home")
    panel.check()
    play = panel.scope.get_by_role("button", name=f"play {control.title}")
    panel.scope.evaluate(WATCH)
    play.click()
    panel.until(lambda: panel.scope.evaluate("panel => panel.seen.size") >= 2, "a second picture")
    panel.scope.evaluate(PAUSE, control.title)
    play.wait_for()
    stopped = panel.values()[control.name]
    panel.lab.page.wait_for_timeout(300)
    assert panel.values()[control.name] == stopped
    panel.check()


def check_point(panel: PanelOnPage) -> None:
    """The point of the phase diagram goes where it is dragged, and its sliders with it."""
    panel.check()
    image, mouse = panel.scope.locator("img.panel-picture"), panel.lab.page.mouse
    box = panel.lab.box(image)
    start = (box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5)  # on the third axes
    before = panel.shown()
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] + 10, start[1] - 20)
    text = panel.lab.steady(panel.scope.locator(".panel-reading").inner_text)
    mouse.up()
    x, y = map(float, re.fullmatch(r"x = (\S+)\s+y = (\S+)", text).groups())

    def arrived() -> bool:
        """The two sliders are told one after the other."""
        values = panel.values()
        return max(abs(values["zeta"] - x), abs(values["sigma"] - y)) < 0.006

    panel.until(arrived, f"zeta = {x}, sigma = {y}")
    panel.check()
    panel.until(lambda: panel.shown() != before, "a picture of another place")


def check_stop(panel: PanelOnPage) -> None:
    """A long computation is given up: the picture still shows the setting before, and the panel says so."""
    _write(panel, "n, channels", "256")
    panel.check()
    before = panel.shown()
    _write(panel, "M, networks", "1000")  # a minute's work, in calls of a millisecond
    panel.scope.get_by_role("button", name="stop").click()  # waits until there is something to stop
    panel.scope.locator(".panel-message").filter(has_text="Stopped").wait_for()
    assert panel.shown() == before


def _write(panel: PanelOnPage, title: str, text: str) -> None:
    field = panel.scope.get_by_label(f"{title}, typed")
    field.fill(text)
    field.press("Enter")


@pytest.mark.parametrize("number", [pytest.param("03", marks=pytest.mark.sweep), "09"])
def test_parameters_arrive_in_the_sliders(lab: LabPage, number: str) -> None:
    """As `run -p` puts them into a notebook."""
    source, given = runner.read(BY_NUMBER[number]), ELSEWHERE[number]
    runner.check([source], given)
    written = (lab.folder / BY_NUMBER[number].name).read_text("utf-8")
    node = jupytext.reads(written, fmt="py:percent")
    node.metadata["papermill"] = {}
    for cell in node.cells:
        cell.metadata.setdefault("tags", [])  # as papermill reads notebooks
    name = f"{number}_given.py"
    given_too = parameterize_notebook(node, given)
    (lab.folder / name).write_text(jupytext.writes(given_too, fmt="py:percent"), "utf-8")
    (panel,) = twins(source)
    with lab.notebook(name):
        lab.run("parameters", "injected-parameters", "play")
        page = PanelOnPage(lab, panel)
        page.wait_until_whole()
        assert page.values() == given
