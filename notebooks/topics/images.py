"""Networks that classify images: volumes, classes and entropies between images, over training; evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from notebooks.topics.statistics import Array
from numeric import data, geometry
from numeric.data import ImageData, Normalisation, Split
from numeric.experiments.class_changes import (
    ENDS,
    SIDES,
    Evidence,
    Lines,
    lines_between,
    lines_within,
    predicted,
)
from numeric.experiments.decision_boundaries import Comparison
from numeric.inputs import InputError, generator_for, resolve
from numeric.learned import augmentations as views
from numeric.learned.two_views import (
    TwoViews,
    barlow_twins,
    linear_probe,
    projector,
    simclr,
    with_readout,
)
from numeric.models.resnet import Basic, ResNet, cifar_resnet, resnet20, resnet34
from numeric.models.weights import Weights
from numeric.runs import Run, train
from numeric.runs.store import checkpoint, fingerprint

DIGITS = 10
# Pairs of classes under sliders.
PAIRS = ((7, 6), (4, 9), (3, 8), (1, 7), (5, 6), (2, 0), (8, 1), (9, 3))
EPOCHS = (0, 1, 2, 4, 8, 14, 20)  # of the panel's networks, that are looked at
ENTRIES = 2**25  # of Jacobians at a time: a quarter of a gigabyte
HIDDEN = "1"  # the layer of the shallow network whose metric is taken
Measure = Callable[[nn.Module, Tensor], Tensor]  # (model, images (n, ...)) -> log volumes (n,)


MNIST, CIFAR = (1, 28, 28), (3, 32, 32)  # shapes of their images


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


# Networks.


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


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained on the cross entropy."""

    optimizer: Callable[..., torch.optim.Optimizer]
    batch_size: int
    epochs: int

    def steps(self, examples: int, epoch: float) -> int:
        """Updates in so many epochs."""
        return round(epoch * math.ceil(examples / self.batch_size))


def adam(rate: float, batch_size: int, epochs: int) -> Recipe:
    """Adam with the paper's weight decay."""
    return Recipe(partial(torch.optim.Adam, lr=rate, weight_decay=1e-4), batch_size, epochs)


def flat_inputs(images: ImageData, **kind: object) -> Tensor:
    """(n, d), as the shallow network takes them."""
    return images.inputs(**kind).flatten(1)


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
    steps = {epoch: recipe.steps(len(x), epoch) for epoch in sorted({0, *at, recipe.epochs})}
    run = train(
        net, F.cross_entropy, (x, y), recipe.optimizer, steps=steps[recipe.epochs],
        batch_size=min(recipe.batch_size, len(x)), seed=seed, at=set(steps.values()),
        **({"device": "cpu", "progress": False} | where),
    )  # fmt: skip
    return by_epoch(run, steps)


def by_epoch(run: Run, steps: Mapping[float, int]) -> dict[float, nn.Module]:
    return {epoch: run.model_at(step).double().eval() for epoch, step in steps.items()}


def in_other_order(labels: Tensor, seed: int) -> Tensor:
    """The labels of a control, which say nothing about the images."""
    return labels[torch.randperm(len(labels), generator=generator_for("shuffled", seed))]


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share that is classified right; x is taken in the model's dtype."""
    like = next(model.parameters())
    parts = [predicted(model)(part.to(like)) for part in x.split(1000)]
    return (torch.cat(parts).cpu() == y.cpu()).double().mean().item()


# What lies between images.


def volume_at(layer: str) -> Measure:
    """log sqrt(det g) of the metric at a layer, over the directions that count."""

    def measure(model: nn.Module, x: Tensor) -> Tensor:
        return geometry.log_volume(model, x, layer=layer, progress=False).value

    return measure


def volume_of_features() -> Measure:
    """The same at the layer of features, by `log_singular_values`."""

    def measure(model: nn.Module, x: Tensor) -> Tensor:
        logs = log_singular_values(model.get_submodule(FEATURES), x)
        return torch.where(logs.isfinite(), logs, 0).sum(1)

    return measure


