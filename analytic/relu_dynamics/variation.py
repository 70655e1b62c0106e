r"""The penalty $\int |r|\,d\mu$ of (16) in terms of the function: corrected (16) and (17).

Neurons of the same angle add up, so the function depends on $\tilde\mu = \int r\,\mu(dr, \cdot)$ and the
least penalty is the total variation of $\tilde\mu$. A neuron with its knot at x changes f' by
$r/\sqrt{1+x^2}$, so that variation is the weighted curvature $\int |f''|\sqrt{1+x^2}\,dx$, not
$\int |f''|\,dx$.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import sympy as sp

from analytic.expressions.formula import Formula
from analytic.relu_dynamics.neuron import CanonicalNeuron, require_neurons

__all__ = ["affine_cost", "penalty", "total_variation", "weighted_curvature"]

l1, l0 = sp.symbols("l1 l0", real=True)


def penalty(neurons: Sequence[CanonicalNeuron]) -> sp.Expr:
    r"""$\Gamma(\mu) = \int |r|\,d\mu$ of the empirical measure.

    neurons: m of them; no neurons are refused with an InputError. Returned is an expression.

    >>> penalty([CanonicalNeuron(1, 0), CanonicalNeuron(-1, 0), CanonicalNeuron(1, sp.pi)])
    1
    """
    require_neurons(neurons)
    return sp.Add(*(sp.Abs(one.r) for one in neurons)) / len(neurons)


def total_variation(neurons: Sequence[CanonicalNeuron]) -> sp.Expr:
    r"""The total variation of $\int r\,\mu(dr, \cdot)$: the penalty, once the r of each angle are added up.

    At most the penalty, and equal to it if all r of one angle have one sign.

    neurons: m of them; no neurons are refused with an InputError. Returned is an expression.

    >>> total_variation([CanonicalNeuron(1, 0), CanonicalNeuron(-1, 0), CanonicalNeuron(1, sp.pi)])
    1/3
    """
    require_neurons(neurons)
    return _merged((one.d, one.r) for one in neurons) / len(neurons)


def weighted_curvature(neurons: Sequence[CanonicalNeuron]) -> sp.Expr:
    r"""$\int |f''(x)|\sqrt{1+x^2}\,dx$ of the function: at most the total variation.

    neurons: m of them; no neurons are refused with an InputError. Returned is an expression.

    >>> line = [CanonicalNeuron(1, 0), CanonicalNeuron(-1, sp.pi)]  # f(x) = x / 2
    >>> weighted_curvature(line), total_variation(line)
    (0, 1)
    """
    require_neurons(neurons)
    slope_changes = []
    for one in neurons:
        u, v = one.d
        if not u.is_zero:  # a constant has no knot
            knot = sp.simplify(-v / u)
            slope_changes.append((knot, one.r * sp.Abs(u) * sp.sqrt(1 + knot**2)))
    return _merged(slope_changes) / len(neurons)


def _merged(charges: Iterable[tuple[Hashable, sp.Expr]]) -> sp.Expr:
    """The sum of absolute values, after adding up the charges at the same place."""
    total: dict[Hashable, sp.Expr] = defaultdict(lambda: sp.S.Zero)
    for place, charge in charges:
        total[place] += charge
    return sp.Add(*(sp.Abs(sp.simplify(charge)) for charge in total.values()))


# The least total variation of the affine function l1 x + l0, which has no curvature at all.
affine_cost = Formula(
    "total variation of l1 x + l0",
    (l1, l0),
    sp.Piecewise(
        (2 * sp.sqrt(l1**2 + l0**2), 3 * l0**2 <= l1**2),
        (sp.sqrt(3) * sp.Abs(l1) + sp.Abs(l0), True),
    ),
)
