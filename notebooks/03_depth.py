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
# # What does depth do to signals, and to geometry?
#
# Each layer of a wide random network maps the variance $V$ of its preactivations, and the correlation $c$ of those of
# two inputs, to new ones. Do two inputs become more alike or less from layer to layer, how many layers does that take, and what becomes of
# the metric that the network gives its inputs? The phases are those of Poole et al. 2016 and Schoenholz et al. 2017;
# the geometry goes beyond Zavatone-Veth et al., who treat one hidden layer (notebooks [01](01_nngp_geometry.py) and
# [02](02_ntk_geometry.py)).

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, finer diagrams, wider networks and more of them
seed = 0
device = "auto"
activation = "erf"  # of Play; or sine, gaussian
depth = 3  # hidden layers
# Standard deviations of weights, biases and the readout. Evidence at one bias takes 0.1 to 0.7: without any, signals
# vanish in order, and with large ones chaos begins beyond its figures.
sigma, zeta, xi = 1.0, 0.3, 1.0
d = 2  # inputs; evidence takes 2 to 4: a line has no curvature, and differences in many dimensions take hours

# %%
import numpy as np
import torch
from IPython.display import Markdown
from mpmath import mp, mpf
from scipy.special import erf as error_function
from scipy.special import stdtrit

from analytic import catalogue
from analytic.activations import erf, tanh
from analytic.checks.kernel_oracles import nngp_by_differences, ntk_by_differences, oracle_at_radius
from analytic.checks.oracles import MetricJet
from analytic.signal_propagation import Signal, critical_sigma, phase_diagram, trajectory
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import depth as deep
from notebooks.topics import depth_figures as figures
from notebooks.topics.statistics import Mean
from numeric.estimate import Estimate
from numeric.inputs import resolve

quick = profile == "quick"
acts = {"erf": erf, "tanh": tanh}
bias, dimension = min(max(zeta, 0.1), 0.7), min(max(d, 2), 4)

# %% [markdown]
# ## Claim
#
# With $F = \mathbb{E}[\phi(z)^2]$ and $G = \mathbb{E}[\phi'(z)^2]$ for $z\sim N(0, V)$, and weights of standard
# deviation $\sigma$, biases $\zeta$,
#
# $$V \leftarrow \sigma^2 F(V) + \zeta^2,\qquad
#   c \leftarrow f(c) = \frac{\sigma^2\,\mathbb{E}[\phi(u)\phi(v)] + \zeta^2}{V},\qquad
#   \chi_1 = f'(1) = \sigma^2 G(V^*) .$$
#
# 1. Order ($\chi_1 < 1$): all inputs meet, $c^* = 1$. Chaos ($\chi_1 > 1$): neighbours part, $c^* < 1$. Between them lies
#    the line $\sigma^2 = 1/G(V)$, $\zeta^2 = V - F(V)/G(V)$.
# 2. $|c_l - c^*|$ falls as $e^{-l/\ell_c}$ with $\ell_c = -1/\log f'(c^*)$, and at criticality as $2/(f''(1)\,l)$. This
#    correlation depth is $\xi_c$ in those papers; here $\xi$ is the standard deviation of the readout.
# 3. A layer takes the metric $h$ of its preactivations to $g = G h + \tfrac12 G'\,\partial V\,\partial V^T$. So once
#    $V$ has settled, $\sqrt{\det g}$ of the NNGP changes by $\chi_1^{d/2}$ per layer: it vanishes in order and explodes in
#    chaos, where that of the NTK even grows by $\chi_1^d$.
# 4. From the second layer on $g$ is no longer $e^{\Omega}(I + 2\Omega' xx^T)$, so that formula (7) of the curvature
#    paper, even corrected, holds for one hidden layer only.

# %% [markdown]
# ## Play
#
# Both geometries of a deep network along a ray, and its place in the phase diagram, where colour is the correlation
# depth $\ell_c$ and red the line between order (below) and chaos. Drag the white point, or move the sliders.
#
# - Take ten layers and drag the point upwards across the red line: volume vanishes below it and explodes above.
# - Let the depth run in order, say $\sigma = 0.7$: curvature grows without bound as volume vanishes.
# - Rest on the red line and add layers: volume changes little, which is why networks are started there.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.depth import deep_rays
from notebooks.topics.depth_figures import PANEL

