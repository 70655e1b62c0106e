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
# # What does an infinitely wide network predict, and how sure is it?
#
# An infinitely wide random network is a Gaussian process, so Bayes' rule gives its predictions in closed form. Trained
# by gradient flow instead it follows a linear equation, so that an ensemble of trained networks is Gaussian too. What
# do the two predict from the same data, do finite networks trained by gradient descent agree, and what happens when
# the data nearly repeats itself? (Lee et al. 2019, equations (10) and (11); Rasmussen and Williams 2006, equations
# (2.23), (2.24) and (2.30).)

# %% tags=["parameters"]
profile = (
    "quick"  # quick: seconds; full: minutes on a GPU, at least two hidden layers and more networks
)
seed = 0
device = "auto"
activation = (
    "erf"  # of the first figure and Play; or relu, gelu, gaussian, sine. The evidence is for erf
)
predictor = "both"  # of Play; or NNGP posterior, NTK flow
sigma_w, sigma_b = 1.5, 1.0  # standard deviations of weights and biases
depth = 1  # hidden layers
noise = 0.01  # variance that the posterior assumes, and ridge of the flow in Play
t = 30.0  # training time

# %%
import math
import re
import warnings
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import torch
from IPython.display import Markdown
from mpmath import mp, mpf
from scipy.optimize import minimize
from scipy.special import chdtri, ndtri

from analytic import InputError
from analytic.activations import erf, gaussian, relu
from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import predictors
from notebooks.topics import predictors_figures as figures
from notebooks.topics.predictors import LINE, NOISE, Band, X, Y
from notebooks.topics.statistics import Mean, PowerLaw
from numeric.estimate import Estimate
from numeric.infinite import FullyConnected, gradient_flow, log_marginal_likelihood, posterior
from numeric.inputs import resolve
from numeric.kernels.spectrum import GramSpectrum, SingularGram

if profile == "quick":
    torch.set_num_threads(1)  # the matrices are small: threads would wait for each other

# %% [markdown]
# ## Claim
#
# Weights have variance $\sigma_w^2/\text{fan-in}$, biases $\sigma_b^2$. Before it sees data the network is a draw of
# $N(0, K)$, where $K$ is the NNGP kernel. With $y = f(X) + \varepsilon$ and noise of variance $\sigma_n^2$, the posterior is
#
# $$f_* \sim N\big(K_*(K+\sigma_n^2)^{-1}y,\; K_{**} - K_*(K+\sigma_n^2)^{-1}K_*^T\big).$$
#
# Training all layers on $\tfrac12\sum|f - y|^2$ for a time $t$ takes a random network $f_0$ to
#
# $$f_t = f_0 + A_t\,(y - f_0(X)),\qquad A_t = \Theta_*\Theta^{-1}(1 - e^{-t\Theta}),$$
#
# with $\Theta$ the NTK. Over $f_0\sim N(0, K)$ this is a Gaussian with mean $A_t y$ and covariance
# $K_{**} - A_tK_*^T - K_*A_t^T + A_tKA_t^T$, which is not the posterior, since $\Theta\neq K$. At first it is the prior;
# in the end all networks pass through the data, noise included, and differ elsewhere.
#
# Below, the data are eight noisy values of the dotted curve; bands are two standard deviations wide to either side.

# %%
hidden = depth if profile == "quick" else max(depth, 2)
chosen = FullyConnected(predictors.ACTIVATIONS[activation], hidden, sigma_w, sigma_b)
shown = tuple(sorted({1.0, t, 1000.0} if t not in (1.0, 1000.0) else {1.0, 30.0, 1000.0}))
bayes = posterior(chosen, X, Y, LINE, noise=noise)
flow = gradient_flow(chosen, X, Y, LINE, t=shown)
together = predictors.predictors(chosen, bayes, flow, shown)
save(figures.figure_predictors(together, noise), "04-predictors")

