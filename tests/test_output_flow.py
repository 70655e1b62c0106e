"""Do exact pseudoinverses, fields, kernels, propagators and class means obey their laws?"""

import random
from functools import partial
from itertools import pairwise, product

import pytest
import sympy as sp

from analytic.output_flow import (
    ClassSplit,
    ProjectorPath,
    elapsed,
    kernel,
    kernel_from_tangents,
    kernel_on_training_set,
    metric,
    output_field,
    parameter_field,
    preconditioner,
    propagator,
    pseudoinverse,
    range_projector,
    straight_line,
    time,
)
from refusals import require_refusals

SHAPES = [(m, n, r) for m, n in product((1, 2, 3), repeat=2) for r in range(min(m, n) + 1)]
ALPHAS = (0, sp.Rational(1, 3), 1)


def draw(rng: random.Random, rows: int, columns: int) -> sp.Matrix:
    return sp.Matrix(rows, columns, lambda i, j: sp.Rational(rng.randint(-9, 9), rng.randint(1, 4)))


def of_rank(rng: random.Random, rows: int, columns: int, rank: int) -> sp.Matrix:
    while True:
        A = draw(rng, rows, rank) * draw(rng, rank, columns)
        if A.rank() == rank:
            return A


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_and_rank(shape: tuple[int, int, int]) -> None:
    rows, columns, rank = shape
    rng = random.Random(rows + 4 * columns + 16 * rank)
    D, g, J = of_rank(rng, rows, columns, rank), draw(rng, rows, 1), draw(rng, 2, columns)
    plus, P = pseudoinverse(D), range_projector(D)
    assert D * plus * D == D
    assert plus * D * plus == plus
    assert D * plus == (D * plus).T
    assert plus * D == (plus * D).T
    assert D * plus == P
    lost = (sp.eye(rows) - P) * g  # what no parameter moves
    for alpha in ALPHAS:
        field, K = parameter_field(D, g, alpha), kernel_on_training_set(D, alpha)
        assert field == -preconditioner(D, alpha) * D.T * g
        assert D * field == output_field(D, g, alpha) == -K * g
        assert parameter_field(D, lost, alpha).is_zero_matrix
        assert field.is_zero_matrix == (D.T * g).is_zero_matrix == (K * g).is_zero_matrix
        assert metric(D, alpha) * K == P
        assert kernel(D, D, D, alpha) == K
        tangents = (J * D.T, D * D.T, D * J.T, J * J.T)
        assert kernel_from_tangents(*tangents, alpha) == kernel(J, J, D, alpha)


def test_a_symbol_for_alpha_gives_the_family() -> None:
    alpha, D = sp.Symbol("alpha", positive=True), sp.Matrix([[1, 2, 0], [2, 4, 0]])
    h = metric(D, alpha)
    for share in (sp.Rational(1, 3), 1):
        assert h.subs(alpha, share) == metric(D, share)


def test_propagators_compose_contract_and_integrate_to_the_deviation() -> None:
    rng = random.Random(0)
    times = (sp.S.Zero, sp.Rational(1, 4), sp.Rational(2, 3))
    projectors = [range_projector(of_rank(rng, 3, 2, rank)) for rank in (2, 1, 2)]
    path = ProjectorPath(times, projectors)
    t, middle = sp.Rational(9, 10), sp.Rational(1, 2)
    V = path.propagator(t)
    assert path.propagator(t, middle) * path.propagator(middle) == V
    assert (sp.eye(3) - V.T * V).is_positive_semidefinite
    x0, y = draw(rng, 3, 1), draw(rng, 3, 1)
    assert path.outputs(x0, y, t) == straight_line(x0, y, t) + path.deviation(x0, y, t)
    # Where P is constant, V P' = P' for its complement P', so that each piece integrates to its length.
    pieces = zip(pairwise((*times, t)), projectors, strict=True)
    total = sum(
        (path.propagator(t, b) * (b - a) * (sp.eye(3) - P) * (x0 - y) for (a, b), P in pieces),
        sp.zeros(3, 1),
    )
    assert path.deviation(x0, y, t) == total


def test_a_propagator_solves_its_equation() -> None:
    t, start = sp.symbols("t start", real=True)
    P = range_projector(sp.Matrix([1, 2]))
    V = propagator(P, t, start)
    assert (sp.diff(V, t) + P * V / (1 - t)).applyfunc(sp.simplify).is_zero_matrix
    assert V.subs(t, start).applyfunc(sp.simplify) == sp.eye(2)