open_panel(deep_rays, PANEL, globals())

# %% [markdown]
# ## Evidence: order and chaos
#
# Colour is $\ell_c$ from the fixed points, the line is claim 1. The triangles use neither: two inputs with
# $1 - c = 10^{-7}$ go through 40 layers, each a plain trapezoidal sum over two Gaussian variables, and we look whether
# the distance shrinks or grows at the end.

# %%
phis = {"erf": lambda z: error_function(z / np.sqrt(2)), "tanh": np.tanh}


def layers(phi, sigma, zeta, V, c, depth, step=0.2):
    """Correlations of two inputs of equal norm, (depth, points), by nothing but sums.

    A sum errs by e^(-2 pi a / step) where phi is analytic up to i a; tanh is up to pi / 2 / sqrt(V).
    """
    nodes = np.arange(-8.4, 8.5, step)
    density = np.exp(-(nodes**2) / 2) * step / np.sqrt(2 * np.pi)
    walk = [c]
    for _ in range(depth - 1):
        u = np.sqrt(V)[:, None] * nodes
        along, across = c[:, None] * u, np.sqrt(1 - c**2)[:, None] * u
        below = phi(u)
        F = below**2 @ density
        second = phi(along[:, :, None] + across[:, None, :]) @ density
        K = (below * second) @ density
        c = np.minimum((sigma**2 * K + zeta**2) / (sigma**2 * F + zeta**2), 1)
        V = sigma**2 * F + zeta**2
        walk.append(c)
    return np.array(walk)


maps, neighbours, predicted = {}, {}, {}
for name, act in acts.items():
    count = {"erf": 60, "tanh": 24}[name] if quick else 150
    maps[name] = deep.phase_map(act, count)
    zetas = np.linspace(0.3, 2.4, 6 if quick else 15)
    edge = np.interp(zetas, maps[name].critical_zeta, maps[name].critical_sigma)
    zetas, sigmas = np.tile(zetas, 2), np.concatenate([0.93 * edge, 1.07 * edge])
    start = np.ones_like(zetas)
    distance = 1 - layers(phis[name], sigmas, zetas, start, start - 1e-7, 40, step=0.1)
    growth = (distance[-1] / distance[-11]) ** 0.1
    neighbours[name] = deep.NeighbourGrowth(zetas, sigmas, growth)
    chi = [phase_diagram(act, [s], [z]).chi_1[0, 0] for z, s in zip(zetas, sigmas, strict=True)]
    predicted[name] = np.array(chi)

# %%
save(figures.figure_phases(maps, neighbours, (zeta, sigma)), "03-phases")

# %% [markdown]
# ## Evidence: the correlation map
#
# $\sigma$ at 0.6, 1 and 1.6 times its critical value, and at that of the parameters; grey are pairs of inputs, layer by layer, dots
# are $c^*$. In order every pair ends at 1, in chaos even near twins end at $c^* < 1$, and at criticality they creep.

# %%
signals = {}
for name, act in acts.items():
    edge = critical_sigma(act, bias, 15)
    signals[name] = {
        phase: Signal(act, edge * factor, bias, digits=15) for phase, factor in deep.PHASES.items()
    }


def settled(signal):
    """|x|^2 for which the first layer already has the variance V*."""
    return float((signal.variance.value - bias**2) / signal.sigma**2)


def walk(signal, c, depth):
    """Correlations from layer to layer, from c or what is nearest to it, at the settled variance."""
    V, s = float(signal.variance.value), float(signal.sigma)
    opposite = (
        2 * bias**2 / V - 1
    )  # the least correlation that inputs may have behind the first layer
    start = (V * np.maximum(c, opposite) - bias**2) / s**2
    return trajectory(signal.act, s, bias, settled(signal), start, depth).correlation


pairs_shown = [
    *signals["erf"].items(),
    ("sigma of this notebook", Signal(erf, sigma, bias, digits=15)),
]
correlations = {
    name: deep.CorrelationMap.of(
        signal, list(walk(signal, [0.1, 0.97] if signal.chi_1 > 1 else [0.1], 40).T)
    )
    for name, signal in pairs_shown
}
save(figures.figure_maps(correlations), "03-maps")

