"""JupyterLab is started on loopback, with our settings, on a port that is free."""

import json
import re
import socket

import pytest

from analytic.expressions.arguments import InputError
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
    names = {path.name for path in ROOT.glob("*/**/*.py") if re.match(pattern, path.name)}
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