def test_classes_split_the_cost_and_collapse_on_the_line() -> None:
    rng = random.Random(1)
    counts, labels, start = (3, 1, 2), draw(rng, 2, 3), draw(rng, 2, 6)
    wide = sp.Matrix.hstack(*(labels[:, j] for j, n in enumerate(counts) for _ in range(n)))
    split = ClassSplit(start, labels, counts)
    assert split.cost == sum(entry**2 for entry in start - wide) / 6
    t = sp.Rational(2, 7)
    moved = straight_line(start.reshape(12, 1), wide.reshape(12, 1), t).reshape(2, 6)
    later = ClassSplit(moved, labels, counts)
    assert later.means - labels == (1 - t) * (split.means - labels)
    assert later.deviations == (1 - t) * split.deviations


@pytest.mark.parametrize("s", [1e-14, 1e-3, 0.7, 5.0])
def test_times_invert_each_other_in_floats(s: float) -> None:
    """Near t = 1 a rounding of t is 1/(1 - t) roundings of c s; near 0 nothing may cancel."""
    t = time(s, 0.5)
    bound = 4 * 2.0**-52 * (1 + t / (1 - t) / (0.5 * s))
    assert abs(elapsed(t, 0.5) - s) <= bound * s


D, g = sp.Matrix([[1, 2], [0, 1]]), sp.Matrix([1, 2])
NO_MATRIX = (
    None, "D", 3, [[1, 2], [0, 1]], True, sp.Matrix([[0.5, 1], [1, 1]]), sp.zeros(0, 2),
    sp.Matrix([[sp.nan]]), sp.Matrix([[sp.I, 0], [0, 1]]),
)  # fmt: skip
NO_SHARE = (None, "half", -1, 2, float("nan"), True, [0.5], 1j, sp.I)
WRONG = {
    "pseudoinverse": (pseudoinverse, NO_MATRIX),
    "range_projector": (range_projector, NO_MATRIX),
    "parameter_field": (lambda bad: parameter_field(bad, g, 1), NO_MATRIX),
    "parameter_field g": (lambda bad: parameter_field(D, bad, 1), (*NO_MATRIX, D, g.T)),
    "output_field alpha": (lambda bad: output_field(D, g, bad), NO_SHARE),
    "metric alpha": (lambda bad: metric(D, bad), NO_SHARE),
    "preconditioner": (lambda bad: preconditioner(bad, 0), NO_MATRIX),
    "kernel": (lambda bad: kernel(bad, D, D, 0), (*NO_MATRIX, sp.eye(3))),
    "kernel_from_tangents": (lambda bad: kernel_from_tangents(bad, D, D, D, 0), (*NO_MATRIX, sp.eye(3))),
    "kernel_from_tangents between": (
        lambda bad: kernel_from_tangents(D, D, D, bad, 0), (*NO_MATRIX, sp.eye(3)),
    ),
    "straight_line": (lambda bad: straight_line(g, bad, "1/2"), (*NO_MATRIX, g.T)),
    "straight_line t": (lambda bad: straight_line(g, g, bad), NO_SHARE),
    "propagator": (lambda bad: propagator(bad, 0), (*NO_MATRIX, D, sp.Matrix([[1, 1], [0, 0]]), g)),
    "propagator start": (lambda bad: propagator(sp.eye(2), 1, bad), (*NO_SHARE, 1)),
    "ProjectorPath times": (
        lambda bad: ProjectorPath(bad, (sp.eye(2), sp.eye(2))),
        (None, 3, (0,), (0, 1), (0, 0), ("1/2", "3/4"), (0, sp.Symbol("t")), ()),
    ),
    "ProjectorPath projectors": (
        lambda bad: ProjectorPath((0,), bad), (None, 3, (), (D,), (g,), sp.eye(2), (sp.eye(2), sp.eye(2))),
    ),
    "ProjectorPath.propagator": (
        lambda bad: ProjectorPath((0,), (sp.eye(2),)).propagator("1/2", bad), (*NO_SHARE, "3/4"),
    ),
    "ClassSplit": (lambda bad: ClassSplit(bad, g, (2,)), (*NO_MATRIX, g)),
    "ClassSplit labels": (lambda bad: ClassSplit(D, bad, (2,)), (*NO_MATRIX, D, sp.Matrix([1]))),
    "ClassSplit counts": (
        lambda bad: ClassSplit(D, g, bad), (None, 2, (1,), (1, 1), (0, 2), (2.5,), (True,), "2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_refused_in_a_sentence(name: str) -> None:
    function, values = WRONG[name]
    require_refusals((f"{k}: {str(v)[:40]}", partial(function, v)) for k, v in enumerate(values))
