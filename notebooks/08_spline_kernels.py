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
# # What does a univariate ReLU network interpolate when only its readout moves?
#
# A network $f(x) = m^{-1/2}\sum_i c_i\,[a_ix - b_i]_+$ has its hidden layer drawn at random, and only $c$ is trained,
# from zero. Among all $c$ that fit the data, gradient descent finds the shortest. The paper says that wide networks of
# uniform weights then become cubic splines, and draws a natural one beside them. Is it one, and if not, how far off?
# (Williams et al., section 3.3, Figures 3 and 4.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, more units and more networks
seed = 0
device = "auto"
law = "uniform"  # of hidden units in Figure 4; or signs, gaussian, onesided
A, B = 1.0, 1.0  # ranges of slopes and biases, or their standard deviations
m = 300  # units
ridge = 1e-9

# %%
import numpy as np
import torch
from IPython.display import Markdown
from scipy.interpolate import CubicSpline
from scipy.special import ndtri

from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import splines
from notebooks.topics import splines_figures as figures
from notebooks.topics.statistics import PowerLaw
from notebooks.topics.statistics_figures import figure_laws
from numeric.estimate import Estimate
from numeric.experiments.random_features import (
    FeatureSweep,
    Independent,
    RandomFeatures,
    Stratified,
)

# %% [markdown]
# ## Claim
#
# A unit bends $f$ at its knot $u = b/a$, and the steeper it is, the more. For a law of $(a, b)$ that is symmetric under
# $(a, b)\to(-a, -b)$, let $\nu_p(u) = \int|a|^p\,p(a, au)\,da$: $\nu_1$ counts knots, $\nu_3$ weighs them. The paper
# prints $|a|$ where $|a|^3$ belongs, (25), and leaves out that straight lines cost something too. Corrected,
#
# $$\|f\|^2 = \int\frac{f''(u)^2}{\nu_3(u)}\,du + \frac{4\ell_1^2}{E\,a^2} + \frac{4\ell_0^2}{E\,b^2},\qquad
#   f(x) = \tfrac12\int f''(u)\,|x-u|\,du + \ell_1x + \ell_0,$$
#
# and the interpolant of least norm has $f'' = \nu_3\cdot\frac12\sum_j\alpha_j|x - x_j|$: a polygon times the density.
#
# - It is a cubic spline where $\nu_3$ is constant, which for $a\in[-A,A]$ and $b\in[-B,B]$ means $|x|\le B/A$. Beyond, its
#   pieces are $p_0 + p_1x + q_1/x + q_2/x^2$. For $a = \pm1$ it breaks where the knots end: $f''$ jumps at $\pm B$.
# - It is not the natural spline, to which lines cost nothing: the distance falls as $1/B$, and as $1/B^3$ for even data.
# - If the hidden layer moves too, the tangent kernel (27) adds $E[c^2](1+xy)P$ with $P = \frac12 - \frac12|F(x)-F(y)|$, the
#   probability that a unit is active at both points; $F$ is the distribution of knots. The interpolant then has a kink of
#   $-E[c^2]\,(1+x_j^2)\,\nu_1(x_j)\,\alpha_j$ at each datum: no spline of any smoothness.
# - $m$ independent units come within $O(m^{-1/2})$ of the limit, units on a grid within $O(m^{-2})$.
#
# For uniform weights the kernel of random features is $\frac16(A^2xy+B^2) + \frac{A^3}{96B}|x-y|^3$ where both points have
# $|x|\le B/A$. For normal ones, with standard deviations $s_a$ and $s_b$, it is what (26) should say:

# %%
uniform, gaussian, signs = (splines.Setting.of(name) for name in ("uniform", "gaussian", "signs"))
gaussian.initialisation.rf

# %% [markdown]
# ## Play
#
# On the left five points to drag, in the middle what goes through them: blue the interpolant of infinitely many units,
# green that of $m$ random ones, dashed the natural spline. On the right how far both are from the spline.
#
# - Drag a point past its neighbour, or up and down: the curves bend like a thin ruler.
# - Widen $B$: blue approaches the spline, while green needs more and more units.
# - Choose `signs` and lower $B$ below the outermost points: beyond the last knot nothing can bend, and a fit may not exist.

# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.splines import interpolants
from notebooks.topics.splines_figures import PANEL

open_panel(interpolants, PANEL, globals())

# %% [markdown]
# ## Figure 3: the terms of the tangent kernel
#
# A slice at $x = 1/2$: one term for the gradients by each of $c$, $a$ and $b$. Lines are closed forms; circles are
# means over the units of one random network with $c$ uniform on $[-1, 1]$, and the lower row is how far these are off.
# The paper states neither the law of $c$ nor the ranges.


# %%
def slice_of(setting, count, x, y, seed):
    """Every unit's share in the three terms, and what they are on average."""
    a, b = RandomFeatures(setting.initialisation, setting.values, count, seed, device=device).units
    generator = torch.Generator().manual_seed(seed + 1)
    c = (2 * torch.rand(count, generator=generator, dtype=a.dtype) - 1).to(a.device)
    y = torch.as_tensor(y).to(a)
    here, there = a * x - b, y[:, None] * a - b
    both = c**2 * (here > 0) * (there > 0)
    shares = {"c": here.relu() * there.relu(), "a": x * y[:, None] * both, "b": both}
    return {name: Estimate.of(share.T.cpu()) for name, share in shares.items()}


many = {"quick": 25_000, "full": 250_000}[profile]
x, y, ec2 = 0.5, np.linspace(-3, 3, 41), 1 / 3
laws = {"a, b uniform on [-1, 1]": uniform, "a, b standard normal": gaussian}
networks = {title: slice_of(one, many, x, y, seed) for title, one in laws.items()}
slices = {
    f"{title}, m = {many}": splines.kernel_slice(one, x, y, ec2, networks[title])
    for title, one in laws.items()
}
# As many standard errors as one run in a thousand exceeds somewhere by chance.
allowed = -ndtri(0.5e-3 / (len(slices) * 3 * len(y)))
save(figures.figure_slices(slices, allowed), "08-figure-3")

# %% [markdown]
# ## Figure 4: a square wave
#
# Ten points, in the paper with uniform weights and $A = B = 1$. Networks approach the blue interpolant of the kernel, and stay as far
# from the natural spline as that is, which here is too little for the eye: the data are even, and extend to $0.9\,B$.

# %%
wave = np.linspace(-0.9, 0.9, 10)
square = np.sign(np.cos(2.5 * np.pi * wave))
chosen = splines.Setting.of(law, A, B)
placed = wave + 1 if law == "onesided" else wave  # such units see nothing to the left of 0
spline = splines.natural(placed, square)
limit = chosen.interpolant(placed, square, ridge=ridge).predict
shown = sorted(
    {100, m, 3_000}
)  # with a few dozen, some gap between data has no knot and no fit exists


def network(count, sampling, seed):
    hidden = RandomFeatures(chosen.initialisation, chosen.values, count, seed, sampling, device)
    fitted = hidden.fit(placed, square, ridge)
    return lambda x: fitted.predict(x).cpu().numpy()


curves = {f"network, m = {count}": network(count, Independent(), seed) for count in shown}
approaches, gaps = {}, []  # from the spline, and of units on a grid from the kernel's interpolant
for sampling, label, widths in (
    (Independent(), "independent units", [2**k for k in range(7, 14)]),
    (Stratified(), "units on a grid", [2**k for k in range(5, 14)]),
):
    fits = [network(k, sampling, seed) for k in widths]
    far = [splines.largest_distance(one, spline, placed) for one in fits]
    gaps = [splines.largest_distance(one, limit, placed) for one in fits]
    approaches[label] = PowerLaw.fit(widths, far)
fit = splines.fit((placed, square), curves, limit, spline, approaches)
save(figures.figure_fit(fit), "08-figure-4")

# %% [markdown]
# ## Evidence: how far from the natural spline
#
# The largest distance between data against $B$, for five points of no symmetry and for the square wave, which is even.

# %%
five, heights = np.array(splines.FIVE).T
ranges = [2.0**k for k in range(3, 9)]


