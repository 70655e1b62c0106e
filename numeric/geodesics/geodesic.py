"""A geodesic between two points, as a path to draw and measure."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from numeric.geodesics.elements import Array, Curve
from numeric.inputs import ArrayLike, InputError, as_numbers

__all__ = ["Geodesic", "like", "times"]

CONJUGATE = 1e-6  # |stability| up to which ends count as conjugate: rounding and discretisation
TINY = 1e-300  # avoids a division by 0
SUMMED = 1e-14  # relative rounding error of a length, as a sum over nodes


@dataclass(frozen=True, eq=False)
class Geodesic:
    r"""A path at constant speed over $0 \le t \le 1$.

    `residual` is the total angle by which the path turns, 0 for a geodesic: the integral of the covariant
    acceleration divided by the length. The relative error of the length is about residual^2/stability, which
    is larger next to conjugate ends, as on a sphere; see `error`. For a path that was only relaxed
    (`refined` is False: the map has kinks, or d is large) `residual` is the relative change of its length
    when its segments were last doubled.

    `stability` is the least of $1 - \int\langle R(V, x')x', V\rangle/\int|DV|^2$ over fields V that
    vanish at the ends, on the unit sphere $1 - (\text{length}/\pi)^2$: above 0 no nearby path is
    shorter, below 0 one is, and at 0 the ends are conjugate. None for a path that was only relaxed.
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
        """Whether all nearby paths are longer; None if unknown."""
        return None if self.stability is None else self.stability > CONJUGATE

    @property
    def conjugate(self) -> bool | None:
        """Whether the ends are conjugate, as opposite points of a sphere; None if unknown."""
        return None if self.stability is None else abs(self.stability) <= CONJUGATE

    @property
    def error(self) -> float:
        r"""An estimate of the error of the length, compared with nearby paths.

        With stability $\mu$, a path of residual r deviates from a geodesic by about $r/|\mu|$, and is longer
        by $r^2/|\mu|$ of its length; the deviation is at most the whole length, so the excess is at most r.
        Where the ends are conjugate up to rounding, a path of stability below 0 is longer by about $|\mu|$
        than a nearby one; farther below 0 it is a saddle, which is compared with no other path.
        """
        if self.stability is None:
            return self.length * self.residual
        turned = self.residual * min(1.0, self.residual / max(abs(self.stability), TINY))
        past = -self.stability if -CONJUGATE <= self.stability < 0 else 0.0
        return self.length * (SUMMED + turned + past)

    @property
    def log(self) -> Tensor:
        """The velocity at t = 0, which is the logarithm of the end point; in the shape of a point."""
        return self.velocity(0.0)

    def at(self, t: ArrayLike | float) -> Tensor:
        """Points at times from 0 to 1, others are refused: any shape -> (*shape of t, *shape of a point)."""
        return self.origin + self._shaped(t, 0)

    def velocity(self, t: ArrayLike | float) -> Tensor:
        """Their derivatives by t, in the same shape."""
        return self._shaped(t, 1)

    def _shaped(self, t: ArrayLike | float, order: int) -> Tensor:
        t = times(t, 1.0)
        return like(self.origin, self.curve.at(t.ravel(), order), t.shape)


def times(t: ArrayLike | float, last: float) -> Array:
    """Times as an array; those outside [0, last] are refused."""
    at = as_numbers("t", t).detach().cpu().double().numpy()
    if not ((at >= 0) & (at <= last)).all():
        raise InputError(f"t = {at} was given, but the path runs from t = 0 to t = {last:g}.")
    return at


def like(point: Tensor, values: Array, shape: tuple[int, ...]) -> Tensor:
    """Flat values (n, d) as a tensor (*shape, *shape of point), of the dtype and device of the point."""
    flat = torch.as_tensor(values, dtype=point.dtype, device=point.device)
    return flat.reshape((*shape, *point.shape))
