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
# # Can a network be trained on straight lines in output space, and is it worth it?
#
# Gradient descent moves parameters downhill; what outputs do follows from that, through the tangent kernel. Chen and
# Muñoz Ewald turn it around: with another metric on parameters, outputs follow their own gradient flow, straight lines
# to the labels. Between the two lies a family with a parameter $\alpha$. Do real networks do it, what happens where
# parameters are too few or activations have kinks, and what does it cost? (Chen and Muñoz Ewald, theorem 2.3,
# propositions 2.4 and 2.5, corollary 3.2.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, more digits
seed = 0
adapted = 1.0  # alpha of Play: 0 is gradient flow, 1 the flow on straight lines
t = 0.6  # time that Play shows
n = 10  # tanh units in Play

# %%
import numpy as np
import torch
from IPython.display import Markdown
from scipy.integrate import RK45
from torch import nn

from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import flows as topic
from notebooks.topics import flows_figures as figures
from notebooks.topics.path_kernel import digits
from numeric import flows

# %% [markdown]
# ## Claim
#
# Let $D = \partial x/\partial\theta$ be the Jacobian of all $QN$ outputs $x$ on $N$ training points, $C = |x - y|^2/2N$, and
#
# $$\partial_s\theta = -\big(\alpha\,(D^TD)^+ + 1 - \alpha\big)\nabla_\theta C,\qquad
#   \partial_s x = -K_\alpha\nabla_x C,\qquad K_\alpha = \alpha P + (1-\alpha)\,DD^T,\qquad t = 1 - e^{-s/N}.$$
#
# - All $\alpha$ share their equilibria. At $\alpha = 1$, while $D$ has full rank, $K_1$ is the identity and outputs move on
#   straight lines, $x(t) = y + (1-t)(x_0 - y)$, so that $C(t) = (1-t)^2\,C(0)$ for *every* network.
# - Where directions of outputs are lost, outputs leave the line by what those directions foretell. The printed (2.59) and
#   (2.60) have a wrong sign and a wrong projection; as corrected, they hold to the tolerance.
# - A network of ReLU has no Lipschitz Jacobian, as the theory supposes. In the limit of smooth activations it slides along
#   kinks and outputs stay on the line; short explicit steps cross kinks to and fro and leave the line, however short.
# - If labels depend on the class alone, each class collapses to its label as $1 - t$ (corollary 3.2, which takes for
#   granted that the flow lasts). Nothing of the kind is forced on the layer before.

# %%
topic.network(2, n, 2)  # of Play, which has eight points of three classes and two outputs

# %% [markdown]
# ## Play
#
# Left, the two outputs at eight training points: dots are where they are at time $t$, dotted lines lead from the start to
# the label of each class (crosses). In the middle the cost, beside that of straight lines; right, the kernel
# $K_\alpha$ that moves outputs now, a matrix of $16\times16$ numbers.
#
# - Press play at $\alpha = 1$: dots run straight to the crosses, and the kernel is the identity at every time.
# - Lower $\alpha$ step by step: the tangent kernel shows through, paths bend, and what gradient flow learns last stays behind.
# - At $\alpha = 0$ change the number of units $n$: paths and cost change with it; at $\alpha = 1$ they do not.
# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.flows import flow_in_plane
from notebooks.topics.flows_figures import PANEL

open_panel(flow_in_plane, PANEL, globals())

# %% [markdown]
# ## Evidence: straight lines against gradient flow
#
# The same network from the same start, at three values of $\alpha$.

# %%
moments = np.linspace(0, topic.LAST, {"quick": 8, "full": 40}[profile])
rows = {
    rf"$\alpha$ = {a:g}": [topic.flow_in_plane(a, time, n) for time in moments]
    for a in (0.0, 0.8, 1.0)
}
save(figures.figure_flows(rows), "13-flows")

# %%
figures.film_of_flows(rows, "13-film")

# %% [markdown]
# To the last digits that were asked for, at a tolerance of 1e-8 a step:

# %%
tolerance = 1e-8
fine = topic.flow_of_plane(1.0, n, tolerance)
off_line = max(float(fine.deviation(fine.end * k / 50).norm()) for k in range(51))
Markdown(
    f"largest distance from the straight line: {off_line:.1e}, in {fine.evaluations} velocities"
)

# %% [markdown]
# ## Evidence: the tangent kernel morphs into the identity
#
# At the start of training, over the mean of its diagonal. $K_1$ has lost every trace of the network.

# %%
alphas = (0.0, 0.5, 0.8, 0.95, 1.0)
adapted_kernel = topic.kernel_of(fine, 0.0)
tangent_kernel = topic.kernel_of(topic.flow_of_plane(0.0, n), 0.0)
kernels = {a: (a * adapted_kernel + (1 - a) * tangent_kernel).numpy() for a in alphas}
kernels = {a: one / one.diagonal().mean() for a, one in kernels.items()}
save(figures.figure_morph(kernels), "13-morph")

