"""A thread that computes only what was asked for last, and gives up what is not wanted any more."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any


class Stopped(BaseException):
    """Raised inside a computation that is not wanted any more; no `except Exception` shall catch it."""


class Worker:
    """Runs `compute(values)` and then `done(result)`, one at a time; newer values replace older ones.

    A computation is stopped between two steps of Python, so a single long call into a library ends first.
    """

    def __init__(
        self,
        compute: Callable[[Any], Any],
        done: Callable[[Any, Any], None],
        idle: Callable[[], None],
    ) -> None:
        self._compute, self._done, self._idle = compute, done, idle
        self._change = threading.Condition(threading.RLock())
        self._wanted: list[Any] = []  # at most one
        self._computing = False
        self._thread: threading.Thread | None = None

    def ask(self, values: Any) -> None:
        """Compute this next; what is being computed is stale and is stopped."""
        with self._change:
            self._wanted = [values]
            self._interrupt()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._change.notify_all()

    def stop(self) -> None:
        """Give up what is being computed and what waits."""
        with self._change:
            self._wanted = []
            self._interrupt()

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is left to do."""
        with self._change:
            return self._change.wait_for(lambda: self._thread is None, seconds)

    def _interrupt(self) -> None:
        if self._computing and self._thread is not None and self._thread.ident is not None:
            ident = ctypes.c_ulong(self._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Stopped))
            self._computing = False

    def _run(self) -> None:
        while True:
            try:
                with self._change:
                    if not self._wanted:
                        self._thread = None
                        self._idle()
                        self._change.notify_all()
                        return
                    values = self._wanted.pop()
                    self._computing = True
                result = self._compute(values)
                with self._change:
                    if not self._computing:  # stopped just now: the exception is on its way
                        continue
                    self._computing = False
                self._done(values, result)
            except Stopped:
                continue