# %% [markdown]
# ## Evidence: how deep a signal reaches
#
# Left: $|c_l - c^*|$ for erf from the same sums, beside $e^{-l/\ell_c}$ and, at criticality, $2/(f''(1)\,l)$. Right: $\ell_c$
# against $\sigma$; each marker is a straight line fitted to $\log|c_l - c_\infty|$ between $10^{-8}$ and $10^{-4}$.


# %%
def fitted(gaps):
    """Layers per factor of e, by least squares where gaps are small."""
    here = np.flatnonzero((gaps > 1e-8) & (gaps < 1e-4))
    return -1 / np.polyfit(here, np.log(gaps[here]), 1)[0]


decays, l = {}, np.arange(1, 201)  # layers
for name, signal in signals["erf"].items():
    V, s, end = (float(v) for v in (signal.variance.value, signal.sigma, signal.correlation.value))
    c = layers(phis["erf"], s, bias, np.array([V]), np.array([0.5]), 200)[:, 0]
    distance = np.abs(c - end)
    if name == "critical":
        bend = s**2 * V * float(erf.G2.numpy(V))  # f''(1) = sigma^2 V E[phi''^2]
        decays[name] = deep.Decay(l, distance, 2 / (bend * l))
    else:
        fall = np.exp(-(l - 1) / float(signal.xi_c))
        decays[name] = deep.Decay(l, distance, (distance / fall)[20] * fall)

scales, ends = {}, {}
for name, act in acts.items():
    edge = float(signals[name]["critical"].sigma)
    fine = np.linspace(0.3, 3, 271)
    curve = phase_diagram(act, fine, [bias]).xi_c[0]
    few = np.concatenate([np.linspace(0.4, 0.85 * edge, 6), np.linspace(1.25 * edge, 3, 6)])
    ones = np.ones_like(few)
    c = layers(phis[name], few, bias, ones, 0.5 * ones, 400)
    fits = np.array([fitted(gap) for gap in np.abs(c - c[-1]).T])
    scales[name], ends[name] = deep.DepthScales(fine, curve, few, fits), c[-1]

# %%
save(figures.figure_scales(decays, scales), "03-scales")

# %% [markdown]
# ## Evidence: finite networks
#
# Random networks, two inputs at correlation 0.95 and two at 0.1: the cosine between their preactivations in every layer,
# mean and standard deviation over networks, on the lines of the map. The networks of one draw share their Gaussian
# numbers, which is fair to each and saves drawing them six times.

# %%
width, draws, layers_drawn = (1000, 20, 12) if quick else (2000, 80, 16)
generator = torch.Generator(resolve(device)).manual_seed(seed)
cosines = torch.tensor([1.0, 0.95, 0.1], dtype=torch.float64, device=generator.device)
inputs = torch.stack([cosines, torch.sqrt(1 - cosines**2)])  # (2, inputs), of norm 1
cases = [(name, phase) for name in acts for phase in deep.PHASES]
weights = inputs.new_tensor([[float(signals[name][phase].sigma)] for name, phase in cases])


def normal(*shape):
    """Drawn in single precision, which is twice as fast; its rounding is far below any spread."""
    kind = {"generator": generator, "device": generator.device, "dtype": torch.float32}
    return torch.randn(*shape, **kind).to(inputs.dtype)


def network():
    """Correlations with the first input, (cases, depth, pairs), in one draw."""
    h, scale, correlation = inputs[:, None, :].expand(-1, len(cases), -1), 1.0, []
    for _ in range(layers_drawn):
        z = scale * (normal(width, len(h)) @ h.reshape(len(h), -1)).reshape(width, *h.shape[1:])
        z = weights * z + bias * normal(width)[:, None, None]
        norms = z.square().sum(0).sqrt()
        correlation.append(((z[..., :1] * z).sum(0) / (norms[:, :1] * norms))[:, 1:])
        half = len(cases) // 2  # erf first, then tanh
        h = torch.cat([torch.erf(z[:, :half] / 2**0.5), torch.tanh(z[:, half:])], 1)
        scale = width**-0.5
    return torch.stack(correlation, 1)


with torch.inference_mode():
    drawn = torch.stack([network() for _ in range(draws)]).cpu()
