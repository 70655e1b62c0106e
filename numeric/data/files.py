"""Files of images: read whole, named with their place when they are missing, cut short or damaged."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from numeric.inputs import InputError, as_path

__all__ = ["CHECKSUMS", "find", "folder_at", "read"]

CHECKSUMS = (
    "SHA256SUMS"  # as `sha256sum * > SHA256SUMS` writes it; files that it names are compared
)
NAMES = 8  # files listed by an error message


def folder_at(path: str | Path) -> Path:
    """A folder that can be read; anything else is refused with its path."""
    folder = as_path(path).expanduser()
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"The folder {folder} {what}: give the folder that holds the images.")
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be read ({error.strerror}): change its permissions."
        ) from None
    return folder


def find(folder: Path, *names: str) -> Path:
    """The first of several names that a folder has; if it has none, a refusal says what should be where."""
    for name in names:
        if (path := folder / name).is_file():
            return path
    there = sorted(path.name for path in folder.iterdir())
    more = f" and {len(there) - NAMES} more" if len(there) > NAMES else ""
    raise InputError(
        f"{folder / names[0]} is missing{_or(names[1:])}; the folder has "
        f"{(', '.join(there[:NAMES]) or 'no file') + more}."
    )


def _or(names: tuple[str, ...]) -> str:
    return f" (or {' or '.join(names)})" if names else ""


def read(path: Path) -> bytes:
    """The bytes of a file, compared to SHA256SUMS beside it if there is one; what ends in .gz is unpacked."""
    try:
        content = path.read_bytes()
        _compare(path, content)
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path} is cut short or damaged ({error}): fetch it anew to the same place."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}): change its permissions, or fetch it anew."
        ) from None


def _compare(path: Path, content: bytes) -> None:
    sums = path.with_name(CHECKSUMS)
    if not sums.is_file():
        return
    lines = (line.split(maxsplit=1) for line in sums.read_text("utf-8", "replace").splitlines())
    expected = {name.lstrip("*"): value for value, name in (l for l in lines if len(l) == 2)}
    if path.name in expected and hashlib.sha256(content).hexdigest() != expected[path.name].lower():
        raise InputError(
            f"{path} is damaged: its checksum is not the one in {sums}. Fetch it anew to the same place."
        )