def log_singular_values(module: nn.Module, x: Tensor) -> Tensor:
    """Of the Jacobian at each point, (m, p), descending; -inf where they are rounding.

    By a plain decomposition, many times faster than `geometry.spectrum` where many points lack rank, and
    right to the digits that the condition number leaves.
    """
    parts = []
    for some in _chunks(module, x):
        _, jacobian = _with_jacobian(module, some)
        values = torch.linalg.svdvals(jacobian)
        rounding = values[:, :1] * max(jacobian.shape[1:]) * torch.finfo(values.dtype).eps
        parts.append(torch.where(values > rounding, values, 0).log())
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Fields:
    """What a network makes of points: log10 of the volume, class, and entropy, which is 1 for no idea."""

    log_volume: Array
    prediction: Array
    entropy: Array

    @classmethod
    def of(cls, model: nn.Module, measure: Measure, x: Tensor) -> Fields:
        with torch.no_grad():
            log_p = F.log_softmax(model(x), 1)
        entropy = -(log_p.exp() * log_p).sum(1) / math.log(log_p.shape[1])
        volume = measure(model, x) / math.log(10)
        return cls(*(part.cpu().numpy() for part in (volume, log_p.argmax(1), entropy)))


def as_picture(images: ImageData, pixels: Tensor) -> Array:
    """Inputs of a network (n, ...) as one looks at them: (n, h, w) or (n, h, w, 3), from 0 to 1."""
    shown = images.normalisation.undo(pixels.cpu().reshape(-1, *images.shape)).clamp(0, 1)
    return (shown[:, 0] if images.shape[0] == 1 else shown.permute(0, 2, 3, 1)).numpy()


@dataclass(frozen=True, eq=False)
class PathFilm:
    """A line between two images, over training."""

    t: Array
    fields: Mapping[float, Fields]  # by epoch
    pictures: Array  # of start, middle and end
    names: tuple[str, str]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], measure: Measure, images: ImageData, rows: Sequence[int],
        x: Tensor, points: int = 33,
    ) -> PathFilm:  # fmt: skip
        """Between two rows of the images, which are x (n, ...) as the network takes them."""
        lines = Lines(x[[rows[0]]], x[[rows[1]]], points)
        fields = {epoch: Fields.of(model, measure, lines.x) for epoch, model in models.items()}
        pictures = as_picture(images, lines.x[[0, points // 2, points - 1]])
        names = tuple(images.classes[int(images.labels[row])] for row in rows)
        return cls(lines.t.cpu().numpy(), fields, pictures, (names[0], names[1]))


CORNERS = np.array(
    [[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]]
)  # of the triangle of three images


@dataclass(frozen=True, eq=False)
class PlaneFilm:
    """The plane through three images, over training; they are the corners of a triangle of side 1."""

    at: Array  # (n, 2), places in the plane
    fields: Mapping[float, Fields]  # by epoch
    pictures: Array  # of the corners
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], measure: Measure, images: ImageData, rows: Sequence[int],
        x: Tensor, at: Array,
    ) -> PlaneFilm:  # fmt: skip
        weights = x.new_tensor(barycentric(at))
        corners = x[list(rows)]
        points = torch.einsum("nk,k...->n...", weights, corners)
        fields = {epoch: Fields.of(model, measure, points) for epoch, model in models.items()}
        names = tuple(images.classes[int(images.labels[row])] for row in rows)
        return cls(at, fields, as_picture(images, corners), names)


def convex_hull(side: int) -> Array:
    """Evenly spaced places in the triangle, so many along each edge: (n, 2)."""
    steps = [(i, j, side - 1 - i - j) for i in range(side) for j in range(side - i)]
    return np.array(steps) / (side - 1) @ CORNERS


def affine_hull(side: int, reach: float = 1.1) -> Array:
    """A square of the plane around the triangle, so many places along each side: (n, 2)."""
    line = np.linspace(-reach, reach, side)
    across, along = np.meshgrid(line, line)
    return CORNERS.mean(0) + np.stack([across.ravel(), along.ravel()], 1)


def barycentric(at: Array) -> Array:
    """Weights of the three corners, which sum to 1: (n, 2) -> (n, 3)."""
    system = np.vstack([CORNERS.T, np.ones(3)])
    return np.linalg.solve(system, np.vstack([at.T, np.ones(len(at))])).T


@dataclass(frozen=True, eq=False)
class SpectrumFilm:
    """log10 of the singular values of the Jacobian at some images, over training; NaN beyond the rank."""

    epochs: Array
    log_singular: Array  # (images, epochs, p)
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, models: Mapping[float, nn.Module], spectrum: Measure, images: ImageData, rows: Sequence[int],
        x: Tensor,
    ) -> SpectrumFilm:  # fmt: skip
        """`spectrum` gives logs of singular values (n, p) at images of a model."""
        parts = [spectrum(model, x[list(rows)]) for model in models.values()]
        values = torch.stack(parts, 1).cpu().numpy() / math.log(10)
        values = np.where(np.isfinite(values), values, np.nan)
        names = tuple(images.classes[int(images.labels[row])] for row in rows)
        return cls(np.array(list(models), float), values, names)


