"""JupyterLab is started on loopback, with our settings, on a port that is free."""

import json
import re
import socket

import jupytext
import pytest
from ipykernel.kernelspec import get_kernel_dict
from jupytext.config import find_jupytext_configuration_file, load_jupytext_configuration_file

from analytic.expressions.arguments import InputError
from notebooks.__main__ import main
from notebooks.running.lab import EXTENSIONS, ROOT, SETTINGS, arguments, free_port
from notebooks.running.runner import find


def test_lab_listens_on_loopback_only() -> None:
    line = arguments(8899, browser=False, token="secret")
    assert "--ip=127.0.0.1" in line
    assert "--no-browser" in line
    assert f"--LabApp.app_settings_dir={SETTINGS}" in line
    assert f"--LabApp.extra_labextensions_path={EXTENSIONS}" in line


def test_no_news_is_fetched() -> None:
    overrides = json.loads((SETTINGS / "overrides.json").read_text("utf-8"))
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_the_notebooks_and_no_modules_have_names_that_open_as_notebooks() -> None:
    (folder,) = EXTENSIONS.iterdir()
    package = json.loads((folder / "package.json").read_text("utf-8"))
    assert package["name"] == folder.name
    source = (folder / package["jupyterlab"]["_build"]["load"]).read_text("utf-8")
    pattern = json.loads(re.search(r'pattern: (".*")', source)[1])
    files = (path for path in ROOT.glob("*/**/*.py") if path.parent.name != ".ipynb_checkpoints")
    names = {path.name for path in files if re.match(pattern, path.name)}
    assert names == {path.name for path in find(())}


def test_beside_the_notebooks_there_are_no_modules() -> None:
    modules = {path.name for path in (ROOT / "notebooks").glob("*.py")}
    assert modules - {path.name for path in find(())} == {"__init__.py", "__main__.py"}


def test_a_busy_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is busy"):
            free_port(port)
    assert free_port(None) > 0


def test_saving_a_notebook_that_nobody_edited_writes_the_same_file() -> None:
    """What JupyterLab adds to a notebook that ran is left out by the settings that Jupytext reads."""
    kernel = get_kernel_dict()
    for path in find(()):
        settings = load_jupytext_configuration_file(find_jupytext_configuration_file(path))
        node = jupytext.read(path, fmt="py:percent", config=settings)
        node.metadata["kernelspec"] |= {"display_name": kernel["display_name"], "env": {}}
        node.metadata["language_info"] = {"name": "python", "version": "3.11.2"}
        for cell in node.cells:
            cell.metadata |= {"trusted": True, "execution": {"iopub.execute_input": "2026"}}
        text = jupytext.writes(node, fmt="py:percent", config=settings)
        assert text == path.read_text("utf-8"), path.name


def test_two_labs_on_one_port_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["lab", "--port", str(port), "--no-browser"]) == 2
    assert capsys.readouterr().err == (
        f"error: port {port} is busy or not to be had: give another --port.\n"
    )
