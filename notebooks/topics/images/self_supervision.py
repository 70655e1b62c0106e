"""Features that are learned from two views of each image, without labels, and a linear probe on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import nn

from notebooks.topics.images.networks import (
    DEEP_EPOCHS,
    DEEP_RECIPE,
    GELU,
    PAPER_BATCH,
    PAPER_SGD,
    Recipe,
    images_of,
    small_resnet,
)
from numeric.data import ImageData, Split
from numeric.learned import augmentations as views
from numeric.learned.two_views import (
    TwoViews,
    barlow_twins,
    linear_probe,
    projector,
    simclr,
    with_readout,
)
from numeric.models.resnet import ResNet, resnet34
from numeric.runs import train

SUPERVISED, BARLOW, SIMCLR = "labels", "Barlow Twins", "SimCLR"
OBJECTIVES = {BARLOW: barlow_twins, SIMCLR: partial(simclr, temperature=0.2)}


@dataclass(frozen=True, eq=False)
class Representation:
    """Features learned without labels: a probe on them, and the head whose outputs the loss sees."""

    classifier: nn.Module  # its layer `features` is the representation
    head: nn.Module | None  # None if the loss sees the classifier's own outputs


def digit_views() -> views.Compose:
    """Of a digit: a part of it at full size, brighter or darker. A mirror image would be no digit."""
    jitter = views.Compose((views.Brightness(0.4), views.Contrast(0.4)))
    return views.Compose((views.RandomResizedCrop(0.4), views.Sometimes(0.8, jitter)))


@lru_cache(maxsize=8)
def self_supervised(objective: str, seed: int = 0) -> dict[float, Representation]:
    """The small residual network by epoch, trained on views of digits, with a linear probe at each."""
    features = small_resnet(GELU, seed)
    both = (digit_views(), digit_views())
    return learned_from_views(
        objective, features, (64, 16), images_of("").train, both, DEEP_RECIPE, DEEP_EPOCHS, seed,
        device="cpu", progress=False,
    )  # fmt: skip


def paper_self_supervised(
    objective: str,
    split: Split,
    epochs: Sequence[float],
    seed: int,
    store: str,
    device: str,
    network: Callable[..., ResNet] = resnet34,
    every: int = 200,
) -> dict[float, Representation]:
    """ResNet-34 by epoch, by the recipe of appendix G 4; SimCLR's head is that of its authors.

    `network` makes another one from a seed; every so many updates a checkpoint is written.
    """
    recipe = Recipe(PAPER_SGD, PAPER_BATCH, int(max(epochs)))
    widths = (256,) if objective == BARLOW else (512, 128)
    file = Path(store) / f"19-{objective}-{seed}.pt" if store else None
    return learned_from_views(
        objective, network(seed), widths, split.train, views.paper_views(), recipe, epochs, seed,
        store=file, device=device, every=every,
    )  # fmt: skip


def learned_from_views(
    objective: str, features: ResNet, widths: tuple[int, ...], images: ImageData,
    both: tuple[views.View, views.View], recipe: Recipe, epochs: Sequence[float], seed: int, **where: object,
) -> dict[float, Representation]:  # fmt: skip
    """A network by epoch, trained on two views of each image, in whole batches."""
    net = projector(features, features.features, widths, seed)
    step = TwoViews(OBJECTIVES[objective], *both, images.normalisation.apply)
    size = min(recipe.batch_size, len(images))
    whole = images.take(slice(len(images) // size * size))
    steps = recipe.steps(len(whole), epochs)
    run = train(
        net, None, (whole.shown(), None), recipe.optimizer, steps=max(steps.values()), batch_size=size,
        seed=seed, at=set(steps.values()), step=step, key=repr(step), **where,
    )  # fmt: skip
    return {epoch: probed(run.model_at(step), images) for epoch, step in steps.items()}


def probed(model: nn.Module, images: ImageData) -> Representation:
    """Logistic regression on the features of a model of `projector`."""
    model = model.double().eval()
    place = next(model.parameters()).device
    with torch.no_grad():
        parts = images.inputs(dtype=torch.float64, device=place).split(500)
        features = torch.cat([model.features(part) for part in parts])
    readout = linear_probe(features, images.labels.to(place))
    return Representation(with_readout(model.features, readout), model.projector)