# %%
off_identity = (topic.kernel_of(fine, topic.LAST) - torch.eye(topic.COUNT)).abs().max()
identity, rounding = float(off_identity), 2e-16 * fine.condition(topic.LAST)
bent = topic.flow_of_plane(0.0, n)
moved = float((bent.kernel(topic.LAST) - bent.kernel(0.0)).norm() / bent.kernel(0.0).norm())
Markdown(
    f"$K_1$ is {identity:.1e} from the identity at $t$ = {topic.LAST}; the tangent kernel has changed by "
    f"{moved:.2f} of its norm under gradient flow."
)

# %% [markdown]
# ## Evidence: too few parameters
#
# Twelve outputs and $K$ = 3 or 6 parameters that move them along curves: $12 - K$ directions are lost at every time, and
# which ones changes on the way. The dashed curves are the corrected (2.59), integrated from projections alone.

# %%
few = [topic.deviations(topic.flow_of_few(count)) for count in (3, 6)]
save(figures.figure_deviations(few), "13-deviation")

# %% [markdown]
# ## Evidence: ReLU
#
# Left, what short explicit steps do, and the flow that slides. Finer steps tend to a limit that is not zero: every crossing
# of a kink adds $j\,|z|$ to outputs, and half of the crossings are undone by the next step. In the middle, how far
# the sum of these terms over all crossings is from what really happened: it falls with the steps. Right, the kinks on
# which the limit of smooth activations slides, many at once: each costs one parameter of freedom and bends no output.

# %%
counts = {"quick": (25, 50, 100), "full": (200, 800, 3200)}[profile]
relu = topic.rectified(24, counts, 0.4, seed)
save(figures.figure_rectified(relu), "13-relu")

# %% [markdown]
# ## Evidence: digits, and neural collapse
#
# Images of digits and a network of one hidden layer of 32 tanh units with ten outputs, from start to $t$ = 0.99 at
# $\alpha = 1$. Errors of classification are zero long before the end, since straight lines pass
# the places where classes part. Means and deviations within classes shrink as $1 - t$, at the outputs. At the
# penultimate layer, where neural collapse is usually measured, the variance within classes over that between
# them hardly changes: outputs collapse, features do not.

# %%
count, others = {"quick": (60, 400), "full": (200, 1000)}[profile]
(images, classes), (fresh, truth) = digits(count, others, seed)
x, labels = images.flatten(1), torch.eye(10, dtype=torch.float64)[classes]
net = topic.network(64, {"quick": 32, "full": 64}[profile], 10, seed=seed)
rough = {"tolerance": 1e-1, "method": RK45, "progress": False}
run = flows.integrate(net, x, labels, until=0.99, **rough)
after = topic.collapsing(run, classes, (fresh.flatten(1), truth), layer="1")
save(figures.figure_collapse(after), "13-collapse")

# %% [markdown]
# ## Evidence: is it worth its cost?
#
# The same images, the same start, and what else one could do. *Gauss-Newton with line search* takes long steps along
# the very direction of $\alpha = 1$; *Levenberg-Marquardt* damps it; the natural gradient of Gaussian outputs is the same with
# a fixed damping. The step size of gradient descent, with all points and with batches of ten, is the largest power of
# two at which training does not diverge. Left CPU time, right operations of matrix products and factorisations.

# %%
flow_steps, descent_steps = {"quick": (50, 150), "full": (2000, 5000)}[profile]
racers = {
    "Gauss-Newton, line search": (flows.GaussNewton(), 7, None),
    "Levenberg-Marquardt": (flows.LevenbergMarquardt(), 10, None),
    "natural gradient": (flows.NaturalGradient(1.0, 1e-3), 10, None),
    "gradient descent": (flows.GradientDescent(0.125), descent_steps, None),
    "batches of ten": (flows.GradientDescent(0.125), descent_steps, 10),
}
gradient_flow = flows.integrate(net, x, labels, 0.0, duration=1e3, steps=flow_steps, **rough)
races = {
    "gradient flow": topic.race_of_flow(gradient_flow),
    "flow on straight lines": topic.race_of_flow(run),
    **{name: topic.race_of_rule(net, x, labels, *how) for name, how in racers.items()},
}
save(figures.figure_race(races), "13-race")

# %%
goals = (2e-1, 1e-3, 1e-6)
head = (
    "| | "
    + " | ".join(f"cost {goal:g}" for goal in goals)
    + " | least cost |\n|---"
    + "|---" * 4
    + "|\n"
)
spent = {name: [one.until(goal) for goal in goals] for name, one in races.items()}


def shown(seconds, operations):
    return f"{operations / 1e6:.0f} M, {seconds:.2f} s" if operations < np.inf else "not reached"


