r"""Outputs of a classifier as class means and deviations from them, and the cost of each.

With $N_j$ points in class j of label $y_j$, $\frac1N\sum|x_{ji}-y_j|^2 =
\frac1N\sum|\Delta_{ji}|^2 + \sum_j\frac{N_j}N|\bar x_j-y_j|^2$. On the straight line both $\bar x_j-y_j$ and
$\Delta_{ji}$ shrink by the factor 1 - t, and final layers collapse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import sympy as sp

from analytic.expressions.arguments import InputError, listed, whole
from analytic.output_flow.matrices import exact_matrix

__all__ = ["ClassSplit"]


@dataclass(frozen=True)
class ClassSplit:
    """The outputs of one class after another.

    outputs: one column for each training point, (Q, N), exact, ordered by class.
    labels: one column for each class, (Q, J), exact.
    counts: how many points each class has; J whole numbers at least 1 with the sum N.

    Floats and other shapes are refused with an InputError.

    >>> import sympy as sp
    >>> split = ClassSplit(sp.Matrix([[1, 3, 5]]), sp.Matrix([[0, 4]]), (2, 1))
    >>> split.means, split.deviations
    (Matrix([[2, 5]]), Matrix([[-1, 1, 0]]))
    >>> split.between, split.within, split.cost
    (3, 2/3, 11/3)
    """

    outputs: sp.MatrixBase
    labels: sp.MatrixBase
    counts: Sequence[int]

    def __post_init__(self) -> None:
        outputs, labels = exact_matrix("outputs", self.outputs), exact_matrix("labels", self.labels)
        counts = tuple(whole("counts", n, 1) for n in listed("counts", self.counts))
        if len(counts) != labels.cols or sum(counts) != outputs.cols:
            raise InputError(
                f"counts = {counts} were given for {outputs.cols} points of {labels.cols} classes: give "
                "one for each class, which add up to the points."
            )
        if outputs.rows != labels.rows:
            raise InputError(
                f"Outputs have {outputs.rows} components and labels {labels.rows}: give as many."
            )
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "counts", counts)

    @property
    def _blocks(self) -> list[sp.Matrix]:
        ends = [sum(self.counts[:k]) for k in range(len(self.counts) + 1)]
        return [self.outputs[:, a:b] for a, b in pairwise(ends)]

    @property
    def means(self) -> sp.Matrix:
        """One column for each class, (Q, J)."""
        columns = [block * sp.ones(n, 1) / n for block, n in zip(self._blocks, self.counts)]
        return sp.Matrix.hstack(*columns)

    @property
    def deviations(self) -> sp.Matrix:
        """Outputs less the mean of their class, (Q, N)."""
        means = self.means
        return self.outputs - sp.Matrix.hstack(
            *(means[:, j] * sp.ones(1, n) for j, n in enumerate(self.counts))
        )

    @property
    def within(self) -> sp.Expr:
        """The cost of the deviations, their mean square."""
        return sum(entry**2 for entry in self.deviations) / self.outputs.cols

    @property
    def between(self) -> sp.Expr:
        """The cost of the means, each class with its share of the points."""
        apart = self.means - self.labels
        shares = [sp.Rational(n, self.outputs.cols) for n in self.counts]
        return sum(share * apart[:, j].dot(apart[:, j]) for j, share in enumerate(shares))

    @property
    def cost(self) -> sp.Expr:
        """The mean square of outputs less labels: `within` + `between`."""
        return self.within + self.between
