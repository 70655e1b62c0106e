"""Whatever images a directory holds: IDX files, batches of CIFAR-10, or a folder for each class."""

from __future__ import annotations

from pathlib import Path

from numeric.data.cifar import cifar10, has_cifar10
from numeric.data.files import folder_at
from numeric.data.folders import has_image_folders, image_folder
from numeric.data.idx import has_idx, idx
from numeric.data.images import Split
from numeric.inputs import InputError

__all__ = ["load"]


def load(folder: str | Path, size: int | None = None) -> Split:
    """Training and test images from a directory, whose layout is seen from its files.

    Known are the IDX files of MNIST (`idx`), both layouts of CIFAR-10 (`cifar10`) and folders of images, one
    for each class (`image_folder`), to which alone a `size` applies. A directory that has none is refused.
    """
    place = folder_at(folder)
    if not (has_idx(place) or has_cifar10(place)) and has_image_folders(place):
        return image_folder(place, size)
    if size is not None:
        raise InputError(
            f"size = {size} was given, but {place} has images of a fixed size: only folders of images "
            "are scaled."
        )
    if has_idx(place):
        return idx(place)
    if has_cifar10(place):
        return cifar10(place)
    raise InputError(
        f"{place} has no images: it must have train-images-idx3-ubyte and its companions (MNIST), "
        "data_batch_1 with or without .bin (CIFAR-10), or a folder of images for each class."
    )
