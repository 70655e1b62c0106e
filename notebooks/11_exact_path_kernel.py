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
# # What did every training point do to a trained network?
#
# A network that was trained by gradient descent is a sum: what it was before training, and what each training point
# added to its outputs in each step. Bell et al. say that the sum is exact, and rebuild networks "within machine
# precision" by a Riemann sum of 100 nodes in each step. Is it exact, does the Riemann sum reach it, and what is the
# kernel that comes out of it good for? (Bell et al. 2023, theorems 3.6 and 3.7, Figures 2 to 8.)

# %% tags=["parameters"]
profile = "quick"  # quick: seconds; full: minutes, the paper's 3000 points in 100 dimensions
seed = 0
nodes = 1  # of the left Riemann sum in Play
rate = 0.1  # step size of the runs in the plane
step = 16  # training step that Play shows
x1, x2 = 3.0, 3.0  # test point in Play

# %%
import torch
from IPython.display import Markdown
from scipy.stats import spearmanr
from torch import nn

from notebooks.panels.refusals import quote, refusals
from notebooks.panels.style import save
from notebooks.running.numbers import record
from notebooks.topics import path_kernel as topic
from notebooks.topics import path_kernel_figures as figures
from notebooks.topics.statistics import PowerLaw
from notebooks.topics.statistics_figures import figure_laws
from numeric.path_kernel import GaussLegendre, LeftRiemann, posterior
from numeric.path_kernel.support_vectors import mean_kernel
from numeric.tangents import EmpiricalNTK

# %% [markdown]
# ## Claim
#
# With weights $w_0, \dots, w_N$ of gradient descent, $w_{s+1} = w_s - \varepsilon\sum_i\omega_i J_s(x_i)^T\ell'_{i,s}$, and
# $\psi_s(x) = \int_0^1 J_{w_s + t(w_{s+1}-w_s)}(x)\,dt$, the mean Jacobian along a step,
#
# $$f_{w_N}(x) = f_{w_0}(x) + \sum_i A_i(x),\qquad
#   A_i(x) = -\sum_{s=0}^{N-1}\varepsilon\,\omega_i\,\psi_s(x)\,J_s(x_i)^T\ell'_{i,s}.$$
#
# The paper's (7) runs from $s = 1$ to $N$, and (12) counts $a_{i,0}$ twice; as above it is exact. For outputs
# that are log-probabilities, $\ell'$ does not change, and one kernel $K(x, x_i) = \varepsilon\sum_s\psi_s(x)J_s(x_i)^T$
# makes the network a kernel machine.
#
# - The left Riemann sum with $T$ nodes, Algorithm 1, is off by $O(1/T)$, and with $T = 1$, the *discrete path kernel* of
#   earlier work, by as much as the outputs themselves where steps are large. Gauss-Legendre nodes reach rounding, if
#   each step is split where a unit of the test point crosses the kink of its ReLU.
# - The tangent kernel at the start or at the end, along the same path, is no approximation of a trained network.
# - A sum over points is accounting: it says what happened. What would happen without a point is another question,
#   which [the next notebook](12_accounting_or_counterfactual.py) asks.

# %%
topic.run_in_plane(rate).model  # of Play and of Figures 3, 5 and 6

# %% [markdown]
# ## Play
#
# Thirty training points of three classes in the plane, and a network of 16 ReLU units. Left, what each point added
# to the largest output at the star (red raised it, blue lowered it), over the classes that the network predicts after
# $s$ steps. Right, how far the outputs rebuilt up to each step are from the network: red by a left Riemann sum of $T$
# nodes, blue by Gauss-Legendre nodes between kinks.
#
# - Drag the star from one class into another: the points of that class turn red, the others blue.
# - Raise $T$ from 1 to 100: the red curve falls by as much, and no further; the blue one was at rounding all along.
# - Lower $\varepsilon$ to 0.01: the Riemann sums become good, as they would for a flow; at 0.5 they fail by far.
# %% jupyter={"source_hidden": true} tags=["play"]
from notebooks.panels import open_panel
from notebooks.topics.path_kernel import attribution_map
from notebooks.topics.path_kernel_figures import PANEL

open_panel(attribution_map, PANEL, globals())

# %% [markdown]
# ## Figure 4: three Gaussians in 100 dimensions
#
# Means $(1, 4, 0, \dots)$, $(4, 1, 0, \dots)$ and $(5, 5, 0, \dots)$, variance 1; in the full profile 1000 points a class
# as in the paper, which states neither width, step size nor number of steps. Shown is class 1 at 100 new points.

# %%
count, width = {"quick": (100, 32), "full": (1000, 128)}[profile]
data = topic.gaussians(count, 100, seed)
run = topic.trained(topic.perceptron(100, width, 3, nn.ReLU(), seed), data, 0.05, 40)
fresh = topic.gaussians(34, 100, seed + 1)[0][:100]
rules = {
    "discrete path kernel": LeftRiemann(1),
    "left Riemann, T = 10": LeftRiemann(10),
    "left Riemann, T = 100": LeftRiemann(100),
    "Gauss-Legendre, split": GaussLegendre(),
}
gaussian = topic.agreement(run, fresh, 0, rules)
save(figures.figure_agreement(gaussian, "class 1"), "11-figure-4")

