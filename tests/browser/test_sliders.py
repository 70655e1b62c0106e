"""What a panel shows in JupyterLab is what the catalogue says; numbers are typed, read and copied."""

import math
import re
from collections.abc import Iterator

import pytest

from analytic import catalogue
from notebooks.running import runner
from notebooks.running.browser import PATIENCE, LabPage

SIGMA, ZETA, DEGREE = 0, 1, 2  # positions among the visible sliders
CHANGE_THEME = """async (theme) => {
  await window.jupyterapp.commands.execute('apputils:change-theme', {theme});
}"""
CORNER = """async () => {
  const image = document.querySelector('img.widget-image'), canvas = document.createElement('canvas');
  try { await image.decode(); } catch { return null; } // another picture has come meanwhile
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  return [image.naturalWidth / image.clientWidth, context.getImageData(2, 2, 1, 1).data[0]];
}"""  # pixels of the picture to one of the page, and how bright its corner is


@pytest.fixture(scope="module")
def opened(jupyter: LabPage) -> Iterator[LabPage]:
    with jupyter.notebook("01_nngp_geometry.py"):
        jupyter.run("play")  # alone, in a fresh kernel
        yield jupyter


@pytest.fixture
def notebook(opened: LabPage, lab: LabPage) -> LabPage:
    return lab


def expected(activation: str, **values: float | str) -> str:
    volume, scalar = (
        catalogue[f"nngp.{activation}.{what}"].evaluate(20, r=1, **values)
        for what in ("magnification", "ricci")
    )
    return f"at |x| = 1: sqrt(det g) = {float(volume):.8g}, R = {float(scalar):.8g}"


def field(notebook: LabPage, name: str) -> str:
    return notebook.page.get_by_label(f"{name}, typed").input_value()


def write(notebook: LabPage, name: str, text: str) -> None:
    """A number typed into the field of a slider."""
    notebook.page.get_by_label(f"{name}, typed").fill(text)
    notebook.page.get_by_label(f"{name}, typed").press("Enter")


def change_theme(notebook: LabPage, theme: str) -> None:
    notebook.within(PATIENCE, f"The theme {theme}", CHANGE_THEME, theme)


def tool(notebook: LabPage, name: str) -> None:
    """A press on a button of the panel, until the picture has changed."""
    before = notebook.picture()
    notebook.page.get_by_role("button", name=name).click()
    notebook.wait_for_change(before)


def test_sliders_show_what_the_catalogue_says(notebook: LabPage) -> None:
    page = notebook.page
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=1))
    notebook.press(SIGMA)
    assert notebook.shows(expected("erf", d=2, sigma="1.1", zeta=1))
    notebook.choose("monomial")
    assert notebook.shows(expected("monomial", d=2, sigma="1.1", zeta=1, q=2))
    notebook.press(DEGREE)
    assert notebook.shows(expected("monomial", d=2, sigma="1.1", zeta=1, q=3))
    image = page.locator("img.widget-image")
    assert notebook.holds(lambda: "q = 3, d = 2: at |x| = 1" in image.get_attribute("alt"))
    page.get_by_role("button", name="reset").click()
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=1))


def test_a_dragged_slider_shows_what_the_catalogue_says(notebook: LabPage) -> None:
    box, mouse = notebook.box(notebook.slider(ZETA)), notebook.page.mouse
    middle = box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] / 3, middle)
    mouse.down()
    for share in (0.4, 0.5, 0.6, 0.7):
        mouse.move(box["x"] + box["width"] * share, middle)
    mouse.up()
    assert notebook.holds(lambda: float(field(notebook, "ζ, bias std")) > 1.8)
    zeta = notebook.steady(lambda: field(notebook, "ζ, bias std"))
    assert re.fullmatch(r"[12]\.\d|2", zeta)  # on the grid
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=zeta))
    tool(notebook, "reset")


def test_a_typed_number_is_taken_as_typed_or_refused_in_words(notebook: LabPage) -> None:
    sigma = "σ, weight std"  # noqa: RUF001
    write(notebook, sigma, "0.15")
    assert notebook.shows(expected("erf", d=2, sigma="0.15", zeta=1))
    assert field(notebook, sigma) == "0.15"
    write(notebook, sigma, "7")  # beyond the slider
    assert notebook.shows(expected("erf", d=2, sigma=7, zeta=1))
    assert notebook.holds(lambda: notebook.slider(SIGMA).get_attribute("max") == "7")

    message = notebook.page.locator(".panel-message")
    for text, reason in {
        "-1": "sigma = -1 was given, but sigma must be a number above 0.",
        "two": "sigma = 'two' is no number",
    }.items():
        write(notebook, sigma, text)
        message.filter(has_text=reason).wait_for()
        assert notebook.holds(lambda: field(notebook, sigma) == "7")
        assert notebook.shows(expected("erf", d=2, sigma=7, zeta=1))
    write(notebook, "d, input dimension", "2.5")
    message.filter(has_text="d must be a whole number at least 1").wait_for()
    assert notebook.holds(lambda: field(notebook, "d, input dimension") == "2")
    write(notebook, sigma, "2")
    assert notebook.shows(expected("erf", d=2, sigma=2, zeta=1))
    message.wait_for(state="hidden")
    tool(notebook, "reset")
    assert notebook.holds(lambda: notebook.slider(SIGMA).get_attribute("max") == "3")