estimates = {case: Estimate.of(drawn[:, k]) for k, case in enumerate(cases)}


def mapped(case, factor=1.0):
    """What the maps say, with a sigma that may be wrong by a factor."""
    name, phase = case
    s = factor * float(signals[name][phase].sigma)
    return trajectory(acts[name], s, bias, 1.0, cosines[1:].cpu().numpy(), layers_drawn).correlation


exact = {case: mapped(case) for case in cases}

# %%
shown = {case: deep.LayerCorrelations(Mean.of(estimates[case]), exact[case]) for case in cases}
save(figures.figure_networks(shown), "03-networks")

# %% [markdown]
# ## Evidence: geometry by depth
#
# erf networks in order and in chaos. The circles use no recursion: they
# differentiate the composed two-point kernel of two layers by differences in all coordinates. Dotted in red is what
# (7), corrected, makes of two layers if $e^{\Omega}$ is taken to be the eigenvalue of $g$ across $x$.

# %%
settings = {
    phase: {"d": dimension, "sigma": float(signals["erf"][phase].sigma), "zeta": bias, "xi": xi}
    for phase in ("ordered", "chaotic")
}
where = np.linspace(0.25, 4.75, 7 if quick else 19)


def formula_7(d, r, **values):
    """(7), corrected, where e^Omega is the metric's eigenvalue across x."""
    volume = catalogue["deep.erf.nngp.magnification"].mpmath

    def omega(s):
        one, two = (volume(d=k, r=mp.sqrt(s), **values) for k in (1, 2))  # det g = a^(d-1) E
        return 2 * mp.log(two / one)

    s = mpf(r) ** 2
    o, o1, o2 = (mp.diff(omega, s, k) for k in range(3))
    bracket = (d + 2) * o1**2 + 2 * s * ((d - 2) * o1**3 + 2 * o1 * o2)
    return -(d - 1) * mp.exp(-o) * s * bracket / (1 + 2 * s * o1) ** 2


by_differences, seven = {}, {}
reads = {"magnification": MetricJet.volume, "ricci": MetricJet.scalar}
with mp.workdps(20):  # more than a float holds
    for phase, values in settings.items():
        in_mpf = {name: mpf(value) for name, value in values.items()}
        for kernel, jet in {"nngp": nngp_by_differences, "ntk": ntk_by_differences}.items():
            reading = oracle_at_radius(jet, erf)
            for what, read in reads.items():
                numbers = [reading(read)(r=mpf(r), depth=2, **in_mpf) for r in where]
                by_differences[phase, kernel, what] = np.array(numbers, dtype=float)
        shallow = {"sigma": in_mpf["sigma"], "zeta": in_mpf["zeta"]}
        for depth_7 in (1, 2, 3):
            numbers = [formula_7(dimension, r, depth=depth_7, **shallow) for r in where]
            seven[phase, depth_7] = np.array(numbers, dtype=float)

# %%
fine = np.linspace(0.05, 5, 40)
dotted = {}
for phase, values in settings.items():
    scales_7 = {"sigma": values["sigma"], "zeta": bias}
    dotted[phase] = (
        fine,
        np.array([float(formula_7(dimension, r, depth=2, **scales_7)) for r in fine]),
    )
by_depth = {
    phase: deep.geometry_by_depth(
        values,
        where,
        {key[1:]: numbers for key, numbers in by_differences.items() if key[0] == phase},
        dotted[phase],
        sorted({*deep.DEPTHS, depth}),
    )
    for phase, values in settings.items()
}
save(figures.figure_geometry(by_depth), "03-geometry")

# %% [markdown]
# Curvature is on a scale that is linear near 0 and logarithmic far from it. In numbers, at $|x| = 1$:

# %%
at_one = int(np.argmin(np.abs(where - 1)))
pairs = {
    (L, phase): (deep.ricci("nngp", r=1.0, depth=L, **values), seven[phase, L][at_one])
    for L in (1, 2, 3)
    for phase, values in settings.items()
}
head = [
    "| hidden layers | ordered: $R$ | by (7) | chaotic: $R$ | by (7) |",
    "|---|---:|---:|---:|---:|",
]
rows = [
    f"| {L} | " + " | ".join(f"{v:.6g}" for phase in settings for v in pairs[L, phase]) + " |"
    for L in (1, 2, 3)
]
Markdown("\n".join([*head, *rows]))

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Near the line: distances stay within 1e-9 and 1e-5, which keeps both rounding, 1e-16 of 1, and the
# next order in the distance below 1e-4.
for name, one in neighbours.items():
    grown = one.growth
    meets, parts = np.split(grown, 2)  # below and above the line
    assert (meets < 1).all() and (parts > 1).all(), name
    assert np.abs(grown / predicted[name] - 1).max() < 1e-4, name

