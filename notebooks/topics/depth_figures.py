"""Pictures of depth: phases, correlation maps, depth scales, deep geometry, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import AsinhLocator

from notebooks.panels import (
    Caption,
    Choice,
    DraggedPoint,
    Look,
    Slider,
    dimension,
    sigma,
    xi,
    zeta,
)
from notebooks.panels.style import BLUE, GREEN, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.depth import ACTIVATIONS, LARGEST
from notebooks.topics.ntk import KERNELS
from notebooks.topics.ntk_figures import LOG_VOLUME, RADIUS, kernel_numbers

if TYPE_CHECKING:
    from notebooks.topics.depth import (
        CorrelationMap,
        Decay,
        DeepRays,
        DepthScales,
        GeometryByDepth,
        LayerCorrelations,
        NeighbourGrowth,
        PhaseMap,
    )

LOOKS = {"ordered": (BLUE, "o"), "critical": (INK, "s"), "chaotic": (RED, "^")}
COLOURS = ScalarMappable(LogNorm(0.3, 100), "viridis")  # of depth scales
ACTIVATION = Choice("activation", "activation", tuple(ACTIVATIONS), "erf")
depth = Slider("depth", "L", 1, 10, 1, 3, "hidden layers", most=60, play=True)
CONTROLS = (ACTIVATION, depth, sigma, zeta, xi, dimension)
TITLES = (f"volume, {LOG_VOLUME}", "Ricci scalar $R$", "correlation depth, in layers")


def figure_phases(
    maps: Mapping[str, PhaseMap],
    neighbours: Mapping[str, NeighbourGrowth],
    here: tuple[float, float],
) -> Figure:
    """Depth scale, critical line, growth of small distances beside it, and the notebook's (zeta, sigma)."""
    figure = new_figure(9.0, 4.2)
    columns = figure.subplots(1, len(maps), sharey=True)
    for (name, one), axes in zip(maps.items(), columns, strict=True):
        line, near = (one.critical_zeta, one.critical_sigma), neighbours[name]
        axes.pcolormesh(one.zetas, one.sigmas, one.xi_c, norm=COLOURS.norm)
        axes.plot(*line, color="white", lw=4)
        axes.plot(*line, color=RED, lw=2, label=r"$\sigma^2 = 1/G$, $\zeta^2 = V - F/G$")
        for part, marker, fate in (
            (near.growth <= 1, "v", "approach"),
            (near.growth > 1, "^", "part"),
        ):
            style = {"color": INK, "mfc": "white", "ms": 7, "label": f"neighbours {fate}"}
            axes.plot(near.zetas[part], near.sigmas[part], marker, **style)
        axes.plot(*here, "*", color=INK, mfc="white", ms=13, label="this notebook")
        axes.text(2.25, 0.5, "ordered", color="white", ha="center", fontsize=12)
        axes.text(0.55, 2.6, "chaotic", color="white", ha="center", fontsize=12)
        frame_axes(axes, name, r"bias $\zeta$").set(xlim=(0, LARGEST), ylim=(0, LARGEST))
    columns[0].set_ylabel(r"weights $\sigma$")
    _legend(figure, columns[0], 4)
    figure.colorbar(
        COLOURS, ax=columns, label=r"correlation depth $\ell_c$, in layers", extend="both"
    )
    return figure


def figure_maps(maps: Mapping[str, CorrelationMap]) -> Figure:
    """Correlation maps, with the steps of pairs of inputs from layer to layer."""
    figure = new_figure(3.0 * len(maps), 3.5)
    columns = figure.subplots(1, len(maps), sharey=True)
    for (name, one), axes in zip(maps.items(), columns, strict=True):
        colour, _ = LOOKS.get(name, (GREEN, ""))
        axes.plot(one.grid, one.grid, ":", color=INK, lw=1)
        axes.plot(one.grid, one.mapped, color=colour, lw=2)
        for walk in one.walks:  # up to the map, across to the diagonal
            across, up = np.repeat(walk, 2)[:-1], np.r_[walk[0], np.repeat(walk[1:], 2)]
            axes.plot(across, up, color=GREY, lw=0.9)
        end = one.fixed_point
        axes.plot(end, end, "o", color=INK, ms=7, clip_on=False, zorder=3)
        label = rf"$\sigma = {one.sigma:.3g}$, $\chi_1 = {one.chi_1:.3g}$"
        axes.text(0.97, 0.05, f"{label}\n$c^* = {end:.3g}$", ha="right", fontsize=9)
        frame_axes(axes, name, "$c$").set(aspect="equal", xlim=(0, 1), ylim=(0, 1))
    figure.axes[0].set_ylabel("$f(c)$, one layer on")
    return figure


def figure_scales(decays: Mapping[str, Decay], scales: Mapping[str, DepthScales]) -> Figure:
    """Left: distance from the fixed point by layer. Right: the depth scale against sigma, and fits."""
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    for name, one in decays.items():
        colour, marker = LOOKS[name]
        left.loglog(one.layers, one.distance, marker, color=colour, ms=3.5, mfc="none", label=name)
        left.loglog(one.layers, one.predicted, color=colour, lw=1)
    frame_axes(left, "$|c_l - c^*|$", "layer $l$").set_ylim(1e-8, 2)
    for (name, one), (colour, marker) in zip(
        scales.items(), ((BLUE, "o"), (RED, "^")), strict=True
    ):
        style = {"color": colour, "mfc": "none", "ms": 5, "label": f"{name}: fitted"}
        right.semilogy(one.sigmas, one.xi_c, color=colour, lw=1.2, label=rf"{name}: $\ell_c$")
        right.semilogy(one.fitted_sigmas, one.fitted, marker, **style)
    frame_axes(right, r"correlation depth $\ell_c$", r"$\sigma$").set_ylim(0.3, 300)
    for axes in (left, right):
        axes.legend(**SMALL)
    return figure


