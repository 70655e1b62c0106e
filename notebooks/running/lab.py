"""JupyterLab on the index: numbered files open as notebooks, loopback only, no news, no set-up."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from analytic.expressions.arguments import InputError
from notebooks.running import forked_kernels

ROOT = Path(__file__).parents[2]
SETTINGS = Path(__file__).parent / "lab_settings"
EXTENSIONS = Path(__file__).parent / "lab_extensions"
START = "/lab/tree/notebooks/00_index.py"


def arguments(
    port: int, browser: bool = True, root: Path = ROOT, token: str | None = None
) -> list[str]:
    """The command line of a JupyterLab that serves a folder on loopback."""
    line = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        f"--LabApp.extra_labextensions_path={EXTENSIONS}",
        f"--LabApp.default_url={START}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=",
        "--ServerApp.contents_manager_class=jupytext.TextFileContentsManager",
    ]
    if token is not None:
        line.append(f"--IdentityProvider.token={token}")
    if not browser:
        line.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")
    return line


def free_port(wanted: int | None) -> int:
    """The wanted port, or one that is free when none is named."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted or 0))
        except (OSError, OverflowError):
            raise InputError(
                f"port {wanted} is busy or not to be had: give another --port."
            ) from None
        return probe.getsockname()[1]


def open_lab(port: int | None = None, browser: bool = True) -> int:
    """Run JupyterLab until it is stopped; its exit code."""
    environment = os.environ | forked_kernels.AS_DEFAULT
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    try:
        return subprocess.call(arguments(free_port(port), browser), env=environment, cwd=ROOT)
    except KeyboardInterrupt:
        return 0
