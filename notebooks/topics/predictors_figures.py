"""Pictures of infinite networks as predictors: data with bands, and a panel that moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import Caption, Choice, Look, Slider, log_slider
from notebooks.panels.style import BLUE, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.predictors import ACTIVATIONS, BAYES, DATA, FLOW, NOISE, Band

if TYPE_CHECKING:
    from notebooks.topics.predictors import (
        EvidenceMap,
        NearlySingular,
        PanelPredictions,
        Predictors,
    )
    from notebooks.topics.statistics import Mean, PowerLaw

MEANS = {
    BAYES: r"\bar f_* = K_*(K + \sigma_n^2)^{-1}y",
    FLOW: r"\bar f_t = \Theta_*\frac{1 - e^{-t(\Theta + \sigma_n^2)}}{\Theta + \sigma_n^2}\,y",
}
CONTROLS = (
    Choice("activation", "activation", tuple(ACTIVATIONS), "erf"),
    Choice("predictor", "predictor", ("both", BAYES, FLOW), "both"),
    Slider("sigma_w", "σ_w", 0.1, 4.0, 0.1, 1.5, "weight std", above=0, most=1e3),  # noqa: RUF001
    Slider("sigma_b", "σ_b", 0.0, 4.0, 0.1, 1.0, "bias std", least=0, most=1e3),  # noqa: RUF001
    Slider("depth", "L", 1, 6, 1, 1, "hidden layers", most=60, play=True),
    log_slider("noise", "σ_n²", -6, 0, NOISE, "noise variance"),  # noqa: RUF001
    log_slider("t", "t", -2, 4, 10.0, "training time", play=True),
)
TITLES = ("before the data", "after the data")


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """Time matters to what is trained."""
    return control != "t" or values["predictor"] != BAYES


def _set_ticks(axis: Any, values: Sequence[float]) -> None:
    """Plain numbers on a logarithmic axis."""
    axis.set_ticks(values, labels=[f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def _band(axes: Axes, band: Band, colour: str, style: str = "-", label: str = "") -> None:
    """A mean, and two standard deviations to either side."""
    x, low, high = DATA.line, band.mean - 2 * band.std, band.mean + 2 * band.std
    axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    axes.plot(x, band.mean, style, color=colour, lw=1.5, label=label or None)
    axes.set_xlabel("$x$")


def _points(axes: Axes) -> None:
    axes.plot(DATA.line, DATA.truth, ":", color=GREY, lw=1.2, zorder=1)
    axes.plot(DATA.x, DATA.y, "o", color=INK, ms=4, zorder=5)
    axes.set_ylim(-2.3, 2.3)


def figure_predictors(all_of: Predictors, noise: float = NOISE) -> Figure:
    """Prior, Bayesian posterior, how sure both are, and training at three times."""
    figure = new_figure(9.0, 5.8)
    (prior, after, sure), below = figure.subplots(2, 3, sharex=True)
    for axes in (after, *below):
        _points(axes)
    _band(frame_axes(prior, "NNGP prior, four networks", "$x$"), all_of.prior, BLUE)
    prior.plot(DATA.line, all_of.draws, color=BLUE, lw=0.8, alpha=0.7)
    _band(
        frame_axes(after, rf"NNGP posterior, $\sigma_n^2 = {noise:g}$", "$x$"), all_of.bayes, BLUE
    )
    sure.semilogy(DATA.line, all_of.bayes.std, color=BLUE, label="NNGP")
    for axes, (t, band), style in zip(below, all_of.flow.items(), (":", "-.", "--"), strict=True):
        _band(frame_axes(axes, f"NTK flow, $t = {t:g}$", "$x$"), band, RED, style)
        sure.plot(DATA.line, band.std, style, color=RED, label=f"NTK, $t = {t:g}$")
    ticks = np.full(len(DATA.x), 0.02)
    sure.plot(DATA.x, ticks, "|", color=INK, transform=sure.get_xaxis_transform())
    frame_axes(sure, "standard deviation", "$x$").legend(**SMALL)
    return figure


def figure_networks(
    flow: Mapping[float, Band], probes: np.ndarray, ensembles: Mapping[str, Mean],
    laws: Mapping[float, PowerLaw],
) -> Figure:  # fmt: skip
    """Ensembles of finite networks against the flow, and how far each is from its own prediction."""
    figure = new_figure(9.0, 6.4)
    *trained, last = figure.subplots(2, 2).flat
    marks = ((-0.05, "s", GREY, "none"), (0.05, "o", BLUE, BLUE))
    for k, (axes, (t, band)) in enumerate(zip(trained, flow.items(), strict=True)):
        _points(frame_axes(axes, f"after $t = {t:g}$", "$x$"))
        _band(axes, band, RED, "--", "NTK flow")
        for (aside, mark, colour, fill), (label, one) in zip(marks, ensembles.items(), strict=True):
            axes.errorbar(probes + aside, one.mean[k], 2 * one.spread[k], fmt=mark, ms=4, lw=1.2,
                          capsize=2, color=colour, mfc=fill, label=label)  # fmt: skip
    trained[0].legend(loc="lower right", **SMALL)
    for (t, law), style in zip(laws.items(), ("o:", "s-.", "^--"), strict=True):
        label = f"$t = {t:g}$: slope {law.slope:.2f}"
        last.loglog(law.x, law.y, style, color=BLUE, ms=5, lw=1.2, label=label)
    guide = law.y[-1] * (law.x[-1] / law.x) ** 0.5
    last.loglog(law.x, guide, ":", color=INK, label="slope -0.50")
    _set_ticks(last.xaxis, law.x)
    _set_ticks(last.yaxis, [0.01, 0.02, 0.05, 0.1])
    frame_axes(last, "networks less their own predictions, rms", "width").legend(**SMALL)
    return figure


def figure_evidence(evidence: EvidenceMap) -> Figure:
    """A contour map with a path to its maximum, and the posterior at either end of it."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    value, path = evidence.log_evidence, evidence.path
    levels = value.max() - np.array([24, 16, 12, 8, 6, 4, 3, 2, 1, 0.5, 0.2, 0])
    style = {"cmap": "cividis", "extend": "min"}
    filled = left.contourf(evidence.sigma_w, evidence.sigma_b, value, levels, **style)
    figure.colorbar(filled, ax=left, label=r"$\log p(y)$", format="%.1f")
    left.plot(*path.T, "o-", color="white", ms=3, lw=1.2)
    left.plot(*path[-1], "*", color="white", ms=14, mec=INK, mew=0.8)
    frame_axes(left, "evidence, and a path to its maximum", r"$\sigma_w$").set_ylabel(r"$\sigma_b$")
    left.loglog()
    _set_ticks(left.xaxis, [0.6, 1, 2, 4])
    _set_ticks(left.yaxis, [0.1, 0.3, 1, 3])
    _points(frame_axes(right, "NNGP posterior at both ends of the path", "$x$"))
    for at, band, colour, style in zip(
        path[[0, -1]], evidence.ends, (GREY, BLUE), ("--", "-"), strict=True
    ):
        label = rf"$\sigma_w = {at[0]:.2f}$, $\sigma_b = {at[1]:.2f}$"
        _band(right, band, colour, style, label)
    right.legend(loc="lower right", **SMALL)
    return figure


