"""A person drags the weights of a unit, and clicks together the data that a network learns."""

from collections.abc import Sequence

from mpmath import mp

from analytic.activations import erf
from analytic.finite.units import Units
from notebooks.running.browser import LabPage
from notebooks.topics.finite import CIRCLE, Triple


def expected(*first: float) -> str:
    """The line of numbers for a first weight, by the general curvature of units at the origin."""
    weights = (first, *CIRCLE[1:])
    units = Units.of(erf, weights, (1.0, 1.0, 1.0), (0.0, 0.0))
    volume, scalar = mp.sqrt(units.determinant()), units.scalar()
    numbers = f"sqrt(det g) = {float(volume):.8g}, R = {float(scalar):.8g}"
    return f"at x = 0: {numbers}; R = 0 {Triple(weights, 1.0).zeros}"


def way(notebook: LabPage, handle: int, by: Sequence[float]) -> list[tuple[float, float]]:
    """Points on the screen from a handle to elsewhere, `by` so much in units of the data."""
    scale = notebook.box(notebook.page.locator("svg.pad rect"))["width"] / 4  # from -2 to 2
    box = notebook.box(notebook.page.locator(".pad-handle circle").nth(handle))
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return [(x + by[0] * scale * k / 8, y - by[1] * scale * k / 8) for k in range(9)]


def drag(notebook: LabPage, handle: int, by: Sequence[float]) -> None:
    """With the mouse."""
    mouse = notebook.page.mouse
    start, *rest = way(notebook, handle, by)
    mouse.move(*start)
    mouse.down()
    for point in rest:
        mouse.move(*point)
    mouse.up()


def swipe(notebook: LabPage, handle: int, by: Sequence[float]) -> None:
    """With a finger, as the browser's own protocol makes one."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    points = [[{"x": x, "y": y}] for x, y in way(notebook, handle, by)]
    kinds = ["touchStart", *["touchMove"] * (len(points) - 1), "touchEnd"]
    for kind, touches in zip(kinds, [*points, []], strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    session.detach()


def drag_weights(notebook: LabPage) -> None:
    """From where the panel of notebook 06 starts, and back to it."""
    notebook.page.get_by_role("button", name="reset").click()
    assert notebook.shows(expected(1.0, 0.0))
    before = notebook.picture()
    drag(notebook, 0, (-0.4, 0.55))
    assert notebook.shows(expected(0.6, 0.55))
    notebook.wait_for_change(before)

    handle = notebook.page.locator(".pad-handle").first
    handle.press("ArrowLeft")
    handle.press("ArrowDown")
    assert notebook.shows(expected(0.55, 0.5))
    drag(notebook, 0, (9.0, 0.0))  # beyond the edge
    assert notebook.shows(expected(2.0, 0.5))
    assert notebook.holds(lambda: handle.get_attribute("aria-valuetext") == "2.00, 0.50")

    swipe(notebook, 0, (-0.5, 0.5))
    assert notebook.shows(expected(1.5, 1.0))

    notebook.page.get_by_role("button", name="reset").click()
    assert notebook.shows(expected(1.0, 0.0))
    assert notebook.holds(lambda: handle.get_attribute("aria-valuetext") == "1.00, 0.00")


def click_points_together(notebook: LabPage) -> None:
    """In the panel of notebook 10."""
    page = notebook.page
    page.get_by_role("button", name="reset").click()
    notebook.choose("your points")
    page.wait_for_selector(".pad-handle")

    def screen(x: float, y: float) -> tuple[float, float]:
        frame = notebook.box(page.locator("svg.pad rect"))
        unit = frame["width"] / 3, frame["height"] / 3  # from -1.5 to 1.5
        return frame["x"] + (1.5 + x) * unit[0], frame["y"] + (1.5 - y) * unit[1]

    def has(count: int, right: str) -> bool:
        handles = page.locator(".pad-handle")
        return notebook.holds(lambda: right in notebook.numbers() and handles.count() == count)

    def press(button: str) -> None:
        """By key: a picture that is decoded between mouse down and mouse up moves what is below it."""
        page.get_by_role("button", name=button).press("Enter")

    assert has(8, "8 of 8 right")
    press("clear")
    assert has(0, "place points of both labels")
    page.mouse.click(*screen(-0.5, 0.25))
    press("add 1")
    page.mouse.dblclick(*screen(0.5, 0.25))  # the second click hits what the first has made
    assert has(2, "2 of 2 right")
    page.mouse.click(*screen(0.5, -1.0))
    assert has(3, "3 of 3 right")
    places = "handles => handles.map((one) => one.getAttribute('aria-valuetext'))"
    texts = page.locator(".pad-handle").evaluate_all(places)
    assert texts == ["-0.50, 0.25", "0.50, 0.25", "0.50, -1.00"]
    page.mouse.dblclick(*screen(0.5, 0.25))
    assert has(2, "2 of 2 right")
    page.locator(".pad-handle").last.press("Delete")
    assert has(1, "place points of both labels")
    press("reset")
    assert has(8, "4 of 4 right")  # of XOR again; the points are hidden