def distance(name, B, x, y):
    interpolant = splines.Setting.of(name, 1.0, B).interpolant(x, y).predict
    return splines.largest_distance(interpolant, splines.natural(x, y), x)


laws = {
    title: {
        label: PowerLaw.fit(ranges, [distance(name, B, *data) for B in ranges])
        for name, label in {"signs": r"$a = \pm1$", "uniform": "a uniform, A = 1"}.items()
    }
    for title, data in {
        "five points: distance": (five, heights),
        "square wave, even: distance": (wave, square),
    }.items()
}
save(figure_laws(laws, "$B$"), "08-range")

# %% [markdown]
# Other cubic splines through the five points are not what it tends to: the distance to the clamped one and to the one
# without a knot next to its ends settles where these differ from the natural one.

# %%
ends = {
    kind: [
        splines.largest_distance(splines.Setting.of("signs", 1.0, B).interpolant(five, heights).predict,
                         CubicSpline(five, heights, bc_type=kind), five)
        for B in (1.0, 16.0, 256.0)
    ]
    for kind in ("natural", "clamped", "not-a-knot")
}  # fmt: skip
rows = [f"| {kind} | " + " | ".join(f"{v:.2e}" for v in far) + " |" for kind, far in ends.items()]
Markdown("| end | B = 1 | B = 16 | B = 256 |\n|---|---|---|---|\n" + "\n".join(rows))

# %% [markdown]
# ## Evidence: where it is no cubic spline
#
# Left: slopes through the five points. Those of random features are smooth, those of the tangent kernel, with $E\,c^2 = 1/3$, jump at the
# data. Middle and right: $f''$ by second differences, against the density times a polygon. With $B/A = 0.3$ it leaves the
# straight lines of a spline where $|x| > 0.3$; with $a=\pm1$, $B = 0.6$ it breaks off at $\pm0.6$, where there is no datum.
# Ticks mark the data.

# %%
grid = np.arange(-1_200, 1_201) / 1_000
tangent = uniform.interpolant(five, heights, readout=ec2).predict
functions = {
    "random features": uniform.interpolant(five, heights).predict,
    "tangent kernel": tangent,
}


def coefficients(setting, ec2=0.0):
    """From the kernel's Gram matrix, which the interpolants above never see."""
    kernel = setting.initialisation.ntk.numpy(
        x=five[:, None], y=five[None], ec2=ec2, **setting.values
    )
    return np.linalg.solve(kernel, heights)


def polygon(setting):
    """f'' from the coefficients."""
    alpha = coefficients(setting)
    density = setting.initialisation.density.numpy
    return lambda x: density(u=x, **setting.values) * (np.abs(x[:, None] - five) @ alpha) / 2


narrow, ended = splines.Setting.of("uniform", 1.0, 0.3), splines.Setting.of("signs", 1.0, 0.6)
others = {  # f, its f'' as density times polygon, and where that may break
    title: (law.interpolant(five, heights).predict, polygon(law), (-edge, edge))
    for title, law, edge in (
        ("$f''$, uniform, B/A = 0.3: rational beyond", narrow, 0.3),
        (r"$f''$, $a = \pm1$, B = 0.6: ends at B", ended, 0.6),
    )
}
second = [splines.second_derivative(title, *one, grid) for title, one in others.items()]
shown = splines.not_splines((five, heights), grid, functions, second)
save(figures.figure_not_splines(shown), "08-not-splines")

# %% [markdown]
# ## Evidence: finitely many units
#
# The root of the mean squared distance between networks and the kernel's interpolant, through the five points.

# %%
draws = {"quick": 40, "full": 400}[profile]
settings = {r"$a = \pm1$": signs, "uniform": uniform, "Gaussian": gaussian}
wide = {"quick": (512, 2_048, 8_192), "full": (512, 2_048, 8_192, 32_768)}[profile]


def sweep(setting, sampling, widths, points=()):
    return FeatureSweep(
        setting.initialisation, setting.values, five, heights, widths, draws, seed, sampling, points,
        device,
    ).run(progress=False)  # fmt: skip


