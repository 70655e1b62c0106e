"""Depth: the phases of wide networks, what they do to a pair of inputs, and the geometry of deep kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from analytic.activations import erf, gaussian, sine
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.signal_propagation import Signal, critical_line, phase_diagram
from notebooks.topics.ntk import KERNELS, QUANTITIES, KernelRay, log_volume_in_dimension
from notebooks.topics.statistics import Array, Mean

LARGEST = 3.0  # of zeta and sigma in every diagram, as on the sliders
PHASES = {"ordered": 0.6, "critical": 1.0, "chaotic": 1.6}  # sigma over its critical value
RADII = np.linspace(0, 5, 101)[1:]  # at the origin itself R is a limit
DEPTHS = (1, 2, 3, 5, 8)
ACTIVATIONS = {"erf": erf, "sine": sine(1), "gaussian": gaussian}


def critical_curve(act: Activation) -> tuple[Array, Array]:
    """zeta and sigma on the critical line inside the diagram, from its formula."""
    zeta, sigma = critical_line(act, np.geomspace(1e-4, 60, 600))
    inside = (zeta <= LARGEST) & (sigma <= LARGEST)
    return zeta[inside], sigma[inside]


@dataclass(frozen=True, eq=False)
class PhaseMap:
    """The depth scale xi_c on a square of zeta and sigma, and the critical line through it."""

    zetas: Array  # (n,)
    sigmas: Array  # (n,)
    xi_c: Array  # (sigmas, zetas): rows upwards
    critical_zeta: Array
    critical_sigma: Array


def phase_map(act: Activation, count: int) -> PhaseMap:
    """At the midpoints of `count` equal parts of each axis."""
    cells = LARGEST * (np.arange(count) + 0.5) / count
    diagram = phase_diagram(act, cells, cells)
    return PhaseMap(diagram.zetas, diagram.sigmas, diagram.xi_c.T, *critical_curve(act))


@dataclass(frozen=True, eq=False)
class NeighbourGrowth:
    """By which factor a layer grows the distance of two near inputs, at some places of the diagram."""

    zetas: Array
    sigmas: Array
    growth: Array


@dataclass(frozen=True, eq=False)
class CorrelationMap:
    """What a layer does to a correlation, and pairs of inputs that go through many layers."""

    grid: Array
    mapped: Array
    fixed_point: float
    sigma: float
    chi_1: float
    walks: Sequence[Array]

    @classmethod
    def of(cls, signal: Signal, walks: Sequence[Array]) -> CorrelationMap:
        grid = np.linspace(0, 1, 201)
        numbers = (signal.correlation.value, signal.sigma, signal.chi_1)
        return cls(grid, signal.correlation_map(grid), *map(float, numbers), walks)


@dataclass(frozen=True, eq=False)
class Decay:
    """The distance |c_l - c*| from the fixed point by layer l = 1, 2, ..., and what theory predicts."""

    layers: Array
    distance: Array
    predicted: Array


@dataclass(frozen=True, eq=False)
class DepthScales:
    """The depth scale against sigma, and scales that were fitted to decays at some of them."""

    sigmas: Array
    xi_c: Array
    fitted_sigmas: Array
    fitted: Array


@dataclass(frozen=True, eq=False)
class LayerCorrelations:
    """Correlations in random networks and by their map: (layers, pairs)."""

    networks: Mean
    exact: Array


def closed_form(kernel: str, quantity: str, activation: str = "erf", **values: Any) -> Any:
    """A deep quantity in floats; its formula takes what it has arguments for."""
    formula = catalogue[f"deep.{activation}.{kernel}.{quantity}"]
    return formula.numpy(**{symbol.name: values[symbol.name] for symbol in formula.args})


def log_volume(kernel: str, d: int, **values: Any) -> Any:
    r"""$\log_{10}\sqrt{\det g}$ from those of d = 1 and 2: only the logarithm fits in floats."""
    return log_volume_in_dimension(partial(closed_form, kernel, "magnification"), d, **values)


def ricci(kernel: str, **values: Any) -> Any:
    return closed_form(kernel, "ricci", **values)


@dataclass(frozen=True, eq=False)
class GeometryByDepth:
    """Both geometries of one phase along a ray at several depths, and other routes to depth 2.

    Keys are (kernel, quantity); volumes are log10 sqrt(det g).
    """

    radii: Array
    curves: Mapping[tuple[str, str], Mapping[int, Array]]  # by depth
    check_radii: Array
    checks: Mapping[tuple[str, str], Array]  # differences of the kernel
    formula_7: tuple[Array, Array]  # radii, and what (7) makes of two layers


def geometry_by_depth(
    values: Mapping[str, Any],
    check_radii: Array,
    checks: Mapping[tuple[str, str], Array],  # magnification and Ricci scalar
    formula_7: tuple[Array, Array],
    depths: Sequence[int] = DEPTHS,
) -> GeometryByDepth:
    read = {"magnification": log_volume, "ricci": ricci}
    curves = {
        (kernel, what): {L: read[what](kernel, r=RADII, depth=L, **values) for L in depths}
        for kernel in KERNELS
        for what in QUANTITIES
    }
    scaled = {
        (kernel, what): np.log10(numbers) if what == "magnification" else np.asarray(numbers)
        for (kernel, what), numbers in checks.items()
    }
    return GeometryByDepth(RADII, curves, check_radii, scaled, formula_7)


@dataclass(frozen=True, eq=False)
class DeepRays:
    """NNGP and NTK of a deep network along a ray, and its place in the phase diagram."""

    radii: Array
    kernels: Mapping[str, KernelRay]  # by the kernel's name
    diagram: PhaseMap
    sigma: float
    zeta: float
    variance: float  # V*; 0: the signal vanishes
    chi_1: float
    xi_c: float

    @property
    def phase(self) -> str:
        return {-1: "ordered", 0: "critical", 1: "chaotic"}[int(np.sign(self.chi_1 - 1))]


def deep_rays(
    activation: str, depth: int, sigma: float, zeta: float, xi: float, d: int
) -> DeepRays:
    values: dict[str, Any] = {"activation": activation, "depth": depth, "d": d, "w": 1.0}
    values |= {"sigma": sigma, "zeta": zeta, "xi": xi, "r": RADII}
    rays = {
        name: KernelRay.of(RADII, log_volume(kernel, **values), ricci(kernel, **values))
        for kernel, name in KERNELS.items()
    }
    diagram = phase_diagram(ACTIVATIONS[activation], [sigma], [zeta])
    point = (float(part[0, 0]) for part in (diagram.V, diagram.chi_1, diagram.xi_c))
    return DeepRays(RADII, rays, _diagram(activation), sigma, zeta, *point)


@cache
def _diagram(activation: str) -> PhaseMap:
    return phase_map(ACTIVATIONS[activation], 60)
