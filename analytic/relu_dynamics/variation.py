r"""What the penalty $\int |r|\,d\mu$ of (16) means for the function: corrected (16) and (17).

The neurons of one angle add up, so that a function asks for the total variation of
$\tilde\mu = \int r\,\mu(dr, \cdot)$; the knot of a neuron at x bends f by r over $\sqrt{1+x^2}$, so
that the variation is the curvature $\int |f''|\sqrt{1+x^2}\,dx$, and not the plain one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import sympy as sp

from analytic.expressions.formula import Formula
from analytic.relu_dynamics.neuron import Canonical

l1, l0 = sp.symbols("l1 l0", real=True)


def penalty(neurons: Sequence[Canonical]) -> sp.Expr:
    r"""$\Gamma(\mu) = \int |r|\,d\mu$ of the empirical measure."""
    return sp.Add(*(sp.Abs(one.r) for one in neurons)) / len(neurons)


def total_variation(neurons: Sequence[Canonical]) -> sp.Expr:
    r"""Of $\int r\,\mu(dr, \cdot)$: at most the penalty, equal where no two at one angle cancel."""
    return _merged((one.d, one.r) for one in neurons) / len(neurons)


def weighted_curvature(neurons: Sequence[Canonical]) -> sp.Expr:
    r"""$\int |f''(x)|\sqrt{1+x^2}\,dx$ of the function: at most the total variation."""
    bends = []
    for one in neurons:
        u, v = one.d
        if not u.is_zero:  # a constant has no knot
            knot = sp.simplify(-v / u)
            bends.append((knot, one.r * sp.Abs(u) * sp.sqrt(1 + knot**2)))
    return _merged(bends) / len(neurons)


def _merged(charges: Iterable[tuple[Hashable, sp.Expr]]) -> sp.Expr:
    """The sum of absolute values, those of one place added before."""
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
