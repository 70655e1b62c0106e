"""Files that a long computation will write: whether it can is asked before anything is computed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from analytic.expressions.arguments import InputError


def require_writable(path: str | Path) -> Path:
    """The path of a file that can be written; its folder is made, and a file is made in it for a moment.

    Permissions would not tell: they do not bind an administrator, nor do they know a read-only disk.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): choose a folder where files can be made."
        ) from None
    return path
