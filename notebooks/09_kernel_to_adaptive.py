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
# # When does a univariate ReLU network move its knots?
#
# A network $f(x) = \frac1\alpha\sum_i c_i\,[a_ix - b_i]_+$ is trained by gradient flow on all of $a, b, c$. Every neuron keeps
# $\delta = c^2 - a^2 - b^2$. The paper says that $\delta$ alone decides between two regimes: for $\delta\ll0$ the knots $b/a$
# stand still and the fit is smooth, for $\delta\gg0$ they gather at the samples and the fit is a polygon. Which of this is
# so, and when? (Williams et al., sections 2 to 4, appendices B to D; Figures 1, 2 and 5 to 9.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: the paper's numbers of neurons everywhere
seed = 0
task = "sinusoid"  # of Figure 1 and Play; or square wave, or sinusoid, 6 samples
delta = 1.0  # of the network in Figure 1; may be infinite
progress = 1.0  # of its training, from 0 to 1

# %%
import math

import numpy as np
import sympy as sp
import torch

from analytic import catalogue
from analytic.relu_dynamics import Neuron, RayKind, VelocityField, lorentz_boost
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import dynamics
from notebooks.topics import dynamics_figures as figures
from notebooks.topics.dynamics import SPAN, NetworkState
from notebooks.topics.statistics import PowerLaw
from notebooks.topics.statistics_figures import figure_laws
from numeric.estimate import Estimate
from numeric.experiments.knots import Gathering
from numeric.relu_dynamics import Flow, Neurons
from numeric.relu_dynamics.gradient import Samples as Points
from numeric.relu_dynamics.gradient import gradient
from numeric.relu_dynamics.regimes import FAR, milestones

m = {"quick": 300, "full": 1_000}[profile]
tolerance = {"quick": 1e-3, "full": 1e-4}[profile]  # of every step of time, for figures
sinusoid, square = dynamics.sinusoid(), dynamics.square_wave()
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
# $r$ has the sign of $\rho_j = f(x_j)-y_j$, if the residuals beyond it push in the other direction but not harder than $\rho_j$:
# $-\rho_j^2(1+x_j^2) < \rho_j\sum_{i\text{ beyond }j}\rho_i(1+x_ix_j) < 0$. Lemma 2 has only the first half. An attractor holds a knot
# only as long as this holds, and at the end of training all residuals vanish.

# %% [markdown]
# ## Play
#
# A network of 300 neurons in training: on the left its function with the knots in green and the samples as crosses, on the
# right every neuron in the plane $(u, v)$, red where it adds to the function and blue where it takes off. Any $\delta$ may
# be typed, `inf` and `-inf` too; a new one is trained at once.
#
# - Go through $\delta$ from end to end: a smooth curve becomes a polygon.
# - Let the time run at $\delta = \infty$: knots gather at samples, and leave some of them again as residuals change sign.
# - Take the square wave at $\delta = \infty$: two points in the middle of a straight piece are never reached.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.dynamics import trained_neurons
from notebooks.topics.dynamics_figures import PANEL

open_panel(trained_neurons, PANEL, globals())

# %% [markdown]
# ## Figure 1: a network and its neurons

# %%
few = Neurons.drawn({"quick": 60, "full": 100}[profile], seed, antisymmetric=True)
shown = dynamics.TASKS[task]()
small = dynamics.train(few, shown, delta, SPAN)
moment = milestones(small, dynamics.STOPS)[round(progress * (dynamics.STOPS - 1))]
state = NetworkState.of(small.at(moment), shown)
save(figures.figure_network(state, dynamics.active_arcs(shown)), "09-figure-1")

# %% [markdown]
# ## Figure 2: one neuron under a constant gradient
#
# While the gradient $g$ of its pattern stands still, $(c, p)$ with $p$ the part of $(a,-b)$ along $g$ make a Lorentz boost, whose invariant
# is $\delta$ and what lies across $g$. The curves are closed forms: radial for $\delta\ll0$, parallel to the gradient for $\delta\gg0$.

# %%
symbols = a, b, c, t = sp.symbols("a b c t", real=True)
moved = lorentz_boost(Neuron(a, b, c), (1, 0), 1, t)
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
save(figures.figure_local(paths), "09-figure-2")

# %% [markdown]
# ## Figure 5: a sinusoid from $\delta = -\infty$ to $\infty$
#
# All networks start from the same function, rescaled to another $\delta$. Infinite $\delta$ is the limit of the others: all $(a,b)$ of one
# length and only $c$ trained, or all $|c|$ equal and only $(a,b)$ trained. Green dots are knots.

# %%
deltas = {
    "quick": (-math.inf, -1.0, 0.0, 1.0, math.inf),
    "full": (-math.inf, -10.0, -1.0, 0.0, 1.0, 10.0, math.inf),
}[profile]
regimes = {delta: dynamics.train(start, sinusoid, delta, SPAN, tolerance) for delta in deltas}
states = {delta: NetworkState.of(run.final, sinusoid) for delta, run in regimes.items()}
save(figures.figure_regimes(states), "09-figure-5")

