"""A thread that computes only what was asked for last, and gives up what is not wanted any more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any


class Stopped(BaseException):
    """Raised inside a computation that is not wanted any more; no `except Exception` shall catch it."""


class Worker:
    """Runs `compute(values)` and then `done(result)`, one at a time; newer values replace older ones.

    A computation looks at every call of a function whether it is still wanted, so a single long call into a
    library ends first, and so does an import, which would leave half a module behind. It looks by itself,
    rather than being interrupted by the thread that asks: an exception from outside may come while a lock
    is held, or late, and hit newer work.
    """

    def __init__(
        self,
        compute: Callable[[Any], Any],
        done: Callable[[Any, Any], None],
        idle: Callable[[], None],
    ) -> None:
        self._compute, self._done, self._idle = compute, done, idle
        self._change = threading.Condition(threading.RLock())
        self._wanted: list[Any] = []  # at most one, which stays until its result is taken
        self._thread: threading.Thread | None = None

    def ask(self, values: Any) -> None:
        """Compute this next; what is being computed is stale and is stopped."""
        with self._change:
            self._wanted = [values]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def stop(self) -> bool:
        """Give up what is being computed and what waits; whether there was anything, and no result yet."""
        with self._change:
            stopped, self._wanted = bool(self._wanted), []
            return stopped

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is left to do."""
        with self._change:
            return self._change.wait_for(lambda: self._thread is None, seconds)

    def _run(self) -> None:
        working = True
        while working:
            working = self._work()

    def _work(self) -> bool:
        """Compute what is wanted; whether there was anything."""
        with self._change:
            wanted = self._wanted
            if not wanted:
                self._thread = None
                self._idle()
                self._change.notify_all()
                return False
        try:
            with suppress(Stopped):
                result = self._compute_while_wanted(wanted)
                if self._take(wanted):  # from here on a stop comes too late
                    self._done(wanted[0], result)
        except (
            Exception
        ) as defect:  # told as of any thread; what is asked for next is computed still
            about = (type(defect), defect, defect.__traceback__, threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(about))
        self._take(wanted)
        return True

    def _take(self, wanted: list[Any]) -> bool:
        """Whether this is wanted still; it is not any more."""
        with self._change:
            taken = wanted is self._wanted
            if taken:
                self._wanted = []
            return taken

    def _compute_while_wanted(self, wanted: list[Any]) -> Any:
        def look(frame: FrameType, *_: Any) -> None:
            if wanted is not self._wanted and not _imports(frame):
                raise Stopped

        sys.setprofile(look)  # of this thread alone; Python drops it when it raises
        try:
            return self._compute(wanted[0])
        finally:
            sys.setprofile(None)


def _imports(frame: FrameType | None) -> bool:
    """Whether this or what has called it is Python's import."""
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
