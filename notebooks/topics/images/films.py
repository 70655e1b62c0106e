"""Lines and planes between images over training: what networks make of all that lies there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from notebooks.topics.images.networks import classified_right, rows_of
from notebooks.topics.images.spectra import DrawnFields, Spectrum
from notebooks.topics.statistics import Array
from numeric.data import ImageData
from numeric.experiments.images import CORNERS, Hull, segment


def as_picture(images: ImageData, inputs: Tensor) -> Array:
    """Inputs of a network (n, ...) as one looks at them: (n, h, w) or (n, h, w, 3), from 0 to 1."""
    shown = images.normalisation.undo(inputs.cpu().reshape(-1, *images.shape)).clamp(0, 1)
    return (shown[:, 0] if images.shape[0] == 1 else shown.permute(0, 2, 3, 1)).numpy()


def names_of(images: ImageData, rows: Sequence[int]) -> tuple[str, ...]:
    """Of the classes of these images."""
    return tuple(images.classes[int(images.labels[row])] for row in rows)


@dataclass(frozen=True, eq=False)
class PathFilm:
    """A line between two images, over training."""

    t: Array
    fields: Mapping[float, DrawnFields]  # by epoch
    pictures: Array  # of start, middle and end
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], spectrum: Spectrum, images: ImageData, rows: Sequence[int],
        x: Tensor, points: int = 33,
    ) -> PathFilm:  # fmt: skip
        """Between two rows of the images, which are x (n, ...) as the network takes them."""
        line = segment(x[rows[0]], x[rows[1]], points)
        fields = {epoch: DrawnFields.of(model, spectrum, line) for epoch, model in models.items()}
        pictures = as_picture(images, line[[0, points // 2, points - 1]])
        return cls(np.linspace(0, 1, points), fields, pictures, names_of(images, rows))


@dataclass(frozen=True, eq=False)
class PlaneFilm:
    """The plane through three images, over training; they are the corners of a triangle of side 1."""

    places: Array  # (n, 2)
    corners: Array  # (3, 2)
    fields: Mapping[float, DrawnFields]  # by epoch
    pictures: Array  # of the corners
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], spectrum: Spectrum, images: ImageData, rows: Sequence[int],
        x: Tensor, steps: int, reach: float = 0.0,
    ) -> PlaneFilm:  # fmt: skip
        """`steps` intervals a side of the triangle; the affine hull goes beyond, to weights of -reach."""
        corners = x[list(rows)]
        hull = Hull.of(*corners, steps=steps, reach=reach)
        fields = {
            epoch: DrawnFields.of(model, spectrum, hull.images) for epoch, model in models.items()
        }
        places, pictures = hull.places.numpy(), as_picture(images, corners)
        return cls(places, CORNERS.numpy(), fields, pictures, names_of(images, rows))

    def contrast(self, epoch: float) -> float:
        """Mean log volume at points beside one of another predicted class, less that at all others.

        NaN if one class alone is predicted. Neighbours in the lattice are beside each other.
        """
        fields = self.fields[epoch]
        apart = np.linalg.norm(self.places[:, None] - self.places, axis=-1)
        near = apart < 1.5 * apart[apart > 1e-9].min()  # the next are the root of 3 as far
        other = fields.prediction[:, None] != fields.prediction
        beside = (near & other).any(1)
        if not beside.any() or beside.all():
            return math.nan
        return float(fields.volume[beside].mean() - fields.volume[~beside].mean())


@dataclass(frozen=True, eq=False)
class SpectrumFilm:
    """log10 of the singular values of the Jacobian at some images, over training; NaN beyond the rank."""

    epochs: Array
    log_singular: Array  # (images, epochs, p)
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], spectrum: Spectrum, images: ImageData, rows: Sequence[int],
        x: Tensor,
    ) -> SpectrumFilm:  # fmt: skip
        parts = [spectrum(model, x[list(rows)]).log_singular for model in models.values()]
        values = torch.stack(parts, 1).cpu().numpy() / math.log(10)
        values = np.where(np.isfinite(values), values, np.nan)
        return cls(np.array(list(models), float), values, names_of(images, rows))


@dataclass(frozen=True, eq=False)
class NetworkFilms:
    """Films of a network by epoch, on images that it gets right after the last of them."""

    models: Mapping[float, nn.Module]  # by epoch
    spectrum: Spectrum
    images: ImageData
    x: Tensor  # (n, ...), the images as the network takes them

    @cached_property
    def right(self) -> Tensor:
        """(n,), whether the trained network gets each image right."""
        return classified_right(self.models[max(self.models)], self.x, self.images.labels)

    def rows(self, classes: tuple[int, ...]) -> list[int]:
        """An image of each class, of those that the trained network gets right."""
        return rows_of(self.images, classes, right=self.right)

    def _at(self, epochs: Sequence[float]) -> dict[float, nn.Module]:
        return {epoch: self.models[epoch] for epoch in epochs}

    def path(self, classes: tuple[int, int], epochs: Sequence[float], points: int = 33) -> PathFilm:
        """The line between images of two classes."""
        rows = self.rows(classes)
        return PathFilm.of(self._at(epochs), self.spectrum, self.images, rows, self.x, points)

    def plane(
        self, rows: Sequence[int], epochs: Sequence[float], steps: int, reach: float = 0.0
    ) -> PlaneFilm:
        """The triangle of three images, or with a reach their affine hull: see `PlaneFilm.of`."""
        models = self._at(epochs)
        return PlaneFilm.of(models, self.spectrum, self.images, rows, self.x, steps, reach)

    def spectra(self, rows: Sequence[int]) -> SpectrumFilm:
        """Singular values at some images, at all epochs."""
        return SpectrumFilm.of(self.models, self.spectrum, self.images, rows, self.x)
