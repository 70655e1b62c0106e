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
# # What geometry do a network's gradients give its inputs?
#
# Training sees a network $f(x) = n^{-1/2}\sum_j v_j\,\phi(w_j\cdot x + b_j)$ through its gradient
# $\nabla_{v,w,b} f(x)$, and the flat metric of gradients, pulled back to input space, is a second geometry beside that
# of the hidden layer. At infinite width it belongs to the neural tangent kernel, whose Ricci scalar the paper calls
# not easy to compute. What is it, where does it differ from the NNGP's, and do finite networks agree?
# (Zavatone-Veth et al., appendix D; the NNGP is notebook [01](01_nngp_geometry.py).)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, wider networks and more of them
seed = 0
device = "auto"
activation = "erf"  # or monomial, relu_power, sine, cosine, exponential, gaussian, gelu, elu, snake
sigma, zeta, xi = 1.0, 1.0, 1.0  # standard deviations of weights, biases and the readout
q = 2  # degree of monomials
d = 2  # inputs; evidence takes 2 to 4: a line has no curvature, and differences in many dimensions take hours

# %%
from functools import partial

import numpy as np
import torch
from mpmath import mp, mpf
from scipy.special import stdtrit
from torch.func import grad, jacfwd, vmap

from analytic import catalogue
from analytic.activations import ACTIVATIONS, leaky_relu, relu
from analytic.checks.kernel_oracles import nngp_by_differences, ntk_by_differences, oracle_at_radius
from analytic.checks.oracles import MetricJet
from analytic.geometry.ntk import magnification as tangent_magnification
from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import nngp, ntk
from notebooks.topics import ntk_figures as figures
from notebooks.topics.statistics import PowerLaw
from notebooks.topics.statistics_figures import figure_laws
from numeric.estimate import Estimate
from numeric.experiments.width import Convergence
from numeric.inputs import resolve

# %% [markdown]
# ## Claim
#
# Weights have standard deviation $\sigma$, biases $\zeta$, the readout $\xi$; $s = |x|^2$, $V = \sigma^2 s + \zeta^2$,
# $G = \mathbb{E}[\phi'(z)^2]$ and $G_2 = \mathbb{E}[\phi''(z)^2]$ for $z\sim N(0, V)$. The tangent kernel (D.3) is
# $\Theta = \mathbb{E}[\phi\phi] + \xi^2\,\mathbb{E}[\phi'\phi'](1 + x\cdot y)$, and its metric (D.18) to (D.20)
#
# $$g = a\,I + b\,xx^T,\qquad a = (\sigma^2+\xi^2)G + c\,(1+s),\qquad b = 2(a' - c),\qquad c = \sigma^2\xi^2 G_2 .$$
#
# With $E = a + bs$ the magnification is $\sqrt{\det g} = a^{(d-1)/2}E^{1/2}$, and the curvature of this metric, as of
# any radial one, is
#
# $$R = (d-1)\left[\frac{(d-2)(ab - 2aa' - s\,a'^2)}{a^2E} - \frac{4(2a' + s\,a'')}{aE}
#   + \frac{2(a + s\,a')(a'E + aE')}{a^2E^2}\right].$$
#
# At the origin it is $R(0) = -2d(d-1)\,c/a^2$: where the NNGP is flat, the NTK is curved. For
# $\phi = \mathrm{erf}(z/\sqrt2)$ that is

# %%
catalogue["ntk.erf.origin"]

# %% [markdown]
# ## Play
#
# NNGP and NTK along a ray, blue and red: volume on the left, curvature on the right, and both at $|x| = 1$ in the line
# of numbers. The dot is $R(0)$ of the NTK.
#
# - Take the readout away, $\xi = 0$: the two geometries become one. Then raise it: the origin bends, and straightens again.
# - Choose `relu_power` and $q = 1$, the ReLU: its gradients have no metric, and the panel says why.
# - Raise $\zeta$: the NNGP flattens, while the NTK at the origin bends more and more.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.ntk import both_rays
from notebooks.topics.ntk_figures import PANEL

