"""Kernels forked from one process that has imported the libraries already, so that each starts at once."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner

NAME = "forked"  # of the entry point in pyproject.toml, by which Jupyter finds the class below
AS_DEFAULT = {"JUPYTER_DEFAULT_PROVISIONER_NAME": NAME}  # in the environment of a Jupyter server
LAUNCHER = ["-m", "ipykernel_launcher"]
INLINE = "module://matplotlib_inline.backend_inline"  # ipykernel's own, which Matplotlib reads when imported
# Of other people's only: a kernel that is started anew shall see what was changed in this project.
PRELOADED = [
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipywidgets", "anywidget", "matplotlib.figure",
    "matplotlib.backends.backend_agg", "mpmath", "scipy.integrate", "scipy.linalg", "scipy.optimize",
    "scipy.special", "sklearn.datasets", "sklearn.linear_model", "sympy", "torch._dynamo", "torch.func",
]  # fmt: skip


@dataclass(frozen=True)
class ForkedProcess:
    """A forked process as `subprocess.Popen` would show it, which is what Jupyter asks for."""

    process: multiprocessing.process.BaseProcess
    stdin: None = None
    stdout: None = None
    stderr: None = None

    @property
    def pid(self) -> int | None:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self.pid is not None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedProvisioner(LocalProvisioner):
    """Starts Python kernels by forking where that is safe, which is on Linux, and others as ever."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        interpreter, launcher, arguments = cmd[0], cmd[1:3], cmd[3:]
        same_python = os.path.realpath(interpreter) == os.path.realpath(sys.executable)
        if sys.platform != "linux" or launcher != LAUNCHER or not same_python:
            return await super().launch_kernel(cmd, **kwargs)
        environment = kwargs.get("env", os.environ)
        streams = [_path(kwargs.get(name)) for name in ("stdout", "stderr")]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        process = context.Process(
            target=_be_kernel, args=(arguments, environment, kwargs.get("cwd"), streams)
        )
        process.start()
        self.process = ForkedProcess(process)
        self.pid = self.pgid = process.pid  # a session of its own
        return self.connection_info


def _path(stream: Any) -> str | None:
    """Of a file that is open here, also where it has no name; None where the kernel writes as we do."""
    return None if stream is None else f"/proc/{os.getpid()}/fd/{stream.fileno()}"


def _be_kernel(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    streams: Sequence[str | None],
) -> None:
    """What a new interpreter would do, in a process that has been one for a while."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # so that an interrupt reaches all that the kernel starts, and nothing else
    for number, path in enumerate(streams, start=1):
        if path is not None:
            target = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.dup2(target, number)
            os.close(target)
    os.environ.clear()
    os.environ.update(environment)
    _limit_threads(environment.get("OMP_NUM_THREADS", ""))
    matplotlib.rcParams["backend"] = os.environ.setdefault("MPLBACKEND", INLINE)
    if folder is not None:
        os.chdir(folder)
    threading.Thread(target=_end_with_server, daemon=True).start()
    IPKernelApp.launch_instance(argv=list(arguments), parent_handle=os.getppid())
    atexit._run_exitfuncs()  # multiprocessing leaves without; notebooks have temporary folders


def _end_with_server() -> None:
    """ipykernel looks after its parent only: the process that forks, which waits for its kernels."""
    if (server := multiprocessing.parent_process()) is not None:
        server.join()
        os._exit(1)


def _limit_threads(count: str) -> None:
    """Libraries that are loaded already do not look into the environment again."""
    if count.isdecimal() and "torch" in sys.modules:
        import threadpoolctl

        threadpoolctl.threadpool_limits(int(count))
        sys.modules["torch"].set_num_threads(int(count))
