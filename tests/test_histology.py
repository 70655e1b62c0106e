"""Tiles of tissue from a folder in their public layout, made here with tiny files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from numeric.data.histology import TISSUES, histology
from numeric.inputs import InputError


def tissue(folder: Path, names: object = TISSUES) -> Path:
    """Four tiles a class, all pixels of which are ten times the number of the class."""
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for k in range(4):
            tile = np.full((6, 6, 3), 10 * number, np.uint8)
            tile[0, 0] = (255, 0, k)  # coloured
            Image.fromarray(tile).save(folder / name / f"{name}-{k}.tif")
    return folder


def test_tiles_are_read_with_their_classes(tmp_path: Path) -> None:
    train, test = histology(tissue(tmp_path), 6, progress=False)
    assert train.classes[5] == "smooth muscle"
    assert train.shape == (3, 6, 6)
    assert (len(train), len(test)) == (27, 9)
    for part in (train, test):
        pixels = part.pixels[:, 0, 3, 3] / 10  # in the order of the folders' names
        assert pixels.long().tolist() == part.labels.tolist()


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has the folders ADI, BACK, but"):
        histology(tissue(tmp_path, ("ADI", "BACK")), 6)
    with pytest.raises(InputError):
        histology(tmp_path / "nowhere")
