"""The image at a place between two others, and what a network makes of all between, under sliders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from notebooks.topics.images.films import as_picture
from notebooks.topics.images.networks import (
    DEEP_EPOCHS,
    EPOCHS,
    GELU,
    deep_digits,
    images_of,
    rows_of,
    shallow_digits,
)
from notebooks.topics.images.self_supervision import OBJECTIVES, self_supervised
from notebooks.topics.images.spectra import (
    FEATURES,
    HIDDEN,
    STAGES,
    DrawnFields,
    Spectrum,
    feature_spectrum,
    metric_spectrum,
    spectrum_at,
)
from notebooks.topics.statistics import Array
from numeric.experiments.images import segment

# Pairs of classes under sliders.
PAIRS = ((7, 6), (4, 9), (3, 8), (1, 7), (5, 6), (2, 0), (8, 1), (9, 3))
POINTS = 33  # of a line
IMAGES = 18  # a draw of images that are the same for every network; nearly all get them right
SHALLOW = "shallow"


@dataclass(frozen=True, eq=False)
class Between:
    """The image at a place between two others, and what the network makes of all that lie between."""

    picture: Array
    t: Array
    fields: DrawnFields
    place: float
    epoch: float
    names: tuple[str, ...]  # of all classes
    ends: tuple[str, ...]


def between_digits(pair: int, epoch: float, place: float) -> Between:
    """The panel of digits: which pair, after how many epochs (the nearest seen), and where on the line."""
    return _between(SHALLOW, HIDDEN, pair, _nearest(EPOCHS, epoch), place)


def between_deep(layer: str, pair: int, epoch: float, place: float) -> Between:
    """The panel of residual networks: the same at one of their layers."""
    return _between(GELU, layer, pair, _nearest(DEEP_EPOCHS, epoch), place)


def between_features(objective: str, metric: str, pair: int, epoch: float, place: float) -> Between:
    """The panel of self-supervision: the same for features learned with or without labels."""
    return _between(objective, metric, pair, _nearest(DEEP_EPOCHS, epoch), place)


def _nearest(epochs: Sequence[float], epoch: float) -> float:
    return min(epochs, key=lambda one: abs(one - epoch))


def _classifiers(kind: str) -> Mapping[float, nn.Module]:
    if kind == SHALLOW:
        return shallow_digits()
    if kind in OBJECTIVES:
        return {epoch: one.classifier for epoch, one in self_supervised(kind).items()}
    return deep_digits(GELU)


def _spectrum(kind: str, what: str) -> Spectrum:
    """At a layer of networks that see labels, or of features in some metric."""
    if kind == SHALLOW:
        return spectrum_at(what)
    if kind == GELU:
        return feature_spectrum if what == FEATURES else spectrum_at(STAGES[what])
    return metric_spectrum(what)


@lru_cache(maxsize=64)
def line_between(kind: str, what: str, pair: int, epoch: float) -> tuple[Tensor, DrawnFields]:
    """The images of a line, as the network takes them, and the fields there."""
    images, models = images_of("").test, _classifiers(kind)
    x = images.inputs(dtype=torch.float64)
    x = x.flatten(1) if kind == SHALLOW else x
    first, second = rows_of(images, PAIRS[pair], IMAGES)
    line = segment(x[first], x[second], POINTS)
    return line, DrawnFields.of(models[epoch], _spectrum(kind, what), line)


def _between(kind: str, what: str, pair: int, epoch: float, place: float) -> Between:
    images = images_of("").test
    line, fields = line_between(kind, what, pair, epoch)
    shown = as_picture(images, torch.lerp(line[:1], line[-1:], place))[0]
    t, names = torch.linspace(0, 1, POINTS).numpy(), images.classes
    ends = tuple(names[label] for label in PAIRS[pair])
    return Between(shown, t, fields, place, epoch, names, ends)
