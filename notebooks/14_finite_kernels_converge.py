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
# # Do the kernels of finite networks of any architecture converge to those of infinite ones?
#
# A network composed of convolutions, pooling, residual sums, layer norm, attention, layers on groups or on the sphere has two
# kernels in the limit of infinitely many channels. Each is computed by a recursion through the layers, without drawing a network. Do
# networks with four, sixteen, sixty channels have these kernels on average, how far is a single one off, and what does a
# narrow one do systematically wrong? (Misof, Gerken and Kessel 2025; the convergence experiment of their code.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, images of 16 by 16 as in the authors' experiment
seed = 0
architecture = "convolutions"  # in Play
kernel = "ntk"  # in Play: ntk or nngp
width = 8  # channels in Play
draws = 20  # networks in Play

# %%
import numpy as np
from IPython.display import Markdown

from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import convergence as topic
from notebooks.topics import convergence_figures as figures
from numeric.experiments.ensembles import Ensemble

# %% [markdown]
# ## Claim
#
# Let $\hat K_n$ and $\hat\Theta_n$ be the kernels of one random network with $n$ channels in every layer: the mean of $f(x)f(y)$ over
# its outputs, and $\sum_\mu\partial_\mu f(x)\,\partial_\mu f(y)$ over its parameters. For the nine architectures tried below, which
# have every layer of `infinite.Network` but dropout, whose kernels are those of two passes with masks of their own,
#
# $$\mathbb E\,\hat\Theta_n = \Theta + O(1/n),\qquad \mathbb E\,(\hat\Theta_n - \Theta)^2 = O(1/n),$$
#
# and the same for $\hat K_n$ and $K$. So the mean over many networks reaches the recursion by a line in $1/n$, and the mean square of
# what a single network is off falls with slope $-1$. Where layers average over few numbers that are far from Gaussian, as
# in attention and layer norm, the line is steep; for plain convolutions no bias is seen.

# %%
topic.network(topic.ARCHITECTURES[architecture][0])  # of Play

# %% [markdown]
# ## Play
#
# Three random signals, and $M$ networks of $n$ channels. Left, the six entries of the Gram matrix: black as the recursion has
# them, blue the mean over networks with its standard error. Right, one entry by width up to this one; grey bars are the
# standard deviation of a single network.
#
# - Run $n$ from 4 to 64: grey bars shrink as $1/\sqrt n$, while blue ones also shrink with the number of networks.
# - Choose *attention*: narrow networks are far off on average, and come down as $1/n$.
# - Choose *nngp* instead of *ntk*: the same networks before training, with a kernel of outputs instead of gradients.
# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.convergence import finite_kernels
from notebooks.topics.convergence_figures import PANEL

open_panel(finite_kernels, PANEL, globals())

# %% [markdown]
# ## Evidence: means by 1/width
#
# The entry of the first two signals, for each architecture; bars are standard errors. What remains at $1/n\to0$ is what the
# recursion would be wrong by.

# %%
count, widths = {"quick": (48, (4, 8, 16, 32)), "full": (1000, (4, 8, 16, 32, 64))}[profile]
found = {
    name: {
        kind: topic.entries(
            topic.network(layers), topic.inputs(shape, seed), kind, widths, count, seed
        )
        for kind in topic.KERNELS
    }
    for name, (layers, shape) in topic.ARCHITECTURES.items()
}
save(figures.figure_bias(found), "14-bias")

# %% [markdown]
# A line in $1/n$ through the means, without the narrowest networks, and where it ends: how many of its own standard errors
# from the recursion, at most over six entries.

# %%
ends = {
    name: {
        kind: np.abs((one.extrapolated[0] - one.exact) / one.extrapolated[1]).max()
        for kind, one in both.items()
    }
    for name, both in found.items()
}
Markdown(
    "| | tangent kernel | NNGP kernel |\n|---|---|---|\n"
    + "\n".join(
        f"| {name} | {both['ntk']:.1f} | {both['nngp']:.1f} |" for name, both in ends.items()
    )
)

