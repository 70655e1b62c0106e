"""Log volume, spectrum, prediction and entropy of a classifier at images, resumable through the one store."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path

import torch
from torch import Tensor

from numeric import geometry
from numeric.geometry.volume_estimate import LogVolumeEstimate, estimate_each
from numeric.inputs import ArrayLike, InputError, as_numbers, generator_for
from numeric.models.memory import GIGABYTE
from numeric.models.model import Model, ModelLike
from numeric.progress import progress_bar
from numeric.runs.store import GrowingArray, fingerprint

__all__ = ["EstimatedFields", "Fields", "estimated_fields", "fields"]

CHUNK = 16  # images between two writes, or as many as have ENTRIES derivatives, one at least
ENTRIES = 2**25
STEPS = 100  # of Lanczos at most, along each random direction
SUMS = 3  # random ones of the features at each image, by which a change of the model is seen


@dataclass(frozen=True, eq=False)
class Fields:
    """What a classifier and the metric at one of its layers are at n images."""

    log_singular: Tensor  # (n, k), of the Jacobian, descending; -inf from the rank on
    condition: Tensor  # (n,)
    logits: Tensor  # (n, classes)

    @property
    def rank(self) -> Tensor:
        """(n,)"""
        return (self.log_singular > -math.inf).sum(1)

    @property
    def log_volume(self) -> Tensor:
        """The log of the product of the nonzero singular values, (n,)."""
        return torch.where(self.log_singular > -math.inf, self.log_singular, 0).sum(1)

    @property
    def prediction(self) -> Tensor:
        """The class with the largest output, (n,)."""
        return self.logits.argmax(1)

    @property
    def entropy(self) -> Tensor:
        """Of the softmax, in units of the log of the number of classes: from 0 to 1, (n,)."""
        return _entropy(self.logits)


@dataclass(frozen=True, eq=False)
class EstimatedFields:
    """What a classifier is at n images, and what random directions tell of the metric at a layer."""

    estimate: LogVolumeEstimate  # (n,) each
    logits: Tensor  # (n, classes)

    @property
    def rank(self) -> Tensor:
        """Features that respond, or inputs that matter if these are fewer, (n,)."""
        return self.estimate.rank

    @property
    def log_volume(self) -> Tensor:
        """NaN where the Jacobian lacks rank, (n,)."""
        return self.estimate.value

    @property
    def prediction(self) -> Tensor:
        """The class with the largest output, (n,)."""
        return self.logits.argmax(1)

    @property
    def entropy(self) -> Tensor:
        """Of the softmax, in units of the log of the number of classes: from 0 to 1, (n,)."""
        return _entropy(self.logits)


def _entropy(logits: Tensor) -> Tensor:
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1) / math.log(logits.shape[1])


def fields(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    *,
    classifier: ModelLike | None = None,
    memory: int = GIGABYTE,
    store: str | Path | None = None,
    progress: bool = True,
) -> Fields:
    """Geometry of a model up to a layer, and what it predicts, at images x (n, c, h, w).

    `classifier` is what predicts, by default the whole model; `memory` is the budget of
    `geometry.spectrum`. With a `store`, a file, what is known is written every few images, and a run of the
    same model, images and layer goes on from it. Compared are the printed form of the model, its weights and
    buffers, and, as a function may use more than it prints, what it computes at the images that are stored:
    its outputs and sums of its features, to half the digits. Refused are what `geometry.spectrum` refuses, a
    classifier of a single output, and a store of another run.

    >>> from numeric.models import cifar_resnet
    >>> net = cifar_resnet(8, dtype=torch.float64)
    >>> found = fields(net, torch.rand(2, 3, 8, 8, dtype=torch.float64), layer="pool")
    >>> found.log_singular.shape, found.entropy.shape
    (torch.Size([2, 64]), torch.Size([2]))
    """
    x, opened = as_numbers("x", x), Model.of(model, layer)
    logits = _logits(Model.of(model).body if classifier is None else classifier, x, memory)
    with opened.on(x[:1]) as f:
        size = min(f.count, f.points.shape[1]) + 1  # of a spectrum and its condition number

    def compute(part: Tensor) -> Tensor:
        spectrum = geometry.spectrum(opened, part, memory=memory, progress=False)
        return torch.cat([spectrum.log_singular, spectrum.condition[:, None]], 1)

    work = _Work(opened, x, logits, memory, store, progress)
    rows = work.rows(compute, size)
    return Fields(rows[:, :-1], rows[:, -1], logits)


def estimated_fields(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    *,
    directions: int = 16,
    classifier: ModelLike | None = None,
    memory: int = GIGABYTE,
    store: str | Path | None = None,
    progress: bool = True,
) -> EstimatedFields:
    """As `fields`, where a Jacobian is too dear: log volumes estimated from random directions.

    See `geometry.log_volume_estimate`. All images have the same directions. Refused are what `fields` and
    `geometry.log_volume_estimate` refuse.

    >>> from numeric.models import cifar_resnet
    >>> net = cifar_resnet(8, dtype=torch.float64)
    >>> found = estimated_fields(net, torch.rand(2, 3, 8, 8, dtype=torch.float64), layer="pool")
    >>> found.log_volume.shape, found.estimate.stderr.shape
    (torch.Size([2]), torch.Size([2]))
    """
    x, opened = as_numbers("x", x), Model.of(model, layer)
    logits = _logits(Model.of(model).body if classifier is None else classifier, x, memory)
    columns = fields_of(LogVolumeEstimate)

    def compute(part: Tensor) -> Tensor:
        one = estimate_each(opened, part, None, directions, STEPS, 0, memory, progress=False)
        return torch.stack([getattr(one, column.name).double() for column in columns], 1)

    work = _Work(opened, x, logits, memory, store, progress)
    rows = work.rows(compute, len(columns), directions)
    dtypes = {"deficient": torch.bool, "full": torch.bool, "rank": torch.long, "steps": torch.long}
    estimate = LogVolumeEstimate(
        *(row.to(dtypes.get(column.name, row.dtype)) for column, row in zip(columns, rows.T))
    )
    if estimate.deficient.all():
        raise InputError(
            f"The Jacobian lacks rank to rounding at all {len(x)} images: leave out the directions, so that "
            "the nonzero singular values are added up."
        )
    return EstimatedFields(estimate, logits)


@dataclass(frozen=True, eq=False)
class _Work:
    """Images, a model opened up to a layer, and where the numbers of each image are stored."""

    opened: Model
    x: Tensor
    logits: Tensor
    memory: int
    store: str | Path | None
    progress: bool

    def rows(self, compute: Callable[[Tensor], Tensor], size: int, *settings: int) -> Tensor:
        """(n, size) in float64 on the host: what is stored, and what `compute` gives of the other images."""
        x, store = self.x, self.store
        with self.opened.on(x[:1]) as f:
            chunk = max(1, min(CHUNK, ENTRIES // (f.count * f.points.shape[1])))
        rows, file = torch.empty(0, size, dtype=torch.float64), None
        witness = torch.empty(len(x), 0)
        if store is not None:
            sums = _sums_of_features(self.opened, x, self.memory)
            witness = torch.cat([sums, self.logits], 1)
            run = _fingerprint(self.opened, x, *settings)
            file = GrowingArray(store, run, (size + witness.shape[1],))
            stored = torch.from_numpy(file.rows().copy())
            if len(stored) < len(x):
                # A chunk that was cut short is computed again: the same chunks give the same bits.
                stored = stored[: len(stored) // chunk * chunk]
                file.truncate(len(stored))
            _require_same(file.path, stored[:, size:], witness, x.dtype)
            rows = stored[:, :size]
        with progress_bar(of="images", show=self.progress, total=len(x), initial=len(rows)) as bar:
            for start in range(len(rows), len(x), chunk):
                part = slice(start, start + chunk)
                new = compute(x[part]).double().cpu()
                if file is not None:
                    file.extend(torch.cat([new, witness[part]], 1))
                rows = torch.cat([rows, new])
                bar.update(len(new))
        return rows


def _logits(classifier: ModelLike, x: Tensor, memory: int) -> Tensor:
    """(n, classes) in float64, on the host."""
    logits = Model.of(classifier).evaluate(x, memory=memory, progress=False).double().cpu()
    if logits.shape[1] < 2:
        raise InputError(
            "The classifier has a single output, but one for each class is needed: two at least."
        )
    return logits


def _fingerprint(opened: Model, x: Tensor, *settings: int) -> str:
    """Of what can be compared between processes: a printed form has addresses in memory, which cannot."""
    printed = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(opened.body))
    state = {} if opened.module is None else dict(opened.module.state_dict())
    return fingerprint(printed, state, x, opened.layer, *settings)


def _sums_of_features(opened: Model, x: Tensor, memory: int) -> Tensor:
    """Some random sums of the features at each image (n, SUMS), in float64 on the host."""
    features = opened.evaluate(x, memory=memory, progress=False).double().cpu()
    generator = generator_for("sums of features")
    return features @ torch.randn(features.shape[1], SUMS, generator=generator, dtype=torch.float64)


def _require_same(path: Path, stored: Tensor, witness: Tensor, dtype: torch.dtype) -> None:
    """Refuse rows of a model that gave other sums of features, or other outputs, than this one gives."""
    half = torch.finfo(dtype).eps ** 0.5
    for before, now in zip(_parts(stored), _parts(witness), strict=True):
        same = (before - now[: len(before)]).abs() <= half * now.abs().max()
        if not same.all():
            row = int((~same).any(1).nonzero()[0])
            raise InputError(
                f"{path} holds rows of another run: at image {row} the model gives other outputs or features "
                "than when it was written. Delete it, or store this run elsewhere."
            )


def _parts(witness: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of features, and outputs: each is compared on its own scale."""
    return witness[:, :SUMS], witness[:, SUMS:]
