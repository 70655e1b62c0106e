"""Drives notebooks in a real browser against a real JupyterLab on loopback, as a person would."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from analytic.expressions.arguments import InputError
from notebooks.panels import FRAMES
from notebooks.panels.style import FIGURES
from notebooks.running import forked_kernels
from notebooks.running.lab import ROOT, arguments, free_port

PATIENCE = 60_000  # ms: what any one step may take on a slow machine that others use too
AT_REST = 4  # equal readings, 100 ms apart
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
OPEN = """async (path) => {
  const panel = await window.jupyterapp.commands.execute('docmanager:open', {path});
  await panel.context.ready; await panel.sessionContext.ready;
}"""
FIND = """
  const app = window.jupyterapp;
  const panel = [...app.shell.widgets('main')].find((widget) => widget.context?.path === path);
"""
READY = f"""{FIND}
  await panel.context.ready; await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
  app.shell.activateById(panel.id); // commands are about the current one
  while (app.shell.currentWidget !== panel) await new Promise((next) => setTimeout(next, 20));
"""
RUN_ALL = f"""async ([path]) => {{{READY}
  return await app.commands.execute('notebook:run-all-cells');
}}"""
RUN_TAGGED = f"""async ([path, tags]) => {{{READY}
  const cells = panel.content.widgets, tagsOf = (cell) => cell.model.getMetadata('tags') ?? [];
  for (let k = 0; k < cells.length; k++) {{
    if (!tagsOf(cells[k]).some((tag) => tags.includes(tag))) continue;
    panel.content.activeCellIndex = k;
    await app.commands.execute('notebook:run-cell');
  }}
}}"""
CLOSE = f"""async (path) => {{{FIND}
  await panel.context.save();
  await panel.sessionContext.shutdown();
  panel.dispose();
}}"""
# A promise of JupyterLab may stay open for ever, as where a kernel hangs, and a browser waits as long.
WITHIN = """([argument, what, most]) => Promise.race([
  (SCRIPT)(argument),
  new Promise((_, fail) => setTimeout(() => fail(new Error(`${what} was not done within ${most} ms`)), most)),
])"""
PICTURE = "() => document.querySelector('img.widget-image')?.src ?? null"
WORDS = "() => document.querySelector('img.widget-image')?.alt ?? null"
ENDS = "one => [Number(one.value), Number(one.min), Number(one.max)]"
PRESS_AND_TIME = """async ([handle, key]) => {
  const image = document.querySelector('img.widget-image'), before = image.src;
  const start = performance.now();
  handle.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  while (image.src === before && performance.now() - start < 10000)
    await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def chromium() -> str | None:
    """The browser's path, or None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class LabPage:
    """JupyterLab in a browser, as a person drives it; requests beyond loopback and errors are recorded."""

    page: Any
    server: str
    folder: Path  # that it serves
    foreign: list[str] = field(default_factory=list)  # requests beyond loopback
    errors: list[str] = field(default_factory=list)  # console errors and exceptions
    path: str = ""  # of the notebook that is open

    def watch(self) -> None:
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        self.page.on("console", self._note_console_error)

    def _note_console_error(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location['url']})")

    def _note(self, url: str) -> None:
        if not url.startswith((self.server, self.server.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(url)

    @contextmanager
    def notebook(self, path: str) -> Iterator[LabPage]:
        """A notebook with a kernel of its own; it is saved and closed at the end."""
        self.within(PATIENCE, f"Opening {path}", OPEN, path)
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        self.path = path
        try:
            yield self
        finally:
            self.within(PATIENCE, f"Saving and closing {path}", CLOSE, path)

    def within(self, most: int, what: str, script: str, argument: Any) -> Any:
        """What a function of the page comes to, if it does so in that many milliseconds; it is named else."""
        return self.page.evaluate(WITHIN.replace("SCRIPT", script), [argument, what, most])

    def run(self, *tags: str, most: int = 2 * PATIENCE) -> None:
        """Run the cells with these tags, or all, and wait for the panel's figure; each in so many ms."""
        what = f"Running {', '.join(tags) or 'all cells'} of {self.path}"
        self.within(most, what, RUN_TAGGED if tags else RUN_ALL, [self.path, list(tags)])
        self.page.wait_for_selector("img.widget-image", timeout=most)
        self.page.wait_for_function(f"() => ({PICTURE})()", timeout=most)

    def picture(self) -> str:
        return self.page.evaluate(PICTURE)

    def wait_for_change(self, before: str) -> None:
        """Until the picture is another one than before."""
        self.page.wait_for_function(f"(b) => ({PICTURE})() !== b", arg=before)

    def numbers(self) -> str:
        return self.page.locator("code.panel-numbers").first.inner_text()

    def shows(self, numbers: str) -> bool:
        """Whether the line of numbers shows this text, now or soon."""
        says = "(text) => document.querySelector('code.panel-numbers')?.innerText === text"
        return self.holds(lambda: self.page.evaluate(says, numbers))

    def holds(self, condition: Callable[[], bool]) -> bool:
        """Whether something holds, now or soon: what a kernel sends reaches the page piece by piece."""
        end = time.monotonic() + PATIENCE / 1000
        while not condition():
            if time.monotonic() > end:
                return False
            self.page.wait_for_timeout(50)
        return True

    def steady(self, read: Callable[[], Any]) -> Any:
        """What is read once it has come to rest, such as a box that formulas above it may still move."""
        readings = [read()]
        end = time.monotonic() + PATIENCE / 1000
        while len(readings) < AT_REST or len({repr(one) for one in readings[-AT_REST:]}) > 1:
            if time.monotonic() > end:
                raise RuntimeError(f"It does not come to rest: {readings[-AT_REST:]}.")
            self.page.wait_for_timeout(100)
            readings.append(read())
        return readings[-1]

    def box(self, locator: Any) -> dict[str, float]:
        """Where something is on the screen once nothing moves it any more."""
        locator.scroll_into_view_if_needed()
        return self.steady(locator.bounding_box)

    def slider(self, position: int) -> Any:
        """The handle of a visible slider, counted from the left."""
        return self.page.locator(".panel-range:visible").nth(position)

    def press(self, position: int) -> None:
        """Move a slider by one step and wait until the figure has changed."""
        slider = self.slider(position)
        with self.other_setting():
            slider.press(onwards(slider))

    def choose(self, value: str) -> None:
        menu = self.page.locator(".widget-dropdown select").first
        with self.other_setting():
            menu.select_option(value)

    @contextmanager
    def other_setting(self) -> Iterator[None]:
        """Until the figure is of another setting; one of another width only has the same words."""
        before = self.page.evaluate(WORDS)
        yield
        self.page.wait_for_function(f"(b) => ({WORDS})() !== b", arg=before)

    def redraw_milliseconds(self, slider: Any, presses: int = 9) -> list[float]:
        """From the press of an arrow key on a slider to the changed picture, timed inside the page.

        The slider goes to its end, and from there to the other one.
        """
        handle, key, times = slider.element_handle(), "ArrowRight", []
        for _ in range(presses):
            key = onwards(slider, key)
            times.append(self.page.evaluate(PRESS_AND_TIME, [handle, key]))
        return times


def onwards(slider: Any, key: str = "ArrowRight") -> str:
    """The arrow key, or the other one where the slider is at its end."""
    now, least, most = slider.evaluate(ENDS)
    return "ArrowLeft" if now >= most else "ArrowRight" if now <= least else key


@contextmanager
def open_browser(scratch: Path, root: Path | None = None) -> Iterator[LabPage]:
    """JupyterLab in a headless browser, on a root folder or on the scratch folder.

    The scratch folder holds settings and a log. Where no root is given and it has no notebooks, it gets
    copies of all of them.
    """
    from playwright.sync_api import sync_playwright

    environment = os.environ | forked_kernels.AS_DEFAULT
    environment["JUPYTER_CONFIG_DIR"] = str(scratch / "config")
    environment.pop(FRAMES, None)
    if root is None:
        root = scratch
        environment |= {"PYTHONPATH": str(ROOT), FIGURES: str(scratch / "figures")}
        if not list(scratch.glob("[0-9]*.py")):
            for notebook in (ROOT / "notebooks").glob("[0-9]*.py"):
                shutil.copy(notebook, scratch)
            shutil.copytree(ROOT / "notebooks" / "gallery", scratch / "gallery")
        shutil.copy(ROOT / "pyproject.toml", scratch)  # what Jupytext writes
    port, token = free_port(None), secrets.token_hex(16)
    url = f"http://127.0.0.1:{port}"
    with (scratch / "lab.log").open("w") as log:
        lab = subprocess.Popen(
            arguments(port, browser=False, root=root, token=token),
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(f"{url}/api/status?token={token}", lab)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium(), headless=True, args=list(FLAGS)
            )
            view = browser.new_page(viewport={"width": 1400, "height": 1000})
            view.set_default_timeout(PATIENCE)
            page = LabPage(view, url, root)
            page.watch()
            view.goto(f"{url}/lab?token={token}&reset")
            view.wait_for_function("() => window.jupyterapp?.started")
            page.within(
                PATIENCE, "The start of JupyterLab", "() => window.jupyterapp.started", None
            )
            yield page
            browser.close()
    finally:
        lab.terminate()
        try:
            lab.wait(20)
        except subprocess.TimeoutExpired:
            lab.kill()


def screenshot(notebook: Path, target: Path) -> None:
    """The panels of a notebook as JupyterLab shows them, after a few moves, as a small PNG."""
    if chromium() is None:
        raise InputError("There is no Chromium here, which takes the picture: install it.")
    with (
        TemporaryDirectory() as folder,
        open_browser(Path(folder)) as lab,
        lab.notebook(notebook.name),
    ):
        lab.page.set_viewport_size({"width": 1280, "height": 900})
        lab.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        lab.run("parameters", "play")
        for _ in range(3):
            lab.press(0)
        panel = lab.page.locator(".panel").first
        panel.scroll_into_view_if_needed()
        lab.page.mouse.move(0, 0)
        lab.page.wait_for_timeout(1000)  # until formulas are set
        picture = Image.open(io.BytesIO(panel.screenshot())).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(target, "png", optimize=True)


def _wait(url: str, lab: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if lab.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with code {lab.returncode} before it answered.")
        try:
            urllib.request.urlopen(url, timeout=2)
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"JupyterLab did not answer within {seconds:.0f} s.")
