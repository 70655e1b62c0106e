"""Networks that classify images, by epoch of training: those of the paper, and small ones on digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric import data
from numeric.data import ImageData, Split
from numeric.experiments.class_changes import predicted
from numeric.inputs import InputError, generator_for
from numeric.learned import augmentations as views
from numeric.learned.two_views import with_readout
from numeric.models.resnet import Basic, ResNet, resnet34
from numeric.runs import Run, train

DIGITS = 10
MNIST, CIFAR = (1, 28, 28), (3, 32, 32)  # shapes of their images
EPOCHS = (0, 1, 2, 4, 8, 14, 20)  # of the shallow network on digits, that the panel shows
DEEP_EPOCHS = (0, 1, 2, 4, 7)  # of the small residual network
BLOCKS, CHANNELS = (1, 1, 1), 4  # of that network: 16 features
GELU, RELU = "GELU", "ReLU"
ACTIVATIONS = {GELU: nn.GELU, RELU: nn.ReLU}
PAPER_SGD = partial(torch.optim.SGD, lr=0.01, momentum=0.9, weight_decay=1e-4)
PAPER_BATCH = 1024


@lru_cache(maxsize=4)
def images_of(folder: str, shape: tuple[int, int, int] = MNIST) -> Split:
    """The images of a directory, of a shape that is needed, or the bundled digits if none is named."""
    split = data.load(folder) if folder else data.digits()
    if folder and split.train.shape != shape:
        raise InputError(
            f"data = {folder} has images of shape {split.train.shape}, but {shape} is needed here: give a "
            'folder with those, or "" for the bundled digits.'
        )
    return split


def cifar_or_digits(folder: str, full: bool) -> tuple[Split, bool]:
    """CIFAR-10 from a folder in the full profile, else the bundled digits; and whether it is CIFAR-10.

    In the full profile without a folder, digits stand in, and a sentence says so.
    """
    split = images_of(folder if full else "", CIFAR)
    cifar = split.train.shape == CIFAR
    if full and not cifar:
        print(
            "No `data` was given: the bundled digits stand in for CIFAR-10, and a small network for "
            "ResNet-34."
        )
    return split, cifar


def flat_inputs(images: ImageData, **kind: object) -> Tensor:
    """(n, d), as the shallow network takes them."""
    return images.inputs(**kind).flatten(1)


def in_other_order(labels: Tensor, seed: int) -> Tensor:
    """The labels of a control, which say nothing about the images."""
    return labels[torch.randperm(len(labels), generator=generator_for("shuffled", seed))]


def linear(fan: int, count: int, generator: torch.Generator) -> nn.Linear:
    """A layer with weights uniform within 1/sqrt(fan-in), torch's own law."""
    layer = nn.Linear(fan, count, device="meta").to_empty(device="cpu")
    for values in layer.parameters():
        nn.init.uniform_(values, -(fan**-0.5), fan**-0.5, generator=generator)
    return layer


def shallow(d: int, width: int, classes: int, seed: int) -> nn.Sequential:
    """[d, width, classes] with logistic units."""
    generator = generator_for("shallow network", d, width, seed)
    return nn.Sequential(
        linear(d, width, generator), nn.Sigmoid(), linear(width, classes, generator)
    )


def small_resnet(activation: str, seed: int) -> ResNet:
    """A residual network for images of 8 x 8 pixels, with one block a stage and 16 features."""
    return ResNet(
        BLOCKS, CHANNELS, generator=generator_for("small resnet", seed), block=Basic, colours=1,
        activation=ACTIVATIONS[activation](),
    )  # fmt: skip


def classifier(features: ResNet, seed: int) -> nn.Module:
    """The features with a linear readout, uniform within 1/sqrt(fan-in)."""
    return with_readout(features, linear(features.features, DIGITS, generator_for("readout", seed)))


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    optimizer: Callable[..., torch.optim.Optimizer]
    batch_size: int
    epochs: int

    def steps(self, examples: int, epochs: Sequence[float]) -> dict[float, int]:
        """Updates by epoch, in order."""
        each = math.ceil(examples / self.batch_size)
        return {epoch: round(epoch * each) for epoch in sorted({0, *epochs, self.epochs})}


def adam(rate: float, batch_size: int, epochs: int) -> Recipe:
    """Adam with the paper's weight decay."""
    return Recipe(partial(torch.optim.Adam, lr=rate, weight_decay=1e-4), batch_size, epochs)


