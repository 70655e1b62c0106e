"""A person opens the index in JupyterLab and sees the gallery before anything has run."""

from pathlib import Path

from notebooks.running import runner
from notebooks.running.browser import PATIENCE, LabPage

OPEN = """async (path) => {
  await window.jupyterapp.commands.execute('docmanager:open', {path});
}"""
LOADED = """count => {
  const pictures = [...document.querySelectorAll('.jp-RenderedMarkdown td img')];
  return pictures.length === count && pictures.every((p) => p.complete && p.naturalWidth > 0);
}"""


def test_the_index_opens_with_its_gallery(lab: LabPage, tmp_path: Path) -> None:
    with lab.notebook("00_index.py"):
        lab.page.wait_for_function(LOADED, arg=len(runner.find(())) - 1)
        lab.page.screenshot(path=tmp_path / "index.png")
        assert lab.page.get_by_text("What geometry does a wide random network").count()
        assert not lab.page.locator(".jp-OutputArea-child").count()  # nothing has run


def test_a_module_opens_in_the_editor(lab: LabPage) -> None:
    lab.within(PATIENCE, "Opening a module", OPEN, "module.py")
    lab.page.wait_for_selector(".jp-FileEditor")
    assert not lab.page.locator(".jp-NotebookPanel").count()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