# %% [markdown]
# ## Play
#
# On the left networks before they see the data, on the right what they predict from it, with bands of two standard
# deviations. The noise $\sigma_n^2$ of the posterior is the ridge of the flow, which pulls parameters back to their start.
#
# - Let the time run: red starts as the prior and reaches the data, its broad shape first.
# - Raise $\sigma_w$ to 4: networks wiggle more, and are unsure again between the data.
# - Lower the noise to $10^{-6}$ and take `relu`: the curve passes through every point, noise included.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.predictors import panel_predictions
from notebooks.topics.predictors_figures import PANEL

open_panel(panel_predictions, PANEL, globals())

# %% [markdown]
# ## Evidence: the same in forty digits
#
# Kernels pair by pair from Williams' arcsine, an LU decomposition for the posterior, and a matrix exponential for the
# flow, which the suite gets from eigenvalues.


# %%
def pair(x, y, scale_w, scale_b):
    """NNGP and NTK of two points on a line."""
    w, b = scale_w**2, scale_b**2
    xx, xy, yy = w * x * x + b, w * x * y + b, w * y * y + b
    tangent = xy
    for _ in range(hidden):
        both = (1 + xx) * (1 + yy)
        slope = 2 / (mp.pi * mp.sqrt(both - xy**2))
        sines = xx / (1 + xx), xy / mp.sqrt(both), yy / (1 + yy)
        xx, xy, yy = (w * 2 / mp.pi * mp.asin(v) + b for v in sines)
        tangent = xy + w * slope * tangent
    return xy, tangent


def exactly(points):
    return [mpf(v) for v in points.flatten().tolist()]


def grams(x, y, scales):
    """NNGP and NTK matrices of two lists of points."""
    pairs = [[pair(p, q, *scales) for q in y] for p in x]
    return (mp.matrix([[entry[k] for entry in row] for row in pairs]) for k in (0, 1))


net = FullyConnected(erf, hidden, sigma_w, sigma_b)
probes = LINE[5::9]
times = (0.3, 2.0, 10.0)
with mp.workdps(40):
    scales = mpf(sigma_w), mpf(sigma_b)
    K, T = grams(exactly(X), exactly(X), scales)
    K_new, T_new = grams(exactly(probes), exactly(X), scales)
    K_both, _ = grams(exactly(probes), exactly(probes), scales)
    one, y = mp.eye(len(X)), mp.matrix(exactly(Y))
    maps = {"NNGP posterior": (K_new * (K + NOISE * one) ** -1, NOISE)}
    maps |= {f"NTK flow, t = {s:g}": (T_new * T**-1 * (one - mp.expm(-s * T)), 0) for s in times}
    exact = {}
    for name, (A, added) in maps.items():
        covariance = K_both - A * K_new.T - K_new * A.T + A * (K + added * one) * A.T
        variance = [covariance[i, i] for i in range(len(probes))]
        exact[name] = np.array([[*(A * y)], variance], dtype=float)

predictions = [posterior(net, X, Y, probes, noise=NOISE)]
predictions += [gradient_flow(net, X, Y, probes, t=t) for t in times]
off = {
    name: [abs(one.mean.numpy() - mean).max(), abs(one.std.numpy() ** 2 - variance).max()]
    for one, (name, (mean, variance)) in zip(predictions, exact.items(), strict=True)
}
rows = [f"| {name} | {mean:.1e} | {variance:.1e} |" for name, (mean, variance) in off.items()]
Markdown("\n".join(["| largest difference | mean | variance |", "|---|---|---|", *rows]))

# %% [markdown]
# ## Evidence: networks trained by gradient descent
#
# Nothing but networks of finite width $n$ in the NTK parametrisation, $z = \sigma_wWh/\sqrt{\text{fan-in}} + \sigma_bb$
# with $W, b$ standard normal, and full-batch gradient descent in small steps.

