"""Three erf units in the plane: volume, curvature, the conic where it vanishes, and their maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from contourpy import contour_generator
from scipy.special import erf

from analytic.expressions.arguments import InputError
from analytic.finite.bumps import Bump, bumps, log_determinant
from notebooks.topics.statistics import Array

TURN = 3**0.5 / 2
CIRCLE = ((1.0, 0.0), (-0.5, TURN), (-0.5, -TURN))  # the weights of (B.65)
REACH = 4.0  # of the maps, in both coordinates
PAIRS = ((1, 2), (2, 0), (0, 1))  # the pair beside unit 1, 2, 3


@dataclass(frozen=True, eq=False)
class Geometry:
    """Volume and curvature of a metric of the plane, at an array of points."""

    log_volume: np.ndarray  # ln sqrt(det g)
    ricci: np.ndarray


@dataclass(frozen=True, eq=False)
class Triple:
    """Three units erf((w.x + b)/sqrt 2) of one bias: volume and curvature on whole maps."""

    weights: Any  # (3, 2)
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.asarray(self.weights, dtype=float))
        if self.weights.shape != (3, 2) or not self.areas.any():
            raise InputError(
                f"the weights {self.weights.tolist()} were given: three pairs are needed that are not all "
                "parallel, or the network sees one direction only and has no metric. Turn one of them."
            )

    @cached_property
    def bumps(self) -> tuple[Bump, ...]:
        return bumps(self.weights, [self.bias] * 3)

    @property
    def centres(self) -> np.ndarray:
        """Where the lines w.x + b = 0 of two units cross, (B.63): (pairs that do, 2)."""
        return np.array([[float(v) for v in bump.centre] for bump in self.bumps])

    @cached_property
    def areas(self) -> np.ndarray:
        """M_23, M_31 and M_12 of (B.7): twice the area between two weights, with its sign."""
        (a, b), (c, d), (e, f) = self.weights
        M = np.array([c * f - d * e, e * b - f * a, a * d - b * c])
        return np.where(np.abs(M) > 1e-12 * np.square(self.weights).max(), M, 0.0)  # no rounding

    def heights(self, x: np.ndarray) -> np.ndarray:
        """w.x + b: (..., 2) -> (..., 3)."""
        return x @ self.weights.T + self.bias

    def conic(self, x: np.ndarray) -> np.ndarray:
        r"""$M_{12}M_{23}M_{31}(M_{23}z_2z_3 + M_{31}z_3z_1 + M_{12}z_1z_2)$, which has the sign of R."""
        z = self.heights(x)
        terms = (M * z[..., j] * z[..., k] for M, (j, k) in zip(self.areas, PAIRS, strict=True))
        return self.areas.prod() * sum(terms)

    def at(self, x: np.ndarray) -> Geometry:
        r"""By (B.62) and, without the printed 3, (B.16): points (..., 2)."""
        determinant = log_determinant(self.bumps, x)
        decay = np.exp(-(self.heights(x) ** 2).sum(-1) - 2 * determinant)
        return Geometry(determinant / 2, 2 / 27 * (2 / math.pi) ** 3 * self.conic(x) * decay)

    @property
    def zeros(self) -> str:
        """Where R vanishes: on an ellipse if the areas can be the sides of a triangle."""
        short, middle, long = np.sort(np.abs(self.areas))
        if short == 0:
            return "everywhere"  # two weights are parallel
        excess = (short + middle) / long - 1
        kind = 0 if abs(excess) < 1e-12 else math.copysign(1, excess)
        if abs(self.bias * self.areas.sum()) < 1e-12 * long:  # all three lines meet in one point
            return {1: "at one point", 0: "on a line", -1: "on two lines"}[kind]
        return {1: "on an ellipse", 0: "on a parabola", -1: "on a hyperbola"}[kind]


def grid(points: int) -> np.ndarray:
    """A square around the origin, rows upwards: (points, points, 2)."""
    line = np.linspace(-REACH, REACH, points)
    return np.stack(np.meshgrid(line, line), axis=-1)


def outline(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The curve where values on a grid are 0, its pieces apart by NaN: (2, points)."""
    pieces = contour_generator(x[0, :, 0], x[:, 0, 1], values).lines(0.0)
    gap = np.full((1, 2), np.nan)
    return np.concatenate([gap, *(part for piece in pieces for part in (piece, gap))]).T


@dataclass(frozen=True, eq=False)
class NetworkMap:
    """A network on a grid: its geometry, the centres of its bumps, and curves; pieces apart by NaN."""

    geometry: Geometry
    centres: Array  # (pairs that cross, 2)
    conic: Array  # (2, points): where R changes sign
    units: tuple[Array, ...]  # (2, points) for each unit: where it is at zero


def network_map(network: Triple, x: Array) -> NetworkMap:
    """On a grid (points, points, 2), as `grid` makes it."""
    units = tuple(outline(unit, x) for unit in np.moveaxis(network.heights(x), -1, 0))
    return NetworkMap(network.at(x), network.centres, outline(network.conic(x), x), units)


def network_maps(networks: Mapping[str, Triple], points: int = 301) -> dict[str, NetworkMap]:
    return {label: network_map(network, grid(points)) for label, network in networks.items()}


@dataclass(frozen=True, eq=False)
class Surface:
    """The surface that three features draw in space, with R on it, and R on the first axis."""

    features: Array  # (3, points, points)
    ricci: Array  # (points, points)
    line: Array  # x_1
    ricci_on_line: Array
    printed_on_line: Array
    check_line: Array
    checks: Array  # Gauss: twice det II / det I


def surface(network: Triple, check_line: Array, checks: Array) -> Surface:
    x = grid(121)
    features = np.moveaxis(erf(network.heights(x) / 2**0.5) / 3**0.5, -1, 0)
    line = np.linspace(check_line[0], check_line[-1], 401)
    ricci = network.at(np.stack([line, np.zeros(401)], axis=-1)).ricci
    return Surface(features, network.at(x).ricci, line, ricci, 3 * ricci, check_line, checks)


COARSE, CENTRE = grid(81), (40, 40)  # of the panel, and where it has the origin


@dataclass(frozen=True, eq=False)
class PanelNetwork:
    """Maps of the network with these weights and its numbers at the origin, or why it has none."""

    maps: NetworkMap | None
    magnification_at_origin: float = math.nan
    ricci_at_origin: float = math.nan
    zeros: str = ""  # where R vanishes
    refusal: str = ""


def panel_network(w: Any, b: float) -> PanelNetwork:
    try:
        network = Triple(w, b)
    except InputError as refusal:
        return PanelNetwork(None, refusal=str(refusal))
    maps = network_map(network, COARSE)
    volume, ricci = (float(v[CENTRE]) for v in (maps.geometry.log_volume, maps.geometry.ricci))
    return PanelNetwork(maps, math.exp(volume), ricci, network.zeros)
