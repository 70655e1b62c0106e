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
# # How does a handful of units curve the plane?
#
# A hidden layer of $n$ units sends an input $x$ to $\Phi_j(x) = n^{-1/2}\phi(w_j\cdot x + b_j)$, and the flat metric of
# these features, pulled back, measures areas and curvature among inputs. At infinite width it has the symmetry of the
# weights' distribution (notebook [01](01_nngp_geometry.py)); what does it look like when there are only three units,
# and one can see each of them? (Zavatone-Veth et al., appendix B and Figure B.1.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: finer grids and more networks
seed = 0
b = 1.0  # bias of every unit

# %%
from fractions import Fraction
from itertools import permutations

import numpy as np
import torch
from torch.func import jacfwd, vmap

from analytic.activations import erf
from analytic.checks.oracles import network_jet
from analytic.finite import erf3
from analytic.finite.bumps import bumps
from analytic.finite.units import Units
from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import finite
from notebooks.topics import finite_figures as figures
from numeric.models.shallow import ShallowNetwork

# %% [markdown]
# ## Claim
#
# Let $z_j = w_j\cdot x + b_j$ and, in the plane, $M_{jk} = \det(w_j, w_k)$. Two units alone are flat: they are
# coordinates. Any number of them has (B.5) and, without the 3 that the paper prints, (B.15):
#
# $$\det g = \frac1{n^2}\sum_{j<k} M_{jk}^2\,\phi'(z_j)^2\phi'(z_k)^2,\qquad
#   R = -\frac{1}{n^3(\det g)^2}\sum_{ijk} M_{jk}^2M_{ij}M_{ik}\,\phi'(z_i)^2\,\phi'(z_j)\phi''(z_j)\,\phi'(z_k)\phi''(z_k).$$
#
# For $\phi(z) = \mathrm{erf}(z/\sqrt2)$ each term of $\det g$ is a Gaussian bump, whose centre $c_{jk}$ is where the
# lines $z_j = 0$ and $z_k = 0$ cross, (B.62). Three such units have, from (B.16),
#
# $$(\det g)^2R = \tfrac2{27}\left(\tfrac2\pi\right)^3 M_{12}M_{23}M_{31}
#   \left(M_{23}z_2z_3 + M_{31}z_3z_1 + M_{12}z_1z_2\right)e^{-z_1^2-z_2^2-z_3^2},$$
#
# so that $R$ changes sign on a conic through all three bump centres: an ellipse if $|M_{12}|, |M_{23}|, |M_{31}|$ can
# be the sides of a triangle, a hyperbola if one exceeds the sum of the others. If two weights are parallel, $R = 0$.
#
# The paper's example (B.65) has weights at $0°$, $120°$ and $240°$ on the unit circle and one bias $b$. There the conic
# is the circle $|x| = 2|b|$, and (B.68) to (B.70) become

# %%
erf3.magnification

# %%
erf3.ricci

# %% [markdown]
# ## Play
#
# Three arrows are the weights of three units, and the line of the same colour is where that unit is at zero. In the middle
# the volume element with crosses at its bumps, on the right curvature, which changes sign on the dashed curve.
#
# - Drag an arrow, or give it the focus and press arrow keys: the bumps follow where the lines cross.
# - Turn two arrows until they are parallel: curvature vanishes everywhere.
# - Move $b$ to 0: the circle on which curvature changes sign shrinks to a point, and $R$ is negative all over.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.finite import panel_network
from notebooks.topics.finite_figures import PANEL

open_panel(panel_network, PANEL, globals())

# %% [markdown]
# ## Figure B.1
#
# The paper's biases are 0 and 1. Crosses are bump centres, the dashed circle is $|x| = 2|b|$. The paper's colours are
# those of $\det g$; its logarithm shows the rest of the plane. The colours of $R$ are logarithmic beyond 0.1.

# %%
networks = {f"$b = {bias:g}$": finite.Triple(finite.CIRCLE, bias) for bias in (0.0, 1.0)}
if b not in (0.0, 1.0):
    networks[f"$b = {b:g}$"] = finite.Triple(finite.CIRCLE, b)
save(figures.figure_maps(finite.network_maps(networks)), "06-figure-b1")

# %% [markdown]
# ## Evidence: a surface in space
#
# Three features are three coordinates: the network bends the plane into a surface inside a cube, and $R$ is twice its
# Gaussian curvature, $\det II/\det I$, the first and second fundamental forms. Automatic differentiation of the features
# gives both; no derivative of a metric is taken. The code for networks of any width is a third route.


