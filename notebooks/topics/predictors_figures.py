"""Pictures of infinite networks as predictors: data with bands, and a panel that moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from analytic.activations import erf, gaussian, gelu, relu, sine
from notebooks.panels import Caption, Choice, LogSlider, Slider
from notebooks.panels.style import BLUE, GREY, INK, RED, SMALL, framed, new
from notebooks.topics.ntk_figures import Law
from numeric.estimate import Estimate
from numeric.infinite import FullyConnected, gradient_flow, posterior
from numeric.infinite.prediction import Prediction

NOISE = 0.01  # the variance of that of the data
LINE = torch.linspace(-2.5, 2.5, 101, dtype=torch.float64)[:, None]
AT = 70  # of LINE, x = 1: in the gap of the data


def truth(x: Any) -> Any:
    return np.sin(1.5 * x + 0.5)


# Eight noisy values of a sine, with a gap.
X = torch.tensor([-1.8, -1.5, -1.1, -0.7, -0.1, 0.2, 1.2, 1.6], dtype=LINE.dtype)[:, None]
Y = torch.from_numpy(truth(X[:, 0].numpy()) + 0.1 * np.random.default_rng(0).standard_normal(8))


def draws(net: FullyConnected, count: int = 4) -> Tensor:
    """(points, count): networks before training; by the symmetric root, so that they move smoothly."""
    values, vectors = torch.linalg.eigh(net.nngp(LINE))
    normal = torch.randn(len(LINE), count, generator=torch.Generator().manual_seed(1))
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.mT @ normal.to(LINE)


def _ticked(axis: Any, values: Sequence[float]) -> None:
    """Plain numbers on a logarithmic axis."""
    axis.set_ticks(values, labels=[f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def _band(axes: Axes, mean: Any, std: Any, colour: str, style: str = "-", label: str = "") -> None:
    """A mean, and two standard deviations to either side."""
    x, mean, std = (np.asarray(part) for part in (LINE[:, 0], mean, std))
    axes.fill_between(x, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.2, lw=0)
    axes.plot(x, mean, style, color=colour, lw=1.5, label=label or None)
    axes.set_xlabel("$x$")


def _points(axes: Axes) -> None:
    x = LINE[:, 0].numpy()
    axes.plot(x, truth(x), ":", color=GREY, lw=1.2, zorder=1)
    axes.plot(X[:, 0], Y, "o", color=INK, ms=4, zorder=5)
    axes.set_ylim(-2.3, 2.3)


def figure_predictors(
    net: FullyConnected, bayes: Prediction, flow: Prediction, times: Sequence[float]
) -> Figure:
    """Prior, Bayesian posterior, how sure both are, and training at three times."""
    figure = new(9.0, 5.8)
    (prior, after, sure), below = figure.subplots(2, 3, sharex=True)
    for axes in (after, *below):
        _points(axes)
    std = net.nngp(LINE).diagonal().sqrt()
    _band(framed(prior, "NNGP prior, four networks", "$x$"), 0 * std, std, BLUE)
    prior.plot(LINE[:, 0], draws(net), color=BLUE, lw=0.8, alpha=0.7)
    _band(framed(after, f"NNGP posterior, $s = {NOISE:g}$", "$x$"), bayes.mean, bayes.std, BLUE)
    sure.semilogy(LINE[:, 0], bayes.std, color=BLUE, label="NNGP")
    for k, (axes, t, style) in enumerate(zip(below, times, (":", "-.", "--"), strict=True)):
        _band(framed(axes, f"NTK flow, $t = {t:g}$", "$x$"), flow.mean[k], flow.std[k], RED, style)
        sure.plot(LINE[:, 0], flow.std[k], style, color=RED, label=f"NTK, $t = {t:g}$")
    sure.plot(X[:, 0], np.full(len(X), 0.02), "|", color=INK, transform=sure.get_xaxis_transform())
    framed(sure, "standard deviation", "$x$").legend(**SMALL)
    return figure


def figure_networks(
    times: Sequence[float], flow: Prediction, probes: Tensor,
    ensembles: Mapping[str, Estimate], laws: Mapping[float, Law],
) -> Figure:  # fmt: skip
    """Ensembles of finite networks against the flow, and how far each is from its own prediction."""
    figure = new(9.0, 6.4)
    *trained, last = figure.subplots(2, 2).flat
    marks = ((-0.05, "s", GREY, "none"), (0.05, "o", BLUE, BLUE))
    for k, (axes, t) in enumerate(zip(trained, times, strict=True)):
        _points(framed(axes, f"after $t = {t:g}$", "$x$"))
        _band(axes, flow.mean[k], flow.std[k], RED, "--", "NTK flow")
        for (aside, mark, colour, fill), (label, one) in zip(marks, ensembles.items(), strict=True):
            axes.errorbar(probes[:, 0] + aside, one.mean[k], 2 * one.spread[k], fmt=mark, ms=4, lw=1.2,
                          capsize=2, color=colour, mfc=fill, label=label)  # fmt: skip
    trained[0].legend(loc="lower right", **SMALL)
    for (t, law), style in zip(laws.items(), ("o:", "s-.", "^--"), strict=True):
        label = f"$t = {t:g}$: slope {law.slope.value:.2f}"
        last.loglog(law.x, law.y, style, color=BLUE, ms=5, lw=1.2, label=label)
    widths, guide = law.x, [law.y[-1] * (law.x[-1] / width) ** 0.5 for width in law.x]
    last.loglog(widths, guide, ":", color=INK, label="slope -0.50")
    _ticked(last.xaxis, widths)
    _ticked(last.yaxis, [0.01, 0.02, 0.05, 0.1])
    framed(last, "networks less their own predictions, rms", "width").legend(**SMALL)
    return figure


def figure_evidence(
    sigma_w: np.ndarray, sigma_b: np.ndarray, value: np.ndarray, path: np.ndarray,
    ends: Sequence[Prediction],
) -> Figure:  # fmt: skip
    """A contour map with the way to its maximum, and the posterior at either end of it."""
    figure = new(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    levels = value.max() - np.array([24, 16, 12, 8, 6, 4, 3, 2, 1, 0.5, 0.2, 0])
    filled = left.contourf(sigma_w, sigma_b, value, levels, cmap="cividis", extend="min")
    figure.colorbar(filled, ax=left, label=r"$\log p(y)$", format="%.1f")
    left.plot(*path.T, "o-", color="white", ms=3, lw=1.2)
    left.plot(*path[-1], "*", color="white", ms=14, mec=INK, mew=0.8)
    framed(left, "evidence, and a way up", r"$\sigma_w$").set_ylabel(r"$\sigma_b$")
    left.loglog()
    _ticked(left.xaxis, [0.6, 1, 2, 4])
    _ticked(left.yaxis, [0.1, 0.3, 1, 3])
    _points(framed(right, "NNGP posterior at both ends of the way", "$x$"))
    for at, told, colour, style in zip(path[[0, -1]], ends, (GREY, BLUE), ("--", "-"), strict=True):
        label = rf"$\sigma_w = {at[0]:.2f}$, $\sigma_b = {at[1]:.2f}$"
        _band(right, told.mean, told.std, colour, style, label)
    right.legend(loc="lower right", **SMALL)
    return figure


def figure_singular(
    sizes: Sequence[int], conditions: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: Tensor, plain: np.ndarray, suite: np.ndarray, true: np.ndarray,
) -> Figure:  # fmt: skip
    """Condition numbers, exact and in floats, as points are added; variances at x for the most."""
    figure = new(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    looks = zip(conditions.items(), (BLUE, RED, INK), "os^", strict=True)
    for (name, (exact, rounded)), colour, mark in looks:
        left.semilogy(sizes, exact, color=colour, lw=1.2, label=name)
        left.semilogy(sizes, rounded, mark, color=colour, ms=4, mfc="none")
    left.axhline(1 / np.finfo(float).eps, ls=":", color=GREY, label=r"$1/\epsilon$")
    framed(left, "condition number: exact, and in floats", "points").legend(**SMALL)
    for sign, mark, label in ((1, "o", "plain solution"), (-1, "x", "plain solution, negative")):
        some = np.where(sign * plain > 0, abs(plain), np.nan)
        right.semilogy(x[:, 0], some, mark, color=RED, ms=4, mfc="none", label=label)
    right.semilogy(x[:, 0], suite, color=BLUE, lw=1.5, label="suite")
    right.semilogy(x[:, 0], true, "--", color=INK, lw=1.5, label="exact")
    framed(right, f"posterior variance between {sizes[-1]} points", "$x$").set_ylim(top=1e-11)
    right.legend(loc="upper center", ncols=2, **SMALL)
    return figure


ACTIVATIONS = {"erf": erf, "relu": relu, "gelu": gelu, "gaussian": gaussian, "sine": sine(1)}
BAYES, FLOW = "NNGP posterior", "NTK flow"
MEANS = {BAYES: r"K_*(K + s)^{-1}y", FLOW: r"\Theta_*\frac{1 - e^{-t(\Theta + s)}}{\Theta + s}\,y"}
CONTROLS = (
    Choice("activation", "activation", tuple(ACTIVATIONS), "erf"),
    Choice("predictor", "predictor", ("both", BAYES, FLOW), "both"),
    Slider("sigma_w", r"\sigma_w", 0.1, 4.0, 0.1, 1.5),
    Slider("sigma_b", r"\sigma_b", 0.0, 4.0, 0.1, 1.0),
    Slider("depth", "L", 1, 6, 1, 1),
    LogSlider("noise", "s", -6, 0, NOISE),
    LogSlider("t", "t", -2, 4, 10.0),
)
TITLES = ("before the data", "after the data")


def relevant(control: str, values: Any) -> bool:
    """Time matters to what is trained."""
    return control != "t" or values["predictor"] != BAYES


def prediction(
    axes: Sequence[Axes], activation: str, predictor: str, sigma_w: float, sigma_b: float,
    depth: int, noise: float, t: float,
) -> Caption:  # fmt: skip
    """Networks before the data and what is predicted from it; s is the noise, and the flow's ridge."""
    net = FullyConnected(ACTIVATIONS[activation], depth, sigma_w, sigma_b)
    std = net.nngp(LINE).diagonal().sqrt()
    bayes = posterior(net, X, Y, LINE, noise=noise)
    told = {BAYES: bayes, FLOW: gradient_flow(net, X, Y, LINE, t=t, ridge=noise)}
    chosen = {name: one for name, one in told.items() if predictor in ("both", name)}
    if not axes[0].lines:
        _begun(axes)
    _moved(axes[0], 0, 0 * std, std)
    for line, values in zip(axes[0].lines[1:], draws(net).T, strict=True):
        line.set_ydata(values)
    axes[0].set_ylim(*(side * std.max().item() for side in (-2.5, 2.5)))
    for band, (name, one) in enumerate(told.items()):
        _moved(axes[1], band, one.mean, one.std, name in chosen)
    formula = r",\quad ".join(rf"\bar f_* = {MEANS[name]}" for name in chosen)
    numbers = [f"{k} {one.mean[AT]:.6f} +- {one.std[AT]:.6f}" for k, one in chosen.items()]
    return Caption(formula, f"at x = {LINE[AT].item():g}: {'; '.join(numbers)}")


def _begun(axes: Sequence[Axes]) -> None:
    """What `_moved` moves: the first lines of an axes are those of its bands."""
    none = np.zeros(len(LINE))
    _band(axes[0], none, none, INK)
    axes[0].plot(LINE[:, 0], np.zeros((len(LINE), 4)), color=INK, lw=0.8, alpha=0.7)
    for name, colour, style in zip(MEANS, (BLUE, RED), ("-", "--"), strict=True):
        _band(axes[1], none, none, colour, style, name)
    _points(axes[1])
    axes[1].legend(loc="lower right", **SMALL)


def _moved(axes: Axes, band: int, mean: Tensor, std: Tensor, visible: bool = True) -> None:
    line, area, x = axes.lines[band], axes.collections[band], LINE[:, 0]
    line.set_ydata(mean)
    around = torch.cat([mean - 2 * std, (mean + 2 * std).flip(0)])
    area.set_verts([torch.stack([torch.cat([x, x.flip(0)]), around], 1).numpy()])
    line.set_visible(visible)
    area.set_visible(visible)