Markdown(
    "Operations and CPU time until the cost is below a value:\n\n" + head + "\n".join(
        f"| {name} | " + " | ".join(shown(*pair) for pair in spent[name]) + f" | {races[name].losses.min():.0e} |"
        for name in races
    )
)  # fmt: skip

# %% [markdown]
# So the flow at $\alpha = 1$ is worth its cost where the *path* is wanted: outputs and cost known in advance at every time,
# no step size, no damping, the same for every network. As a way to a fit alone it is not: Gauss-Newton with a line search
# takes the same direction in steps many times as long, and is cheaper at every cost. First-order methods are far
# cheaper where a rough fit will do, as the first column counts; how far their steps lead to a close one, the last tells.
#
# ## Evidence: what is refused

# %%
calls = (
    lambda: flows.integrate(topic.network(2, 1, 2), *topic.points_in_plane()[:2]),
    lambda: flows.integrate(net, x, labels, 1.5),
    lambda: flows.integrate(net, x, labels, until=1.0),
    lambda: flows.integrate(topic.network(2, 6, 2, phi=nn.ReLU), *topic.points_in_plane()[:2]),
    lambda: flows.integrate(net, x, classes),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Straight lines at full rank: within ten tolerances of a step. Gradient flow bends.
assert off_line < 10 * tolerance, off_line
ends = [one[-1].deviation for one in rows.values()]
assert ends[0] > ends[1] > 10 * ends[2], ends
assert all((np.diff(one[-1].losses) < 0).all() for one in rows.values())  # all go to the labels

# The kernel at alpha = 1, Theta Theta^+, is the identity to rounding, which the condition number magnifies.
assert identity < 10 * rounding < 1e-6, (identity, rounding)
assert moved > 0.05, moved

# Too few parameters: the lost directions foretell the distance from the line.
foretold = max(one.error for one in few)
assert foretold < 1e-8, foretold
assert min(one.actual[-1] for one in few) > 0.1, few

# ReLU: sliding keeps to the line; short steps do not, and their kinks say by how much.
lengths = [relu.steps[k][1][-1] for k in counts]
gaps = [relu.steps[k][2].max() for k in counts]  # of the prediction, first order in a step
assert relu.sliding.max() < 1e-6, relu.sliding.max()
assert relu.held[1].max() > 0
assert lengths[-1] > 1000 * relu.sliding.max(), lengths
assert lengths[-1] > 2 * gaps[-1], (lengths, gaps)  # more than finer steps can take away
assert gaps[-1] < 0.5 * gaps[0], gaps
undone = relu.reversed[counts[-1]]
assert undone > 0.25, undone

# Digits: no training error at the end; corollary 3.2 at the outputs; the layer before does not collapse.
line = 1 - after.times
collapsed = max(np.abs(after.means - line[:, None]).max(), np.abs(after.within - line).max())
assert after.errors[-1] == 0 < after.errors[0], after.errors
assert collapsed < 1e-2, collapsed
shrunk = {name: values[-1] / values[0] for name, values in after.layers.items()}
assert shrunk["outputs"] < 1e-2, shrunk
assert shrunk["penultimate layer"] > 0.3, shrunk

# Cost, in operations: first-order steps are cheapest for a rough fit, Gauss-Newton is cheaper than the flow, and
# gradient flow is behind both.
rough_work = {name: one.until(goals[0])[1] for name, one in races.items()}
for name in ("gradient descent", "batches of ten"):
    assert rough_work[name] < 0.5 * rough_work["Gauss-Newton, line search"], rough_work
goal = 1e-3
work = {name: one.until(goal)[1] for name, one in races.items()}
assert work["Gauss-Newton, line search"] < 0.5 * work["flow on straight lines"] < np.inf, work
assert races["gradient flow"].losses.min() > 1e-3
assert len(messages) == len(calls)

print(
    f"Outputs keep to straight lines within {off_line:.0e}, K_1 to the identity within {identity:.0e}, and too few "
    f"parameters leave them as foretold within {foretold:.0e}."
)
print(
    f"ReLU slides on the line within {relu.sliding.max():.0e}, but short steps end {lengths[-1]:.2f} away. "
    f"{count} digits are learned without error at t = {after.times[after.errors == 0][0]:.2f}."
)
print(
    f"To a cost of {goal:g} the flow takes {work['flow on straight lines'] / work['Gauss-Newton, line search']:.0f} times the "
    "operations of Gauss-Newton with line search."
)
record(
    off_the_straight_line=off_line,
    kernel_off_the_identity=identity,
    error_of_predicted_deviation=foretold,
    deviation_of_short_relu_steps=lengths[-1],
    off_the_line_sliding=relu.sliding.max(),
    zero_training_error_at=float(after.times[after.errors == 0][0]),
    accuracy_on_other_digits=after.accuracy[-1],
    penultimate_variability_over_start=shrunk["penultimate layer"],
    operations_of_the_flow=work["flow on straight lines"],
    operations_of_gauss_newton=work["Gauss-Newton, line search"],
)
