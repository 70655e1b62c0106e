"""Disks on which nothing can be written: root may write anywhere, so permissions would not tell."""

from collections.abc import Callable
from typing import NoReturn


def _failing(number: int, reason: str) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, reason)

    return fail


read_only = _failing(30, "Read-only file system")
full = _failing(28, "No space left on device")