DIGITS_RECIPE = adam(0.02, 150, EPOCHS[-1])
DEEP_RECIPE = adam(0.01, 128, DEEP_EPOCHS[-1])


def trained(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    at: Sequence[float],
    seed: int = 0,
    **where: object,
) -> dict[float, nn.Module]:
    """The network by epoch, ready for geometry: in float64 and evaluation mode."""
    steps = recipe.steps(len(x), at)
    run = train(
        net, F.cross_entropy, (x, y), recipe.optimizer, steps=steps[recipe.epochs],
        batch_size=min(recipe.batch_size, len(x)), seed=seed, at=set(steps.values()),
        **({"device": "cpu", "progress": False} | where),
    )  # fmt: skip
    return by_epoch(run, steps)


def by_epoch(run: Run, steps: Mapping[float, int]) -> dict[float, nn.Module]:
    return {epoch: run.model_at(step).double().eval() for epoch, step in steps.items()}


@lru_cache(maxsize=1)
def shallow_digits() -> dict[float, nn.Module]:
    """The shallow network of the panel, by epoch."""
    images = images_of("").train
    net = shallow(64, 166, DIGITS, 0)
    return trained(net, flat_inputs(images), images.labels, DIGITS_RECIPE, EPOCHS)


@lru_cache(maxsize=8)
def deep_digits(activation: str, seed: int = 0, shuffled: bool = False) -> dict[float, nn.Module]:
    """The small residual network by epoch, trained on digits or on labels in another order."""
    images = images_of("").train
    labels = in_other_order(images.labels, seed) if shuffled else images.labels
    net = classifier(small_resnet(activation, seed), seed)
    epochs = () if shuffled else DEEP_EPOCHS
    return trained(net, images.inputs(), labels, DEEP_RECIPE, epochs, seed)


def paper_resnet(
    activation: str,
    split: Split,
    epochs: Sequence[float],
    seed: int,
    shuffled: bool,
    store: str,
    device: str,
    network: Callable[..., ResNet] = resnet34,
    every: int = 200,
) -> dict[float, nn.Module]:
    """ResNet-34 by epoch, by the recipe of appendix G 3, on crops and mirror images of the images.

    `network` makes another one from a seed and an activation; every so many updates a checkpoint is written.
    """
    labels = in_other_order(split.train.labels, seed) if shuffled else split.train.labels
    net = classifier(network(seed, activation=ACTIVATIONS[activation]()), seed)
    view = views.Compose((views.RandomCrop(4), views.Sometimes(0.5, views.HorizontalFlip())))
    step = views.Augmented(F.cross_entropy, view, split.train.normalisation.apply)
    steps = Recipe(PAPER_SGD, PAPER_BATCH, int(max(epochs))).steps(len(labels), epochs)
    name = f"18-{activation}-{'shuffled' if shuffled else 'cifar'}-{seed}.pt"
    run = train(
        net, None, (split.train.shown(), labels), PAPER_SGD, steps=max(steps.values()),
        batch_size=min(PAPER_BATCH, len(labels)), seed=seed, at=set(steps.values()), step=step,
        key=repr(step), store=Path(store) / name if store else None, every=every, device=device,
    )  # fmt: skip
    return by_epoch(run, steps)


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share that is classified right; x is taken in the model's dtype."""
    like = next(model.parameters())
    parts = [predicted(model)(part.to(like)) for part in x.split(1000)]
    return (torch.cat(parts).cpu() == y.cpu()).double().mean().item()


def classified_right(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """(n,), whether each image is."""
    return (predicted(model)(x) == y.to(x.device)).cpu()


def rows_of(
    images: ImageData, classes: tuple[int, ...], seed: int = 0, right: Tensor | None = None
) -> list[int]:
    """For each class an image of it by chance, no image twice; where it is given, of those that are `right`.

    Refused are classes that have too few of them.
    """
    rows: list[int] = []
    for place, label in enumerate(classes):
        members = images.of_class(label)
        if right is not None:
            members = members[right[members]]
        order = torch.randperm(len(members), generator=generator_for("images", seed, place, label))
        left = [row for row in members[order].tolist() if row not in rows]
        if not left:
            which = "" if right is None else " that the network gets right"
            raise InputError(
                f"{classes.count(label)} images of class {images.classes[label]}{which} are needed, but "
                f"there are {len(members)}: give more images, or train for longer."
            )
        rows.append(left[0])
    return rows