open_panel(both_rays, PANEL, globals())

# %% [markdown]
# ## Evidence: differences of the kernel
#
# The curves are the closed forms at the parameters above. The circles use neither $G$ nor $a$ and $b$:
# they differentiate the two-point kernel by differences in all coordinates, four times for the curvature, and put the
# numbers into the textbook definition of the Riemann tensor. A filled dot marks $R(0)$.

# %%
setting = {"d": min(max(d, 2), 4), "sigma": sigma, "zeta": zeta, "xi": xi}
where = {"quick": (0, 0.2, 0.4, 0.7, 1, 2, 3, 4, 5), "full": tuple(np.linspace(0, 5, 26))}[profile]
where = where if zeta else where[1:]  # without biases a metric may vanish at the origin
shown = ntk.shown(activation, q)
by_differences = {}
for one in shown:
    for kernel, jet in {"nngp": nngp_by_differences, "ntk": ntk_by_differences}.items():
        reading = oracle_at_radius(jet, ACTIVATIONS[one.activation])
        for what, read in {"magnification": MetricJet.volume, "ricci": MetricJet.scalar}.items():
            with mp.workdps(20):  # more than a float holds
                values = [reading(read)(r=mpf(r), **setting, **one.parameters) for r in where]
            by_differences[kernel, one.label, what] = np.array(values, dtype=float)

# %%
rays = ntk.geometry_along_ray(where, by_differences, setting, shown)
save(figures.figure_geometry(rays), "02-geometry")

# %% [markdown]
# ## Evidence: finite networks
#
# Nothing but automatic differentiation: the gradient of $f$ by its parameters is a feature map, $J$ and $H$ are its
# first and second derivatives by $x$, the metric is $J^TJ$, and Gauss's equation gives the curvature of the surface
# that the features trace out. Points and bars are mean and standard deviation over random networks; the closed form is
# dashed, the NNGP dotted.


# %%
def surface(features, x):
    """sqrt(det g) and R of the surface that the features of x trace out."""
    first = jacfwd(features)
    J, H = first(x), jacfwd(first)(x)
    g = J.T @ J
    up = torch.linalg.inv(g)
    along = torch.einsum("pa,pij->aij", J, H)
    bend = torch.einsum("pij,pkl->ijkl", H, H)  # what of H is normal to the surface
    bend = bend - torch.einsum("aij,ab,bkl->ijkl", along, up, along)
    scalar = torch.einsum("ijkl,ij,kl->", bend, up, up) - torch.einsum("ijkl,ik,jl->", bend, up, up)
    return torch.stack([torch.linalg.det(g).sqrt(), scalar])


def tangent(phi, x, v, w, b):
    """The same for the gradient of one network by all its parameters."""

    def output(parameters, x):
        v, w, b = parameters
        return v @ phi(w @ x + b) / len(v) ** 0.5

    return surface(lambda x: torch.cat([p.flatten() for p in grad(output)((v, w, b), x)]), x)


