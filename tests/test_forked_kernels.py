"""A forked kernel has the environment that was asked for, and ends when the server is killed."""

import os
import subprocess
import sys
import time

import pytest

from notebooks.running import forked_kernels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")

SERVER = """
import os, time
from jupyter_client.manager import KernelManager
from notebooks.running import forked_kernels

forked_kernels.PRELOADED[:] = ["ipykernel.ipkernel", "torch"]  # the others would take seconds
kernel = KernelManager()
kernel.start_kernel(env=os.environ | {"OMP_NUM_THREADS": "1"})
client = kernel.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=120)
client.execute_interactive("import torch, os; print(torch.get_num_threads(), os.getpid())")
time.sleep(600)
"""


def test_a_kernel_has_its_own_threads_and_ends_when_its_server_is_killed() -> None:
    environment = os.environ | forked_kernels.AS_DEFAULT | {"OMP_NUM_THREADS": "2"}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        threads, kernel = map(int, server.stdout.readline().split())
    finally:
        server.kill()
        server.communicate()
    end = time.monotonic() + 60
    while _is_alive(kernel):
        assert time.monotonic() < end, "the kernel goes on without its server"
        time.sleep(0.2)
    assert threads == 1


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
