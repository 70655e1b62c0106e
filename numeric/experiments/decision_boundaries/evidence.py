"""Volume elements of trained networks and their controls, near and far from curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor

from numeric.experiments.decision_boundaries.contrast import Comparison, Zones
from numeric.experiments.decision_boundaries.curves import Disc
from numeric.inputs import InputError
from numeric.models.perceptron import Shape

__all__ = ["DECOYS", "Curve", "Evidence"]

TRUE, SHUFFLED = 0, 1  # labels that the twins were trained on


class Curve(Enum):
    """The curves near which volume elements are measured."""

    TASK = "the boundary of the task"
    DECOY = "that boundary, mirrored or turned"
    OWN = "the decision boundary of the network after training"
    OWN_DECOY = "that one, mirrored or turned"


DECOYS = {Curve.TASK: Curve.DECOY, Curve.OWN: Curve.OWN_DECOY}


@dataclass(frozen=True, eq=False)
class Evidence:
    """Networks of one shape, each beside a twin with the same start and data but shuffled labels."""

    shape: Shape
    steps: tuple[int, ...]
    disc: Disc
    zones: Zones
    level: float  # of confidence intervals
    log_volume: Tensor = field(repr=False)  # (labels, networks, steps, layers, m)
    away: Mapping[Curve, Tensor] = field(repr=False)  # distances from curves, (networks, m)
    accuracy: Tensor = field(repr=False)  # (labels, networks), on the data that each was trained on
    statement: str = field(repr=False)  # what was minimised, and how

    @property
    def curve(self) -> Curve:
        """The task's boundary where it is known, or else each network's own."""
        return Curve.TASK if Curve.TASK in self.away else Curve.OWN

    def means(self, curve: Curve) -> Tensor:
        """Mean log volume near and far, balanced over circles: (labels, networks, steps, layers, 2)."""
        if curve not in self.away:
            raise InputError(
                f"{curve.value} is not known here, but {[c.name for c in self.away]} are."
            )
        weights = self.zones.weights(self.disc, self.away[curve])  # (networks, 2, m)
        return torch.einsum("cskum,szm->cskuz", self.log_volume, weights)

    @property
    def rounding(self) -> float:
        """A bound of the rounding error of a difference of contrasts: four weighted means of m numbers."""
        eps = torch.finfo(self.log_volume.dtype).eps
        return 4 * len(self.disc.x) * eps * self.log_volume.abs().max().item()

    def contrast(self, curve: Curve) -> Tensor:
        """Near minus far: (labels, networks, steps, layers); NaN where a curve leaves nothing to compare."""
        near, far = self.means(curve).unbind(-1)
        return near - far

    def comparisons(
        self, curve: Curve | None = None, step: int = -1, layer: int = -1
    ) -> dict[str, Comparison]:
        """The contrast of trained networks less that of each control, pair by pair."""
        curve = curve or self.curve
        here = self.contrast(curve)[..., layer]  # (labels, networks, steps)
        trained = here[TRUE, :, step]
        controls = {"untrained": here[TRUE, :, 0], "shuffled labels": here[SHUFFLED, :, step]}
        if curve in DECOYS:
            controls["decoy"] = self.contrast(DECOYS[curve])[TRUE, :, step, layer]
        return {name: self._paired(trained - other) for name, other in controls.items()}

    def growth(self, curve: Curve | None = None, layer: int = -1) -> dict[str, Comparison]:
        """By how much the log volume itself grew during training: near the curve, and far from it."""
        means = self.means(curve or self.curve)[TRUE, :, :, layer]  # (networks, steps, 2)
        near, far = (means[:, -1] - means[:, 0]).unbind(-1)
        return {"near": self._paired(near), "far": self._paired(far)}

    @property
    def magnifies(self) -> bool:
        """The rule of `Hypothesis`: more than untrained, than shuffled labels, and than at the decoy."""
        return all(one.above for one in self.comparisons().values())

    def _paired(self, differences: Tensor) -> Comparison:
        comparable = differences[differences.isfinite()]
        if len(comparable) < 2:
            raise InputError(
                f"Only {len(comparable)} of {len(differences)} networks have points both near their "
                "boundary and far from it: train for longer, or choose other zones."
            )
        lost = len(differences) - len(comparable)
        return Comparison.of(comparable, self.level, lost, self.rounding)