def figure_networks(correlations: Mapping[tuple[str, str], LayerCorrelations]) -> Figure:
    """Correlations in networks, mean and standard deviation by (activation, phase), and their map."""
    figure = new_figure(9.0, 3.6)
    names = dict.fromkeys(name for name, _ in correlations)
    columns = dict(zip(names, figure.subplots(1, len(names), sharey=True), strict=True))
    for (name, phase), one in correlations.items():
        colour, marker = LOOKS[phase]
        layers = np.arange(1, len(one.exact) + 1)
        for pair, exact in enumerate(one.exact.T):
            mean, spread = one.networks.mean[:, pair], one.networks.spread[:, pair]
            columns[name].plot(layers, exact, color=colour, lw=1.2)
            columns[name].errorbar(layers, mean, spread, fmt=marker, color=colour, mfc="none", ms=5,
                                   lw=1, capsize=2, label=None if pair else phase)  # fmt: skip
        frame_axes(columns[name], f"{name}: correlation $c_l$", "layer $l$")
    _legend(figure, figure.axes[0], 3)
    return figure


def figure_geometry(phases: Mapping[str, GeometryByDepth]) -> Figure:
    """Both geometries by depth in two phases; circles are differences of the kernel at depth 2."""
    figure = new_figure(9.0, 10.6)
    rows = figure.subplots(4, 2, sharex=True)
    for (phase, one), column in zip(phases.items(), rows.T, strict=True):
        for ((kernel, what), curves), axes in zip(one.curves.items(), column, strict=True):
            shades = colormaps["viridis"](np.linspace(0.9, 0, len(curves)))
            for (layers, values), shade in zip(curves.items(), shades, strict=True):
                axes.plot(one.radii, values, color=shade, label=f"depth {layers}")
            style = {"color": INK, "mfc": "none", "label": "differences, depth 2"}
            axes.plot(one.check_radii, one.checks[kernel, what], "o", **style)
            if what == "ricci":
                _scale_by_asinh(axes)
            if (kernel, what) == ("nngp", "ricci"):
                axes.set_ylim(*axes.get_ylim())  # (7) leaves it
                axes.plot(*one.formula_7, ":", color=RED, lw=2, label="(7) at depth 2")
            quantity = "$R$" if what == "ricci" else LOG_VOLUME
            frame_axes(axes, f"{KERNELS[kernel]}, {phase}: {quantity}")
        column[-1].set_xlabel(RADIUS)
    _legend(figure, rows[1, 0], 7)
    return figure


def draw_rays(axes: Sequence[Axes], rays: DeepRays) -> Caption:
    """Both geometries along a ray, the place in the phase diagram, and numbers at |x| = 1."""
    for line, one in enumerate(rays.kernels.values()):
        for where, values in zip(axes[:2], (one.log_volume, one.ricci), strict=True):
            _move(where, line, rays.radii, values)
    _place(axes[2], rays)
    layers = r"\infty" if np.isinf(rays.xi_c) else f"{rays.xi_c:.4g}"
    end = (
        rf"\ell_c = {layers} \text{{ layers}}"
        if rays.variance
        else r"V_l \to 0 \text{: the signal vanishes}"
    )
    chi = rf"\chi_1 = \sigma^2 G(V^*) = {rays.chi_1:.4g} \text{{ ({rays.phase})}}"
    return Caption(rf"{chi},\quad {end}", f"at |x| = 1: {kernel_numbers(rays)}")


def _move(axes: Axes, line: int, x: np.ndarray, y: np.ndarray) -> None:
    """Moves the curve of a kernel; both are made when first asked for."""
    if not axes.lines:
        for name, colour in zip(KERNELS.values(), (BLUE, RED), strict=True):
            axes.plot([], [], color=colour, label=name)
        axes.legend(**SMALL)
        if axes.get_title() == TITLES[1]:
            _scale_by_asinh(axes)
    axes.lines[line].set_data(x, y)
    axes.relim()
    axes.autoscale_view()


@lru_cache(maxsize=len(ACTIVATIONS))
def _coloured(diagram: PhaseMap) -> np.ndarray:
    """A picture, which redraws faster than numbers that have to be coloured."""
    return COLOURS.to_rgba(diagram.xi_c, bytes=True)


def _place(axes: Axes, rays: DeepRays) -> None:
    """The phase diagram, its critical line, and a marker where the network is."""
    picture = _coloured(rays.diagram)
    if not axes.images:
        axes.imshow(picture, extent=(0, LARGEST, 0, LARGEST), origin="lower", aspect="auto")
        axes.figure.colorbar(COLOURS, ax=axes, extend="both").minorticks_off()
        axes.set(xlabel=r"$\zeta$", ylabel=r"$\sigma$")
        axes.plot([], [], ".", color=RED, ms=3)
        axes.plot([], [], "o", color=INK, mfc="white", ms=9, mew=2, clip_on=False)
    axes.images[0].set_data(picture)
    axes.lines[0].set_data(rays.diagram.critical_zeta, rays.diagram.critical_sigma)
    axes.lines[1].set_data([rays.zeta], [rays.sigma])


def _scale_by_asinh(axes: Axes) -> None:
    """A scale for curvatures of either sign that differ by powers of ten."""
    axes.set_yscale("asinh", base=0)
    axes.yaxis.set_major_locator(AsinhLocator(1.0, numticks=7, base=0))


def _legend(figure: Figure, of: Axes, columns: int) -> None:
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(*of.get_legend_handles_labels(), fontsize=8, **place)


PANEL = Look(draw_rays, CONTROLS, TITLES, point=DraggedPoint(axes=2, x="zeta", y="sigma"))