# %% [markdown]
# ## Figure 6: the limits on a square wave
#
# For $\delta=-\infty$ the wave is fitted by a smooth curve and neurons move radially. For $\delta=\infty$ the flow ends in a local minimum:
# two of the ten points lie in the middle of a straight piece, where no neuron that sees them is left to turn.

# %%
limits = {delta: dynamics.train(start, square, delta, SPAN) for delta in (-math.inf, math.inf)}
paths = {delta: dynamics.neuron_paths(run, square) for delta, run in limits.items()}
save(figures.figure_limits(paths), "09-figure-6")

# %% [markdown]
# ## Figure 7: one function, three scales
#
# $(ka, kb, c/k)$ is the same function at the start (dashed) and becomes another one. Here it does not start from zero.

# %%
free = Neurons.drawn(m, seed + 1)
scaled = {
    rf"$\delta$ = {delta:g}": dynamics.train(free, square, delta, SPAN, tolerance)
    for delta in (-30.0, -1.0, 10.0)
}
states = {title: NetworkState.of(run.final, square) for title, run in scaled.items()}
save(figures.figure_fits(states, NetworkState.of(free, square)), "09-figure-7")

# %% [markdown]
# ## Figure 8: PyTorch's initialisation
#
# With $a, b\in(-1,1)$ and $c\in(-1,1)/\sqrt m$ (the paper prints $1/m$) the mean of $\delta$ is $\frac1{3m} - \frac23$. It hardly depends on $m$; what
# the width changes is how far each neuron has to go.

# %%
waves = dynamics.sinusoid(20)
networks = {n: Neurons.pytorch(n, seed) for n in (20, 200, 2_000)}
default = {
    f"m = {n}": Flow(waves.x, waves.y, net, time=30_000 / n, tolerance=1e-3).run(progress=False)
    for n, net in networks.items()
}
states = {title: NetworkState.of(run.final, waves) for title, run in default.items()}
save(figures.figure_fits(states), "09-figure-8")

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
state, fields = NetworkState.of(network, sinusoid), dynamics.velocities(sinusoid, rho)
save(figures.figure_field(state, fields), "09-figure-9")

# %% [markdown]
# ## Evidence: the limits
#
# How far networks of finite $\delta$ are from both limits after the same rescaled time, as functions. By the rates above
# $P/|\delta|$ differs from its limits by $O(r^2/\delta^2)$, and so do the functions.

# %%
forty = Neurons.drawn(40, seed, antisymmetric=True)
sizes, short = {"quick": ((10.0, 20.0, 40.0), 5.0), "full": ((5.0, 10.0, 20.0, 40.0), 10.0)}[
    profile
]


def fitted(net, delta, time):
    run = Flow(sinusoid.x, sinusoid.y, net, delta, time, tolerance=3e-6).run(progress=False)
    return run.final.predict(dynamics.GRID)


def apart(sign):
    """From the limit at that end, for each size of delta."""
    limit = fitted(forty.rescaled(sign * FAR), sign * math.inf, short / FAR)
    return [(fitted(forty, sign * d, short / d) - limit).abs().max().item() for d in sizes]


approach = {
    rf"distance to the limit $\delta\to${end}": {"m = 40": PowerLaw.fit(sizes, apart(sign))}
    for end, sign in ((r"$-\infty$", -1), (r"$\infty$", 1))
}
save(figure_laws(approach, r"$|\delta|$"), "09-limits")

# %% [markdown]
# ## Evidence: do knots gather at the samples?
#
# The share of neurons, weighted by $|r|$, whose knots are within $0.01$ of a sample, against how far training has come (the share of
# the path length of the residuals). Networks are what is counted, since the neurons of one are not independent. The null is the law
# of knots at the start, known in closed form. Bands are two standard errors.
#
# Knots do gather, during training, for every $\delta$ that lets them move. Whether they stay depends on the data. Of six samples of the sinusoid
# each is a corner, between neighbours that pull in the other direction: there knots stay, and the fit is the polygon through the samples. Of ten
# samples not all are, and as residuals change sign knots leave. On the square wave these networks end in the local minimum of Figure 6,
# with no more weight at samples than by chance. Some wide networks that start from a random function get past it, and keep about half;
# `numeric.experiments.knots.clustering` tests one network at a time.

