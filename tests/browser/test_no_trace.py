"""Work in JupyterLab and runs with other parameters leave no trace in the repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from notebooks.running.browser import chromium
from notebooks.running.lab import ROOT

# A process of its own, since the other tests of this folder hold a browser open.
IN_JUPYTERLAB = """
import sys
from pathlib import Path
from notebooks.running.browser import open_browser

scratch, root = map(Path, sys.argv[1:])
with open_browser(scratch, root) as lab:
    with lab.notebook("notebooks/01_nngp_geometry.py"):
        lab.run()
    with lab.notebook("notebooks/03_depth.py"):
        lab.run("parameters", "play")
        lab.press(0)
    with lab.notebook("notebooks/00_index.py"):
        pass
"""


@pytest.mark.sweep
@pytest.mark.skipif(chromium() is None, reason="no Chromium here: install it to work in JupyterLab")
def test_git_status_is_clean_after_work_of_every_kind(tmp_path: Path) -> None:
    """In a clone: notebooks run and saved in JupyterLab, runs with other parameters, a sweep, a report."""
    clone, scratch, elsewhere = (tmp_path / name for name in ("clone", "scratch", "elsewhere"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    scratch.mkdir()
    # JupyterLab after a run and before others; the last three are what `make run` does.
    for words in (
        ["-m", "notebooks", "run", "01", "-p", "sigma=2", "-p", "q=3", "--output", str(elsewhere)],
        ["-c", IN_JUPYTERLAB, str(scratch), str(clone)],
        ["-m", "notebooks", "sweep", "00", "profile=quick"],
        ["-m", "analytic", "ledger"],
        ["-m", "notebooks", "index"],
        ["-m", "notebooks", "run", "00", "01", "--report"],
    ):
        environment = os.environ | {"PYTHONPATH": str(clone), "KERNEL_GEOMETRY_FRAMES": "1000"}
        subprocess.run([sys.executable, *words], cwd=clone, check=True, env=environment)
        assert _status(clone) == "", words


def _status(folder: Path) -> str:
    command = ["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
