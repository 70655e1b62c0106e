"""Pictures of shallow NNGP geometry: Figures 1 and C.1 of the curvature paper, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import RADIUS, Caption, Choice, Look, curve, degree, dimension, sigma, zeta
from notebooks.panels.style import BLUE, INK, PURPLE, RED, SMALL, frame_axes, new_figure
from notebooks.topics.nngp import ACTIVATION_NAMES

if TYPE_CHECKING:
    from notebooks.topics.nngp import MonomialCurvature, RandomNetworks, Ray
    from notebooks.topics.statistics import WidthCurves

ACTIVATION = Choice("activation", "activation", ACTIVATION_NAMES, "erf")
CONTROLS = (ACTIVATION, sigma, zeta, degree, dimension)
TITLES = (r"volume $\sqrt{\det g}$", "Ricci scalar $R$")


def figure_1(networks: Mapping[str, RandomNetworks]) -> Figure:
    """Finite networks against the closed form: mean and standard deviation over realisations."""
    figure = new_figure(9.0, 3.1 * len(networks))
    rows = figure.subplots(len(networks), 2, squeeze=False)
    for (name, one), (left, right) in zip(networks.items(), rows, strict=True):
        _convergence(frame_axes(left, rf"{name}: $\sqrt{{\det g}}$", RADIUS), one.magnification)
        _convergence(frame_axes(right, f"{name}: $R$", RADIUS), one.ricci)
        right.plot(one.ricci.radii, one.ricci_as_printed, ":", color=RED, label="as printed")
        low = 3.2 * one.ricci.exact.min()
        right.set_ylim(low, -low / 6)
        right.legend(**SMALL)
    return figure


def _convergence(axes: Axes, quantity: WidthCurves) -> None:
    radii, shades = quantity.radii, np.linspace(0.25, 1, len(quantity.by_width))
    for shade, (width, draws) in zip(shades, quantity.by_width.items(), strict=True):
        low, high = draws.mean - draws.spread, draws.mean + draws.spread
        axes.plot(radii, draws.mean, color=BLUE, alpha=shade, lw=1, label=f"n = {width}")
        axes.fill_between(radii, low, high, color=BLUE, alpha=0.18 * shade, lw=0)
    axes.plot(radii, quantity.exact, "--", color=INK, lw=1.5, label=r"$n = \infty$")


def figure_c1(curvature: MonomialCurvature) -> Figure:
    """Ricci scalar of monomials: by degree in d = 2, by dimension for q = 2."""
    figure = new_figure()
    left, right = figure.subplots(1, 2)
    for axes, curves, letter, colour in (
        (left, curvature.by_degree, "q", RED),
        (right, curvature.by_dimension, "d", PURPLE),
    ):
        shades = np.linspace(1, 0.25, len(curves))
        for shade, (k, ricci) in zip(shades, curves.items(), strict=True):
            axes.plot(curvature.radii, ricci, color=colour, alpha=shade, label=f"{letter} = {k}")
    for axes, title in ((left, "$R$, $d = 2$"), (right, "$R$, $q = 2$")):
        frame_axes(axes, title, RADIUS).legend(frameon=False, fontsize=7, ncols=2)
    return figure


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """The degree matters to activations that have one."""
    return control != "q" or values["activation"] in ("monomial", "relu_power")


def draw_ray(axes: Sequence[Axes], ray: Ray) -> Caption:
    """Magnification and Ricci scalar along a ray, with a formula of the latter filled in."""
    curve(axes[0], ray.radii, ray.magnification, color=BLUE)
    curve(axes[1], ray.radii, ray.ricci, color=RED)
    numbers = f"sqrt(det g) = {ray.magnification_at_one:.8g}, R = {ray.ricci_at_one:.8g}"
    return Caption(ray.formula, f"at |x| = 1: {numbers}")


PANEL = Look(draw_ray, CONTROLS, TITLES, relevant)
