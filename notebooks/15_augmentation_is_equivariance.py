# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Is data augmentation the same as building the symmetry into the network?
#
# There are two ways to tell a network that turned images are the same: show it turned copies of its training images, or
# build its layers so that it cannot tell. Misof, Gerken and Kessel say that ensembles of wide networks trained in one way and
# in the other have the same mean output, at all times of training, and at inputs far from the data. Is that exact, what
# does "the same time" mean, and do ensembles of narrow networks do it? (Misof, Gerken and Kessel 2025.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, more and wider networks
seed = 0
group = "Z6"  # in Play: Z6, S3, quarter turns, or turns and shifts
time = 1.0  # of training, in Play

# %%
from IPython.display import Markdown

from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import augmentation as topic
from notebooks.topics import augmentation_figures as figures
from notebooks.topics.augmentation import AVERAGED, EQUIVARIANT, PLAIN, SUMMED
from numeric.experiments.ensembles import Ensemble
from numeric.infinite import gradient_flow
from numeric.infinite.groups import orbit, p4

# %% [markdown]
# ## Claim
#
# Let $\Theta$ be the tangent kernel of a fully connected network, and $\Theta^{GC}$ that of a network with a lift to the group
# $G$ in the place of its first layer, group convolutions in the place of the others, and pooling over $G$ at the end. Then
#
# $$\Theta^{GC}(f, f') = \frac1{|G|}\sum_{g\in G}\Theta(f, \rho(g)f'),$$
#
# and with invariant targets and squared loss the means of both ensembles satisfy the same equation.
#
# - It holds at every time, if the loss on augmented data is the **mean** over each orbit. Summed over orbits, as it is if
#   the data are simply multiplied, time runs $|G|$ times as fast: $\mu^{\mathrm{sum}}_t = \mu^{GC}_{|G|t}$. The slides do not say which.
# - The group need not be abelian. Convolutional networks with global pooling, on images in four positions, are
#   networks on rotations and translations in the same sense, with square filters of odd size.
# - It is a statement about means. A single augmented network is not invariant, a single equivariant one is.

# %%
topic.dense_pair(topic.GROUPS[group]).grouped  # of Play

# %% [markdown]
# ## Play
#
# Six training signals on the positions that a group moves, with targets 1 and -1. Left, mean outputs of four ensembles of
# infinitely wide networks at a signal that none has seen, moved by every element of the group. Right, how far the means are
# from that of the equivariant network, at any time, at new signals and at five times as large ones.
#
# - Run $t$ from 0.01 to 100: blue circles stay on the black line, which the green one reaches $|G|$ times as early.
# - Choose *turns and shifts*, a group of 36 elements that is not abelian: the same picture.
# - Look at the red line at late times: without augmentation the mean depends on the position of the signal.
# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.augmentation import orbits
from notebooks.topics.augmentation_figures import PANEL

open_panel(orbits, PANEL, globals())

# %% [markdown]
# ## Evidence: exact kernels, exact means
#
# For each group: the theorem on kernels, relative to the largest entry, and the largest difference of means over forty times
# from 0.01 to 100; for the summed loss also after $|G|$ times as long. Nothing but rounding is left.

# %%
pairs = {name: topic.dense_pair(one) for name, one in topic.GROUPS.items()}
tasks = {name: topic.random_task((1, one.positions), seed) for name, one in topic.GROUPS.items()}
pairs["images, p4"] = topic.pixel_pair()
tasks["images, p4"] = topic.random_task((1, 4, 4), seed)
theorem, differences, delays = {}, {}, {}
for name, pair in pairs.items():
    task = tasks[name]
    gram = pair.grouped.ntk(task.x)
    theorem[name] = float((gram - pair.theorem(task.x)).abs().max() / gram.abs().max())
    differences[name] = topic.differences(pair, task, topic.TIMES)
    delays[name] = topic.delay(pair, task, [0.1, 1.0, 10.0])
save(figures.figure_differences(differences), "15-differences")

# %%
Markdown(
    f"| group | order | kernels | {AVERAGED} | {SUMMED}, same time | {SUMMED}, $\\|G\\|t$ |\n|---|---|---|---|---|---|\n"
    + "\n".join(
        f"| {name} | {pair.group.order} | {theorem[name]:.0e} | {differences[name][AVERAGED].max():.0e} | "
        f"{differences[name][SUMMED].max():.2f} | {delays[name]:.0e} |"
        for name, pair in pairs.items()
    )
)

