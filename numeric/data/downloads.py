"""Data sets fetched from where their authors publish them, by pooch, and compared to known checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from numeric.data.cifar import cifar10
from numeric.data.idx import idx
from numeric.data.images import Split
from numeric.inputs import InputError, require_writable

__all__ = ["CIFAR10", "FASHION_MNIST", "MNIST", "Download"]


@dataclass(frozen=True)
class Download:
    """Files of a data set with their MD5 sums, and where they are published; see `Download.fetch`."""

    name: str
    source: str  # the address before the name of each file
    files: Mapping[str, str]

    def fetch(self, folder: str | Path) -> Split:
        """Training and test images, fetched into a folder unless they are there already.

        It needs the package pooch and a network. Refused are a folder that cannot be written, and what
        arrives with another checksum.
        """
        pooch = _pooch()
        place = require_writable(Path(folder) / "any").parent
        for name, md5 in self.files.items():
            unpack = pooch.Untar(extract_dir=".") if name.endswith(".tar.gz") else None
            try:
                pooch.retrieve(f"{self.source}{name}", f"md5:{md5}", name, place, unpack)
            except (OSError, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise InputError(
                    f"{self.source}{name} could not be fetched to {place / name} ({reason}): try again, or "
                    "put the file there by hand."
                ) from None
        return cifar10(place) if self is CIFAR10 else idx(place)


def _pooch() -> Any:
    try:
        return import_module("pooch")
    except ImportError:
        raise InputError(
            "Downloads need the package pooch, which is not installed: install kernel-geometry[download], or "
            "put the files into a folder by hand."
        ) from None


MNIST = Download(
    "MNIST",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
FASHION_MNIST = Download(
    "Fashion-MNIST",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
CIFAR10 = Download(
    "CIFAR-10",
    "https://www.cs.toronto.edu/~kriz/",
    {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
)
