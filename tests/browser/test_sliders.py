"""A person opens the notebook in JupyterLab, runs it, and moves sliders."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytic import catalogue
from notebooks.running.browser import NotebookPage, chromium, open_notebook
from notebooks.running.lab import ROOT

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium here: install it to try the sliders in a real browser"
)
SIGMA, DEGREE = 0, 2  # positions among the visible sliders


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookPage]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "module.py").write_text('"""A module, and no notebook."""\n')
    with open_notebook("01_nngp_geometry", folder) as page:
        page.run()
        yield page


def expected(activation: str, **values: float) -> str:
    volume, scalar = (
        catalogue[f"nngp.{activation}.{what}"].evaluate(20, r=1, **values)
        for what in ("magnification", "ricci")
    )
    return f"at |x| = 1: sqrt(det g) = {float(volume):.8g}, R = {float(scalar):.8g}"


def test_sliders_show_what_the_catalogue_says(notebook: NotebookPage, tmp_path: Path) -> None:
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=1))
    notebook.press(SIGMA)
    assert notebook.shows(expected("erf", d=2, sigma="1.1", zeta=1))
    assert not notebook.page.get_by_text("Jupyter news").count()
    notebook.choose("monomial")
    assert notebook.shows(expected("monomial", d=2, sigma="1.1", zeta=1, q=2))
    notebook.press(DEGREE)
    assert notebook.shows(expected("monomial", d=2, sigma="1.1", zeta=1, q=3))
    notebook.page.screenshot(path=tmp_path / "panel.png")

    times = notebook.redraw_milliseconds(notebook.slider(SIGMA))
    print(f"slider to picture: median {statistics.median(times):.0f} ms of {len(times)}")
    assert max(times) < 10_000  # every press changed the figure

    notebook.page.get_by_role("button", name="reset").click()
    assert notebook.shows(expected("erf", d=2, sigma=1, zeta=1))
    assert notebook.foreign == []
    assert notebook.errors == []


def test_a_notebook_that_ran_and_is_saved_is_the_same_file(notebook: NotebookPage) -> None:
    before = notebook.path.stat().st_mtime_ns
    notebook.save()
    assert notebook.path.stat().st_mtime_ns > before
    assert notebook.path.read_bytes() == (ROOT / "notebooks" / notebook.path.name).read_bytes()
    assert (notebook.path.parent / "figures" / "01-figure-1.png").exists()
    assert notebook.errors == []


def test_a_module_opens_in_the_editor(notebook: NotebookPage) -> None:
    notebook.page.goto(f"{notebook.server}/lab/tree/module.py?reset")
    notebook.page.wait_for_selector(".jp-FileEditor", timeout=60_000)
    assert not notebook.page.locator(".jp-NotebookPanel").count()
    assert notebook.errors == []
