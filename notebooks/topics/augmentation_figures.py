"""Pictures of augmented beside equivariant networks: orbits, differences in time, ensembles, logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import Caption, Choice, Look, log_slider, wipe
from notebooks.panels.style import BLUE, GREEN, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.augmentation import AVERAGED, EQUIVARIANT, GROUPS, PLAIN, SUMMED, TIMES

if TYPE_CHECKING:
    from notebooks.topics.augmentation import FiniteEnsembles, Logits
    from notebooks.topics.augmentation import Orbits as OrbitOutputs

LOOKS = {EQUIVARIANT: (INK, "-"), AVERAGED: (BLUE, "o"), SUMMED: (GREEN, "--"), PLAIN: (RED, "s-")}


def figure_differences(differences: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """By group, how far means are from the equivariant network's at any time."""
    figure = new_figure(2.9 * len(differences) + 0.3, 3.1)
    row = figure.subplots(1, len(differences), sharey=True, squeeze=False)[0]
    for axes, (group, lines) in zip(row, differences.items(), strict=True):
        for name, values in lines.items():
            colour, look = LOOKS[name]
            axes.loglog(TIMES, values, look.strip("os") or "-", color=colour, lw=1.3, label=name)
        frame_axes(axes, group, "training time $t$", 10).set_ylim(1e-18, 10)
    row[0].set_ylabel("largest difference, relative")
    row[0].legend(loc="center", **SMALL)
    return figure


def figure_ensembles(one: FiniteEnsembles) -> Figure:
    """Mean outputs by time, with standard errors; left at new signals, right at far ones."""
    figure = new_figure(9.6, 3.6)
    half = one.exact.shape[1] // 2
    for axes, signals, title in zip(
        figure.subplots(1, 2), (slice(None, half), slice(half, None)),
        ("of the distribution", "five times as large"), strict=True,
    ):  # fmt: skip
        for k, exact in enumerate(one.exact[:, signals].T):
            label = "infinite width" if k == 0 else None
            axes.plot(one.times, exact, "-", color=GREY, lw=1, label=label)
        for shift, (name, mean) in zip((0.96, 1.04), one.means.items(), strict=True):
            colour, mark = (INK, "^") if name == EQUIVARIANT else (BLUE, "o")
            values, bars = mean.mean[:, signals].T, mean.stderr[:, signals].T
            for k, (value, bar) in enumerate(zip(values, bars, strict=True)):
                style = {"color": colour, "mfc": "none", "ms": 4, "capsize": 2, "lw": 1}
                label = name if k == 0 else None
                axes.errorbar(shift * one.times, value, bar, fmt=mark, label=label, **style)
        axes.set_xscale("log")
        axes.set_xticks(one.times, [f"{t:g}" for t in one.times])
        axes.minorticks_off()
        frame_axes(axes, f"outputs at signals {title}", "training time $t$", 10)
    figure.axes[0].legend(**SMALL)
    return figure


def figure_logits(one: Logits) -> Figure:
    """L2 differences of mean logits to the equivariant ensemble, by the number of members."""
    figure = new_figure(8.6, 3.5)
    row = figure.subplots(1, len(one.augmented), sharey=True)
    for axes, (where, law) in zip(row, one.augmented.items(), strict=True):
        label = f"{AVERAGED}: slope {law.slope:.2f}"
        axes.loglog(law.x, law.y, "o-", color=BLUE, mfc="none", lw=1, label=label)
        axes.loglog(law.x, one.plain[where], "s-", color=RED, mfc="none", lw=1, label=PLAIN)
        axes.axhline(one.floor[where], color=RED, ls=":", lw=1, label=f"{PLAIN}, exact means")
        axes.axhline(one.sizes[where], color=GREY, ls="--", lw=0.8, label="the logits themselves")
        axes.set_xticks(law.x, [f"{x:g}" for x in law.x])
        axes.minorticks_off()
        frame_axes(axes, where, "members of each ensemble", 10)
    row[0].set_ylabel("L2 difference of mean logits")
    row[0].legend(**SMALL)
    return figure


# The panel.


def draw_orbits(axes: Sequence[Axes], now: OrbitOutputs) -> Caption:
    """Left mean outputs at a signal in all its positions, right differences by time."""
    left, right = axes
    wipe(axes)
    for name, outputs in now.outputs.items():
        colour, look = LOOKS[name]
        style = {"mfc": "none", "ms": 5, "lw": 1.2}
        left.plot(now.elements, outputs, look, color=colour, label=name, **style)
    left.set_xlabel("element $g$ of the group")
    for name, values in now.apart.items():
        colour, look = LOOKS[name]
        right.loglog(now.times, values, look.strip("os") or "-", color=colour, label=name)
    right.axvline(now.time, color=GREY, lw=1)
    right.set_ylim(1e-18, 10)
    right.set_xlabel("training time $t$")
    ground = {"loc": "center right", "frameon": True, "framealpha": 1, "edgecolor": "none"}
    right.legend(*left.get_legend_handles_labels(), **SMALL | ground)  # where there is most room
    apart = {name: np.ptp(values) for name, values in now.outputs.items()}
    numbers = (
        f"|G| = {now.order}, t = {now.time:.3g}: over the orbit the augmented mean changes by "
        f"{apart[AVERAGED]:.0e}, without augmentation by {apart[PLAIN]:.2g}"
    )
    formula = r"\mu^{\mathrm{aug}}_t(\rho(g)x) = \mu^{GC}_t(x)"
    return Caption(formula, numbers)


PANEL = Look(
    draw_orbits,
    (
        Choice("group", "group", tuple(GROUPS), "Z6"),
        log_slider("time", "t", -2, 2, 1.0, "training time", play=True),
    ),
    ("mean outputs at a moved signal", "difference to the equivariant mean"),
    heavy=True,
)
