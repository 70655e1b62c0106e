"""Pictures of shallow NTK geometry beside that of the NNGP, and a panel that moves both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import RADIUS, Caption, Look, degree, dimension, sigma, xi, zeta
from notebooks.panels.style import BLUE, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.nngp_figures import ACTIVATION, relevant
from notebooks.topics.ntk import KERNELS

if TYPE_CHECKING:
    from notebooks.topics.ntk import BothRays, GeometryAlongRay, TangentNetworks
    from notebooks.topics.statistics import WidthCurves

__all__ = [
    "LOG_VOLUME", "PANEL", "QUANTITIES", "RADIUS",
    "draw_rays", "figure_geometry", "figure_width", "kernel_numbers",
]  # fmt: skip

LOG_VOLUME = r"$\log_{10}\sqrt{\det g}$"
QUANTITIES = {"magnification": r"$\sqrt{\det g}$", "ricci": "$R$"}
STYLES = ((BLUE, "-"), (RED, "-"), (RED, "--"))
CONTROLS = (ACTIVATION, sigma, zeta, xi, degree, dimension)
TITLES = (f"volume, {LOG_VOLUME}", r"Ricci scalar $R$; dot: $R_{\mathrm{NTK}}(0)$")


def figure_geometry(geometry: GeometryAlongRay) -> Figure:
    """Both geometries along a ray; circles for what another route computes at a few radii."""
    figure = new_figure(9.0, 8.2)
    rows = figure.subplots(3, 2, sharex=True, sharey="row")
    lines = dict(zip(dict.fromkeys(label for _, label, _ in geometry.checks), STYLES, strict=True))
    first, *_, last = lines
    for (kernel, name), (volume, *scalars) in zip(KERNELS.items(), rows.T, strict=True):
        for label, (colour, style) in lines.items():
            key = (kernel, label, "magnification")
            curve, points = np.log10(geometry.closed_form[key]), np.log10(geometry.checks[key])
            volume.plot(geometry.radii, curve, style, color=colour, label=label)
            legend = "differences of the kernel" if label == last else ""
            _circles(volume, geometry.check_radii, points, legend)
            axes = scalars[label != first]
            key = (kernel, label, "ricci")
            curve = geometry.closed_form[key]
            at_origin = geometry.radii[0] == 0
            legend = f"{label}: $R(0) = {curve[0] + 0.0:.3g}$" if at_origin else label  # no -0
            axes.plot(geometry.radii, curve, style, color=colour, label=legend)
            if at_origin:
                axes.plot(0, curve[0], "o", color=colour, ms=9, zorder=3)
            _circles(axes, geometry.check_radii, geometry.checks[key])
            frame_axes(axes, f"{name}: {QUANTITIES['ricci']}").legend(**SMALL)
        frame_axes(volume, f"{name}: {LOG_VOLUME}")
        scalars[-1].set_xlabel(RADIUS)
    rows[0, 0].legend(**SMALL)
    return figure


def _circles(axes: Axes, x: Any, y: Any, label: str = "") -> None:
    axes.plot(x, y, "o", color=INK, mfc="none", ms=6, zorder=4, label=label or "_")


def figure_width(sweeps: Mapping[str, Mapping[str, TangentNetworks]]) -> Figure:
    """Tangent metrics of finite networks by label and quantity, with the NNGP for contrast."""
    figure = new_figure(9.0, 3.1 * len(sweeps))
    rows = figure.subplots(len(sweeps), 2, sharex=True, squeeze=False)
    for (label, quantities), row in zip(sweeps.items(), rows, strict=True):
        for (what, one), axes in zip(quantities.items(), row, strict=True):
            axes.plot(one.radii, one.nngp, ":", color=RED, label=r"NNGP, $n = \infty$")
            axes.plot(one.radii, one.ntk, "--", color=INK, lw=1.5, label=r"NTK, $n = \infty$")
            _networks(frame_axes(axes, f"{label}: {QUANTITIES[what]}"), one.networks)
    rows[0, 0].legend(**SMALL)
    for axes in rows[-1]:
        axes.set_xlabel(RADIUS)
    return figure


def _networks(axes: Axes, quantity: WidthCurves) -> None:
    """Mean and standard deviation over networks, width beside width so that no bar hides another."""
    shades = np.linspace(0.4, 1, len(quantity.by_width))
    for k, (shade, (width, draws)) in enumerate(
        zip(shades, quantity.by_width.items(), strict=True)
    ):
        at = quantity.radii + 0.07 * (k - (len(shades) - 1) / 2)
        style = {"fmt": "os^D"[k % 4], "ms": 4, "lw": 1.2, "capsize": 2, "zorder": 3}
        label = f"NTK, n = {width}"
        axes.errorbar(at, draws.mean, draws.spread, color=BLUE, alpha=shade, label=label, **style)


def draw_rays(axes: Sequence[Axes], rays: BothRays) -> Caption:
    """Both geometries along a ray, the NTK's curvature at the origin, and numbers at |x| = 1."""
    for line, one in enumerate(rays.kernels.values()):
        for where, values in zip(axes, (one.log_volume, one.ricci), strict=True):
            _move(where, line, rays.radii, values)
    numbers = f"at |x| = 1: {kernel_numbers(rays)}"
    if rays.ricci_at_origin is None:
        _move(axes[1], 2, [], [])
        return Caption(r"R_{\mathrm{NTK}}(0) \text{ does not exist here}", numbers)
    _move(axes[1], 2, [0.0], [rays.ricci_at_origin])
    formula = r"R_{\mathrm{NTK}}(0) = -\frac{2d(d-1)\,c}{a^2}"
    return Caption(f"{formula} = {rays.ricci_at_origin:.6g}", numbers)


def kernel_numbers(rays: Any) -> str:
    """Both numbers of each kernel at |x| = 1, or the reason why it has none."""
    texts = [
        one.refusal
        or f"{name} log10 sqrt(det g) = {one.log_volume_at_one:.8g}, R = {one.ricci_at_one + 0.0:.8g}"
        for name, one in rays.kernels.items()
    ]
    return "; ".join(texts)


def _move(axes: Axes, line: int, x: Any, y: Any) -> None:
    """Moves one of the lines: NNGP, NTK, and the dot at the origin; makes them when there are none."""
    if not axes.lines:
        axes.plot([], [], "-", color=BLUE, label=KERNELS["nngp"])
        axes.plot([], [], "--", color=RED, label=KERNELS["ntk"])
        axes.plot([], [], "o", color=RED)
        axes.legend(**SMALL)
    axes.lines[line].set_data(x, y)
    axes.relim()
    axes.autoscale_view()


PANEL = Look(draw_rays, CONTROLS, TITLES, relevant)