# %%
def gauss(weights, bias, x):
    """sqrt(det I) and twice det II / det I of the surface (erf(z_1), erf(z_2), erf(z_3)) / sqrt 3."""

    def features(x):
        return torch.erf((weights @ x + bias) / 2**0.5) / 3**0.5

    first = jacfwd(features)
    J, H = vmap(first)(x), vmap(jacfwd(first))(x)  # (m, 3, 2), (m, 3, 2, 2)
    normal = torch.linalg.cross(J[..., 0], J[..., 1])
    area = torch.linalg.vector_norm(normal, dim=1)
    second = torch.einsum("mf,mfij->mij", normal / area[:, None], H)
    return area.numpy(), 2 * (torch.linalg.det(second) / area**2).numpy()


# %%
weights = torch.tensor(finite.CIRCLE, dtype=torch.float64)
points = finite.grid({"quick": 33, "full": 129}[profile]).reshape(-1, 2)
routes = {}
for bias in dict.fromkeys((0.0, 0.5, 1.0, b)):
    at = {"x1": points[:, 0], "x2": points[:, 1], "b": bias}
    network = ShallowNetwork(erf, weights, torch.full((3,), bias, dtype=torch.float64))
    x = torch.from_numpy(points)
    routes[bias] = {
        "closed form": (erf3.magnification.numpy(**at), erf3.ricci.numpy(**at)),
        "Gauss": gauss(weights, bias, x),
        "any width": (network.magnification(x).numpy(), network.ricci_scalar(x).numpy()),
        "least": torch.linalg.eigvalsh(network.metric(x))[:, 0].numpy(),
    }

# %%
axis = torch.linspace(-4, 4, 33, dtype=torch.float64)
onto = gauss(weights, b, torch.stack([axis, torch.zeros_like(axis)], dim=1))[1]
save(
    figures.figure_surface(finite.surface(networks[f"$b = {b:g}$"], axis.numpy(), onto)),
    "06-surface",
)

# %% [markdown]
# ## Evidence: ellipse, hyperbola, nothing
#
# Other weights, with one bias: areas $|M_{jk}|$ that make a triangle, areas that do not, and a pair of parallel weights.

# %%
others = {
    "ellipse": finite.Triple(((1, 0), (-0.5, 1.25), (-0.8, -0.6)), 1.0),
    "hyperbola": finite.Triple(((0.2, -0.8), (1.2, -1.6), (1.0, 1.4)), 0.6),
    "parallel pair": finite.Triple(((1, 0), (-0.5, 0.75), (0.8, -1.2)), 0.6),
}
save(figures.figure_maps(finite.network_maps(others)), "06-conics")

# %% [markdown]
# ## Evidence: exact fractions
#
# Curvature needs only the numbers $\phi'(z_j)$ and $\phi''(z_j)$ at a point. With random fractions for them the sum over
# pairs of units and the textbook's Riemann tensor must agree to the last digit; two units must give zero exactly.

# %%
rng = np.random.default_rng(seed)


def fractions(*shape):
    """Random ones, none of them zero."""
    over, under = rng.integers(1, 20, shape) * rng.choice([-1, 1], shape), rng.integers(1, 9, shape)
    return np.vectorize(lambda p, q: Fraction(int(p), int(q)), otypes=[object])(over, under)


exact = {}
for n in (2, 3, 5):
    w, slopes = fractions(n, 2).tolist(), fractions(n, 3).tolist()
    units = Units(w, *zip(*[one[:2] for one in slopes], strict=True))
    exact[n] = units.scalar(), network_jet(slopes, w).scalar()
    print(f"n = {n}: R = {exact[n][0]}, textbook {exact[n][1]}")

# %% [markdown]
# ## Evidence: nothing to measure
#
# Parallel weights see one direction only. No metric exists, and every call says so:

