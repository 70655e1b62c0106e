"""Log volume, spectrum, prediction and entropy of a classifier at images, resumable through the one store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from numeric import geometry
from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.models.memory import GIGABYTE
from numeric.models.model import Model, ModelLike
from numeric.progress import progress_bar
from numeric.runs.store import GrowingArray, fingerprint

__all__ = ["Fields", "fields"]

CHUNK = 16  # images between two writes


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
        logs = self.logits.log_softmax(1)
        return -(logs.exp() * logs).sum(1) / math.log(self.logits.shape[1])


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
    same model, images and layer goes on from it. Refused are what `geometry.spectrum` refuses, a classifier
    of a single output, and a store of another run.

    >>> from numeric.models import cifar_resnet
    >>> net = cifar_resnet(8, dtype=torch.float64)
    >>> found = fields(net, torch.rand(2, 3, 8, 8, dtype=torch.float64), layer="pool")
    >>> found.log_singular.shape, found.entropy.shape
    (torch.Size([2, 64]), torch.Size([2]))
    """
    x = as_numbers("x", x)
    opened = Model.of(model, layer)
    whole = Model.of(Model.of(model).body if classifier is None else classifier)
    logits = whole.evaluate(x, memory=memory, progress=False).double()
    if logits.shape[1] < 2:
        raise InputError(
            "The classifier has a single output, but one for each class is needed: two at least."
        )
    with opened.on(x[:1]) as f:
        size = min(f.count, f.points.shape[1])
    file = None
    rows = torch.empty(0, size + 1, dtype=torch.float64)
    if store is not None:
        state = {} if opened.module is None else dict(opened.module.state_dict())
        kind = repr(opened.module) if opened.module is not None else repr(opened.body)
        file = GrowingArray(store, fingerprint(kind, state, x, layer), (size + 1,))
        rows = torch.from_numpy(file.rows().copy())
    with progress_bar(of="images", show=progress, total=len(x), initial=len(rows)) as bar:
        for start in range(len(rows), len(x), CHUNK):
            part = x[start : start + CHUNK]
            spectrum = geometry.spectrum(opened, part, memory=memory, progress=False)
            new = torch.cat([spectrum.log_singular, spectrum.condition[:, None]], 1).double().cpu()
            if file is not None:
                file.extend(new)
            rows = torch.cat([rows, new])
            bar.update(len(part))
    return Fields(rows[:, :-1], rows[:, -1], logits.cpu())
