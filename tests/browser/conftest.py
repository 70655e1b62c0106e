"""One JupyterLab and one Chromium for all tests of this folder."""

import re
import shutil
from collections.abc import Iterator

import pytest

from notebooks.running import runner
from notebooks.running.browser import LabPage, chromium, open_browser
from notebooks.running.lab import ROOT

# JupyterLab itself says so where a notebook is closed before its kernel has answered all questions.
OF_JUPYTERLAB = "Could not restore the debugger state"

# What a browser takes long for is to set the formulas of a whole notebook, so each ends with its Play cell.
PLAY = re.compile(r'\A.*?tags=\["play"\].*?\n(?=\n# %%)|\Z', re.S)


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabPage]:
    if chromium() is None:
        pytest.skip("no Chromium here: install it to try notebooks in a real browser")
    folder = tmp_path_factory.mktemp("lab")
    (folder / "module.py").write_text('"""A module, and no notebook."""\n')
    shutil.copytree(ROOT / "notebooks" / "gallery", folder / "gallery")
    for path in runner.find(()):
        whole = path.read_text("utf-8")
        (folder / path.name).write_text(whole[: PLAY.search(whole).end()], "utf-8")
    with open_browser(folder) as page:
        yield page


@pytest.fixture
def lab(jupyter: LabPage) -> Iterator[LabPage]:
    """It ends without an error on the console and without a request beyond this machine."""
    yield jupyter
    foreign = jupyter.foreign[:]
    errors = [error for error in jupyter.errors if OF_JUPYTERLAB not in error]
    jupyter.foreign.clear()
    jupyter.errors.clear()
    assert foreign == []
    assert errors == []
