"""Images in folders, one for each class, in any format that Pillow reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from numeric.data.files import folder_at
from numeric.data.images import ImageData, Normalisation, Split
from numeric.inputs import InputError, whole
from numeric.progress import progress_bar

__all__ = ["ENDINGS", "has_image_folders", "image_folder"]

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
PARTS = ("train", "test")


def image_folder(
    folder: str | Path,
    size: int | None = None,
    *,
    test: float = 0.25,
    seed: int = 0,
    normalisation: Normalisation | None = None,
    progress: bool = True,
) -> Split:
    """Training and test images from a folder that has a folder of images for each class.

    If there are folders `train` and `test`, the classes are within each of these; otherwise a share `test` of
    each class, drawn by the seed, is for the test. With a `size` each image is scaled until its shorter side
    has so many pixels, and the middle square is taken; without one all images must be of one size. Images are
    grey if all of them are, else of three channels. The normalisation is by default that of the training
    images. Refused are folders without classes or with one only, files that are no images, and images of
    several sizes.
    """
    place = folder_at(folder)
    if size is not None:
        whole("size", size)
    if all((place / part).is_dir() for part in PARTS):
        parts = [_read(place / part, size, normalisation, progress) for part in PARTS]
        return Split.of(*parts)
    pair = _read(place, size, normalisation, progress).split(test, seed)
    return pair.normalised_by(normalisation or Normalisation.of(pair.train.pixels))


def has_image_folders(folder: Path) -> bool:
    """Whether a folder has folders with images."""
    homes = [folder / "train"] if (folder / "train").is_dir() else [folder]
    return any(
        _files(part) for home in homes for part in folder_at(home).iterdir() if part.is_dir()
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder_at(folder).iterdir() if path.suffix.lower() in ENDINGS)


def _read(
    folder: Path, size: int | None, normalisation: Normalisation | None, progress: bool
) -> ImageData:
    classes = {p.name: _files(p) for p in sorted(folder_at(folder).iterdir()) if p.is_dir()}
    classes = {name: files for name, files in classes.items() if files}
    if len(classes) < 2:
        raise InputError(
            f"{folder} has images of {', '.join(classes) or 'no class'}, but two classes at least are "
            f"needed: one folder of images ({', '.join(ENDINGS[:3])}, ...) for each class."
        )
    files = [(label, path) for label, paths in enumerate(classes.values()) for path in paths]
    bar = progress_bar(files, of="images", show=progress)
    images = [_image(path, size) for _, path in bar]
    if any(image.ndim == 3 for image in images):
        images = [i if i.ndim == 3 else np.repeat(i[..., None], 3, 2) for i in images]
    sizes: dict[tuple[int, ...], Path] = {}
    for image, (_, path) in zip(images, files, strict=True):
        sizes.setdefault(image.shape[:2], path)
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise InputError(
            f"{first} has {one[1]} x {one[0]} pixels and {second} {other[1]} x {other[0]}, but all images "
            "must be of one size: give a size to which they are scaled."
        )
    stacked = np.stack(images)
    pixels = stacked if stacked.ndim == 3 else stacked.transpose(0, 3, 1, 2)
    return ImageData.of(pixels, [label for label, _ in files], tuple(classes), normalisation)


def _image(path: Path, size: int | None) -> np.ndarray:
    """Bytes (h, w) of a grey image, or (h, w, 3) of one in colours."""
    pillow, operations = _pillow()
    try:
        with pillow.open(path) as file:
            image = file.convert("L" if file.mode in ("1", "L") else "RGB")
    except OSError as error:
        raise InputError(
            f"{path} is no image, or cut short or damaged ({error}): fetch it anew, or take it away."
        ) from None
    if size is not None:
        image = operations.fit(image, (size, size), pillow.Resampling.BICUBIC)
    return np.asarray(image)


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise InputError(
            "Folders of images are read by Pillow, which is not installed: run `pip install pillow`, or "
            "install kernel-geometry[notebooks]."
        ) from None
    return Image, ImageOps