# %%
parallel = ((1, 0), (2, 0), (-1, 0))
calls = (
    lambda: Units.of(erf, parallel, (1, 1, 1), (0, 0)).scalar(),
    lambda: bumps(parallel, (1, 1, 1)),
    lambda: finite.Triple(parallel, 1.0),
    lambda: ShallowNetwork(
        erf, torch.tensor(parallel).double(), torch.ones(3).double()
    ).ricci_scalar(x),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Figure B.1: det g peaks between the paper's highest contour and the next, which it does not reach.
for (low, high), network in zip(
    ((0.0960, 0.1056), (0.0320, 0.0352)), list(networks.values())[:2], strict=True
):
    peak = np.exp(2 * network.at(finite.grid(301)).log_volume).max()
    assert low < peak < high, peak

# Three routes. Gauss's loses no digits; the one for any width subtracts squares of the metric's derivative
# in an orthonormal frame, of size |z|^2 over the metric's least eigenvalue, and rounds at that size.
worst = 0.0
radius = np.linalg.norm(points, axis=1)
for bias, by_route in routes.items():
    away = np.abs(radius - 2 * abs(bias)) > 1e-9
    (volume, scalar), (area, gauss_ricci), (size, any_width) = (
        by_route[name] for name in ("closed form", "Gauss", "any width")
    )
    worst = max(worst, np.abs(area / volume - 1).max())
    worst = max(worst, np.abs(gauss_ricci[away] / scalar[away] - 1).max())
    rounding = 1e-14 * (1 + bias**2 + radius**2) / by_route["least"]
    assert (np.abs(size / volume - 1) < 1e-14 / by_route["least"]).all(), bias
    assert (np.abs(any_width - scalar) < rounding).all(), bias
    assert np.abs(gauss_ricci[away] / (3 * scalar[away]) - 1).min() > 0.66, "the printed 3 passes"
    assert (np.sign(scalar[away]) == np.sign(2 * abs(bias) - radius[away])).all(), "wrong sign"
assert worst < 1e-10, worst


# Symmetry of the example: three turns and a mirror, six turns where b = 0; and of the units' order.
def turned(degrees):
    angle = np.deg2rad(degrees)
    return points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def same(bias, moved):
    one, two = (erf3.ricci.numpy(x1=p[:, 0], x2=p[:, 1], b=bias) for p in (points, moved))
    return bool(np.allclose(one, two, rtol=1e-9, atol=1e-11))  # R is steep: turning rounds x


mirrored = points * (1, -1)
assert all(
    same(bias, moved) for bias in (0.0, 1.0) for moved in (turned(120), turned(240), mirrored)
)
assert same(0.0, turned(60)) and not same(1.0, turned(60))
some = torch.from_numpy(points[radius < 2])
three_weights = torch.tensor([[1.0, 0.2], [-0.4, 1.1], [0.3, -0.9]]).double()
three_biases = torch.tensor([0.5, -0.3, 0.8]).double()
ordered = [
    ShallowNetwork(erf, three_weights[list(order)], three_biases[list(order)]).ricci_scalar(some)
    for order in permutations(range(3))
]
assert all(torch.allclose(one, ordered[0], rtol=1e-9) for one in ordered)

# Conics: through every centre, with the sign of Gauss's curvature, and of the kind that the areas say.
kinds = {"on an ellipse": 0, "on a hyperbola": 0}
for w in rng.normal(size=({"quick": 100, "full": 2_000}[profile], 3, 2)):
    triple = finite.Triple(w, 1.0)
    near = rng.normal(size=(20, 2))
    sign = np.sign(gauss(torch.from_numpy(w), 1.0, torch.from_numpy(near))[1])
    assert (sign == np.sign(triple.conic(near))).all()
    size = np.abs(triple.areas).max() ** 4 * (1 + np.abs(triple.heights(triple.centres)).max()) ** 2
    assert np.abs(triple.conic(triple.centres)).max() < 1e-12 * size
    form = sum(
        M * (np.outer(w[j], w[k]) + np.outer(w[k], w[j]))
        for M, (j, k) in zip(triple.areas, finite.PAIRS, strict=True)
    )
    assert triple.zeros == ("on an ellipse" if np.linalg.det(form) > 0 else "on a hyperbola")
    kinds[triple.zeros] += 1
assert min(kinds.values()) > 0, kinds
assert [one.zeros for one in others.values()] == ["on an ellipse", "on a hyperbola", "everywhere"]

# Fractions have no rounding.
assert exact[2] == (0, 0)
assert all(exact[n][0] == exact[n][1] != 3 * exact[n][0] for n in (3, 5))
assert len(messages) == len(calls), messages

kinds_text = " and ".join(f"{kind} for {count}" for kind, count in kinds.items())
print(f"The closed forms match Gauss's curvature to {worst:.0e} on {len(points)} points a bias;")
print("R is positive inside |x| = 2|b|, negative outside, and the printed 3 R is refused.")
print(f"Of {sum(kinds.values())} random networks R vanishes {kinds_text}.")
print(f"Five units in exact fractions: R = {float(exact[5][0]):.6g}, as the textbook says.")
record(
    gauss_off=worst, on_an_ellipse=kinds["on an ellipse"], on_a_hyperbola=kinds["on a hyperbola"]
)