# Fitted scales: gaps below 1e-4 bend the logarithm by less than 1e-4 xi_c f'', here below 1e-2, at the
# upper end of a line that falls by 9.
# The sums err by 1e-7 for tanh at V = 9, and where they end by 1/(1 - f') times that.
off = {}
for name, one in scales.items():
    fixed = phase_diagram(acts[name], one.fitted_sigmas, [bias])
    off[name] = np.abs(one.fitted / fixed.xi_c[0] - 1).max()
    assert np.abs(ends[name] - fixed.c[0]).max() < 1e-6, name
assert max(off.values()) < 1e-3, off
# At criticality 1/(1 - c) rises by f''(1)/2 in a layer, but for a term of the order of 1 - c.
critical = decays["critical"].distance
rise = np.diff(1 / critical)[-1] / (bend / 2)
assert abs(rise - 1) < critical[-1], rise

# Networks: as many standard errors as one run in a thousand exceeds by chance somewhere; the bias of
# finite width, about depth/width, is below half of one.
allowed = stdtrit(draws - 1, 1 - 0.5e-3 / drawn[0].numel())
near = {k: float(estimates[k].sigmas_from(torch.from_numpy(exact[k])).max()) for k in cases}
assert max(near.values()) < allowed, near
for k in cases[: len(deep.PHASES)]:  # sigma wrong by a fifth
    assert estimates[k].sigmas_from(torch.from_numpy(mapped(k, 1.2))).max() > allowed, k

# Geometry: 20 digits of differences against floats, whose rounding grows with the operations in them.
differ = {
    (phase, kernel, what): np.abs(
        deep.closed_form(kernel, what, r=where, depth=2, **settings[phase]) / values - 1
    ).max()
    for (phase, kernel, what), values in by_differences.items()
}
assert max(differ.values()) < 1e-12, differ
# Per layer: V settles as chi_V^L, below 1e-10 at L = 40, and the other terms of the NTK fall as chi_1^-L.
for phase, values in settings.items():
    chi = float(signals["erf"][phase].chi_1)
    for kernel, power in {"nngp": dimension / 2, "ntk": dimension}.items():
        if kernel == "ntk" and (phase == "ordered" or not xi):  # without a readout it is the NNGP
            continue
        low, high = (deep.log_volume(kernel, r=2.0, depth=L, **values) for L in (40, 41))
        tolerance = 1e-10 if kernel == "nngp" else 5 * dimension * chi**-40 / min(xi**2, 1)
        assert abs(10 ** (high - low) / chi**power - 1) < tolerance, (phase, kernel)

# (7): exact for one layer, where it is derived; for two it misses by more than R itself.
missed = {key: abs(by_7 / R - 1) for key, (R, by_7) in pairs.items()}
assert all(missed[1, phase] < 1e-12 and missed[2, phase] > 1 for phase in settings), missed

print(f"Order and chaos part at the line; correlation depths fit to {max(off.values()):.0e}.")
print(f"Networks of width {width} follow the map within {max(near.values()):.1f} standard errors")
print(f"({allowed:.1f} allowed). Deep curvature matches differences to {max(differ.values()):.0e};")
print(
    f"at depth 2 and |x| = 1 in order, (7) gives {pairs[2, 'ordered'][1]:.1f} for R = {pairs[2, 'ordered'][0]:.2f}."
)
if bias != zeta:
    print(f"Biases of {zeta:g} are judged by those of {bias:g} but in the phase diagram.")
if d > dimension:
    print(f"The geometry of {d} inputs is judged by that of {dimension}.")
record(
    depth_scale_off=max(off.values()),
    worst_sigmas=max(near.values()),
    curvature_off=max(differ.values()),
    missed_by_7=missed[2, "ordered"],
)