# %% [markdown]
# ## Evidence: single networks
#
# The relative mean square of one network's kernel less the limit, with its slope in the width. Slopes below $-1$ belong to
# architectures whose narrow networks are wild.

# %%
save(figures.figure_distances(found), "14-distances")

# %% [markdown]
# ## The authors' convergence experiment
#
# Images with three channels of independent normal numbers; a lift to rotations and translations (p4) with filters of 3 by 3,
# ReLU, a group convolution, ReLU, pooling over the group, and a dense layer; widths 1, 2, 4 and 8. The authors take 16 by 16
# pixels and 100 draws, as does the full profile; the quick one takes 8 by 8.

# %%
size, some = {"quick": (8, 40), "full": (16, 100)}[profile]
rotations = {
    "p4": {
        kind: topic.entries(
            topic.network(topic.ROTATIONS), topic.inputs((3, size, size), seed), kind, (1, 2, 4, 8), some, seed
        )
        for kind in topic.KERNELS
    }
}  # fmt: skip
save(figures.figure_bias(rotations, 1), "14-p4")

# %% [markdown]
# ## Evidence: what is refused

# %%
net = topic.network(topic.ARCHITECTURES["convolutions"][0])
calls = (
    lambda: net.ntk(topic.inputs((6,))),
    lambda: Ensemble.draw(net, 8, 1, shape=(2, 6)),
    lambda: net.finite(8, shape=(2,)),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# The recursion is where means go: at infinite width a line in 1/n is off by chance alone. The largest of
# 6 correlated entries of 16 lines stays below 4.5 standard errors of 48 networks, which are no Gaussian numbers.
worst = max(value for both in ends.values() for value in both.values())
assert worst < 4.5, ends

# A wrong recursion would be seen: twice the kernel is refused for every architecture.
power = min(
    np.abs((one.extrapolated[0] - 2 * one.exact) / one.extrapolated[1]).max()
    for both in found.values()
    for one in both.values()
)
assert power > 6, power

# Single networks come near as 1/n in the mean square; wild narrow ones make slopes steeper, not flatter.
slopes = {name: {k: one.law.slope for k, one in both.items()} for name, both in found.items()}
plain = [
    slopes[name][k] for name in ("dense", "convolutions", "pools", "S3") for k in topic.KERNELS
]
# A mean square over 48 networks is sure to a quarter, so that a slope over three doublings is sure to 0.16, and the mean
# of eight such, of which pairs share their networks, to 0.08: four of these each are allowed.
assert abs(np.mean(plain) + 1) < 0.32, slopes
assert all(abs(slope + 1) < 0.64 for slope in plain), slopes
assert all(slope < -0.36 for both in slopes.values() for slope in both.values()), slopes

# Networks with one to eight channels on the rotations of images: no bias is seen at eight.
p4 = {kind: one.sigmas(8) for kind, one in rotations["p4"].items()}
assert max(p4.values()) < 4, p4
assert len(messages) == len(calls)

print(
    f"{len(found)} architectures reach their recursions within {worst:.1f} standard errors; single networks come near with slope "
    f"{np.mean(plain):.2f} in the mean square."
)
record(
    standard_errors_at_infinite_width=worst,
    power=power,
    slope_dense=slopes["dense"]["ntk"],
    slope_convolutions=slopes["convolutions"]["ntk"],
    slope_attention=slopes["attention"]["ntk"],
    slope_plain=float(np.mean(plain)),
    bias_of_attention=float(np.abs(found["attention"]["ntk"].bias(widths[1])[0]).max()),
    bias_of_convolutions=float(np.abs(found["convolutions"]["ntk"].bias(widths[1])[0]).max()),
    p4_standard_errors_at_width_8=p4["ntk"],
)
