"""JupyterLab is started on loopback, with our settings, on a port that is free."""

import json
import socket

import pytest

from analytic.expressions.arguments import InputError
from notebooks.lab import SETTINGS, arguments, free_port


def test_lab_listens_on_loopback_only() -> None:
    line = arguments(8899, browser=False, token="secret")
    assert "--ip=127.0.0.1" in line
    assert "--no-browser" in line
    assert f"--LabApp.app_settings_dir={SETTINGS}" in line


def test_percent_files_open_as_notebooks_and_no_news_is_fetched() -> None:
    overrides = json.loads((SETTINGS / "overrides.json").read_text("utf-8"))
    viewers = overrides["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]
    assert viewers == {"python": "Jupytext Notebook"}
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_a_busy_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is busy"):
            free_port(port)
    assert free_port(None) > 0
