# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # When does a univariate ReLU network move its knots?
#
# A network $f(x) = \frac1\alpha\sum_i c_i\,[a_ix - b_i]_+$ is trained by gradient flow on all of $a, b, c$. Every neuron keeps
# $\delta = c^2 - a^2 - b^2$. The paper says that $\delta$ alone decides between two regimes: for $\delta\ll0$ the knots $b/a$
# stand still and the fit is smooth, for $\delta\gg0$ they gather at the samples and the fit is a polygon. Which of this is
# so, and when? (Williams et al., sections 2 to 4, appendices B to D; Figures 1, 2 and 5 to 9.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: the paper's numbers of neurons everywhere
seed = 0

# %%
import math

import numpy as np
import sympy as sp
import torch

from analytic import catalogue
from analytic.relu_dynamics import Neuron, boosted
from notebooks import dynamics_figures as figures
from notebooks import nngp_figures, ntk_figures
from numeric.relu_dynamics import Flow, Neurons
from numeric.relu_dynamics.regimes import FAR, milestones

m = {"quick": 500, "full": 1_000}[profile]
span = 3e4  # long enough for every loss below to settle
sinusoid, square = figures.sinusoid(), figures.square_wave()
start = Neurons.drawn(m, seed, antisymmetric=True)  # alpha = sqrt(m), and f = 0

# %% [markdown]
# ## Claim
#
# In canonical parameters $r = \frac m\alpha c\sqrt{a^2+b^2}$ and $\theta = \mathrm{atan2}(-b, a)$ the flow is $\dot w = -P\,\nabla\tilde L$ (the
# paper prints no minus in (19)) with $P$ diagonal and known from $\delta$ and $r$ alone:

# %%
catalogue["relu.radial_rate"]

# %%
catalogue["relu.angular_rate"]

# %% [markdown]
# So for $\delta\to-\infty$ neurons do not turn. For $\delta\to\infty$ they follow $-\nabla\tilde L$ in the plane $(u,v)=|r|(\cos\theta,\sin\theta)$ with its
# Euclidean metric, which is not the flow (7) in $(r,\theta)$ that the text names. A sample's line $ux_j+v=0$ attracts neurons whose
# $r$ has the sign of $\rho_j = f(x_j)-y_j$, if the residuals beyond it push the other way but not harder than $\rho_j$:
# $-\rho_j^2(1+x_j^2) < \rho_j\sum_{i\text{ beyond }j}\rho_i(1+x_ix_j) < 0$. Lemma 2 has only the first half. An attractor holds a knot
# only as long as this holds, and at the end of training all residuals vanish.
#
# ## Figure 1: a network and its neurons

# %%
few = Neurons.drawn({"quick": 60, "full": 100}[profile], seed, antisymmetric=True)
small = figures.trained(few, sinusoid, 1.0, span)
nngp_figures.saved(figures.figure_network(small.final, sinusoid), "09-figure-1")

# %% [markdown]
# ## Figure 2: one neuron under a constant gradient
#
# While the gradient $g$ of its pattern stands still, $(c, p)$ with $p$ the part of $(a,-b)$ along $g$ make a Lorentz boost, whose invariant
# is $\delta$ and what lies across $g$. The curves are closed forms: radial for $\delta\ll0$, parallel to the gradient for $\delta\gg0$.

# %%
symbols = a, b, c, t = sp.symbols("a b c t", real=True)
moved = boosted(Neuron(a, b, c), (1, 0), 1, t)
boost = sp.lambdify(symbols, (moved.a, moved.b, moved.c))


def local(delta, theta):
    """In the plane, from r = 1 on, for a time in which such a neuron moves a few units."""
    one = Neurons.canonical(
        torch.tensor([1.0]).double(), torch.tensor([theta]).double(), delta, 1.0
    )
    times = np.linspace(0, 2.2 / math.hypot(1, delta) ** 0.9, 80)
    path = np.broadcast_arrays(*boost(*(part.item() for part in (one.a, one.b, one.c)), times))
    moving = Neurons(
        *(torch.tensor(part) for part in path), alpha=float(len(times))
    )  # so r = c |w|
    return moving.u.numpy(), moving.v.numpy()


angles = np.linspace(0, 2 * np.pi, 24, endpoint=False) + 0.1
paths = {delta: [local(delta, theta) for theta in angles] for delta in (-30.0, 0.0, 30.0)}
nngp_figures.saved(figures.figure_local(paths), "09-figure-2")

