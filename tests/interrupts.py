"""A command of the notebooks that a person interrupts while a kernel runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


def interrupt(
    command: Sequence[str], folder: Path, marker: Path, begun: Callable[[], bool] = lambda: True
) -> None:
    """Once `begun` and the kernel's number stands in `marker`; the command and the kernel must end."""
    code = (
        "import signal, sys; from pathlib import Path; from notebooks.__main__ import main;"
        # the kernels of these tests sleep, and need no libraries
        "from notebooks.running import forked_kernels; forked_kernels.PRELOADED[:] = ['ipykernel.ipkernel'];"
        # a job in the background of a script ignores interrupts, and so would all that it starts
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"sys.exit(main({list(command)!r}, Path({str(folder)!r})))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        while process.poll() is None and not (_written(marker) and begun()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[1] == "stopped\n"
    finally:
        process.kill()  # whatever happened, nothing runs beside the tests that follow
        process.communicate()
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


def _written(marker: Path) -> bool:
    return marker.exists() and bool(marker.read_text())
