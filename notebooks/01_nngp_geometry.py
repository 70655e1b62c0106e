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
# # What geometry does a wide random network give its inputs?
#
# A network with one hidden layer maps $x$ to $\Phi_j(x) = n^{-1/2}\phi(w_j\cdot x + b_j)$ and so pulls the flat
# metric of its features back to input space. With Gaussian weights and infinite width that metric depends on
# $|x|$ alone. How does it magnify areas, how does it curve space, and do finite networks agree?
# (Zavatone-Veth et al., section IV and appendix C.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: more networks and radii than the paper's own figure
seed = 0
device = "auto"
activation = "erf"  # or monomial, relu_power, sine, cosine, exponential, gaussian, gelu, elu, snake
sigma, zeta = 1.0, 1.0  # standard deviations of weights and biases
q = 2  # degree of monomials
d = 2  # inputs

# %%
from fractions import Fraction

import numpy as np
from IPython.display import Markdown
from scipy.integrate import quad

from analytic import catalogue
from analytic.checks.oracles import network_jet
from analytic.geometry.riemann import hessian_curvature
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import nngp
from notebooks.topics import nngp_figures as figures
from numeric.experiments.width import WidthSweep

# %% [markdown]
# ## Claim
#
# With $V = \sigma^2|x|^2 + \zeta^2$ and $e^{\Omega} = \sigma^2\,\mathbb{E}[\phi'(z)^2]$, $z\sim N(0, V)$, the metric is
# $g = e^{\Omega}(I + 2\Omega' xx^T)$ and
#
# $$\sqrt{\det g} = e^{d\Omega/2}\sqrt{1 + 2|x|^2\Omega'},\qquad
# R = -\frac{(d-1)e^{-\Omega}\Omega'^2|x|^2}{(1+2|x|^2\Omega')^2}
# \Big[d + 2 + 2|x|^2\Big((d-2)\Omega' + 2\frac{\Omega''}{\Omega'}\Big)\Big].$$
#
# The paper prints $3(d-1)$ in the numerator. For $\phi = \mathrm{erf}(z/\sqrt2)$ the two are

# %%
catalogue["nngp.erf.magnification"]

# %%
catalogue["nngp.erf.ricci"]

# %% [markdown]
# ## Play
#
# Both closed forms along a ray from the origin: on the left how much the network enlarges small areas, on the right how
# it curves space. The line of numbers holds both at $|x| = 1$, and above it is the formula with your numbers filled in.
#
# - Choose `monomial` and raise $q$: the dip of the curvature moves inwards and deepens.
# - Take the biases away, $\zeta = 0$: monomials are cones, which are flat but for their tip; erf is not.
# - Lock the axes and raise $d$: curvature grows about as $d^2$, and soon leaves the picture.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.nngp import ray
from notebooks.topics.nngp_figures import PANEL

open_panel(ray, PANEL, globals())

# %% [markdown]
# ## Evidence: finite networks (Figure 1)
#
# Random networks of growing width, in the paper with $d = 2$ and $\sigma = \zeta = 1$: mean and standard deviation over
# realisations in blue, the closed form dashed, the printed curvature dotted in red. Above, the activation of the
# parameters, below a monomial.

# %%
scale = {"quick": {}, "full": {"realisations": 100, "radii": tuple(np.linspace(0, 5, 101))}}[
    profile
]
if zeta == 0:  # without biases the metric of a monomial vanishes at the origin
    scale["radii"] = scale.get("radii", tuple(np.linspace(0, 5, 51)))[1:]
scale |= {"d": d, "sigma": sigma, "zeta": zeta, "seed": seed, "device": device}
sweeps = {
    name: WidthSweep(act, **scale).run(progress=profile == "full")
    for name, act in nngp.compared(activation, q).items()
}

# %%
networks = {name: nngp.RandomNetworks.of(sweep) for name, sweep in sweeps.items()}
save(figures.figure_1(networks), "01-figure-1")

# %% [markdown]
# ## Evidence: where the factor of three comes from
#
# The metric of a shallow network has a totally symmetric derivative, so its Riemann tensor is a multiple of
# $g^{\rho\lambda}(\partial_\rho g_{\mu\alpha}\partial_\lambda g_{\nu\beta} - \partial_\rho g_{\mu\beta}\partial_\lambda g_{\nu\alpha})$.
# Which multiple? The textbook definition, in exact rational arithmetic on a network of three units, says $-1/4$; the
# paper's appendix A says $-3/4$, which is what one gets with the wrong sign before the product of Christoffel symbols.