# %%
corners = dynamics.sinusoid(6)
counts = {"quick": (100, 4), "full": (1_000, 24)}[profile]
clusters = {
    f"{data.title}, {len(data.x)} samples": {
        delta: Gathering(data.x, data.y, delta, *counts, seed=seed).run(progress=False)
        for delta in (-math.inf, 0.0, math.inf)
    }
    for data in (corners, sinusoid, square)
}
six, *others = clusters
shares = {
    title: {delta: dynamics.KnotShares.of(one) for delta, one in by_delta.items()}
    for title, by_delta in clusters.items()
}
save(figures.figure_clusters(shares), "09-clusters")

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Every neuron keeps its delta, at both ends one of its parts stands still.
for one, run in regimes.items():
    first, last = run.at(0.0), run.final
    if math.isfinite(one):
        size = last.c**2 + last.a**2 + last.b**2
        assert ((last.delta - one).abs() / size).max() < 1e-12, one
assert torch.equal(regimes[-math.inf].at(0.0).a, regimes[-math.inf].final.a)
assert torch.equal(regimes[math.inf].at(0.0).c, regimes[math.inf].final.c)

# The loss never grows, and the sinusoid is fitted at every delta; the square wave at minus infinity only.
for run in (*regimes.values(), *limits.values(), *scaled.values(), *default.values()):
    allowed = 1e-12 * run.losses[0]
    assert (run.losses.diff() <= allowed).all(), run.losses.diff().max()
assert max(run.losses[-1] for run in regimes.values()) < 1e-9
kernel, stuck = (run.losses[-1].item() for run in limits.values())
assert kernel < 1e-20 and abs(stuck - 2 / 3) < 1e-3, (kernel, stuck)

# (19), corrected: r and theta move by -P times the gradient of the loss in them.
some, h = start.rescaled(0.7), 1e-6
short_run = Flow(sinusoid.x, sinusoid.y, some, time=h, tolerance=1e-9).run(progress=False)
points, order = Points.of(sinusoid.x)
slope = gradient(points, sinusoid.y[order], some.a, some.b, some.c, some.alpha)
by_r = slope.c / (
    m / some.alpha * some.lengths
)  # dL/dr at fixed angle, with c the only one to move
turn = some.b * slope.a - some.a * slope.b  # dL/dtheta: (a, b) = |w| (cos, -sin)
rates = [catalogue[f"relu.{name}"].torch(delta=0.7, r=some.r, m=m, alpha=some.alpha)
         for name in ("radial_rate", "angular_rate")]  # fmt: skip
moved = [(short_run.final.r - some.r) / h, (short_run.final.theta - some.theta) / h]
for velocity, rate, by in zip(moved, rates, (by_r, turn), strict=True):
    assert (velocity + rate * by).abs().max() < 1e-4 * (rate * by).abs().max()

# Limits are approached as 1 / delta^2, from both sides.
slopes = [law.slope for column in approach.values() for law in column.values()]
assert all(abs(value + 2) < 0.1 for value in slopes), slopes

# Attractors: every knot that stands at a sample in Figure 9 is held by a green ray, or died at the last one.
field = VelocityField.of(sinusoid.x.tolist(), rho)
held = {
    (ray.index, ray.right, sign)
    for ray in field.samples.rays
    for sign in (1, -1)
    if field.kind(ray, sign) in (RayKind.ATTRACTOR, RayKind.ABSORBING)
}
at = (network.knots[:, None] - sinusoid.x).abs()
sliding = at.amin(1) < 1e-9
there = {
    (int(j), bool(a > 0), int(s))
    for j, a, s in zip(at.argmin(1)[sliding], network.a[sliding], network.sign[sliding])
}
assert there and there <= held, there - held

# Figure 8's cause: the mean of delta is 1/(3m) - 2/3, whatever the width.
for n, net in networks.items():
    off = Estimate.of(net.delta).sigmas_from(torch.tensor(1 / (3 * n) - 2 / 3).double())
    assert off < 4, (n, off)

# Clusters: none where knots stand still; during training wherever they move; at the end where all samples are corners.
last, most = {}, {}
for title, by_delta in clusters.items():
    still = by_delta[-math.inf]
    assert (still.draws[:, 0, 0] == still.draws[:, -1, 0]).all()
    for one in (0.0, math.inf):
        weight = by_delta[one].estimate.mean[:, 1]
        best = int(weight.argmax())
        assert by_delta[one].sigmas[best, 1] > 8, (title, one)
        assert weight[best] > 5 * still.probability, (title, one)
    last[title], most[title] = weight[-1].item(), weight[best].item()
assert last[six] > 0.9, last
assert all(last[title] < most[title] / 2 for title in others), (last, most)

print(f"Networks reach their limits as delta^{slopes[0]:.2f} and delta^{slopes[1]:.2f}.")
print(f"On the square wave delta = infinity ends at a loss of {stuck:.4f}, a local minimum.")
print("Weight of knots at samples at delta = infinity:")
for title, share in last.items():
    print(f"  {title}: at most {most[title]:.0%}, after training {share:.0%}")
record(
    slope_to_minus_infinity=slopes[0],
    slope_to_infinity=slopes[1],
    loss_of_local_minimum=stuck,
    weight_at_corners=last[six],
)
