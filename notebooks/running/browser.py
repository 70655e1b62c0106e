"""Drives a notebook in a real browser against a real JupyterLab on loopback, as a person would."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from notebooks.panels import FRAMES
from notebooks.panels.style import FIGURES
from notebooks.running.lab import ROOT, arguments, free_port

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
RUN_ALL = """async () => {
  const app = window.jupyterapp, panel = app.shell.currentWidget;
  await panel.context.ready; await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
  return await app.commands.execute('notebook:run-all-cells');
}"""
PICTURE = "() => document.querySelector('img.widget-image')?.src ?? null"
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
class NotebookPage:
    """One notebook, opened and run; requests beyond loopback and errors are recorded."""

    page: Any
    server: str
    path: Path  # of the notebook, in a scratch folder
    foreign: list[str] = field(default_factory=list)  # requests beyond loopback
    errors: list[str] = field(default_factory=list)  # console errors and exceptions

    def watch(self) -> None:
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)

    def _note(self, url: str) -> None:
        if not url.startswith((self.server, self.server.replace("http", "ws"), "data:", "blob:")):
            self.foreign.append(url)

    def run(self, timeout: float = 120.0) -> None:
        """Run all cells and wait for the panel's figure."""
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        self.page.evaluate(RUN_ALL)
        self.page.wait_for_selector("img.widget-image", timeout=timeout * 1000)
        self.page.wait_for_function(f"() => ({PICTURE})()", timeout=timeout * 1000)

    def save(self) -> None:
        """Save by JupyterLab's own command, wherever the focus is, and wait until it is written."""
        written = re.compile(
            rf"/api/contents/.*{re.escape(self.path.name)}"
        )  # workspaces are put too
        with self.page.expect_response(
            lambda r: r.request.method == "PUT" and bool(written.search(r.url)), timeout=30_000
        ) as put:
            self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        assert put.value.ok, put.value.status_text

    def picture(self) -> str:
        return self.page.evaluate(PICTURE)

    def shows(self, numbers: str) -> bool:
        """Whether the line of numbers shows this text, now or within ten seconds."""
        from playwright.sync_api import TimeoutError

        says = "(text) => document.querySelector('code.panel-numbers')?.innerText === text"
        try:
            self.page.wait_for_function(says, arg=numbers, timeout=10_000)
        except TimeoutError:
            return False
        return True

    def slider(self, position: int) -> Any:
        """The handle of a visible slider, counted from the left."""
        return self.page.locator(".panel-range:visible").nth(position)

    def press(self, position: int, key: str = "ArrowRight") -> None:
        """Move a slider by one step and wait until the figure has changed."""
        before = self.picture()
        self.slider(position).press(key)
        self.page.wait_for_function(f"(b) => ({PICTURE})() !== b", arg=before, timeout=20_000)

    def choose(self, value: str) -> None:
        before = self.picture()
        self.page.locator(".widget-dropdown select").first.select_option(value)
        self.page.wait_for_function(f"(b) => ({PICTURE})() !== b", arg=before, timeout=20_000)

    def redraw_milliseconds(
        self, control: Any, key: str = "ArrowRight", presses: int = 9
    ) -> list[float]:
        """From the press of a key on a control to the changed picture, timed inside the page."""
        pair = [control.element_handle(), key]
        return [self.page.evaluate(PRESS_AND_TIME, pair) for _ in range(presses)]


@contextmanager
def open_notebook(name: str, folder: Path) -> Iterator[NotebookPage]:
    """A notebook in a scratch folder, copied there if need be, opened in JupyterLab in a headless browser."""
    from playwright.sync_api import sync_playwright

    notebook = folder / f"{name}.py"
    if not notebook.exists():
        shutil.copy(ROOT / "notebooks" / notebook.name, folder)
    shutil.copy(ROOT / "pyproject.toml", folder)  # what Jupytext writes
    port, token = free_port(None), secrets.token_hex(16)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        FIGURES: str(folder / "figures"),
    }
    environment.pop(FRAMES, None)
    url = f"http://127.0.0.1:{port}"
    with (folder / "lab.log").open("w") as log:
        lab = subprocess.Popen(
            arguments(port, browser=False, root=folder, token=token),
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
            page = NotebookPage(view, url, notebook)
            page.watch()
            page.page.goto(f"{url}/lab/tree/{notebook.name}?token={token}&reset")
            yield page
            browser.close()
    finally:
        lab.terminate()
        try:
            lab.wait(20)
        except subprocess.TimeoutExpired:
            lab.kill()


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
