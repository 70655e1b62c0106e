"""Labelled images as one object: pixels, labels, names of classes, and their normalisation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    fraction,
    generator_for,
    number,
    positive,
    require_float_dtype,
    require_instance,
    resolve,
    shown,
    whole,
)

__all__ = ["ImageData", "Normalisation", "Split"]

BYTE = 255.0  # what one is as a byte
CHUNK = 1000  # images at a time whose mean and deviation are summed
UNNAMED = 1000  # classes that labels may number without names, as ImageNet's, even if fewer images are given


@dataclass(frozen=True)
class Normalisation:
    """The mean and standard deviation of each channel that are taken off pixels in [0, 1].

    Refused are other than one number a channel, and deviations that are not above 0.

    >>> norm = Normalisation((0.5,), (0.25,))
    >>> norm.apply(torch.ones(1, 1, 1, 2)).flatten().tolist()
    [2.0, 2.0]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise InputError(
                    f"{name} = {shown(values)} was given, but one number a channel is needed, as (0.5,)."
                )
        object.__setattr__(self, "mean", tuple(number("mean", value) for value in self.mean))
        object.__setattr__(self, "std", tuple(positive("std", value) for value in self.std))
        if len(self.mean) != len(self.std):
            raise InputError(
                f"{len(self.mean)} means and {len(self.std)} deviations were given: give one each a channel."
            )

    @classmethod
    def identity(cls, channels: int) -> Normalisation:
        """The one that changes nothing."""
        count = whole("channels", channels)
        return cls((0.0,) * count, (1.0,) * count)

    @classmethod
    def of(cls, pixels: Tensor) -> Normalisation:
        """Means and deviations over images and pixels (n, c, h, w), as bytes or in [0, 1].

        A channel that does not vary is only shifted.

        >>> Normalisation.of(torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1))
        Normalisation(mean=(0.5,), std=(0.5,))
        """
        count = pixels[:, 0].numel()
        mean = torch.zeros(pixels.shape[1], dtype=torch.float64)
        squares = torch.zeros_like(mean)
        for part in pixels.split(CHUNK):
            mean += _unit(part).double().sum((0, 2, 3)) / count
        for part in pixels.split(CHUNK):
            off = _unit(part).double() - mean[:, None, None]
            squares += off.square().sum((0, 2, 3))
        std = (squares / count).sqrt()
        return cls(tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist()))

    @property
    def channels(self) -> int:
        return len(self.mean)

    def apply(self, pixels: Tensor) -> Tensor:
        """Pixels in [0, 1], (n, c, h, w), to the inputs of a network; another channel count is refused."""
        mean, std = self._constants(pixels)
        return (pixels - mean) / std

    def undo(self, inputs: Tensor) -> Tensor:
        """The inputs of a network (n, c, h, w) back to pixels, which are in [0, 1] for images."""
        mean, std = self._constants(inputs)
        return inputs * std + mean

    def _constants(self, like: Tensor) -> tuple[Tensor, Tensor]:
        if like.ndim != 4 or like.shape[1] != self.channels:
            raise InputError(
                f"Images of shape (n, {self.channels}, h, w) are needed by this normalisation, but "
                f"{tuple(like.shape)} was given."
            )
        return like.new_tensor(self.mean)[:, None, None], like.new_tensor(self.std)[:, None, None]

    def to_text(self) -> str:
        """As the text that a checkpoint keeps."""
        return json.dumps({"mean": self.mean, "std": self.std})

    @classmethod
    def from_text(cls, text: str) -> Normalisation:
        """From what `to_text` gives.

        >>> Normalisation.from_text(Normalisation.identity(1).to_text())
        Normalisation(mean=(0.0,), std=(1.0,))
        """
        try:
            content = json.loads(text)
            return cls(content["mean"], content["std"])
        except (TypeError, ValueError, KeyError):
            raise InputError(
                f"{shown(text)} is no normalisation: it is written as "
                '{"mean": [0.5], "std": [0.25]}, one number a channel.'
            ) from None


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images with labels; see `ImageData.of`. Pixels stay as they came, and are normalised when asked for."""

    pixels: Tensor = field(repr=False)  # (n, c, h, w), bytes or floats in [0, 1]
    labels: Tensor = field(repr=False)  # (n,), from 0 on
    classes: tuple[str, ...]
    normalisation: Normalisation

    def __post_init__(self) -> None:
        require_instance("pixels", self.pixels, Tensor, "torch.zeros(2, 1, 8, 8)")
        require_instance("labels", self.labels, Tensor, "torch.tensor([0, 1])")
        require_instance(
            "normalisation", self.normalisation, Normalisation, "Normalisation.identity(1)"
        )
        _check_pixels(self.pixels)
        _check_labels(self.labels, len(self.pixels), len(self.classes))
        if self.normalisation.channels != self.pixels.shape[1]:
            raise InputError(
                f"The images have {self.pixels.shape[1]} channels, but the normalisation "
                f"{self.normalisation.channels}: give one number a channel."
            )

    @classmethod
    def of(
        cls,
        images: ArrayLike,
        labels: ArrayLike,
        classes: Sequence[str] | None = None,
        normalisation: Normalisation | None = None,
    ) -> ImageData:
        """From arrays or tensors: images (n, h, w) or (n, c, h, w), as bytes or as numbers in [0, 1].

        Labels (n,) are whole numbers from 0 on, `classes` their names (by default the numbers as text), and
        the normalisation is by default the mean and deviation of each channel of these images. Refused are
        other shapes and values, labels out of range, and images of one class only. A subset may lack some
        classes; without names labels must lie below 1000, or below the number of images if that is larger.

        >>> data = ImageData.of([[[0.0, 1.0]], [[1.0, 1.0]]], [0, 1])
        >>> data.shape, data.classes, data.normalisation.mean
        ((1, 1, 2), ('0', '1'), (0.75,))
        """
        pixels = _as_pixels(images)
        numbers = as_numbers("labels", labels, "(n,)")
        if not torch.equal(numbers, numbers.round()):
            raise InputError("Labels must be whole numbers from 0 on, but some are not whole.")
        names = _numbered(numbers) if classes is None else _require_names(classes)
        numbers = numbers.long()
        _check_pixels(pixels)
        data = cls(pixels, numbers, names, normalisation or Normalisation.of(pixels))
        if len(numbers.unique()) < 2:
            raise InputError(
                f"All {len(data)} images are of the class {names[int(numbers[0])]}: give two classes at "
                "least."
            )
        return data

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    @cached_property
    def checksum(self) -> str:
        """A hash of pixels, labels, classes and normalisation."""
        digest = hashlib.sha256(repr((self.pixels.shape, self.pixels.dtype)).encode())
        for part in (self.pixels, self.labels):
            digest.update(part.cpu().contiguous().numpy().data)
        digest.update(repr((self.classes, self.normalisation)).encode())
        return digest.hexdigest()

    def shown(self, rows: Sequence[int] | Tensor | slice = slice(None)) -> Tensor:
        """Images as one looks at them, numbers in [0, 1]: (m, c, h, w) in float32 or wider."""
        return _unit(self.pixels[_index(rows)])

    def inputs(
        self,
        rows: Sequence[int] | Tensor | slice = slice(None),
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> Tensor:
        """Normalised images (m, c, h, w), as a network takes them; all of them unless rows are named.

        >>> ImageData.of([[[0.0, 1.0]], [[1.0, 0.0]]], [0, 1]).inputs([0]).flatten().tolist()
        [-1.0, 1.0]
        """
        require_float_dtype(dtype)
        return self.normalisation.apply(_unit(self.pixels[_index(rows)]).to(resolve(device), dtype))

    def of_class(self, label: int) -> Tensor:
        """The rows of the images of one class; a label of none is refused."""
        if whole("label", label, 0) >= len(self.classes):
            raise InputError(
                f"label = {label} was given, but there are {len(self.classes)} classes from 0 on."
            )
        return (self.labels == label).nonzero()[:, 0]

    def take(self, rows: Sequence[int] | Tensor | slice) -> ImageData:
        """Some of the images, with the same classes and normalisation."""
        rows = _index(rows)
        return replace(self, pixels=self.pixels[rows], labels=self.labels[rows])

    def normalised_by(self, normalisation: Normalisation) -> ImageData:
        """The same images under another normalisation, such as that of a checkpoint."""
        return replace(self, normalisation=normalisation)

    def split(self, test: float = 0.25, seed: int = 0) -> Split:
        """Training and test images, a share `test` of each class for the test, drawn by the seed.

        Both keep this normalisation. A share outside (0, 1), and classes of a single image, are refused.

        >>> pair = ImageData.of(torch.rand(8, 1, 2, 2), [0, 1] * 4).split()
        >>> len(pair.train), len(pair.test)
        (6, 2)
        """
        share, chosen = fraction("test", test), []
        generator = generator_for("split", whole("seed", seed, 0))
        for label in self.labels.unique().tolist():
            rows = self.of_class(label)
            if len(rows) < 2:
                raise InputError(
                    f"The class {self.classes[label]} has a single image: a split needs two of each class."
                )
            count = min(max(1, round(share * len(rows))), len(rows) - 1)
            chosen.append(rows[torch.randperm(len(rows), generator=generator)[:count]])
        is_test = torch.zeros(len(self), dtype=torch.bool)
        is_test[torch.cat(chosen)] = True
        return Split(self.take(~is_test), self.take(is_test))


class Split(NamedTuple):
    """Images to train on and images to test on, of one shape and under one normalisation."""

    train: ImageData
    test: ImageData

    @classmethod
    def of(cls, train: ImageData, test: ImageData) -> Split:
        """A pair of which the second takes the normalisation of the first; other shapes are refused."""
        if train.shape != test.shape or train.classes != test.classes:
            raise InputError(
                f"Training images are of shape {train.shape} in {len(train.classes)} classes, test images of "
                f"{test.shape} in {len(test.classes)}: they must be alike."
            )
        return cls(train, test.normalised_by(train.normalisation))

    def normalised_by(self, normalisation: Normalisation) -> Split:
        """Both parts under another normalisation."""
        return Split(*(part.normalised_by(normalisation) for part in self))


def _index(rows: Sequence[int] | Tensor | slice) -> list[int] | Tensor | slice:
    """A tuple would count as one index along each axis."""
    return rows if isinstance(rows, Tensor | slice) else list(rows)


def _unit(pixels: Tensor) -> Tensor:
    return pixels.float() / BYTE if pixels.dtype == torch.uint8 else pixels


def _as_pixels(images: ArrayLike) -> Tensor:
    if isinstance(images, np.ndarray) and images.dtype == np.uint8:
        pixels = torch.from_numpy(np.ascontiguousarray(images).copy())
    else:
        pixels = as_numbers("images", images, "(n, h, w) or (n, c, h, w)")
    if not (pixels.dtype == torch.uint8 or pixels.is_floating_point()):
        raise InputError(
            f"images are {pixels.dtype}, but bytes or numbers in [0, 1] are needed: divide by the largest."
        )
    return pixels[:, None] if pixels.ndim == 3 else pixels


def _check_pixels(pixels: Tensor) -> None:
    if pixels.ndim != 4 or not pixels.numel():
        raise InputError(
            f"Images of shape (n, h, w) or (n, c, h, w) are needed, but {tuple(pixels.shape)} was given."
        )
    if pixels.dtype != torch.uint8 and not ((pixels >= 0) & (pixels <= 1)).all():
        raise InputError(
            "images have numbers outside [0, 1], or NaN: give bytes, or divide by the largest."
        )


def _check_labels(labels: Tensor, images: int, classes: int) -> None:
    if labels.shape != (images,):
        raise InputError(
            f"{images} images and labels of shape {tuple(labels.shape)} were given: give one label an image."
        )
    low, high = labels.min().item(), labels.max().item()
    if low < 0 or high >= classes:
        raise InputError(
            f"Labels from {low} to {high} were given, but with {classes} classes they must lie between 0 and "
            f"{classes - 1}."
        )


def _numbered(labels: Tensor) -> tuple[str, ...]:
    """The numbers of classes as text; the largest label is looked at before anything is made of it.

    With more classes than images, and more than ImageNet has, labels are codes or damaged rather than numbers
    of classes, most of which would be empty.
    """
    largest = labels.max().item() if labels.numel() else -1
    most = max(labels.numel(), UNNAMED) - 1
    if largest > most:
        raise InputError(
            f"The label {largest:.15g} was given without names of classes, but labels of {labels.numel()} "
            f"images must lie between 0 and {most} then: number the classes from 0 on, or pass their names "
            "as `classes`."
        )
    return tuple(map(str, range(int(largest) + 1)))


def _require_names(classes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(classes, str) or not all(isinstance(name, str) for name in classes):
        raise InputError(
            f"classes = {shown(classes)} was given, but a name for each class is needed, as ('cat', 'dog')."
        )
    return tuple(classes)
