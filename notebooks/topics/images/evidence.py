"""The rule about class changes on networks trained here and by others, over many lines, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from notebooks.topics.images.films import PathFilm, PlaneFilm
from notebooks.topics.images.networks import accuracy, classified_right, rows_of
from notebooks.topics.images.self_supervision import Representation
from notebooks.topics.images.spectra import Spectrum, Volume, metric_spectra, spectrum_at, volume
from notebooks.topics.statistics import Array
from numeric import data
from numeric.data import Normalisation
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
from numeric.experiments.images import fields
from numeric.inputs import InputError, resolve
from numeric.models.resnet import cifar_resnet
from numeric.models.weights import Weights

UNTRAINED, SHUFFLED, WITHIN = "untrained", "shuffled labels", "within a class"  # controls
OWN = "trained"  # the network that is tested
# Of weights trained elsewhere.
IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True, eq=False)
class Contrast:
    """A mean over lines, in nats, with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, one: Comparison) -> Contrast:
        low, high = one.interval
        return cls(float(one.mean), float(low), float(high), one.estimate.count)

    @property
    def above(self) -> bool:
        return self.low > 0

    @property
    def below(self) -> bool:
        return self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The rule of `class_changes` on one network: contrasts by themselves, and less those of each control."""

    plain: Mapping[str, Contrast]  # by what it is against: ends or beside
    against: Mapping[str, Mapping[str, Contrast]]  # the same, by control
    as_first_stated: bool  # the rule's outcome with the controls that were fixed in advance
    magnifies: bool  # and with that of places too, which was added after the first pictures

    @classmethod
    def of(cls, evidence: Evidence) -> Contrasts:
        plain = {kind: Contrast.of(evidence.plain(kind)) for kind in (ENDS, SIDES)}
        against = {
            kind: {name: Contrast.of(one) for name, one in evidence.comparisons(kind).items()}
            for kind in (ENDS, SIDES)
        }
        return cls(plain, against, evidence.magnifies_as_first_stated, evidence.magnifies)


def outcomes(contrasts: Mapping[str, Contrasts]) -> str:
    """Both outcomes of the rule, in a sentence."""

    def share(names: list[str]) -> str:
        count = f"{len(names)} of {len(contrasts)}"
        return f"{count} ({'; '.join(names)})" if 0 < len(names) < len(contrasts) else count

    first = [name for name, one in contrasts.items() if one.as_first_stated]
    final = [name for name, one in contrasts.items() if one.magnifies]
    return (
        f"The rule as first stated stands for {share(first)}; with the fourth control, the places of another "
        f"line's class change, which was added after the first pictures, for {share(final)}."
    )


@dataclass(frozen=True, eq=False)
class LineSample:
    """Lines between images of two classes and within classes, for one trained network."""

    between: Lines
    within: Lines
    classes: Tensor  # predicted along the former

    @classmethod
    def of(
        cls, model: nn.Module, x: Tensor, y: Tensor, count: int, seed: int = 0, points: int = 17
    ) -> LineSample:
        classify = predicted(model)
        between = lines_between(classify, x, y, count, seed, points)
        within = lines_within(classify, x, y, count, seed, points)
        return cls(between, within, between.on(classify).cpu())

    def evidence(
        self, measure: Volume, model: nn.Module, others: Mapping[str, nn.Module]
    ) -> Evidence:
        """Against other networks along the same lines, and against lines within classes."""

        def on(lines: Lines, of: nn.Module) -> Tensor:
            return lines.on(partial(measure, of)).cpu()

        controls = {name: on(self.between, other) for name, other in others.items()}
        controls[WITHIN] = on(self.within, model)
        return Evidence(self.classes, on(self.between, model), controls)

    def spectra(
        self, spectrum: Spectrum, model: nn.Module, others: Mapping[str, nn.Module]
    ) -> dict[str, Tensor]:
        """Logs of singular values (m, points, p) of `evidence`, by name; the model's own are `OWN`."""

        def on(lines: Lines, of: nn.Module) -> Tensor:
            return by_line(spectrum(of, lines.x).log_singular.cpu(), lines)

        own = {OWN: on(self.between, model), WITHIN: on(self.within, model)}
        return own | {name: on(self.between, other) for name, other in others.items()}

    def along_common_rank(self, spectra: Mapping[str, Tensor]) -> tuple[Evidence, int]:
        """Evidence on as many largest singular values as there are at every point, and how many these are."""
        rank = min(int(logs.isfinite().sum(-1).min()) for logs in spectra.values())
        volumes = {name: logs[..., :rank].sum(-1) for name, logs in spectra.items()}
        return Evidence(self.classes, volumes.pop(OWN), volumes), rank


def by_line(values: Tensor, lines: Lines) -> Tensor:
    """What is known at all points of lines, (m points, ...), as (m, points, ...)."""
    return values.unflatten(0, (len(lines), lines.points))


def evidence_by_metric(
    sample: LineSample, after: Representation, before: Representation
) -> dict[str, Evidence]:
    """The rule's numbers for each metric of the features and of the embedding."""

    def on(lines: Lines, one: Representation) -> dict[str, Tensor]:
        spectra = metric_spectra(one.classifier.features, one.head, lines.x)
        return {name: by_line(volume(spectrum).cpu(), lines) for name, spectrum in spectra.items()}

    own, start = on(sample.between, after), on(sample.between, before)
    within = on(sample.within, after)
    return {
        name: Evidence(sample.classes, own[name], {UNTRAINED: start[name], WITHIN: within[name]})
        for name in own
    }