def test_change_can_be_seen_read_and_copied(notebook: LabPage) -> None:
    page = notebook.page
    notebook.press(SIGMA)
    assert notebook.shows(expected("erf", d=2, sigma="1.1", zeta=1))
    tool(notebook, "ghost")  # away with it
    tool(notebook, "ghost")
    ghost = page.get_by_role("button", name="ghost")
    assert ghost.get_attribute("aria-pressed") == "true"

    def reading(x: float, y: float) -> tuple[float, float]:
        """What stands beside the buttons for a place on the picture; no numbers while nothing does."""
        page.locator("img.widget-image").scroll_into_view_if_needed()
        box = page.locator("img.widget-image").bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        text = page.locator(".panel-reading").inner_text()
        match = re.fullmatch(r"x = (\S+)\s+y = (\S+)", text)
        return tuple(map(float, match.groups())) if match else (math.nan, math.nan)

    assert notebook.holds(lambda: 0 < reading(0.2, 0.5)[0] < 5)
    free = notebook.steady(lambda: reading(0.2, 0.5))
    page.get_by_role("button", name="lock axes").click()
    write(notebook, "ζ, bias std", "3")
    assert notebook.shows(expected("erf", d=2, sigma="1.1", zeta=3))
    assert notebook.holds(lambda: reading(0.2, 0.5) == pytest.approx(free))
    tool(notebook, "lock axes")
    # volumes are smaller, and the axes follow them again
    assert notebook.holds(lambda: reading(0.2, 0.5)[1] < free[1])
    tool(notebook, "log:")

    def is_logarithmic() -> bool:
        high, middle, low = (reading(0.2, y)[1] for y in (0.2, 0.5, 0.8))
        return middle == pytest.approx((high * low) ** 0.5, rel=0.01)

    assert notebook.holds(is_logarithmic)
    tool(notebook, "log:")

    copy = page.locator(".panel-copy")
    page.get_by_role("button", name="copy as -p").click()
    assert copy.input_value() == "-p activation=erf -p sigma=1.1 -p zeta=3.0 -p d=2"
    page.get_by_role("button", name="copy as Python").click()
    assert copy.input_value().endswith("nngp.ray(activation='erf', sigma=1.1, zeta=3.0, q=2, d=2)")
    assert page.evaluate("() => getSelection().toString()") == copy.input_value()
    page.get_by_role("button", name="reset").click()
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=1))


def test_the_picture_follows_the_page(notebook: LabPage) -> None:
    check_page(notebook)


@pytest.mark.sweep
@pytest.mark.parametrize("number", ["04", "06", "07", "16"])
def test_the_picture_of_other_panels_follows_the_page(lab: LabPage, number: str) -> None:
    (path,) = runner.find([number])
    with lab.notebook(path.name):
        lab.run("play")
        check_page(lab)


def check_page(notebook: LabPage) -> None:
    """A panel is sharp, dark in the dark, wholly in sight at 1280 x 850, and no wider than its page."""
    page = notebook.page
    panel, image = page.locator(".panel").first, page.locator("img.widget-image").first

    def density_and_brightness() -> tuple[float, float]:
        return page.evaluate(CORNER) or (math.nan, math.nan)

    def is_bright_and_sharp() -> bool:
        density, brightness = density_and_brightness()
        return brightness == 255 and density == pytest.approx(
            page.evaluate("devicePixelRatio"), rel=0.02
        )

    def is_in_sight() -> bool:
        """The first slider and the picture, between the toolbar and the status bar."""
        panel.evaluate("(panel) => panel.scrollIntoView({block: 'start'})")
        first = panel.locator(".panel-range:visible").first.bounding_box()
        seen, picture = (
            locator.bounding_box()
            for locator in (page.locator(".jp-NotebookPanel-notebook"), image)
        )
        # A box may begin between two pixels.
        below_toolbar = first["y"] >= seen["y"] - 1
        return below_toolbar and _bottom(picture) <= _bottom(seen) + 1

    def fits() -> bool:
        return image.evaluate("(one) => one.naturalWidth <= one.parentElement.clientWidth")

    assert notebook.holds(is_bright_and_sharp), density_and_brightness()
    try:
        change_theme(notebook, "JupyterLab Dark")
        assert notebook.holds(lambda: density_and_brightness()[1] < 40)
        change_theme(notebook, "JupyterLab Light")
        assert notebook.holds(is_bright_and_sharp), density_and_brightness()
        page.set_viewport_size({"width": 1280, "height": 850})
        assert notebook.holds(is_in_sight)
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        for width in (850, 390):
            page.set_viewport_size({"width": width, "height": 850})
            assert notebook.holds(fits), width
    finally:
        change_theme(notebook, "JupyterLab Light")
        page.set_viewport_size({"width": 1400, "height": 1000})
        page.evaluate("() => window.jupyterapp.shell.expandLeft()")
    # JupyterLab itself, when its theme changes twice, may remove a style sheet that is gone already.
    notebook.errors[:] = [
        e for e in notebook.errors if not ("removeChild" in e and "jlab_core" in e)
    ]


def _bottom(box: dict[str, float]) -> float:
    return box["y"] + box["height"]