# %%
widths, networks, finer, at_once = {
    "quick": ((50, 200, 800), 100, 1, 25_600),  # units that stay in cache
    "full": ((64, 256, 1024), 400, 4, 2**24),  # weights that fit in memory
}[profile]
legs = ((0.3, 80 * finer), (2.0, 80 * finer), (10.0, 160 * finer))  # until when, in how many steps
n = len(X)
rates = [
    (until - start) / steps for start, (until, steps) in zip((0.0, 0.3, 2.0), legs, strict=True)
]
stiffness = max(rates) * torch.linalg.eigvalsh(net.ntk(X, X))[-1].item()
if stiffness > 2:
    raise InputError(
        f"With sigma_w = {sigma_w}, sigma_b = {sigma_b} and depth = {depth} the NTK is so large that gradient "
        f"descent with the steps of this notebook does not converge: their size times its largest eigenvalue is "
        f"{stiffness:.3g}, and must be below 2. Take smaller scales or fewer layers."
    )


def outputs(layers, x):
    """(networks, points)."""
    h = x.expand(len(layers[0][0]), *x.shape)
    for k, (W, b) in enumerate(layers):
        h = torch.erf(h / 2**0.5) if k else h
        h = torch.baddbmm(sigma_b * b, h, W.mT, alpha=sigma_w / W.shape[-1] ** 0.5)
    return h.squeeze(-1)


def descended(width, count, generator):
    """(networks, 1 + legs, points): outputs at data and probes, before training and after each leg."""
    kind = {"generator": generator, "device": generator.device, "dtype": X.dtype}
    fans = (1, *[width] * hidden, 1)
    layers = [
        [torch.randn(count, *shape, **kind).requires_grad_() for shape in ((fan_out, fan_in), (1, fan_out))]
        for fan_in, fan_out in pairwise(fans)
    ]  # fmt: skip
    parameters = [p for layer in layers for p in layer]
    x, y, everywhere = (part.to(generator.device) for part in (X, Y, torch.cat([X, probes])))
    path, now = [outputs(layers, everywhere).detach()], 0.0
    for t, steps in legs:
        for _ in range(steps):
            loss = (outputs(layers, x) - y).square().sum() / 2
            for p, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                p.data.sub_(slope, alpha=(t - now) / steps)
        path.append(outputs(layers, everywhere).detach())
        now = t
    return torch.stack(path, 1).cpu()