def rise(volumes: Tensor, level: float = 0.95) -> Contrast:
    """How much larger log volume is in the middle of lines than at their ends, (m, points)."""
    middle = volumes[:, volumes.shape[1] // 2]
    return Contrast.of(Comparison.of(middle - (volumes[:, 0] + volumes[:, -1]) / 2, level))


@dataclass(frozen=True, eq=False)
class PretrainedNetwork:
    """The rule on a network that others have trained, and how volume rises in the middle of lines."""

    name: str
    contrasts: Contrasts
    accuracy: float
    features: int
    least_rank: int  # of points on lines, and the largest
    largest_rank: int
    rise_between: Contrast  # on lines between images of two classes, and of one
    rise_within: Contrast
    depth: int
    model: nn.Module


def pretrained_networks(
    weights: str, folder: str, count: int, points: int = 13, store: str = "", device: str = "auto"
) -> list[PretrainedNetwork]:
    """Networks for CIFAR-10 from a file of weights or a folder of such files, on the test images of a folder.

    Images are under the usual normalisation of colours; numbers are float32, as the weights are. What is
    known is stored as it comes.
    """
    place = Path(weights)
    files = (
        sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else [place]
    )
    return [_pretrained(file, folder, count, points, store, device) for file in files]


def depth_of(weights: Weights) -> int:
    """How many layers a network for CIFAR-10 has, by the names of its weights."""
    blocks = {name.split(".")[1] for name in weights.tensors if name.startswith("layer1.")}
    if not blocks:
        raise InputError(
            "The checkpoint has no weights named layer1.0, layer1.1 and so on: give those of a residual "
            "network for CIFAR-10, of 20, 32, 44 or 56 layers."
        )
    return 6 * len(blocks) + 2


def _pretrained(
    file: Path, folder: str, count: int, points: int, store: str, device: str
) -> PretrainedNetwork:
    """Its untrained twin is another draw of weights, since its own start is not known.

    Lines are compared along as many directions as the least rank of their points.
    """
    images, where = data.cifar10(folder, IMAGENET).test, resolve(device)
    weights = Weights.read(file)
    name = f"ResNet-{(depth := depth_of(weights))}"
    net = weights.into(cifar_resnet(depth)).to(where).eval()
    fresh = cifar_resnet(depth, seed=1).to(where).eval()
    x = images.inputs(device=where)
    sample = LineSample.of(net, x, images.labels, count, 0, points)

    def spectrum(kind: str, model: nn.Module, lines: Lines) -> Tensor:
        rows = Path(store) / f"18-{name}-{kind}.rows" if store else None
        singular = fields(model, lines.x, "pool", store=rows)
        return by_line(singular.log_singular, lines)

    spectra = {
        OWN: spectrum(OWN, net, sample.between),
        WITHIN: spectrum("within", net, sample.within),
        UNTRAINED: spectrum(UNTRAINED, fresh, sample.between),
    }
    evidence, rank = sample.along_common_rank(spectra)
    largest = max(int(logs.isfinite().sum(-1).max()) for logs in spectra.values())
    return PretrainedNetwork(
        name, Contrasts.of(evidence), accuracy(net, x, images.labels), net.features, rank, largest,
        rise(evidence.log_volume), rise(evidence.controls[WITHIN]), depth, net,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PretrainedFilms:
    """Lines and a plane between real images in networks that others have trained, by depth of the network."""

    between: PathFilm
    within: PathFilm  # both images of one class
    plane: PlaneFilm

    @classmethod
    def of(
        cls,
        networks: Sequence[PretrainedNetwork],
        folder: str,
        classes: tuple[int, ...],
        points: int,
        steps: int,
    ) -> PretrainedFilms:
        """Between test images that all networks get right: one of each of three classes, two of the first.

        Lines have so many `points`, the triangle as many `steps` a side.
        """
        models = {one.depth: one.model for one in networks}
        like = next(networks[0].model.parameters())
        images = data.cifar10(folder, IMAGENET).test
        x = images.inputs(device=like.device)
        hits = [classified_right(model, x, images.labels) for model in models.values()]
        right = torch.stack(hits).all(0)
        three = rows_of(images, classes, right=right)
        pair = rows_of(images, classes[:1] * 2, right=right)
        spectrum = spectrum_at("pool")
        between, within = (
            PathFilm.of(models, spectrum, images, rows, x, points) for rows in (three[:2], pair)
        )
        return cls(between, within, PlaneFilm.of(models, spectrum, images, three, x, steps))


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
    for name, volumes in {OWN: evidence.log_volume, **evidence.controls}.items():
        values = volumes[single].double()
        values = values - values.mean(1, keepdim=True)
        by_bin = torch.stack(
            [torch.where(which == k, values, 0).sum(1) / (which == k).sum(1) for k in range(bins)],
            1,
        )  # (m, bins), NaN where a line has no point
        there = by_bin.isfinite().sum(0)
        means[name] = by_bin.nanmean(0).numpy()
        spread = (by_bin - by_bin.nanmean(0)).square().nanmean(0).sqrt()
        errors[name] = (spread / there.clamp(min=2).sqrt()).numpy()
    return AroundChange(((edges[1:] + edges[:-1]) / 2).numpy(), means, errors)