# %% [markdown]
# ## Figure 5: a sinusoid from $\delta = -\infty$ to $\infty$
#
# All networks start from the same function, rescaled to another $\delta$. Infinite $\delta$ is the limit of the others: all $(a,b)$ of one
# length and only $c$ trained, or all $|c|$ equal and only $(a,b)$ trained. Green dots are knots.

# %%
deltas = (-math.inf, -10.0, -1.0, 0.0, 1.0, 10.0, math.inf)
regimes = {delta: figures.trained(start, sinusoid, delta, span) for delta in deltas}
nngp_figures.saved(figures.figure_regimes(regimes, sinusoid), "09-figure-5")

# %% [markdown]
# ## Figure 6: the limits on a square wave
#
# For $\delta=-\infty$ the wave is fitted by a smooth curve and neurons move radially. For $\delta=\infty$ the flow ends in a local minimum:
# two of the ten points lie in the middle of a straight piece, where no neuron that sees them is left to turn.

# %%
limits = {delta: figures.trained(start, square, delta, span) for delta in (-math.inf, math.inf)}
nngp_figures.saved(figures.figure_limits(limits, square), "09-figure-6")

# %% [markdown]
# ## Figure 7: one function, three scales
#
# $(ka, kb, c/k)$ is the same function at the start (dashed) and becomes another one. Here it does not start from zero.

# %%
free = Neurons.drawn(m, seed + 1)
scaled = {
    rf"$\delta$ = {delta:g}": figures.trained(free, square, delta, span)
    for delta in (-30.0, -1.0, 10.0)
}
nngp_figures.saved(figures.figure_fits(scaled, square, free), "09-figure-7")

# %% [markdown]
# ## Figure 8: PyTorch's initialisation
#
# With $a, b\in(-1,1)$ and $c\in(-1,1)/\sqrt m$ (the paper prints $1/m$) the mean of $\delta$ is $\frac1{3m} - \frac23$. It hardly depends on $m$; what
# the width changes is how far each neuron has to go.

# %%
waves = figures.sinusoid(20)
networks = {n: Neurons.pytorch(n, seed) for n in (20, 200, 2_000)}
default = {
    f"m = {n}": Flow(waves.x, waves.y, net, time=30_000 / n, tolerance=1e-3).run(progress=False)
    for n, net in networks.items()
}
nngp_figures.saved(figures.figure_fits(default, waves), "09-figure-8")

# %% [markdown]
# ## Figure 9: attractors
#
# A moment in the training of the sinusoid at $\delta=\infty$. Above, the field that moves neurons of either sign; green rays are
# attractors by the corrected Lemma 2. Below, the network at that moment: knots stand where those rays are.

# %%
adaptive = regimes[math.inf]
moment = milestones(adaptive, 11)[4]
network = adaptive.at(moment)
rho = (network.predict(sinusoid.x) - sinusoid.y).tolist()
nngp_figures.saved(figures.figure_field(network, sinusoid, rho), "09-figure-9")

# %% [markdown]
# ## Evidence: the limits
#
# How far networks of finite $\delta$ are from both limits after the same rescaled time, as functions. By the rates above
# $P/|\delta|$ differs from its limits by $O(r^2/\delta^2)$, and so do the functions.

# %%
hundred = Neurons.drawn(100, seed, antisymmetric=True)
sizes, short = (5.0, 10.0, 20.0, 40.0), 10.0


def fitted(net, delta, time):
    run = Flow(sinusoid.x, sinusoid.y, net, delta, time, tolerance=3e-6).run(progress=False)
    return run.final.predict(figures.GRID)


def apart(sign):
    """From the limit at that end, for each size of delta."""
    limit = fitted(hundred.rescaled(sign * FAR), sign * math.inf, short / FAR)
    return [(fitted(hundred, sign * d, short / d) - limit).abs().max().item() for d in sizes]


approach = {
    rf"distance to the limit $\delta\to${end}": {"m = 100": ntk_figures.Law(sizes, apart(sign))}
    for end, sign in ((r"$-\infty$", -1), (r"$\infty$", 1))
}
nngp_figures.saved(ntk_figures.figure_laws(approach, r"$|\delta|$"), "09-limits")