# %% [markdown]
# The error of the left sum against the number of nodes, here and for steps ten times smaller: smaller steps help, and
# the slope is the same. In the plane the largest error is far outside the data, where outputs are large.

# %%
counts = (1, 4, 16)
slow = topic.trained(topic.perceptron(100, width, 3, nn.ReLU(), seed), data, 0.005, 40)


def left_errors(one, x):
    off = [topic.exact(one, LeftRiemann(T)).defects(x).sum(0).abs().max() for T in counts]
    return PowerLaw.fit(counts, [float(error) for error in off])


riemann = {"ε = 0.05": left_errors(run, fresh[:10]), "ε = 0.005": left_errors(slow, fresh[:10])}
steps = {  # of the runs in the plane
    "ε = 0.1": topic.run_in_plane(0.1),
    "ε = 0.01": topic.run_in_plane(0.01),
}
square = topic.Square({"quick": 17, "full": 41}[profile])
some = square.points[::12]


laws = {
    "100 dimensions: largest error": riemann,
    "the plane: largest error": {label: left_errors(one, some) for label, one in steps.items()},
}
save(figure_laws(laws, "$T$"), "11-riemann")

# %% [markdown]
# ## Figure 2: what other representations miss
#
# In each step the change of the outputs at new points, as the gradients of each representation have it, less the
# change itself: the gradient at the start of the step (discrete path kernel), at the first weights and at the last
# weights (empirical tangent kernels). Of the exact path kernel rounding is left.

# %%
missed = topic.misalignment(run, fresh)
save(figures.figure_misalignment(missed), "11-figure-2")

# %% [markdown]
# As kernels, the two differ too: the cosine of Gram matrices of a hundred training points.

# %%
hundred = data[0][:100]
path_gram = mean_kernel(topic.exact(run), hundred, hundred)


def cosine(one, other):
    return float((one * other).sum() / (one.norm() * other.norm()))


cosines = {
    label: cosine(path_gram, EmpiricalNTK(run.model_at(at))(hundred))
    for label, at in (("start", 0), ("middle", 20), ("end", run.steps))
}
Markdown(
    "| tangent kernel at the | start | middle | end |\n|---|---|---|---|\n| cosine with the path kernel | "
    + " | ".join(f"{value:.3f}" for value in cosines.values())
    + " |"
)

# %% [markdown]
# ## Figures 3, 5 and 6: the kernel on the plane
#
# The same problem in two dimensions. First the training points weighed anew by support vector machines with the path
# kernel, one for each class: black lines are where they decide. Far from all data they are as sure as near it.

# %%
plane = topic.run_in_plane(rate)
machine, alike = topic.machine_maps(plane, square, 10.0)
save(figures.figure_planes(machine, signed=True), "11-figure-3")

# %% [markdown]
# A Gaussian process with the path kernel as covariance and the untrained network as mean, given the trained network's
# outputs at the training points: mean kernel value, and by Monte Carlo the standard deviation of the probability of the
# likeliest class. The paper says that it falls away from the data "in most directions". Here
# it stays low to the upper right, far beyond the data, and is largest below and to the left, where the network cannot
# tell: over the grid it rises with the distance from the nearest training point (rank correlation in the verdict).

# %%
jitter = 1e-6
uncertain = topic.posterior_maps(plane, square, jitter, {"quick": 300, "full": 3000}[profile], seed)
save(figures.figure_planes(uncertain, signed=False), "11-figure-5")

# %% [markdown]
# The kernel of the mean of each class (the star) with every training point: rows are test points, columns outputs.

# %%
values = topic.kernel_values(plane, square)
save(figures.figure_kernel_values(values), "11-figure-6")

# %% [markdown]
# ## Figures 7 and 8: digits
#
# A network of two convolutions with ReLU, trained on images of digits by full batches. Shown is one of the ten
# outputs at a few new images; errors are the largest of all ten.

# %%
images, channels, length = {"quick": (100, 6, 40), "full": (1000, 8, 100)}[profile]
seen, unseen = topic.digits(images, 300, seed)
pictures = topic.trained(topic.convolutional(channels, seed), seen, 0.3, length)
correct = (topic.exact(pictures).network(unseen[0]).argmax(1) == unseen[1]).double().mean()
few = unseen[0][:5]
rules = {
    "T = 1": LeftRiemann(1),
    "T = 10": LeftRiemann(10),
    "T = 200": LeftRiemann(200),
    "Gauss-Legendre, split": GaussLegendre(),
}
digit = topic.agreement(pictures, few, 0, rules)
save(figures.figure_agreement(digit, "digit 0"), "11-figure-7")

# %% [markdown]
# Between the first and the last weights, on a straight line that training did not take:

# %%
line = topic.line_of(pictures)
save(figures.figure_line(line), "11-figure-8")