def figure_singular(singular: NearlySingular) -> Figure:
    """Condition numbers, exact and in floats, as points are added; variances for the most."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    sizes, x, plain = singular.sizes, singular.x, singular.plain
    looks = zip(singular.conditions.items(), (BLUE, RED, INK), "os^", strict=True)
    for (name, (exact, rounded)), colour, mark in looks:
        left.semilogy(sizes, exact, color=colour, lw=1.2, label=name)
        left.semilogy(sizes, rounded, mark, color=colour, ms=4, mfc="none")
    left.axhline(1 / np.finfo(float).eps, ls=":", color=GREY, label=r"$1/\epsilon$")
    frame_axes(left, "condition number: exact, and in floats", "points").legend(**SMALL)
    for sign, mark, label in ((1, "o", "plain solution"), (-1, "x", "plain solution, negative")):
        of_sign = np.where(sign * plain > 0, abs(plain), np.nan)
        right.semilogy(x, of_sign, mark, color=RED, ms=4, mfc="none", label=label)
    right.semilogy(x, singular.suite, color=BLUE, lw=1.5, label="suite")
    right.semilogy(x, singular.exact, "--", color=INK, lw=1.5, label="exact")
    frame_axes(right, f"posterior variance between {sizes[-1]} points", "$x$").set_ylim(top=1e-11)
    right.legend(loc="upper center", ncols=2, **SMALL)
    return figure


def draw_predictions(axes: Sequence[Axes], now: PanelPredictions) -> Caption:
    """Networks before the data and what is predicted from it."""
    if not axes[0].lines:
        _begin(axes)
    _move(axes[0], 0, now.prior)
    for line, values in zip(axes[0].lines[1:], now.draws.T, strict=True):
        line.set_ydata(values)
    axes[0].set_ylim(*(side * now.prior.std.max() for side in (-2.5, 2.5)))
    for position, (name, band) in enumerate(now.bands.items()):
        _move(axes[1], position, band, name in now.shown)
    formula = r",\quad ".join(MEANS[name] for name in now.shown)
    numbers = ["{} {:.6f} +- {:.6f}".format(name, *now.numbers[name]) for name in now.shown]
    return Caption(formula, f"at x = {now.at:g}: {'; '.join(numbers)}")


def _begin(axes: Sequence[Axes]) -> None:
    """What `_move` moves: the first lines of an axes are those of its bands."""
    zeros = np.zeros(len(DATA.line))
    nothing = Band(zeros, zeros)
    _band(axes[0], nothing, INK)
    axes[0].plot(DATA.line, np.zeros((len(DATA.line), 4)), color=INK, lw=0.8, alpha=0.7)
    for name, colour, style in zip(MEANS, (BLUE, RED), ("-", "--"), strict=True):
        _band(axes[1], nothing, colour, style, name)
    _points(axes[1])
    axes[1].legend(loc="lower right", **SMALL)


def _move(axes: Axes, position: int, band: Band, visible: bool = True) -> None:
    line, area, x = axes.lines[position], axes.collections[position], DATA.line
    line.set_ydata(band.mean)
    low, high = band.mean - 2 * band.std, band.mean + 2 * band.std
    around = np.concatenate([low, high[::-1]])
    area.set_verts([np.stack([np.concatenate([x, x[::-1]]), around], 1)])
    line.set_visible(visible)
    area.set_visible(visible)


PANEL = Look(draw_predictions, CONTROLS, TITLES, relevant)
