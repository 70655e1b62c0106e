"""Every symbol of the project, declared once with its assumptions, which are its domain."""

import sympy as sp

__all__ = [
    "MEANING", "A", "B", "V", "a", "alpha", "b", "charge", "d", "delta", "depth", "ec2", "exponent",
    "is_degree", "kxx", "kxy", "kyy", "m", "n", "q", "r", "ratio", "rho", "s", "sa", "sb", "sigma",
    "u", "v", "w", "x", "x1", "x2", "xi", "xy", "y", "z", "zeta",
]  # fmt: skip

# Input geometry: dimension, norm r = |x|, square s = r^2.
d = sp.Symbol("d", integer=True, positive=True)
r = sp.Symbol("r", nonnegative=True)
s = sp.Symbol("s", nonnegative=True)

# Gaussian parameters: weight std, bias std, and the preactivation variance V = sigma^2 s + zeta^2.
sigma = sp.Symbol("sigma", positive=True)
zeta = sp.Symbol("zeta", nonnegative=True)
V = sp.Symbol("V", nonnegative=True)

# Beyond one layer: readout std, number of hidden layers, inner product of two inputs.
xi = sp.Symbol("xi", nonnegative=True)
depth = sp.Symbol("depth", integer=True, positive=True)
xy = sp.Symbol("xy", real=True)

# Covariance of a preactivation pair (u, v); a Formula adds kxy^2 <= kxx kyy.
kxx, kyy = sp.symbols("kxx kyy", nonnegative=True)
kxy = sp.Symbol("kxy", real=True)

# A preactivation, and a second one.
z = sp.Symbol("z", real=True)
u, v = sp.symbols("u v", real=True)

# Parameters of activations: degree (whole, or any exponent above 1/2), frequency, snake's a.
q = sp.Symbol("q", integer=True, positive=True)
exponent = sp.Symbol("q", positive=True)
w = sp.Symbol("w", positive=True)
a = sp.Symbol("a", positive=True)

# A Bayesian network of width n that has learned one datum: overlap with it, and y^2/|x_a|^(2q).
n = sp.Symbol("n", integer=True, positive=True)
rho = sp.Symbol("rho", real=True)
ratio = sp.Symbol("ratio", nonnegative=True)

# Three units in the plane: coordinates of the input, and the bias that they share.
x1, x2, b = sp.symbols("x1 x2 b", real=True)

# Univariate networks of units [a x - b]_+: two inputs, scales of a and b, and E[c^2] of the readout.
x, y = sp.symbols("x y", real=True)
A, B = sp.symbols("A B", positive=True)
sa, sb = sp.symbols("sa sb", positive=True)
ec2 = sp.Symbol("ec2", nonnegative=True)

# One of its m neurons c [a x - b]_+ / alpha: delta = c^2 - a^2 - b^2, and r of the canonical form,
# which has the sign of c.
delta = sp.Symbol("delta", real=True)
charge = sp.Symbol("r", real=True)
m = sp.Symbol("m", integer=True, positive=True)
alpha = sp.Symbol("alpha", positive=True)

MEANING = {
    "d": "input dimension",
    "r": "norm |x| of the input; of a neuron, (m/alpha) c sqrt(a^2 + b^2)",
    "s": "squared norm |x|^2",
    "sigma": "standard deviation of a weight",
    "zeta": "standard deviation of a bias",
    "V": "preactivation variance sigma^2 |x|^2 + zeta^2",
    "xi": "standard deviation of a readout weight",
    "depth": "number of hidden layers",
    "xy": "inner product x.y of the inputs",
    "kxx": "variance of u",
    "kyy": "variance of v",
    "kxy": "covariance of u and v",
    "z": "preactivation",
    "u": "preactivation at x, or place of a knot",
    "v": "preactivation at y",
    "q": "degree",
    "w": "frequency or rate",
    "a": "frequency of snake",
    "x1": "first coordinate of the input",
    "x2": "second coordinate of the input",
    "b": "bias of every unit",
    "n": "width",
    "rho": "overlap, the cosine of the angle between x and the datum",
    "ratio": "y^2 / |x_a|^(2q) of the datum",
    "x": "input of a univariate network",
    "y": "its second input",
    "A": "slopes are uniform on [-A, A]",
    "B": "biases are uniform on [-B, B]",
    "sa": "standard deviation of a slope",
    "sb": "standard deviation of a bias",
    "ec2": "mean square E[c^2] of a readout weight",
    "delta": "invariant c^2 - a^2 - b^2 of a neuron",
    "m": "number of neurons",
    "alpha": "what the sum of neurons is divided by",
}


def is_degree(parameter: sp.Symbol) -> bool:
    """Whether a parameter of an activation is a degree, `q` or `exponent`.

    The form of the moments depends on a degree, so they are compiled for one number at a time.
    """
    return parameter.name == q.name
