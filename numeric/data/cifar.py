"""CIFAR-10 in its binary and its Python layout; of the pickles in the latter nothing is executed.

A binary record has one byte of label and 3072 of red, green and blue, row by row. A Python batch is a
pickled dictionary with the same numbers; it is read by an unpickler that knows three names, all of numpy's
arrays, and puts objects of its own in their place that only hold bytes.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from numeric.data.files import find, folder_at, read
from numeric.data.images import ImageData, Normalisation, Split
from numeric.inputs import InputError

__all__ = ["CLASSES", "cifar10", "has_cifar10"]

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"  # folders as they are published

Batch = tuple[np.ndarray, np.ndarray]  # images (n, 3, 32, 32) and labels (n,), as bytes


def cifar10(folder: str | Path, normalisation: Normalisation | None = None) -> Split:
    """Training and test images from the batches in a folder, in the binary or in the Python layout.

    The batches are data_batch_1 to data_batch_5, of which the first is needed and the others are taken if
    they are there, and test_batch, each with .bin in the binary layout. They may stand in the folder itself
    or in the one of the published archive within it. The normalisation is by default that of the training
    images. Refused are files that are missing, cut short or damaged, and labels above 9.
    """
    place = _home(folder_at(folder))
    ending = ".bin" if _is_binary(place) else ""
    read_batch = _binary if ending else _python
    first = find(place, f"data_batch_1{ending}")
    further = (place / f"data_batch_{k}{ending}" for k in range(2, 6))
    train = [read_batch(path) for path in (first, *(path for path in further if path.is_file()))]
    test = read_batch(find(place, f"test_batch{ending}"))
    images, labels = (np.concatenate(part) for part in zip(*train, strict=True))
    data = ImageData.of(images, labels, CLASSES, normalisation)
    return Split.of(data, ImageData.of(*test, CLASSES, data.normalisation))


def has_cifar10(folder: Path) -> bool:
    """Whether a folder has batches of CIFAR-10."""
    home = _home(folder)
    return _is_binary(home) or any((home / n).is_file() for n in ("data_batch_1", "test_batch"))


def _home(folder: Path) -> Path:
    return next((folder / name for name in (BINARY, PYTHON) if (folder / name).is_dir()), folder)


def _is_binary(folder: Path) -> bool:
    return any(folder.glob("*_batch*.bin"))


def _binary(path: Path) -> Batch:
    content = np.frombuffer(read(path), np.uint8)
    if not content.size or content.size % (1 + PIXELS):
        raise InputError(
            f"{path} has {content.size} bytes, which is no multiple of {1 + PIXELS}: it is cut short or "
            "damaged, so fetch it anew to the same place."
        )
    records = content.reshape(-1, 1 + PIXELS)
    return _checked(path, records[:, 1:], records[:, 0])


def _python(path: Path) -> Batch:
    try:
        content = _Unpickler(io.BytesIO(read(path)), encoding="latin1").load()
    except InputError:
        raise
    except Exception as error:  # damaged bytes raise almost anything
        raise InputError(
            f"{path} is cut short or damaged ({type(error).__name__}): fetch it anew to the same place."
        ) from None
    if not isinstance(content, dict):
        raise _no_batch(path)
    named = {k.decode() if isinstance(k, bytes) else k: value for k, value in content.items()}
    data, labels = named.get("data"), named.get("labels")
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise _no_batch(path)
    if not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise InputError(
            f"{path} has labels that are no bytes, but CIFAR-10 has those from 0 to 9."
        )
    images = data.bytes_of(path)
    if images.shape != (len(labels), PIXELS) or not labels:
        raise InputError(
            f"{path} has {len(labels)} labels and numbers of shape {images.shape}, but {PIXELS} numbers "
            "for each label are needed: fetch it anew to the same place."
        )
    return _checked(path, images, np.array(labels, np.uint8))


def _no_batch(path: Path) -> InputError:
    return InputError(
        f"{path} is no batch of CIFAR-10: a dictionary with an array `data` and a list `labels` is needed."
    )


def _checked(path: Path, images: np.ndarray, labels: np.ndarray) -> Batch:
    if labels.max() >= len(CLASSES):
        row = int((labels >= len(CLASSES)).argmax())
        raise InputError(
            f"{path} has the label {labels[row]} at image {row}, but CIFAR-10 has those from 0 to 9: the "
            "file is damaged, or of another data set."
        )
    return images.reshape(-1, *SHAPE), labels


class _DataType:
    """What stands for numpy.dtype: the name of a type of numbers."""

    def __init__(self, name: str = "", *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, of which bytes have none."""


class _Array:
    """What stands for numpy.ndarray: shape and bytes, as pickled."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def bytes_of(self, path: Path) -> np.ndarray:
        try:
            _, shape, kind, fortran, content = self.state
            raw = content.encode("latin1") if isinstance(content, str) else bytes(content)
            array = np.frombuffer(raw, np.uint8)
            if kind.name != "u1" or fortran:
                raise ValueError(kind.name)
            return array.reshape(shape)
        except (TypeError, ValueError, AttributeError):
            raise InputError(
                f"{path} has an array that is no table of bytes: fetch it anew to the same place."
            ) from None


def _latin1(text: str, encoding: str) -> bytes:
    """What stands for the codec by which Python 3 pickles bytes in old protocols."""
    if encoding != "latin1" or not isinstance(text, str):
        raise pickle.UnpicklingError(f"bytes written as {encoding}")
    return text.encode("latin1")


class _Unpickler(pickle.Unpickler):
    """Refuses every name but those of an array of bytes."""

    KNOWN = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _DataType,
        ("_codecs", "encode"): _latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            raise InputError(
                f"The batch asks for {module}.{name}, which is no part of CIFAR-10 and was not run: do not "
                "trust this file."
            )
        return self.KNOWN[module, name]
