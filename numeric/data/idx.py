"""Images in IDX files, as MNIST and Fashion-MNIST have them, packed by gzip or not.

A file has two zero bytes, the type (8: bytes), the number of axes, each length in four bytes with the high
one first, and then the numbers row by row.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from numeric.data.files import find, folder_at, read
from numeric.data.images import ImageData, Normalisation, Split
from numeric.inputs import InputError

__all__ = ["has_idx", "idx", "read_idx"]

BYTES = 8  # the type of numbers
PARTS = ("train", "t10k")
ENDINGS = ("", ".gz")


def idx(
    folder: str | Path,
    classes: tuple[str, ...] | None = None,
    normalisation: Normalisation | None = None,
) -> Split:
    """Training and test images from the four IDX files of a folder.

    These are train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
    t10k-labels-idx1-ubyte, each with .gz or without, or with a dot before idx. Classes are named by their
    digits unless names are given; the normalisation is by default that of the training images. Refused are
    files that are missing, cut short or damaged, and images without as many labels.
    """
    place = folder_at(folder)
    train, test = (_part(place, part, classes, normalisation) for part in PARTS)
    return Split.of(train, test)


def has_idx(folder: Path) -> bool:
    """Whether a folder has IDX files of images."""
    return any(folder.glob("*-images[-.]idx3-ubyte*"))


def _part(
    folder: Path,
    part: str,
    classes: tuple[str, ...] | None,
    normalisation: Normalisation | None,
) -> ImageData:
    images, labels = (
        read_idx(
            find(folder, *(f"{part}-{what}{dot}{end}" for dot in "-." for end in _endings(axes))),
            axes,
        )
        for what, axes in (("images", 3), ("labels", 1))
    )
    if len(images) != len(labels):
        raise InputError(
            f"{folder} has {len(images)} images and {len(labels)} labels in its {part} files: they must be "
            "as many."
        )
    return ImageData.of(images, labels, classes, normalisation)


def _endings(axes: int) -> tuple[str, ...]:
    return tuple(f"idx{axes}-ubyte{ending}" for ending in ENDINGS)


def read_idx(path: Path, axes: int) -> np.ndarray:
    """The bytes in one IDX file of so many axes; other types and lengths are refused."""
    content = read(path)
    head = 4 + 4 * axes
    if len(content) < head or content[:2] != b"\0\0":
        raise InputError(f"{path} is no IDX file, or cut short: fetch it anew to the same place.")
    if content[2] != BYTES or content[3] != axes:
        raise InputError(
            f"{path} has numbers of type {content[2]} along {content[3]} axes, but bytes (8) along {axes} "
            "are needed."
        )
    shape = tuple(np.frombuffer(content, ">u4", axes, 4).tolist())
    if len(content) != head + math.prod(shape):
        raise InputError(
            f"{path} has {len(content) - head} bytes, but {math.prod(shape)} are needed for its shape "
            f"{shape}: it is cut short or damaged, so fetch it anew to the same place."
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