# %% [markdown]
# ## Evidence: ensembles of finite networks
#
# Fully connected networks on augmented data, and group-convolutional ones, drawn independently and trained by the gradient
# flow of all their parameters (Runge-Kutta), for the group Z6. Lines are exact means at infinite width; bars are standard
# errors of ensembles.

# %%
width, members = {"quick": (32, 60), "full": (256, 400)}[profile]
finite = topic.finite_ensembles(pairs["Z6"], tasks["Z6"], (0.05, 0.15, 0.5), width, members, seed)
save(figures.figure_ensembles(finite), "15-ensembles")

# %%
Markdown(
    "| | standard errors off the exact mean | one member's change over an orbit |\n|---|---|---|\n"
    + "\n".join(
        f"| {name} | {finite.sigmas(name):.1f} | {change:.1e} |"
        for name, change in finite.invariance.items()
    )
)

# %% [markdown]
# ## Digits: data-augmented CNN against C4 ⋉ R² network, off the distribution
#
# Convolutional networks with global pooling, trained on digits in four positions, against networks on rotations
# and translations that are trained on the digits alone. The L2 difference of their mean logits, at turned digits that were
# not trained on and at noise, by the number of members: it falls as one over the root of that number, and no end is seen.
# Without augmentation it would end at the dotted line. (The authors use MNIST; quick profile: digits of 4 by 4 pixels.)

# %%
size, channels, counts = {"quick": (4, 8, (2, 4, 8, 16)), "full": (8, 32, (4, 8, 16, 32, 64))}[
    profile
]
logits = topic.logits(topic.digits_task(6, 5, size, seed), 6.0, channels, counts, seed)
save(figures.figure_logits(logits), "15-logits")

# %% [markdown]
# ## Evidence: what is refused

# %%
calls = (
    lambda: orbit(p4, topic.normal(2, 1, 3, 4, of="images")),
    lambda: pairs["Z6"].grouped.ntk(topic.normal(2, 1, 5, of="signals")),
    lambda: gradient_flow(pairs["Z6"].grouped.ntk, tasks["Z6"].x, tasks["Z6"].y),
    lambda: Ensemble.draw(pairs["Z6"].plain, 8, 2, shape=(1, 6)).trained(
        tasks["Z6"].x, tasks["Z6"].y, 1e6, steps=5
    ),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Exactly the same kernel and the same mean at all times: rounding, of matrices with condition numbers below 1e4.
assert max(theorem.values()) < 1e-14, theorem
averaged = max(one[AVERAGED].max() for one in differences.values())
assert averaged < 1e-11, averaged

# Summed over orbits it is another mean at the same time, and the same one |G| times as early.
summed = min(one[SUMMED].max() for one in differences.values())
assert summed > 0.05, summed
assert max(delays.values()) < 1e-11, delays
assert min(one[PLAIN].max() for one in differences.values()) > 0.05

# Finite ensembles: both at the exact mean within 4.5 standard errors over 18 numbers, and so with each other.
sigmas = {name: finite.sigmas(name) for name in finite.means}
assert max(*sigmas.values(), finite.apart) < 4.5, sigmas
assert min(finite.learned.values()) > 4.5, finite.learned  # they are not where they began, at 0

# Members: the equivariant one is invariant to rounding, the augmented one is not at all.
assert finite.invariance[EQUIVARIANT] < 1e-12 < 0.1 < finite.invariance[AVERAGED], finite.invariance

# Mean logits meet as one over the root of the number of members, on the data and off it.
slopes = {where: law.slope for where, law in logits.augmented.items()}
assert all(abs(slope + 0.5) < 0.25 for slope in slopes.values()), slopes
assert len(messages) == len(calls)

print(
    f"Augmented and equivariant means agree to {averaged:.0e} at all times if the loss is averaged over orbits; summed, time "
    f"runs |G| times as fast."
)
print(
    f"Finite ensembles are {finite.apart:.1f} standard errors apart at most; mean logits meet with slopes "
    + ", ".join(f"{slope:.2f} ({where})" for where, slope in slopes.items())
    + "."
)
record(
    kernels=max(theorem.values()),
    means_averaged=averaged,
    means_summed_at_the_same_time=summed,
    means_summed_later=max(delays.values()),
    standard_errors_of_equivariant_ensemble=sigmas[EQUIVARIANT],
    standard_errors_of_augmented_ensemble=sigmas[AVERAGED],
    standard_errors_between_ensembles=finite.apart,
    one_augmented_network_over_orbits=finite.invariance[AVERAGED],
    slope_of_logits_on_digits=slopes["digits"],
    slope_of_logits_on_noise=slopes["noise"],
)
