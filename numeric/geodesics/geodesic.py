"""A geodesic between two points, as a path to draw and measure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from numeric.geodesics.elements import Array, Curve
from numeric.inputs import InputError

CONJUGATE = 1e-6  # a stability this close to 0 is 0 up to rounding and discretisation
TINY = 1e-300  # keeps a quotient finite
SUMMED = 1e-14  # share of a length that sums over nodes round away


@dataclass(frozen=True, eq=False)
class Geodesic:
    r"""A path at constant speed over $0 \le t \le 1$.

    `residual` is the angle by which it turns in all where a geodesic does not, the integral of the
    covariant acceleration over the length. The length is off by about its square over the stability, so that
    next to conjugate ends, as of a sphere, it is worth less: `error` says how much. A path that was
    relaxed only (`refined` is False: the map has creases, or d is large) has for it the relative
    change of its length when its segments were doubled last.

    `stability` is the least of $1 - \int\langle R(V, x')x', V\rangle/\int|DV|^2$ over fields V that
    vanish at the ends, on the unit sphere $1 - (\text{length}/\pi)^2$: above 0 no path close by is
    shorter, below 0 one is, and at 0 the ends are conjugate. None where the path was relaxed only.
    """

    length: float
    energy: float  # of the squared speed over t, without a half: the length squared
    residual: float
    stability: float | None
    refined: bool
    origin: Tensor = field(repr=False)
    curve: Curve = field(repr=False)  # displacements from the origin, flat

    @property
    def minimum(self) -> bool | None:
        """Whether every other path close by is longer; None where this is not known."""
        return None if self.stability is None else self.stability > CONJUGATE

    @property
    def conjugate(self) -> bool | None:
        """Whether a family of paths is as short up to second order, as between opposite points."""
        return None if self.stability is None else abs(self.stability) <= CONJUGATE

    @property
    def error(self) -> float:
        r"""About how far the length may be off, where paths close by are compared.

        With $\mu$ the stability, a path that turns by r where a geodesic does not is off it by about
        $r/|\mu|$, and longer by $r^2/|\mu|$ of its length; no farther off than the whole way, and so not
        longer than by r. Where ends are conjugate up to rounding, a path of stability below 0 is longer by
        about $|\mu|$ than one close by; farther below 0 it is no minimum, and compared with none.
        """
        if self.stability is None:
            return self.length * self.residual
        turned = self.residual * min(1.0, self.residual / max(abs(self.stability), TINY))
        past = -self.stability if -CONJUGATE <= self.stability < 0 else 0.0
        return self.length * (SUMMED + turned + past)

    @property
    def log(self) -> Tensor:
        """The velocity at t = 0, which is the logarithm of the far end; in the shape of a point."""
        return self.velocity(0.0)

    def at(self, t: Any) -> Tensor:
        """Points at times from 0 to 1: numbers in any shape -> (*shape of t, *shape of a point)."""
        return self.origin + self._shaped(t, 0)

    def velocity(self, t: Any) -> Tensor:
        """Their derivatives by t, in the same shape."""
        return self._shaped(t, 1)

    def _shaped(self, t: Any, order: int) -> Tensor:
        t = times(t, 1.0)
        return like(self.origin, self.curve.at(t.ravel(), order), t.shape)


def times(t: Any, last: float) -> Array:
    """Numbers from 0 to the last."""
    t = np.asarray(t.detach().cpu() if isinstance(t, Tensor) else t, float)
    if not ((t >= 0) & (t <= last)).all():
        raise InputError(f"t = {t} was given, but the path runs from t = 0 to t = {last:g}.")
    return t


def like(point: Tensor, values: Array, shape: tuple[int, ...]) -> Tensor:
    """Flat values (n, d) as tensors of the kind and shape of a point, n of them in a shape."""
    values = torch.as_tensor(values, dtype=point.dtype, device=point.device)
    return values.reshape((*shape, *point.shape))
