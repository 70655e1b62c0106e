"""Tiles of colorectal tissue in nine classes, as NCT-CRC-HE-100K publishes them: a folder for each class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from numeric.data.files import folder_at
from numeric.data.folders import image_folder
from numeric.data.images import Split
from numeric.inputs import InputError

__all__ = ["TISSUES", "histology"]

TISSUES = {
    "ADI": "adipose",
    "BACK": "background",
    "DEB": "debris",
    "LYM": "lymphocytes",
    "MUC": "mucus",
    "MUS": "smooth muscle",
    "NORM": "normal mucosa",
    "STR": "stroma",
    "TUM": "tumour",
}  # by the name of the folder


def histology(
    folder: str | Path, size: int = 32, *, test: float = 0.25, seed: int = 0, progress: bool = True
) -> Split:
    """Training and test tiles (n, 3, size, size) from a folder with ADI, BACK, ..., TUM, as `image_folder`.

    Classes have their names in words. Folders with other classes, or without some of these, are refused.
    """
    place = folder_at(folder)
    folders = {part.name for part in place.iterdir() if part.is_dir()}
    if folders != set(TISSUES):
        raise InputError(
            f"{place} has the folders {', '.join(sorted(folders)) or 'of none'}, but tiles of tissue have "
            f"{', '.join(TISSUES)}: name the folder that holds these nine."
        )
    pair = image_folder(place, size, test=test, seed=seed, progress=progress)
    names = tuple(TISSUES[name] for name in pair.train.classes)
    return Split(*(replace(part, classes=names) for part in pair))
