"""Pictures of depth: the phases of wide networks, what they do to a pair of inputs, and deep geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import AsinhLocator

from analytic.activations import erf, gaussian, sine
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.signal_propagation import PhaseDiagram, Signal, critical_line, phase_diagram
from notebooks.panels import Caption, Choice, Slider
from notebooks.panels.style import BLUE, INK, RED, framed, new
from notebooks.topics.ntk_figures import LOG_VOLUME, by_dimension
from numeric.estimate import Estimate

KERNELS = {"nngp": ("NNGP", BLUE), "ntk": ("NTK", RED)}
LARGEST = 3.0  # of zeta and sigma in every diagram, as on the sliders
PHASES = {"ordered": (0.6, BLUE, "o"), "critical": (1.0, INK, "s"), "chaotic": (1.6, RED, "^")}
COLOURS = ScalarMappable(LogNorm(0.3, 100), "viridis")  # of depth scales
RADII = np.linspace(0, 5, 101)[1:]  # at the origin itself R is a limit


def cells(count: int) -> np.ndarray:
    """Midpoints of so many equal parts of an axis of the diagram."""
    return LARGEST * (np.arange(count) + 0.5) / count


def boundary(act: Activation) -> tuple[np.ndarray, np.ndarray]:
    """The critical line inside the diagram, from its formula."""
    zeta, sigma = critical_line(act, np.geomspace(1e-4, 60, 600))
    inside = (zeta <= LARGEST) & (sigma <= LARGEST)
    return zeta[inside], sigma[inside]


def figure_phases(
    diagrams: Mapping[str, PhaseDiagram], lines: Mapping[str, Any], growths: Mapping[str, Any]
) -> Figure:
    """Depth scale, critical line, and growth of small distances at (zeta, sigma) beside the line."""
    figure = new(9.0, 4.2)
    columns = figure.subplots(1, len(diagrams), sharey=True)
    for (name, diagram), axes in zip(diagrams.items(), columns, strict=True):
        axes.pcolormesh(diagram.zetas, diagram.sigmas, diagram.xi_c.T, norm=COLOURS.norm)
        axes.plot(*lines[name], color="white", lw=4)
        axes.plot(*lines[name], color=RED, lw=2, label=r"$\sigma^2 = 1/G$, $\zeta^2 = V - F/G$")
        for above, marker, fate in ((False, "v", "approach"), (True, "^", "part")):
            x, y = np.transpose([at for *at, growth in growths[name] if (growth > 1) == above])
            axes.plot(x, y, marker, color=INK, mfc="white", ms=7, label=f"neighbours {fate}")
        axes.text(2.25, 0.5, "ordered", color="white", ha="center", fontsize=12)
        axes.text(0.55, 2.6, "chaotic", color="white", ha="center", fontsize=12)
        framed(axes, name, r"bias $\zeta$").set(xlim=(0, LARGEST), ylim=(0, LARGEST))
    columns[0].set_ylabel(r"weights $\sigma$")
    _legend(figure, columns[0], 3)
    figure.colorbar(COLOURS, ax=columns, label=r"depth scale $\xi_c$, in layers", extend="both")
    return figure


def figure_maps(maps: Mapping[str, Signal], walks: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """Correlation maps, with the steps of pairs of inputs from layer to layer."""
    figure = new(9.0, 3.5)
    grid = np.linspace(0, 1, 201)
    for (name, signal), axes in zip(maps.items(), figure.subplots(1, 3, sharey=True), strict=True):
        axes.plot(grid, grid, ":", color=INK, lw=1)
        axes.plot(grid, signal.correlation_map(grid), color=PHASES[name][1], lw=2)
        for walk in walks[name]:  # up to the map, across to the diagonal
            across, up = np.repeat(walk, 2)[:-1], np.r_[walk[0], np.repeat(walk[1:], 2)]
            axes.plot(across, up, color="#888888", lw=0.9)
        end = float(signal.correlation.value)
        axes.plot(end, end, "o", color=INK, ms=7, clip_on=False, zorder=3)
        label = rf"$\sigma = {float(signal.sigma):.3g}$, $\chi_1 = {float(signal.chi_1):.3g}$"
        axes.text(0.97, 0.05, f"{label}\n$c^* = {end:.3g}$", ha="right", fontsize=9)
        framed(axes, name, "$c$").set(aspect="equal", xlim=(0, 1), ylim=(0, 1))
    figure.axes[0].set_ylabel("$f(c)$, one layer on")
    return figure


def figure_scales(
    gaps: Mapping[str, np.ndarray], lines: Mapping[str, Any], measured: Mapping[str, Any]
) -> Figure:
    """Left: distance from rest by layer. Right: the depth scale against sigma, and fits to the left."""
    figure = new(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    for name, gap in gaps.items():
        _, colour, marker = PHASES[name]
        layers = np.arange(1, len(gap) + 1)
        left.loglog(layers, gap, marker, color=colour, ms=3.5, mfc="none", label=name)
        left.loglog(layers, lines[name](layers), color=colour, lw=1)
    framed(left, "$|c_l - c^*|$", "layer $l$").set_ylim(1e-8, 2)
    for name, (sigmas, scales, fits) in measured.items():
        colour, marker = {"erf": (BLUE, "o"), "tanh": (RED, "^")}[name]
        right.semilogy(sigmas, scales, color=colour, lw=1.2, label=rf"{name}: $\xi_c$")
        right.semilogy(*fits, marker, color=colour, mfc="none", ms=5, label=f"{name}: fitted")
    framed(right, r"depth scale, $\zeta = 0.3$", r"$\sigma$").set_ylim(0.3, 300)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
    return figure


def figure_networks(found: Mapping[Any, Estimate], exact: Mapping[Any, np.ndarray]) -> Figure:
    """Correlations in networks, mean and standard deviation by (activation, phase), and their map."""
    figure = new(9.0, 3.6)
    names = dict.fromkeys(name for name, _ in found)
    columns = dict(zip(names, figure.subplots(1, len(names), sharey=True), strict=True))
    for (name, phase), estimate in found.items():
        _, colour, marker = PHASES[phase]
        layers = np.arange(1, len(estimate.mean) + 1)
        for pair in range(estimate.mean.shape[1]):
            mean, spread = estimate.mean[:, pair], estimate.spread[:, pair]
            columns[name].plot(layers, exact[name, phase][:, pair], color=colour, lw=1.2)
            columns[name].errorbar(layers, mean, spread, fmt=marker, color=colour, mfc="none", ms=5,
                                   lw=1, capsize=2, label=None if pair else phase)  # fmt: skip
        framed(columns[name], f"{name}: correlation $c_l$", "layer $l$")
    _legend(figure, figure.axes[0], 3)
    return figure


def found(kernel: str, what: str, activation: str = "erf", **values: Any) -> Any:
    """A deep quantity in floats; its formula takes what it has arguments for."""
    formula = catalogue[f"deep.{activation}.{kernel}.{what}"]
    return formula.numpy(**{symbol.name: values[symbol.name] for symbol in formula.args})


def log_volume(kernel: str, d: int, **values: Any) -> Any:
    r"""$\log_{10}\sqrt{\det g}$ from those of d = 1 and 2: only the logarithm fits in floats."""
    return by_dimension(partial(found, kernel, "magnification"), d, **values)


ricci = partial(found, what="ricci")


DEPTHS = (1, 2, 3, 5, 8)


def figure_geometry(
    settings: Mapping[str, Mapping[str, Any]],
    radii: np.ndarray,
    judged: Mapping[tuple[str, str, str], np.ndarray],  # phase, kernel, quantity
    seven: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Figure:
    """Both geometries by depth in two phases; circles are differences of the kernel at depth 2."""
    figure = new(9.0, 10.6)
    rows = figure.subplots(4, 2, sharex=True)
    shades = colormaps["viridis"](np.linspace(0.9, 0, len(DEPTHS)))
    for (phase, values), column in zip(settings.items(), rows.T, strict=True):
        quantities = ((kernel, what) for kernel in KERNELS for what in ("magnification", "ricci"))
        for (kernel, what), axes in zip(quantities, column, strict=True):
            volume = what == "magnification"
            for depth, shade in zip(DEPTHS, shades, strict=True):
                y = (log_volume if volume else ricci)(kernel, r=RADII, depth=depth, **values)
                axes.plot(RADII, y, color=shade, label=f"depth {depth}")
            points = (np.log10 if volume else np.asarray)(judged[phase, kernel, what])
            axes.plot(radii, points, "o", color=INK, mfc="none", label="differences, depth 2")
            if not volume:
                _tall(axes)
            if (kernel, what) == ("nngp", "ricci"):
                axes.set_ylim(*axes.get_ylim())  # (7) leaves it
                axes.plot(*seven[phase], ":", color=RED, lw=2, label="(7) at depth 2")
            framed(axes, f"{KERNELS[kernel][0]}, {phase}: {LOG_VOLUME if volume else '$R$'}")
        column[-1].set_xlabel(r"$\|x\|$")
    _legend(figure, rows[1, 0], 7)
    return figure


ACTS = {"erf": erf, "sine": sine(1), "gaussian": gaussian}
ACTIVATION = Choice("activation", "activation", tuple(ACTS), "erf")
depth = Slider("depth", "L", 1, 10, 1, 3)
TITLES = (LOG_VOLUME, "$R$", r"$\xi_c$")


def geometry(
    axes: Sequence[Axes], activation: str, depth: int, sigma: float, zeta: float, xi: float, d: int
) -> Caption:
    """Both geometries along a ray, the place in the phase diagram, and numbers at |x| = 1."""
    told = []
    values: dict[str, Any] = {"activation": activation, "depth": depth, "d": d, "w": 1.0}
    values |= {"sigma": sigma, "zeta": zeta, "xi": xi}
    for line, (kernel, (name, _)) in enumerate(KERNELS.items()):
        curves = [quantity(kernel, r=RADII, **values) for quantity in (log_volume, ricci)]
        for one, curve in zip(axes[:2], curves, strict=True):
            _moved(one, line, curve)
        volume, scalar = (curve[RADII == 1].item() for curve in curves)
        told.append(f"{name} log10 sqrt(det g) = {volume:.8g}, R = {scalar + 0.0:.8g}")
    return Caption(_placed(axes[2], activation, sigma, zeta), f"at |x| = 1: {'; '.join(told)}")


def _moved(axes: Axes, line: int, y: np.ndarray) -> None:
    """Moves the curve of a kernel; both are made when first asked for."""
    if not axes.lines:
        for name, colour in KERNELS.values():
            axes.plot([], [], color=colour, label=name)
        axes.legend(frameon=False, fontsize=8)
        if axes.get_title() == TITLES[1]:
            _tall(axes)
    axes.lines[line].set_data(RADII, y)
    axes.relim()
    axes.autoscale_view()


@cache
def _diagram(activation: str) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """A picture, which redraws faster than numbers that have to be coloured, and the line."""
    act = ACTS[activation]
    found = phase_diagram(act, cells(60), cells(60))
    return COLOURS.to_rgba(found.xi_c.T, bytes=True), boundary(act)


def _placed(axes: Axes, activation: str, sigma: float, zeta: float) -> str:
    """Marks the network in the phase diagram and tells its phase."""
    picture, line = _diagram(activation)
    if not axes.images:
        axes.imshow(picture, extent=(0, LARGEST, 0, LARGEST), origin="lower", aspect="auto")
        axes.figure.colorbar(COLOURS, ax=axes, extend="both").minorticks_off()
        axes.set(xlabel=r"$\zeta$", ylabel=r"$\sigma$")
        axes.plot([], [], ".", color=RED, ms=3)
        axes.plot([], [], "o", color=INK, mfc="white", ms=9, mew=2, clip_on=False)
    axes.images[0].set_data(picture)
    axes.lines[0].set_data(*line)
    axes.lines[1].set_data([zeta], [sigma])
    at = phase_diagram(ACTS[activation], [sigma], [zeta])
    V, chi, scale = (float(part[0, 0]) for part in (at.V, at.chi_1, at.xi_c))
    phase = {-1: "ordered", 0: "critical", 1: "chaotic"}[np.sign(chi - 1)]
    layers = r"\infty" if np.isinf(scale) else f"{scale:.4g}"
    end = rf"\xi_c = {layers}" if V else r"V_l \to 0 \text{: the signal vanishes}"
    return rf"\chi_1 = \sigma^2 G(V^*) = {chi:.4g} \text{{ ({phase})}},\quad {end}"


def _tall(axes: Axes) -> None:
    """A scale for curvatures of either sign that differ by powers of ten."""
    axes.set_yscale("asinh", base=0)
    axes.yaxis.set_major_locator(AsinhLocator(1.0, numticks=7, base=0))


def _legend(figure: Figure, of: Axes, columns: int) -> None:
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "frameon": False}
    figure.legend(*of.get_legend_handles_labels(), fontsize=8, **place)