def spectrum_at(layer: str) -> Measure:
    """Logs of the singular values of the Jacobian at a layer, each with all digits."""

    def measure(model: nn.Module, x: Tensor) -> Tensor:
        return geometry.spectrum(model, x, layer=layer, progress=False).log_singular

    return measure


def spectrum_of_features() -> Measure:
    """The same at the layer of features, by `log_singular_values`."""
    return lambda model, x: log_singular_values(model.get_submodule(FEATURES), x)


def rows_of(
    images: ImageData, classes: Sequence[int], seed: int = 0, right: Tensor | None = None
) -> list[int]:
    """For each class an image of it by chance, which is among those that are `right`, if these are given."""
    rows: list[int] = []
    for place, label in enumerate(classes):
        some = images.of_class(label)
        if right is not None:
            some = some[right[some]]
        order = torch.randperm(len(some), generator=generator_for("images", seed, place, label))
        rows.append(next(int(row) for row in some[order] if int(row) not in rows))
    return rows


def classified_right(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """(n,), whether each image is."""
    return (predicted(model)(x) == y.to(x.device)).cpu()


# The hypothesis.


@dataclass(frozen=True, eq=False)
class LineContrast:
    """A mean over lines with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def above(self) -> bool:
        return self.low > 0

    @property
    def below(self) -> bool:
        return self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True, eq=False)
class Trial:
    """The rule of `class_changes` on one network: contrasts by themselves, and less those of each control."""

    plain: Mapping[str, LineContrast]  # by what it is against: ends or beside
    against: Mapping[str, Mapping[str, LineContrast]]  # the same, by control
    magnifies: bool


def trial(evidence: Evidence) -> Trial:
    def contrast(one: Comparison) -> LineContrast:
        low, high = one.interval
        return LineContrast(float(one.mean), float(low), float(high), one.estimate.count)

    plain = {kind: contrast(evidence.plain(kind)) for kind in (ENDS, SIDES)}
    against = {
        kind: {name: contrast(one) for name, one in evidence.comparisons(kind).items()}
        for kind in (ENDS, SIDES)
    }
    return Trial(plain, against, evidence.magnifies)


@dataclass(frozen=True, eq=False)
class Tested:
    """Lines between images and within classes, for one trained network."""

    between: Lines
    within: Lines
    classes: Tensor  # predicted along the former

    @classmethod
    def of(
        cls, model: nn.Module, x: Tensor, y: Tensor, count: int, seed: int = 0, points: int = 17
    ) -> Tested:
        classify = predicted(model)
        between = lines_between(classify, x, y, count, seed, points)
        within = lines_within(classify, x, y, count, seed, points)
        return cls(between, within, between.on(classify).cpu())

    def evidence(
        self, measure: Measure, model: nn.Module, others: Mapping[str, nn.Module]
    ) -> Evidence:
        """Against other networks along the same lines, and against lines within classes."""

        def on(lines: Lines, of: nn.Module) -> Tensor:
            return lines.on(partial(measure, of)).cpu()

        controls = {name: on(self.between, other) for name, other in others.items()}
        controls["within a class"] = on(self.within, model)
        return Evidence(self.classes, on(self.between, model), controls)

    def spectra(
        self, spectrum: Measure, model: nn.Module, others: Mapping[str, nn.Module]
    ) -> dict[str, Tensor]:
        """Logs of singular values (m, points, p) of `evidence`, by name; the model's own are "trained"."""

        def on(lines: Lines, of: nn.Module) -> Tensor:
            return spectrum(of, lines.x).unflatten(0, (len(lines), lines.points)).cpu()

        own = {"trained": on(self.between, model), "within a class": on(self.within, model)}
        return own | {name: on(self.between, other) for name, other in others.items()}

    def along_common_rank(self, spectra: Mapping[str, Tensor]) -> tuple[Evidence, int]:
        """Evidence on as many largest singular values as there are at every point, and how many these are."""
        rank = min(int(logs.isfinite().sum(-1).min()) for logs in spectra.values())
        volumes = {name: logs[..., :rank].sum(-1) for name, logs in spectra.items()}
        return Evidence(self.classes, volumes.pop("trained"), volumes), rank


@dataclass(frozen=True, eq=False)
class AroundChange:
    """Mean log volume by the distance from a class change along the line, less that of the whole line."""

    distance: Array
    mean: Mapping[str, Array]  # by network
    stderr: Mapping[str, Array]


def around_change(evidence: Evidence, bins: int = 11, reach: float = 0.35) -> AroundChange:
    """Points of lines with one class change only, in bins of their distance from it."""
    single = evidence.changes.sum(1) == 1
    points = evidence.prediction.shape[1]
    place = (evidence.changes[single].double().argmax(1) + 0.5) / (points - 1)
    away = torch.linspace(0, 1, points).double() - place[:, None]
    edges = torch.linspace(-reach, reach, bins + 1).double()
    which = torch.bucketize(away.contiguous(), edges) - 1  # (m, points)
    means, errors = {}, {}
    for name, volumes in {"trained": evidence.log_volume, **evidence.controls}.items():
        values = volumes[single].double()
        values = values - values.mean(1, keepdim=True)
        by_line = torch.stack(
            [torch.where(which == k, values, 0).sum(1) / (which == k).sum(1) for k in range(bins)],
            1,
        )  # (m, bins), NaN where a line has no point
        there = by_line.isfinite().sum(0)
        means[name] = by_line.nanmean(0).numpy()
        spread = (by_line - by_line.nanmean(0)).square().nanmean(0).sqrt()
        errors[name] = (spread / there.clamp(min=2).sqrt()).numpy()
    return AroundChange(((edges[1:] + edges[:-1]) / 2).numpy(), means, errors)


# Residual networks on the bundled digits, and what self-supervision makes of them.

FEATURES = "features"  # the layer of the representation
STAGES = {"stage 1": "features.layer1", "stage 2": "features.layer2", FEATURES: FEATURES}
BLOCKS, CHANNELS = (1, 1, 1), 4  # of the small residual network: 16 features
DEEP_EPOCHS = (0, 1, 2, 4, 7)
GELU, RELU = "GELU", "ReLU"
ACTIVATIONS = {GELU: nn.GELU, RELU: nn.ReLU}
SUPERVISED, BARLOW, SIMCLR = "labels", "Barlow Twins", "SimCLR"
OBJECTIVES = {BARLOW: barlow_twins, SIMCLR: partial(simclr, temperature=0.2)}
# Of weights trained elsewhere.
IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FLAT, SPHERE, TEN = "flat", "sphere", "ten largest"  # metrics of the features
EMBEDDED = {name: f"{name}, embedding" for name in (FLAT, SPHERE)}  # of what the loss sees


def small_resnet(activation: str, seed: int) -> ResNet:
    """A residual network for images of 8 x 8 pixels, with one block a stage and 16 features."""
    return ResNet(
        BLOCKS, CHANNELS, generator=generator_for("small resnet", seed), block=Basic, colours=1,
        activation=ACTIVATIONS[activation](),
    )  # fmt: skip


def small_classifier(activation: str, seed: int) -> nn.Module:
    """The same with a linear readout, uniform within 1/sqrt(fan-in)."""
    features = small_resnet(activation, seed)
    return with_readout(features, linear(features.features, DIGITS, generator_for("readout", seed)))


DEEP_RECIPE = adam(0.01, 128, DEEP_EPOCHS[-1])


@lru_cache(maxsize=8)
def deep_digits(activation: str, seed: int = 0, shuffled: bool = False) -> dict[float, nn.Module]:
    """The small residual network by epoch, trained on digits or on labels in another order."""
    train_images = images_of("").train
    labels = in_other_order(train_images.labels, seed) if shuffled else train_images.labels
    net = small_classifier(activation, seed)
    epochs = () if shuffled else DEEP_EPOCHS
    return trained(net, train_images.inputs(), labels, DEEP_RECIPE, epochs, seed)


def paper_resnet(
    activation: str,
    split: Split,
    epochs: Sequence[float],
    seed: int,
    shuffled: bool,
    store: str,
    device: str,
) -> dict[float, nn.Module]:
    """ResNet-34 by epoch, by the recipe of appendix G 3, on crops and mirror images of the images."""
    labels = in_other_order(split.train.labels, seed) if shuffled else split.train.labels
    features = resnet34(seed, activation=ACTIVATIONS[activation]())
    net = with_readout(features, linear(features.features, DIGITS, generator_for("readout", seed)))
    view = views.Compose((views.RandomCrop(4), views.Sometimes(0.5, views.HorizontalFlip())))
    step = views.Augmented(F.cross_entropy, view, split.train.normalisation.apply)
    sgd = partial(torch.optim.SGD, lr=0.01, momentum=0.9, weight_decay=1e-4)
    recipe = Recipe(sgd, 1024, int(max(epochs)))
    steps = {epoch: recipe.steps(len(labels), epoch) for epoch in epochs}
    name = f"18-{activation}-{'shuffled' if shuffled else 'cifar'}-{seed}.pt"
    run = train(
        net, None, (split.train.shown(), labels), sgd, steps=steps[max(epochs)],
        batch_size=min(1024, len(labels)), seed=seed, at=set(steps.values()), step=step, key=repr(step),
        store=Path(store) / name if store else None, every=200, device=device,
    )  # fmt: skip
    return by_epoch(run, steps)


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """The rule on a network that others have trained."""

    trial: Trial
    accuracy: float
    least_rank: int


def trained_elsewhere(
    file: str, folder: str, count: int, points: int = 13, store: str = "", device: str = "auto"
) -> Elsewhere:
    """ResNet-20 from a file of weights, on test images of CIFAR-10 under the usual normalisation of colours.

    In float32, as the weights are. Its untrained twin is another draw of weights, since its own start is
    not known. Lines are compared along as many directions as the least rank of their points.
    """
    images = data.cifar10(folder, IMAGENET).test
    place = resolve(device)
    net = Weights.read(file).into(resnet20()).to(place).eval()
    fresh = cifar_resnet(20, seed=1).to(place).eval()
    x = images.inputs(device=place)
    tested = Tested.of(net, x, images.labels, count, 0, points)
    key = fingerprint("elsewhere", count, points, *net.state_dict().values(), x)
    spectra_file = checkpoint(Path(store) / "18-elsewhere.pt" if store else None, key)
    if (spectra := spectra_file.read()) is None:
        spectra = tested.spectra(spectrum_at("pool"), net, {"untrained": fresh})
        spectra_file.write(spectra)
    evidence, rank = tested.along_common_rank(spectra)
    return Elsewhere(trial(evidence), accuracy(net, x, images.labels), rank)


def digit_views() -> views.Compose:
    """Of a digit: a part of it at full size, brighter or darker. A mirror image would be no digit."""
    jitter = views.Compose((views.Brightness(0.4), views.Contrast(0.4)))
    return views.Compose((views.RandomResizedCrop(0.4), views.Sometimes(0.8, jitter)))


@dataclass(frozen=True, eq=False)
class Representation:
    """Features learned without labels: a probe on them, and the head whose outputs the loss sees."""

    classifier: nn.Module  # its layer `features` is the representation
    head: nn.Module | None  # None if the loss sees the classifier's own outputs


@lru_cache(maxsize=8)
def self_supervised(objective: str, seed: int = 0) -> dict[float, Representation]:
    """The small residual network by epoch, trained on views of digits, with a linear probe at each."""
    features = small_resnet(GELU, seed)
    both = (digit_views(), digit_views())
    return learned_from_views(
        objective, features, (64, 16), images_of("").train, both, DEEP_RECIPE, DEEP_EPOCHS, seed
    )


def paper_self_supervised(
    objective: str, split: Split, epochs: Sequence[float], seed: int, store: str, device: str
) -> dict[float, Representation]:
    """ResNet-34 by epoch, by the recipe of appendix G 4; SimCLR's head is that of its authors."""
    sgd = partial(torch.optim.SGD, lr=0.01, momentum=0.9, weight_decay=1e-4)
    recipe = Recipe(sgd, 1024, int(max(epochs)))
    widths = (256,) if objective == BARLOW else (512, 128)
    file = Path(store) / f"19-{objective}-{seed}.pt" if store else None
    return learned_from_views(
        objective, resnet34(seed), widths, split.train, views.paper_views(), recipe, epochs, seed, store=file,
        device=device, progress=True,
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
    steps = {epoch: recipe.steps(len(whole), epoch) for epoch in epochs}
    run = train(
        net, None, (whole.shown(), None), recipe.optimizer, steps=steps[max(epochs)], batch_size=size,
        seed=seed, at=set(steps.values()), step=step, key=repr((objective, step)), every=200,
        **({"device": "cpu", "progress": False} | where),
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


def measure_of(metric: str) -> Measure:
    """The log volume of features in the flat metric, pulled back from the sphere, or of ten directions."""
    return lambda model, x: feature_volumes(model, None, x)[metric]


def feature_volumes(classifier: nn.Module, head: nn.Module | None, x: Tensor) -> dict[str, Tensor]:
    """All log volumes that are compared, from one Jacobian a point; with a head those of embeddings too.

    By the closed form of `OnSphere`, for maps of full rank with fewer features than pixels.
    """
    parts = []
    for some in _chunks(classifier.features, x):
        f, jacobian = _with_jacobian(classifier.features, some)
        volumes = _volumes(f, jacobian)
        if head is not None:
            z, of_head = _with_jacobian(head, f)
            of_embedding = _volumes(z, of_head @ jacobian)
            volumes |= {EMBEDDED[name]: of_embedding[name] for name in EMBEDDED}
        parts.append(volumes)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _chunks(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """So many points at a time that their Jacobians have no more than ENTRIES numbers."""
    with torch.no_grad():
        count = module.eval()(x[:1]).numel() * x[0].numel()
    return x.split(max(1, ENTRIES // count))


def _with_jacobian(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (m, p) and their derivatives (m, p, d), in evaluation mode: a pass back for each output.

    A pass takes all points at once, since none of them sees another.
    """
    points = x.detach().requires_grad_()
    out = module.eval()(points)
    rows = [
        torch.autograd.grad(out[:, k].sum(), points, retain_graph=True)[0].flatten(1)
        for k in range(out.shape[1])
    ]
    return out.detach(), torch.stack(rows, 1)


def _volumes(f: Tensor, jacobian: Tensor) -> dict[str, Tensor]:
    p, length = f.shape[1], f.norm(dim=1)
    singular = torch.linalg.svdvals(jacobian).log()
    inverse = torch.linalg.solve(jacobian @ jacobian.mT, f[:, :, None])[:, :, 0]
    along = (f * inverse).sum(1).log() / 2 - length.log()  # half of log z.(J J^T)^-1 z
    flat = singular.sum(1)
    return {FLAT: flat, SPHERE: flat - (p - 1) * length.log() + along, TEN: singular[:, :10].sum(1)}


def evidence_by_metric(
    tested: Tested, after: Representation, before: Representation
) -> dict[str, Evidence]:
    """The rule's numbers for each metric of the features and of the embedding."""

    def on(lines: Lines, one: Representation) -> dict[str, Tensor]:
        volumes = feature_volumes(one.classifier, one.head, lines.x)
        return {name: v.reshape(len(lines), -1).cpu() for name, v in volumes.items()}

    own, start = on(tested.between, after), on(tested.between, before)
    within = on(tested.within, after)
    return {
        name: Evidence(
            tested.classes, own[name], {"untrained": start[name], "within a class": within[name]}
        )
        for name in own
    }


# Under sliders.


@dataclass(frozen=True, eq=False)
class Between:
    """The image at a place between two others, and what the network makes of all that lie between."""

    picture: Array
    t: Array
    fields: Fields
    place: float
    epoch: float
    names: tuple[str, ...]  # of all classes
    ends: tuple[str, str]


@lru_cache(maxsize=1)
def panel_digits() -> dict[float, nn.Module]:
    """The shallow network of the panel, by epoch."""
    split = images_of("")
    net = shallow(64, 166, DIGITS, 0)
    return trained(
        net, flat_inputs(split.train), split.train.labels, adam(0.01, 150, EPOCHS[-1]), EPOCHS
    )


def between_digits(pair: int, epoch: float, place: float) -> Between:
    """The panel of digits: which pair, after how many epochs (the nearest seen), and where on the line."""
    return _between("shallow", HIDDEN, pair, _nearest(EPOCHS, epoch), place)


def between_deep(layer: str, pair: int, epoch: float, place: float) -> Between:
    """The panel of residual networks: the same at one of their layers."""
    return _between(GELU, layer, pair, _nearest(DEEP_EPOCHS, epoch), place)


def between_features(objective: str, metric: str, pair: int, epoch: float, place: float) -> Between:
    """The panel of self-supervision: the same for features learned with or without labels."""
    return _between(objective, metric, pair, _nearest(DEEP_EPOCHS, epoch), place)


def _nearest(epochs: Sequence[float], epoch: float) -> float:
    return min(epochs, key=lambda one: abs(one - epoch))


def _classifiers(kind: str) -> Mapping[float, nn.Module]:
    if kind == "shallow":
        return panel_digits()
    if kind in OBJECTIVES:
        return {epoch: one.classifier for epoch, one in self_supervised(kind).items()}
    return deep_digits(GELU)


def _measure(kind: str, what: str) -> Measure:
    if kind == "shallow":
        return volume_at(what)
    if kind in OBJECTIVES:
        return measure_of(what)
    if kind == SUPERVISED:
        return measure_of(what)
    return volume_of_features() if what == FEATURES else volume_at(STAGES[what])


@lru_cache(maxsize=64)
def _panel_fields(kind: str, what: str, pair: int, epoch: float) -> tuple[Lines, Fields]:
    images, models = images_of("").test, _classifiers(kind)
    x = images.inputs(dtype=torch.float64)
    x = x.flatten(1) if kind == "shallow" else x
    right = classified_right(models[max(models)], x, images.labels)
    rows = rows_of(images, PAIRS[pair], right=right)
    lines = Lines(x[[rows[0]]], x[[rows[1]]])
    return lines, Fields.of(models[epoch], _measure(kind, what), lines.x)


def _between(kind: str, what: str, pair: int, epoch: float, place: float) -> Between:
    images = images_of("").test
    lines, fields = _panel_fields(kind, what, pair, epoch)
    point, names = torch.lerp(lines.start, lines.end, place), images.classes
    ends = tuple(names[label] for label in PAIRS[pair])
    return Between(
        as_picture(images, point)[0],
        lines.t.cpu().numpy(),
        fields,
        place,
        epoch,
        names,
        (ends[0], ends[1]),
    )
