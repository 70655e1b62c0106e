"""One JupyterLab and one Chromium for all tests of this folder."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from notebooks.running import runner
from notebooks.running.browser import LabPage, chromium, open_browser
from notebooks.running.lab import ROOT

OF_JUPYTERLAB = re.compile(
    # It says so where a notebook is closed before its kernel has answered all questions,
    r"Could not restore the debugger state|Canceled future for \w+_request"
    r"|WebSocket connection to '[^']*/api/kernels/[^']*/channels"
    # asks for the kernels where one has just started and the server has not heard of it,
    r"|500 \(Internal Server Error\) \(http://[^/]*/api/kernels\?"
    # and may ask for a picture relative to its page before it knows the notebook's folder.
    r"|404 \(Not Found\) \(http://[^/]*/gallery/"
)

# What a browser takes long for is to set the formulas of a whole notebook: one is whole as far as its Play
# cell, the others are heading, parameters and Play.
WHOLE = "01_nngp_geometry"
CELLS = re.compile(r"^(?=# %%)", re.M)
TAGGED = re.compile(r'# %% .*tags=\["(parameters|play)"')


def shortened(path: Path) -> str:
    header, heading, *cells = CELLS.split(path.read_text("utf-8"))
    tags = [match and match[1] for match in map(TAGGED.match, cells)]
    if "play" not in tags:  # the index
        return "".join([header, heading, *cells])
    cells = cells[: tags.index("play") + 1]
    if path.stem != WHOLE:
        cells = [cell for cell, tag in zip(cells, tags, strict=False) if tag]
    return "".join([header, heading, *cells]).rstrip("\n") + "\n"


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabPage]:
    if chromium() is None:
        pytest.skip("no Chromium here: install it to try notebooks in a real browser")
    folder = tmp_path_factory.mktemp("lab")
    (folder / "module.py").write_text('"""A module, and no notebook."""\n')
    shutil.copytree(ROOT / "notebooks" / "gallery", folder / "gallery")
    for path in runner.find(()):
        (folder / path.name).write_text(shortened(path), "utf-8")
    with open_browser(folder) as page:
        yield page


@pytest.fixture
def lab(jupyter: LabPage) -> Iterator[LabPage]:
    """It ends without an error on the console and without a request beyond this machine."""
    yield jupyter
    foreign = jupyter.foreign[:]
    errors = [error for error in jupyter.errors if not OF_JUPYTERLAB.search(error)]
    jupyter.foreign.clear()
    jupyter.errors.clear()
    assert foreign == []
    assert errors == []
