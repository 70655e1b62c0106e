"""A person opens the index in JupyterLab and sees the gallery before anything has run."""

import shutil
from pathlib import Path

import pytest

from notebooks.report import gallery
from notebooks.running import runner
from notebooks.running.browser import chromium, open_notebook

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium here: install it to see the index in a real browser"
)
LOADED = """count => {
  const pictures = [...document.querySelectorAll('.jp-RenderedMarkdown td img')];
  return pictures.length === count && pictures.every((p) => p.complete && p.naturalWidth > 0);
}"""


def test_the_index_opens_with_its_gallery(tmp_path: Path) -> None:
    shutil.copytree(runner.FOLDER / gallery.FOLDER, tmp_path / gallery.FOLDER)
    with open_notebook("00_index", tmp_path) as lab:
        lab.page.wait_for_function(LOADED, arg=len(runner.find(())) - 1, timeout=60_000)
        lab.page.screenshot(path=tmp_path / "index.png")
        assert lab.page.get_by_text("What geometry does a wide random network").count()
        assert not lab.page.locator(".jp-OutputArea-child").count()  # nothing has run
        assert lab.foreign == []
        assert lab.errors == []