generator = torch.Generator(resolve(device)).manual_seed(seed)
paths = {}
for width in widths:
    stack = max(1, at_once // width ** min(hidden, 2))
    counts = [min(stack, networks - k) for k in range(0, networks, stack)]
    paths[width] = torch.cat([descended(width, count, generator) for count in counts])

# %% [markdown]
# *Width.* Mean and variance of an ensemble are off by $c/n$ and less. Ensembles of two widths determine $c$:
# $\frac13(4E_{4n} - E_n)$ is free of it, at the price of a standard error that is $\sqrt{17}/3$ times that of $E_{4n}$.
# The figure shows the ensemble of width $n$ as it is, and the extrapolation.
#
# *Step.* What steps $\eta$ do instead of a flow is known at infinite width, $(1-\eta\Theta)^k$ in place of
# $e^{-t\Theta}$, and the verdict compares it with the standard error.
#
# *One by one.* Every network has a prediction of its own, $A_t$ applied to its own start. What is left is due to its
# width, and should fall as $n^{-1/2}$. (With unit vectors as targets the suite returns $A_t$ itself.)

# %%
claimed = gradient_flow(net, X, Y, probes, t=times)
A = gradient_flow(net, X, torch.eye(n, dtype=X.dtype), probes, t=times).mean  # (legs, probes, n)


def left_over(path):
    """The mean square of what is not a network's own prediction, for each leg."""
    start, trained = path[:, 0], path[:, 1:, n:]
    own = start[:, None, n:] + torch.einsum("tpi,ji->jtp", A, Y - start[:, :n])
    return Estimate.of((trained - own).square().mean(-1))


def extrapolated(quantity):
    """To infinite width, without the term of order 1/n."""
    *_, narrow, wide = (quantity(paths[width][:, 1:, n:]).mean(0) for width in widths)
    return (ratio * wide - narrow) / (ratio - 1)


ratio = widths[-1] / widths[-2]
larger = math.hypot(ratio, 1) / (ratio - 1)
mean = extrapolated(lambda f: f)
variance = extrapolated(lambda f: (f - claimed.mean).square())
own_errors = {width: left_over(path) for width, path in paths.items()}
laws = {
    t: PowerLaw.fit(widths, [error.mean[k].sqrt().item() for error in own_errors.values()])
    for k, t in enumerate(times)
}
ensembles = {
    f"{networks} networks, $n = {widths[-2]}$": Mean.of(Estimate.of(paths[widths[-2]][:, 1:, n:])),
    r"extrapolated to $n = \infty$": Mean.of(
        Estimate(mean, variance.clamp(min=0).sqrt(), networks)
    ),
}
curves = dict(zip(times, Band.at_times(gradient_flow(net, X, Y, LINE, t=times)), strict=True))
save(figures.figure_networks(curves, probes[:, 0].numpy(), ensembles, laws), "04-networks")

# %% [markdown]
# ## Evidence: which network does the data ask for?
#
# The probability of the data under the prior, $\log p(y) = -\frac12y^TC^{-1}y - \frac12\log\det 2\pi C$ with
# $C = K + \sigma_n^2$, weighs networks against each other. Its exact gradient leads a quasi-Newton method uphill in
# $\log\sigma_w$ and $\log\sigma_b$, shared by all layers. Differences in forty digits check the gradient at some of its steps.


# %%
def evidence(scales):
    return log_marginal_likelihood(FullyConnected(erf, hidden, *map(float, scales)), X, Y, NOISE)


def downhill(logs):
    """Minus the evidence and its gradient, by the logarithms of both scales."""
    at = evidence(scales := np.exp(logs))
    slopes = [at.gradient.sigma_w.sum().item(), at.gradient.sigma_b.sum().item()]
    return -at.value, -scales * slopes


def density(scales):
    """The evidence in the working precision."""
    C = next(grams(exactly(X), exactly(X), scales)) + NOISE * mp.eye(n)
    y = mp.matrix(exactly(Y))
    return -((y.T * mp.lu_solve(C, y))[0] + mp.log(mp.det(C)) + n * mp.log(2 * mp.pi)) / 2


def differences(logs):
    """The gradient of the evidence by the same logarithms."""

    def at(*shifts):
        return density([mp.exp(mpf(v) + shift) for v, shift in zip(logs, shifts, strict=True)])

    with mp.workdps(40):
        h = mpf("1e-12")
        central = at(h, 0) - at(-h, 0), at(0, h) - at(0, -h)
        return np.array([difference / (2 * h) for difference in central], dtype=float)


start = np.log([4.0, 0.1])
path = [start]
ascent = minimize(downhill, start, jac=True, method="BFGS", callback=lambda logs: path.append(logs))
gradient_errors = {
    k: abs(downhill(path[k])[1] + differences(path[k])).max() for k in (0, 1, 2, len(path) - 1)
}

# %%
size = {"quick": 13, "full": 61}[profile]
over_w, over_b = np.geomspace(0.6, 6, size), np.geomspace(0.07, 7, size)
value = np.array([[evidence((w, b)).value for w in over_w] for b in over_b])
ends = [
    posterior(FullyConnected(erf, hidden, *map(float, np.exp(logs))), X, Y, LINE, noise=NOISE)
    for logs in (path[0], path[-1])
]
bands = tuple(map(Band.of, ends))
landscape = predictors.EvidenceMap(over_w, over_b, value, np.exp(path), bands)
save(figures.figure_evidence(landscape), "04-evidence")

# %% [markdown]
# ## Evidence: data that nearly repeats itself
#
# Smooth kernels cannot tell close points apart: their condition numbers grow exponentially with the number of points on
# $[-2, 2]$, until floats no longer resolve them. Then a plain solution of the linear equations returns variances that are
# rounding, some of them negative. The suite forms the covariance as $GG^T$, gives up directions that rounding has lost,
# and says so. The ReLU's kernel has a kink, and its condition numbers stay small.

# %%
sizes = (4, 12, 20, 28, 36)
crowd = {m: torch.linspace(-2, 2, m, dtype=X.dtype)[:, None] for m in sizes}


def arc_sine(xx, xy, yy):
    return 2 / mp.pi * mp.asin(xy / mp.sqrt((1 + xx) * (1 + yy)))


def root(xx, xy, yy):
    return 1 / mp.sqrt((1 + xx) * (1 + yy) - xy**2)


def arc_cosine(xx, xy, yy):
    angle = mp.acos(min(xy / mp.sqrt(xx * yy), mpf(1)))  # a point with itself may round above 1
    factor = mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)
    return mp.sqrt(xx * yy) * factor / (2 * mp.pi)