few = tuple(np.linspace(five[0], five[-1], 69))  # enough for a mean over many networks
independent = {label: sweep(one, Independent(), wide, few) for label, one in settings.items()}
stratified = {
    label: sweep(one, Stratified(), tuple(2**k for k in range(6, 12)))
    for label, one in settings.items()
}
convergence = {
    title: {label: PowerLaw.fit([*e.rms], [*e.rms.values()]) for label, e in errors.items()}
    for title, errors in {
        f"{draws} networks of independent units": independent,
        "units on a grid": stratified,
    }.items()
}
units = figure_laws(convergence, "$m$")
units.axes[0].set_xticks(wide, labels=map(str, wide))
units.axes[0].xaxis.minorticks_off()
save(units, "08-units")

# %% [markdown]
# ## Evidence: what has no interpolant
#
# Three points beyond the last knot can only lie on a line, and one-sided units see nothing to the left:

# %%
calls = (
    lambda: ended.interpolant([0.7, 0.8, 0.9], [0, 1, 0]),
    lambda: splines.Setting.of("onesided").interpolant(five, heights),
    lambda: RandomFeatures(uniform.initialisation, uniform.values, 4, seed).fit(five, heights),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Figure 3: the network's means, in their standard errors; a fifth more than that is refused.
errors = max(values.max() for one in slices.values() for values in one.sigmas.values())
assert errors < allowed, errors
for one, estimates in zip((uniform, gaussian), networks.values(), strict=True):
    for name, exact in one.terms(x, y, ec2).items():
        wrong = estimates[name].sigmas_from(torch.from_numpy(1.2 * exact))
        assert wrong.max() > allowed, f"a {name} term that is a fifth too large passes too"

# In the core of the uniform law both points see one cubic.
p, q = np.meshgrid(np.linspace(-1, 1, 21), np.linspace(-1, 1, 21))
core = (p * q + 1) / 6 + np.abs(p - q) ** 3 / 96
assert np.abs(uniform.terms(p, q, ec2)["c"] / core - 1).max() < 1e-13

# Gradient descent on c from zero, with momentum, ends at the shortest c.
hidden = RandomFeatures(uniform.initialisation, uniform.values, 1_000, seed, device=device)
shortest = hidden.fit(five, heights).coefficients
trained = hidden.train(five, heights, 3_000, momentum=0.97, progress=False).coefficients
assert (trained - shortest).norm() < 1e-9 * shortest.norm(), (trained - shortest).norm()

# Figure 4: what the networks reach is the kernel's interpolant, as m^-2 for many units on a grid, and less fast
# for fewer. It is not the spline, where they are near enough to tell the one from the other.
assert gaps[-1] < gaps[-3] / 8, gaps
reached = approaches["units on a grid"].y[-1]
told_apart = gaps[-1] < 1e-2 * fit.limit
assert not told_apart or abs(reached / fit.limit - 1) < 1e-2, (reached, fit.limit)
assert told_apart or (law, A, B, ridge) != ("uniform", 1, 1, 1e-9)
assert (law, A, B) != ("uniform", 1, 1) or fit.limit > 2.5e-3, fit.limit

# Distances: a known value, and laws whose next order is a share of |x|/B, at most 1/8, at one end.
known = distance("signs", 1.0, five, heights)
assert f"{known:.2e}" == "1.47e-02", known
generic, even = ({k: law.slope for k, law in column.items()} for column in laws.values())
assert all(abs(slope + 1) < 2e-2 for slope in generic.values()), generic
assert all(abs(slope + 3) < 2e-2 for slope in even.values()), even


# Kinks: half a step halves the change of a continuous slope over it, and leaves that at a kink.
def bends(f, grid):
    """By how much the slope changes at each inner point of a grid."""
    return np.diff(splines.slopes(f, grid))


def largest(f, grid):
    return np.abs(bends(f, grid)).max()


finer = np.linspace(grid[0], grid[-1], 2 * len(grid) - 1)
for f, ratio in zip(functions.values(), (2, 1), strict=True):
    assert abs(largest(f, grid) / largest(f, finer) - ratio) < 1e-2, ratio
count = uniform.initialisation.knots.numpy(u=five, **uniform.values)
jumps = -ec2 * (1 + five**2) * count * coefficients(uniform, ec2)
change = bends(tangent, grid)
kinks = np.flatnonzero(np.abs(change) > np.abs(jumps).min() / 2)
assert np.allclose(grid[kinks + 1], five), grid[kinks + 1]
sizes = change[kinks] - (change[kinks - 1] + change[kinks + 1]) / 2  # f'' on either side taken off
assert np.abs(sizes / jumps - 1).max() < 1e-5, sizes  # that leaves a share of the step squared


# f'': density times polygon, but for the steps that straddle a break; and which functions fit a piece.
def misfit(f, low, high, powers):
    x = np.linspace(low, high, 201)
    basis = np.stack([x ** float(p) for p in powers], axis=1)
    values = f(x)
    rest = values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    return np.abs(rest).max()


step, inner = grid[1] - grid[0], grid[1:-1]
for title, (f, curvature, edges) in others.items():
    smooth = np.min([np.abs(inner - edge) for edge in edges], axis=0) > 1.5 * step
    off = np.abs(bends(f, grid) / step - curvature(inner))[smooth]
    assert off.max() < 2 * step * np.abs(curvature(inner)).max(), title
rational, cubic = (-2, -1, 0, 1), (0, 1, 2, 3)
(beyond, *_), (_, broken, _) = others.values()
inside = (0.0, 0.3)
assert misfit(beyond, 0.5, 0.9, rational) < 1e-11 < 1e-4 < misfit(beyond, 0.5, 0.9, cubic)
assert misfit(beyond, *inside, cubic) < 1e-11
jump = np.subtract(*(broken(np.array([edge])) for edge in (0.6 - 1e-9, 0.6 + 1e-9)))
assert abs(jump) > 1, "f'' does not break at B"

# Ends: two of the three splines are not the limit.
for kind in ("clamped", "not-a-knot"):
    apart = splines.largest_distance(
        CubicSpline(five, heights, bc_type=kind), splines.natural(five, heights), five
    )
    assert abs(ends[kind][-1] / apart - 1) < 0.01 and ends["natural"][-1] < 1e-3 * apart, kind

# Units: slopes within four standard errors of the mean squares, and a few percent of next order.
powers = {}
for label, result in independent.items():
    u = np.log(wide) - np.log(wide).mean()
    share = [(e.stderr / e.mean / 2).item() for e in result.square.values()]
    unsure = np.linalg.norm(u * share) / (u @ u)
    powers[label] = result.rms_slope().value
    assert abs(powers[label] + 0.5) < 4 * unsure + 0.03, (label, powers[label], unsure)
    last = result.square[wide[-1]]
    predicted = torch.tensor(result.constant**2 / wide[-1]).to(last.mean)
    assert last.sigmas_from(predicted) < 4, f"{label}: not the constant of first order"
grids = {label: result.rms_slope().value for label, result in stratified.items()}
assert all(abs(slope + 2) < 0.1 for slope in grids.values()), grids
assert len(messages) == len(calls), messages

print(f"The closed forms match {many} units within {errors:.1f} of {allowed:.1f} standard errors.")
if not told_apart:
    print(
        f"Units on a grid are {gaps[-1]:.1e} from the interpolant of Figure 4, which lies {fit.limit:.1e} from"
    )
    print("the spline: too few to tell these apart, so that this is not judged.")
print(f"At B = 1 the interpolant is {known:.2e} from the natural spline; that falls")
one, other = generic[r"$a = \pm1$"], even[r"$a = \pm1$"]
print(f"as B^{one:.2f}, and as B^{other:.2f} for even data.")
print(f"The tangent kernel's interpolant has kinks at {', '.join(f'{v:g}' for v in five)}.")
print(
    f"Independent units approach as m^{powers['uniform']:.2f}, a grid as m^{grids['uniform']:.2f}."
)
record(
    worst_sigmas=errors,
    distance_to_spline=known,
    slope_by_range=one,
    slope_by_range_if_even=other,
    slope_by_units=powers["uniform"],
)