# %% [markdown]
# ## Evidence: the training images that made a prediction
#
# New images, and beside each the training images that moved the log-probability of its predicted class most, by how
# much. Red ones raised it, blue ones lowered it: mostly images of the same class, and of the rivals.

# %%
made = topic.top_attributions(pictures, (unseen[0][:3], unseen[1][:3]))
save(figures.figure_top_attributions(made), "11-makers")

# %% [markdown]
# ## Evidence: wrong labels
#
# A tenth of the labels of digits are changed at random. A wrong label is held up by its own point alone: without what
# the point added itself, it is behind. That finds wrong labels far better than chance, and not better than the plain
# loss after training, which costs nothing: in the quick profile the loss is ahead.

# %%
(clean, truth), _ = topic.digits({"quick": 80, "full": 400}[profile], 1, seed + 1)
generator = torch.Generator().manual_seed(seed)
wrong = torch.rand(len(truth), generator=generator) < 0.1
shift = torch.randint(1, 10, (len(truth),), generator=generator)
labels = torch.where(wrong, (truth + shift) % 10, truth)
flat = clean.flatten(1)
labelled = topic.trained(topic.perceptron(64, 16, 10, nn.Tanh(), seed), (flat, labels), 0.5, 40)
scores = topic.wrong_labels(labelled, wrong.numpy())
save(figures.figure_wrong_labels(scores), "11-labels")

# %% [markdown]
# ## Evidence: what is refused
#
# A Gram matrix of log-probabilities is singular: $\sum_k p_k\nabla\log p_k = 0$ in every step.

# %%
early = topic.run_in_plane(rate, 1)
calls = (
    lambda: posterior(topic.exact(early), square.points[:3]),
    lambda: topic.exact(early).during(5),
    lambda: topic.exact(early).attributions([[1.0, 2.0, 3.0]]),
)
messages = refusals(*calls)
quote(messages)

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
# Exact, in 100 dimensions and for a convolutional network: 1e-12 is some hundred roundings of outputs of order 10.
ours = max(gaussian.errors["Gauss-Legendre, split"], digit.errors["Gauss-Legendre, split"])
assert ours < 1e-12, ours

# As a kernel machine with one kernel, its Gram matrix and constant coefficients, it is the same network.
kernel = topic.exact(plane)
off = (kernel.machine().predict(some) - kernel.network(some)).abs().max()
assert off < 1e-12, off

# The left sum is off by 1/T; the paper's T = 100 and T = 200 are no machine precision, and T = 1 is not close.
slopes = [law.slope for column in laws.values() for law in column.values()]
assert all(abs(slope + 1) < 0.15 for slope in slopes), slopes
assert gaussian.errors["left Riemann, T = 100"] > 1e-4, gaussian.errors
assert digit.errors["T = 200"] > 1e-4, digit.errors
assert digit.errors["T = 1"] > 0.1, digit.errors

# The tangent kernel of either end misses more of a trained network than the discrete path kernel.
ends = {label: total[-1] for label, total in missed.total.items()}
assert ends["tangent kernel at the start"] > ends["discrete path kernel"] > 1e-2, ends
assert ends["tangent kernel at the end"] > ends["discrete path kernel"], ends
assert ends["exact path kernel"] < 1e-12, ends

# Attributions with the start are the outputs; weighed anew, the points mostly decide as the network does, if it has
# learned: sixteen steps of 0.03 hardly move it.
assert rate < 0.1 or alike > 0.8, alike
far = topic.from_data(uncertain)
spread = spearmanr(far.ravel(), uncertain.maps[topic.SPREAD].ravel()).statistic
assert len(messages) == len(calls)

# Wrong labels are found far better than by chance, which would have an area of one half.
areas = scores.areas
assert areas["margin that the other points made"] > 0.85, areas

print(
    f"Start and training points add up to the network within {ours:.0e}; Algorithm 1 with 200 nodes is off by "
    f"{digit.errors['T = 200']:.0e} and the discrete path kernel by {digit.errors['T = 1']:.1f}."
)
if rate < 0.1:
    print(
        f"After steps of {rate:g} machines agree with the network at {alike:.0%}, which is not judged."
    )
print(
    "Area under the ROC curve for wrong labels: "
    + ", ".join(f"{k} {v:.3f}" for k, v in areas.items())
    + "."
)
record(
    error=ours,
    error_of_100_nodes=gaussian.errors["left Riemann, T = 100"],
    error_of_200_nodes_on_digits=digit.errors["T = 200"],
    error_of_the_discrete_path_kernel_on_digits=digit.errors["T = 1"],
    error_of_the_tangent_kernel_at_the_start=ends["tangent kernel at the start"],
    cosine_with_the_tangent_kernel_at_the_start=cosines["start"],
    support_vectors_agree_with_the_network=alike,
    spread_with_distance_from_data=spread,
    accuracy_on_digits=correct,
    area_for_wrong_labels=areas["margin that the other points made"],
    area_of_the_loss=areas["loss at the end"],
)