def drawn(phi, width, x, networks, generator):
    """(networks, points, 2)."""
    kind = {"generator": generator, "device": generator.device, "dtype": x.dtype}
    v, b = torch.randn(2, networks, width, **kind)
    w = torch.randn(networks, width, x.shape[1], **kind)
    at_points = vmap(partial(tangent, phi), (0, None, None, None))
    over_networks = vmap(at_points, (None, 0, 0, 0), chunk_size=max(1, 16_384 // width))
    return over_networks(x, v * setting["xi"], w * setting["sigma"], b * setting["zeta"])


# %%
widths, networks = {"quick": ((50, 400, 3_200), 25), "full": ((100, 1_000, 10_000), 200)}[profile]
generator = torch.Generator(resolve(device)).manual_seed(seed)
r = torch.tensor([0, 0.3, 0.6, 1, 2, 3, 4, 5][0 if zeta else 1 :], dtype=torch.float64)
direction = torch.linspace(0.6, -0.8, setting["d"], dtype=r.dtype)
x = (r[:, None] * direction / direction.norm()).to(generator.device)
phis = [act.phi.torch for act in nngp.compared(activation, q).values()]
sweeps, plain = {}, {}
for one, phi in zip(shown, phis, strict=False):
    draws = {n: drawn(phi, n, x, networks, generator).cpu() for n in widths}
    sweeps[one.label] = {}
    for k, what in enumerate(ntk.QUANTITIES):
        exact, plain[one.label, what] = (
            torch.from_numpy(one.closed_form(kernel, what, r=r.numpy(), **setting))
            for kernel in ("ntk", "nngp")
        )
        estimates = {n: Estimate.of(draws[n][..., k]) for n in widths}
        sweeps[one.label][what] = Convergence(r, exact, estimates)

# %%
save(figures.figure_width(ntk.tangent_networks(sweeps, setting, shown)), "02-width")

# %% [markdown]
# ## Evidence: a vanishing readout
#
# With $\xi\to0$ the gradients by weights and biases vanish and the NNGP remains. The largest difference on
# $|x| \le 5$ should fall as $\xi^2$. Without biases it is taken on $1 \le |x| \le 5$, since the metric of the NNGP
# may vanish at the origin.

# %%
xis = (sigma * np.geomspace(1e-4, 1e-2, 9)).tolist()
inside = ntk.RADII if zeta else ntk.RADII[ntk.RADII >= 1]
titles = {
    r"$\max\,|\sqrt{\det g_{\mathrm{NTK}}}\,/\sqrt{\det g_{\mathrm{NNGP}}} - 1|$": "magnification",
    r"$\max\,|R_{\mathrm{NTK}} - R_{\mathrm{NNGP}}|$": "ricci",
}


def difference(one, what, xi):
    at = {**setting, "xi": xi, "r": inside}
    tangent, plain = (one.closed_form(kernel, what, **at) for kernel in ("ntk", "nngp"))
    return np.abs(tangent - plain if what == "ricci" else tangent / plain - 1).max()


readout = {
    title: {
        one.label: PowerLaw.fit(xis, [difference(one, what, xi) for xi in xis]) for one in shown
    }
    for title, what in titles.items()
}
save(figure_laws(readout, r"$\xi$"), "02-readout")

# %% [markdown]
# ## Evidence: the ReLU's gradients have no metric
#
# A metric measures $\Theta(x,x) - 2\Theta(x,y) + \Theta(y,y) \approx g(y - x, y - x)$, which is of second order in
# $|x-y|$. The slope of the ReLU jumps, so that $\mathbb{E}[\phi'\phi']$ has a cusp at $y = x$ and the squared distance
# of gradients is of first order: $\mathbb{E}[\phi''(z)^2]$ is infinite. Its hidden layer does have a metric, a flat one.

# %%
steps = [10 ** (-k / 2) for k in range(4, 13)]  # 1e-2 to 1e-6


def squared_distance(kernel, activation, h):
    """Of the features of x and of a point at distance h, for sigma = zeta = xi = 1."""
    formula = catalogue[f"{kernel}.{activation}.kernel"]

    def value(*pair):
        (xx, xy), (_, yy) = [[mp.fdot(one, two) for two in pair] for one in pair]
        arguments = {"kxx": xx + 1, "kxy": xy + 1, "kyy": yy + 1, "xy": xy, "xi": 1, "q": 1}
        return formula.mpmath(**{symbol.name: arguments[symbol.name] for symbol in formula.args})

    with mp.workdps(40):  # the sum cancels twelve of them
        x, direction = [mpf(3) / 5, -mpf(4) / 5], [mpf(5) / 13, mpf(12) / 13]
        y = [start + h * step for start, step in zip(x, direction, strict=True)]
        return float(value(x, x) - 2 * value(x, y) + value(y, y))


kinks = {
    f"{name}: ${k}(x,x) - 2{k}(x,y) + {k}(y,y)$": {
        label: PowerLaw.fit(steps, [squared_distance(kernel, activation, h) for h in steps])
        for label, activation in {"erf": "erf", "ReLU": "relu_power"}.items()
    }
    for (kernel, name), k in zip(ntk.KERNELS.items(), ("k", r"\Theta"), strict=True)
}
save(figure_laws(kinks, "$|x - y|$"), "02-kink")

# %% [markdown]
# So the suite refuses to state a metric:

# %%
messages = refusals(*(partial(tangent_magnification, a) for a in (relu, leaky_relu("0.1"))))
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Differences: 20 digits of them, against curves in floats of 16, a few lost to powers of V.
away = np.array(where) > 0


# A curvature far below 1/(r^2 g), which spaces without biases may have, is compared with that.
def missed(one, kernel, what, values):
    r = np.array(where)[away]
    size = np.abs(values[away])
    if what == "ricci":
        volume = by_differences[kernel, one.label, "magnification"][away]
        size = np.maximum(size, 1e-4 / (r**2 * volume ** (2 / setting["d"])))
    return (np.abs(one.closed_form(kernel, what, r=r, **setting) - values[away]) / size).max()


off = max(
    missed(one, kernel, what, values)
    for one in shown
    for (kernel, label, what), values in by_differences.items()
    if label == one.label
)
assert off < 1e-13, off
origins = {}
for one in shown if zeta and xi else ():
    origins[one.label] = one.closed_form("ntk", "origin", **setting)
    assert abs(by_differences["ntk", one.label, "ricci"][0] / origins[one.label] - 1) < 1e-13
    assert abs(by_differences["nngp", one.label, "ricci"][0]) < 1e-13 < abs(origins[one.label])

# Networks: as many standard errors as one run in a thousand exceeds somewhere by chance. The mean is
# also off by O(1/n), which at these widths is well below one of them.
comparisons = len(sweeps) * len(ntk.QUANTITIES) * len(r)
allowed = stdtrit(networks - 1, 1 - 0.5e-3 / comparisons)
for label, quantities in sweeps.items():
    for what, quantity in quantities.items():
        assert quantity.sigmas().max() < allowed, (label, what, quantity.sigmas())
        refused = quantity.widest.sigmas_from(plain[label, what])[0]
        assert not origins or refused > allowed, f"{label}: the NNGP's {what} passes at the origin"
errors = max(float(c.sigmas().max()) for quantities in sweeps.values() for c in quantities.values())

# Power laws: the next order is a share of 10 (xi/sigma)^2 or |x - y|, at most 1e-3 and 1e-2, at one end of a fit.
for title, what in titles.items():
    for one in shown:
        assert abs(readout[title][one.label].slope - 2) < 1e-2, (title, one.label)
        size = np.abs(one.closed_form("nngp", what, r=inside, **setting)).max()
        rounding = 1e-13 * max(1, size if what == "ricci" else 1)
        assert difference(one, what, 0.0) < rounding, "at xi = 0 the two are one"
hidden, gradients = ({label: law.slope for label, law in laws.items()} for laws in kinks.values())
assert all(abs(slope - 2) < 1e-2 for slope in (*hidden.values(), gradients["erf"]))
assert abs(gradients["ReLU"] - 1) < 1e-2
assert len(messages) == 2 and all("E[phi''^2] diverges" in message for message in messages)

print(f"The closed forms match differences of the kernel to {off:.0e},")
print(f"and networks of width {max(widths)} within {errors:.1f} of {allowed:.1f} standard errors.")
for label, at_origin in list(origins.items())[:1]:
    print(f"Where the NNGP is flat, the NTK of {label} has R(0) = {at_origin:.4f}.")
    record(ricci_at_origin=at_origin)
print(f"The ReLU's gradients part as |x - y|^{gradients['ReLU'] / 2:.2f}: they have no metric.")
if d > setting["d"]:
    print(f"The geometry of {d} inputs is judged by that of {setting['d']}.")
record(off=off, worst_sigmas=errors, relu_slope=gradients["ReLU"])
