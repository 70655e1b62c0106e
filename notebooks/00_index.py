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
# # Neural networks, kernels and Riemannian geometry
#
# Which statements of five papers about wide, finite and trained networks are true, and what do they look like?
# Every notebook asks one question, states a claim, leaves you sliders to play with, gathers evidence, and passes a verdict
# that can fail. New here? Start with [01](01_nngp_geometry.py), then read its verdict in the [ledger](../LEDGER.md).

# %% [markdown] tags=["gallery"]
# ## Notebooks
#
# | | question and verdict |
# |---|---|
# | ![What geometry does a wide random network give its inputs?](gallery/01_nngp_geometry.png) | 01 **[What geometry does a wide random network give its inputs?](01_nngp_geometry.py)**<br>The closed form holds within 2.3 standard errors at every radius; three times it, as printed, is at least 29 standard errors off. |
# | ![What geometry do a network's gradients give its inputs?](gallery/02_ntk_geometry.png) | 02 **[What geometry do a network's gradients give its inputs?](02_ntk_geometry.py)**<br>The closed forms match differences of the kernel to 6e-16, and networks of width 3200 within 1.7 of 5.1 standard errors. |
# | ![What does depth do to signals, and to geometry?](gallery/03_depth.png) | 03 **[What does depth do to signals, and to geometry?](03_depth.py)**<br>Order and chaos part at the line; correlation depths fit to 6e-06. |
# | ![What does an infinitely wide network predict, and how sure is it?](gallery/04_infinite_predictors.png) | 04 **[What does an infinitely wide network predict, and how sure is it?](04_infinite_predictors.py)**<br>Posterior and flow match forty digits to 2e-14. |
# | ![What does learning one example do to the geometry of a wide Bayesian network?](gallery/05_perturbation.png) | 05 **[What does learning one example do to the geometry of a wide Bayesian network?](05_perturbation.py)**<br>The closed form of chi matches its definition to 3e-15, and it increases for q = 2 to 12. |
# | ![How does a handful of units curve the plane?](gallery/06_finite_networks.png) | 06 **[How does a handful of units curve the plane?](06_finite_networks.py)**<br>The closed forms match Gauss's curvature to 2e-14 on 1089 points a bias; R is positive inside \|x\| = 2\|b\|, negative outside, and the printed 3 R is refused. |
# | ![What does a kernel learn to magnify?](gallery/07_kernel_learning.png) | 07 **[What does a kernel learn to magnify?](07_kernel_learning.py)**<br>Amari and Wu: volume near the boundary over that away from it is 1.000 before, then 18.0, 98.9 from one magnification to the next. |
# | ![What does a univariate ReLU network interpolate when only its readout moves?](gallery/08_spline_kernels.png) | 08 **[What does a univariate ReLU network interpolate when only its readout moves?](08_spline_kernels.py)**<br>The closed forms match 25000 units within 1.3 of 4.6 standard errors. |
# | ![When does a univariate ReLU network move its knots?](gallery/09_kernel_to_adaptive.png) | 09 **[When does a univariate ReLU network move its knots?](09_kernel_to_adaptive.py)**<br>Networks reach their limits as delta^-2.00 and delta^-1.99. |
# | ![Do networks learn to magnify the space near decision boundaries?](gallery/10_decision_boundaries.png) | 10 **[Do networks learn to magnify the space near decision boundaries?](10_decision_boundaries.py)**<br>The hypothesis stands for XOR, 10 units; XOR, 100 units; sinusoid, 20 units; sinusoid, [8, 8, 8]. |
# | ![What did every training point do to a trained network?](gallery/11_exact_path_kernel.png) | 11 **[What did every training point do to a trained network?](11_exact_path_kernel.py)**<br>Start and training points add up to the network within 4e-14; Algorithm 1 with 200 nodes is off by 1e-01 and the discrete path kernel by 35.0. |
# | ![Accounting or counterfactual: does what a point did say what would happen without it?](gallery/12_accounting_or_counterfactual.png) | 12 **[Accounting or counterfactual: does what a point did say what would happen without it?](12_accounting_or_counterfactual.py)**<br>Attributions add up to 2e-15 and rank removals with 0.28, as TracIn does with 0.28; influence functions 0.67, the exact derivative 0.95. |
# | ![Can a network be trained on straight lines in output space, and is it worth it?](gallery/13_straight_lines.png) | 13 **[Can a network be trained on straight lines in output space, and is it worth it?](13_straight_lines.py)**<br>Outputs keep to straight lines within 3e-09, K\_1 to the identity within 2e-14, and too few parameters leave them as foretold within 4e-10. |
# | ![Do the kernels of finite networks of any architecture converge to those of infinite ones?](gallery/14_finite_kernels_converge.png) | 14 **[Do the kernels of finite networks of any architecture converge to those of infinite ones?](14_finite_kernels_converge.py)**<br>8 architectures reach their recursions within 1.9 standard errors; single networks come near with slope -1.02 in the mean square. |
# | ![Is data augmentation the same as building the symmetry into the network?](gallery/15_augmentation_is_equivariance.png) | 15 **[Is data augmentation the same as building the symmetry into the network?](15_augmentation_is_equivariance.py)**<br>Augmented and equivariant means agree to 3e-14 at all times if the loss is averaged over orbits; summed, time runs \|G\| times as fast. |
# | ![How many training data is a symmetry worth?](gallery/16_equivariance_pays.png) | 16 **[How many training data is a symmetry worth?](16_equivariance_pays.py)**<br>48 turned images: C4 network 76%, CNN 51%; upright the CNN has 79%. 64 signals on the sphere: error 0.20 against 0.51. |
# | ![Does a network that reads digits magnify what lies between them?](gallery/17_digits.png) | 17 **[Does a network that reads digits magnify what lies between them?](17_digits.py)**<br>Of the 19 nats by which log volume at a class change exceeds that at the digits, 14 percent are owed to its place, the rest to the middle of the line. |
# | ![Do residual networks magnify the space between images of two classes?](gallery/18_residual_networks.png) | 18 **[Do residual networks magnify the space between images of two classes?](18_residual_networks.py)**<br>Log volume at class changes exceeds that at the ends of lines by +6.89 [+5.33, +8.44] nats (GELU) and +2.70 [+2.10, +3.29] nats (ReLU), of which 10 and 25 percent are owed to the place of the line's own class change. |
# | ![Do features learned without labels magnify class changes, and does SimCLR's dip vanish on the sphere?](gallery/19_self_supervision.png) | 19 **[Do features learned without labels magnify class changes, and does SimCLR's dip vanish on the sphere?](19_self_supervision.py)**<br>SimCLR's volume does not dip at class changes: +1.37 [+0.70, +2.04] nats against the end points in the flat metric and +5.59 [+3.80, +7.38] on the sphere; Barlow Twins +1.84 [+0.88, +2.80]. |
#
# Verdicts are those of the last `make figures`. `make run` runs every notebook and writes
# [a report](../build/report/index.html) that opens without a kernel.
#
# ## Ledger
#
# 509 of 509 numbered statements of the papers are settled: 121 are definitions, 115 hold as printed, 114 are false as printed, 159 hold once restored where our copy of a paper is damaged; 0 are open. The suite adds 26 statements of its own, which hold. Of the papers' 63 figures, 42 are reproduced, 7 refuted, 11 not seen at the scale tried here, 3 not tried. Each with its routes: [LEDGER.md](../LEDGER.md).
#
# | paper | definitions | hold | false as printed | restored | open | all |
# |---|---:|---:|---:|---:|---:|---:|
# | Zavatone-Veth et al., *Neural networks learn to magnify areas near decision boundaries* | 46 | 16 | 39 | 131 | 0 | 232 |
# | Williams et al., *Gradient Dynamics of Shallow Univariate ReLU Networks* | 7 | 20 | 28 | 0 | 0 | 55 |
# | Bell et al., *An Exact Kernel Equivalence for Finite Classification Models* | 22 | 19 | 34 | 27 | 0 | 102 |
# | Chen and Muñoz Ewald, *Gradient flow in parameter space is equivalent to linear interpolation in output space* | 39 | 55 | 10 | 1 | 0 | 105 |
# | Misof, Gerken and Kessel, *Equivariant Neural Tangent Kernels* | 7 | 5 | 3 | 0 | 0 | 15 |
# | This suite, *What the five papers do not print* | 0 | 26 | 0 | 0 | 0 | 26 |

# %% [markdown]
# ## Closed forms
#
# Each is one object: it prints itself, evaluates to any precision, and compiles to numpy and torch. `list(catalogue)`
# names them all; `python -m analytic show NAME` tells where one comes from.

# %% tags=["parameters"]
profile = "quick"

# %%
from analytic import catalogue

formula = catalogue["nngp.gaussian.ricci"]
formula

# %%
print(formula.evaluate(40, d=3, sigma=1, zeta="0.1", r=2))

# %% [markdown]
# ## Verdict

# %% tags=["verdict"]
from notebooks.report import anatomy
from notebooks.running import runner

sources = [runner.read(path) for path in runner.find(()) if not path.stem.startswith("00")]
assert all(anatomy.heading(s.node).endswith("?") for s in sources), "a notebook asks no question"
assert all(anatomy.tagged(s.node, "verdict") for s in sources), "a notebook passes no verdict"
print(
    f"{len(sources)} notebooks, each with a question and a verdict; {len(catalogue)} closed forms."
)
