"""What flows between layers besides numbers: the shape of a signal, and the scales of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from numeric.infinite.groups import Action, RotoTranslations
from numeric.infinite.parametrisation import Parametrisation, Standard
from numeric.infinite.spheres import RotationGrid
from numeric.inputs import InputError, positive

__all__ = ["Scales", "Signal", "require_centred", "require_flat", "require_scales"]


@dataclass(frozen=True)
class Signal:
    """The shape of a signal between two layers.

    `space` is the shape of its positions, () for none; `channels` their number, None where it is the width;
    `copies` counts the numbers of a channel that Flatten made into inputs of the next layer; `over` is the
    group whose elements are positions (an Action), or that adds its point group to them (RotoTranslations),
    or the rotations at whose nodes signals are kept (RotationGrid), then without other positions;
    `centred` says that weights were the last to act but for linear layers without any, so that channels are
    Gaussian with mean 0; `fresh` that there were any weights since the input of a branch.
    """

    space: tuple[int, ...]
    channels: int | None
    copies: int = 1
    over: Action | RotoTranslations | RotationGrid | None = None
    centred: bool = False
    fresh: bool = False

    @property
    def positions(self) -> int:
        return math.prod(self.space)

    @property
    def orbit(self) -> int:
        """How many relative motions of two signals are kept apart: 1 unless lifted by motions of a grid."""
        return self.over.order if isinstance(self.over, RotoTranslations | RotationGrid) else 1

    @property
    def flat(self) -> bool:
        """Whether it has neither positions nor a group."""
        return not self.space and self.over is None

    def weighted(self, **changes: Any) -> Signal:
        """The shape after a layer with weights."""
        return replace(self, channels=None, copies=1, centred=True, fresh=True, **changes)


@dataclass(frozen=True)
class Scales:
    """Standard deviations of weights (over the root of the fan-in) and biases, and how they are trained."""

    sigma_w: float
    sigma_b: float
    parametrisation: Parametrisation

    def of(self, sigma_w: float | None, sigma_b: float | None) -> Scales:
        """The same with a layer's own, where it has them."""
        return Scales(
            self.sigma_w if sigma_w is None else sigma_w,
            self.sigma_b if sigma_b is None else sigma_b,
            self.parametrisation,
        )

    def rates(self, channels: int | None, numbers: int) -> tuple[float, float]:
        """Factors of the mean covariance and of 1 in the tangent kernel, for a fan-in channels * numbers."""
        kind, width = self.parametrisation, channels
        if width is None and isinstance(kind, Standard):
            width = kind.width
        fan_in = None if width is None else width * numbers
        return kind.rates(fan_in, self.sigma_w, self.sigma_b)


def require_scales(sigma_w: float | None, sigma_b: float | None) -> None:
    """Refuse a layer's own scales that are no numbers above 0, or for biases at least 0."""
    if sigma_w is not None:
        positive("sigma_w", sigma_w)
    if sigma_b is not None:
        positive("sigma_b", sigma_b, zero=True)


def require_centred(signal: Signal, what: str) -> None:
    """Refuse a signal whose channels are not Gaussian."""
    if not signal.centred:
        raise InputError(
            f"{what} needs Gaussian signals, but no layer with weights comes just before it: put Dense, "
            "Convolution or Lift there."
        )


def require_flat(signal: Signal, what: str) -> None:
    """Refuse a signal that has positions."""
    if not signal.flat:
        raise InputError(
            f"{what} takes signals without positions, but it gets {signal.space or signal.over}: put "
            "Flatten() or GlobalPool() before it."
        )