# %%
weights = [
    [Fraction(1), Fraction(2, 3)],
    [Fraction(-1, 2), Fraction(1)],
    [Fraction(3, 4), Fraction(-2)],
]
units = [
    [Fraction(k, 5), Fraction(2, k), Fraction(-k, 3)] for k in (1, 2, 4)
]  # phi', phi'', phi'''
jet = network_jet(units, weights)
textbook = jet.curvature()
quarter = hessian_curvature(jet.g, jet.dg)
three_quarters = hessian_curvature(jet.g, jet.dg, factor=Fraction(-3, 4))
print("textbook R_1212 =", textbook.riemann[0, 1, 0, 1])
print("with -1/4       =", quarter[0, 1, 0, 1])
print("with -3/4       =", three_quarters[0, 1, 0, 1])

# %% [markdown]
# A second route uses no tensors. In the plane the total curvature is fixed by topology: for a monomial of degree
# $q$ the far end of the surface is a cone, and Gauss-Bonnet demands
# $\tfrac12\int R\sqrt{\det g}\,d^2x = 2\pi(1 - q/\sqrt{2q-1})$.


# %%
def total_curvature(degree, factor=1):
    ricci, volume = (
        catalogue[f"nngp.monomial.{what}"].numpy for what in ("ricci", "magnification")
    )
    values = {"d": 2, "sigma": 1.0, "zeta": 1.0, "q": degree}
    return (
        factor
        * quad(lambda r: np.pi * r * ricci(r=r, **values) * volume(r=r, **values), 0, np.inf)[0]
    )


rows = [
    f"| {k} | {2 * np.pi * (1 - k / np.sqrt(2 * k - 1)):.9f} | {total_curvature(k):.9f} | {total_curvature(k, 3):.9f} |"
    for k in (2, 3, 4)
]
Markdown("\n".join(["| q | Gauss-Bonnet | corrected | as printed |", "|---|---|---|---|", *rows]))

# %% [markdown]
# ## Evidence: monomials (Figure C.1)
#
# Curvature of $z^q/\sqrt{(2q-1)!!}$ networks with $\sigma = \zeta = 1$: it falls, then returns to zero. In $d = 2$ it
# turns at $\sigma^2|x|^2 = C$ with $C = \zeta^2(\sqrt{17q^2-8q}-3q+2)/(2(2q^2+q-1))$.

# %%
save(figures.figure_c1(nngp.monomial_curvature()), "01-figure-c1")

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# At finite width a mean is off by about the square of the relative spread over networks. It is judged where
# that is less than a standard error: not for high degrees or dimensions, whose networks are too narrow here.
widest = {name: sweep.magnification.widest for name, sweep in sweeps.items()}
wide = {
    name: sweeps[name]
    for name, one in widest.items()
    if ((one.spread / one.mean) ** 2 < one.stderr / one.mean).all()
}
refused = {}  # where curvature can be told from none: 3 R and R are the same on a line, on cones, where R = 0
for name, sweep in wide.items():
    assert sweep.magnification.sigmas().max() < 4, name
    assert sweep.ricci.sigmas().max() < 4, name
    curved = abs(sweep.ricci.exact) > 4 * sweep.ricci.widest.stderr
    if curved.any():
        refused[name] = float(sweep.ricci.sigmas(factor=3)[curved].min())
        assert refused[name] > 4, f"{name}: the printed curvature is not refused"
assert d > 1 or not refused
assert (textbook.riemann == quarter).all() and not (textbook.riemann == three_quarters).all()
for degree in (2, 3, 4):
    cone = 2 * np.pi * (1 - degree / np.sqrt(2 * degree - 1))
    assert abs(total_curvature(degree) - cone) < 1e-9
if wide:
    worst = max(float(s.ricci.sigmas().max()) for s in wide.values())
    print(f"The closed form holds within {worst:.1f} standard errors at every radius;")
    record(worst_sigmas=worst)
if refused:
    least = min(refused.values())
    print(f"three times it, as printed, is at least {least:.0f} standard errors off.")
    record(least_sigmas_of_printed=least)
elif wide:
    print("these networks show no curvature, so they cannot tell it from three times it.")
if narrow := sorted(set(sweeps) - set(wide)):
    print(
        f"Too narrow to be judged are networks of {' and of '.join(narrow)}; see the exact fractions above."
    )