def shallow(average, x, y):
    """The NNGP of one hidden layer, sigma_w = 1.5 and sigma_b = 1."""
    w, b = mpf("2.25"), 1
    return mp.matrix(
        [[w * average(w * p * p + b, w * p * q + b, w * q * q + b) + b for q in y] for p in x]
    )


averages = {"erf": (erf, arc_sine), "gaussian": (gaussian, root), "ReLU": (relu, arc_cosine)}
conditions = {}
with mp.workdps(60):  # three times the digits that the worst of them loses
    for name, (act, average) in averages.items():
        spectra = [
            mp.eigsy(shallow(average, *[exactly(x)] * 2), eigvals_only=True) for x in crowd.values()
        ]
        rounded = [
            GramSpectrum.of(FullyConnected(act, 1, 1.5, 1.0).nngp(x)) for x in crowd.values()
        ]
        true = [float(values[len(values) - 1] / values[0]) for values in spectra]
        conditions[name] = true, [one.condition for one in rounded]
        if name == "erf":
            lowest, last = spectra[-1], rounded[-1]

# %%
smooth, many = FullyConnected(erf, 1, 1.5, 1.0), crowd[sizes[-1]]
target = torch.from_numpy(predictors.truth(many[:, 0].numpy()))
between = (many[1:] + many[:-1]) / 2
cross, gram = (smooth.nngp(points, many).numpy() for points in (between, many))
prior = smooth.nngp(between).diagonal().numpy()
plain = prior - (cross * np.linalg.solve(gram, cross.T).T).sum(1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", SingularGram)
    gradient_flow(smooth, many, target, between)
    noiseless = posterior(smooth, many, target, between, noise=0.0)
messages = [str(one.message) for one in caught]
messages += refusals(lambda: log_marginal_likelihood(smooth, many, target, noise=0.0))
with mp.workdps(60):
    K_new = shallow(arc_sine, exactly(between), exactly(many))
    learnt = K_new * shallow(arc_sine, *[exactly(many)] * 2) ** -1
    true = [
        shallow(arc_sine, [p], [p])[0] - mp.fdot(learnt[i, :], K_new[i, :])
        for i, p in enumerate(exactly(between))
    ]
variances = plain, noiseless.std.numpy() ** 2, np.array(true, dtype=float)
singular = predictors.NearlySingular(sizes, conditions, between[:, 0].numpy(), *variances)
save(figures.figure_singular(singular), "04-singular")

# %% [markdown]
# What the suite says of the gradient flow at $t = \infty$, of the posterior without noise, and of the evidence:

# %%
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
eps = np.finfo(float).eps

# Forty digits: the condition number of K + noise amplifies rounding, and in e^(-t Theta) the norm of t Theta does.
largest = torch.linalg.eigvalsh(net.ntk(X))[-1].item()
amplification = [predictions[0].condition, *(max(1, s * largest) for s in times)]
for (name, largest_off), factor in zip(off.items(), amplification, strict=True):
    assert max(largest_off) < n * eps * factor * net.nngp(probes).max(), name

# Ensembles: if the claim is true, their means are normal and their variances chi squared, with known
# errors. The limits are those that one run in a thousand exceeds by chance somewhere.
stderr = larger * claimed.std / networks**0.5
off_mean = (mean - claimed.mean) / stderr
off_variance = (variance / claimed.std**2 - 1) / (larger * (2 / networks) ** 0.5)
tail = 1e-3 / (4 * mean.numel())  # two sides of two quantities
allowed = -ndtri(tail)
assert off_mean.abs().max() < allowed, off_mean
allowed_variance = (chdtri(networks, tail) - networks) / (2 * networks) ** 0.5  # its longer tail
assert off_variance.abs().max() < allowed_variance, off_variance

# Steps: at infinite width they move the mean by less than a quarter of the standard error, which would turn
# one run in a thousand into one in three hundred.
tangent, cross_tangent = (np.array(part.tolist(), dtype=float) for part in (T, T_new))
remaining, now = np.eye(n), 0.0
for k, (until, steps) in enumerate(legs):
    one_step = np.eye(n) - (until - now) / steps * tangent
    remaining, now = np.linalg.matrix_power(one_step, steps) @ remaining, until
    stepped = cross_tangent @ np.linalg.solve(tangent, (np.eye(n) - remaining) @ Y.numpy())
    assert (abs(stepped - claimed.mean[k].numpy()) / stderr[k].numpy()).max() < 0.25, until

# The same ensembles refuse the posterior, and networks of which the readout alone is trained.
lazy = gradient_flow(SimpleNamespace(nngp=net.nngp, ntk=net.nngp), X, Y, probes, t=times)
for wrong in (lazy.mean, predictions[0].mean.expand_as(mean)):
    assert (((mean - wrong) / stderr).abs().amax(1) > allowed).all(), "a wrong claim passes too"

# One by one: the fall from the narrowest to the widest, within four errors of their mean squares and the
# next order, which at the narrowest is relatively n^(-1/2).
span = math.log(widths[-1] / widths[0])
for k, time in enumerate(times):
    squares = [own_errors[width] for width in (widths[0], widths[-1])]
    error = math.hypot(*(one.stderr[k] / one.mean[k] / 2 for one in squares))
    slope = laws[time].slope
    assert abs(slope + 0.5) < (4 * error + widths[0] ** -0.5) / span, (time, slope, error)

# Evidence: the gradient to rounding, its zero to what the optimiser was asked for, and no higher point on the map.
for k, difference in gradient_errors.items():
    at = evidence(np.exp(path[k]))
    assert difference < n * eps * at.condition * max(1, abs(downhill(path[k])[1]).max()), k
assert abs(ascent.jac).max() < 1e-5 and -ascent.fun > value.max(), ascent

# Singular: true condition numbers while rounding moves the least eigenvalue by less than a percent; the
# eigenvalues said to be lost are those below the floor, to a factor of two; no variance is negative; and
# what the messages recommend works.
for name, numbers in conditions.items():
    precise, rounded = map(np.array, numbers)
    held = precise * sizes[-1] * eps < 1e-2
    assert held.sum() >= 3, name
    assert (abs(rounded / precise - 1)[held] < 1e-2).all(), name
lost = sizes[-1] - noiseless.rank
fewest, most = (sum(float(v) < factor * last.floor for v in lowest) for factor in (0.5, 2))
assert 0 < fewest <= lost <= most, (fewest, lost, most)
assert (plain < 0).any() and (noiseless.covariance.diagonal() >= 0).all()
ridge, least, enough = (float(re.search(r"= (\S+) or more", text)[1]) for text in messages)
with warnings.catch_warnings(action="error"):
    gradient_flow(smooth, many, target, between, ridge=ridge)
    posterior(smooth, many, target, between, noise=least)
    log_marginal_likelihood(smooth, many, target, noise=enough)

worst = max(off_mean.abs().max().item(), off_variance.abs().max().item())
exactness = max(map(max, off.values()))
print(f"Posterior and flow match forty digits to {exactness:.0e}.")
print(
    f"Mean and spread of {networks} trained networks, extrapolated in width, match the flow within"
)
print(f"{worst:.1f} standard errors ({allowed:.1f} allowed), and refuse the posterior.")
print("The data ask for sigma_w = {:.2f}, sigma_b = {:.2f}.".format(*np.exp(ascent.x)))
print(f"Of {sizes[-1]} points on [-2, 2] floats lose {lost} directions, and the suite says so.")
sigma_w_asked, sigma_b_asked = np.exp(ascent.x)
record(
    forty_digits_off=exactness,
    worst_sigmas=worst,
    sigma_w_asked=sigma_w_asked,
    sigma_b_asked=sigma_b_asked,
    lost_directions=lost,
)
