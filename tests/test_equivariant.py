"""Do exact equivariant kernels obey their laws, and augmented networks those of equivariant ones?"""

from collections import Counter
from functools import partial

import pytest
import sympy as sp
from mpmath import mp

from analytic.activations import monomial, polynomial, relu
from analytic.activations.activation import GRAM, Activation, activation
from analytic.equivariant import (
    Action,
    Group,
    GroupNetwork,
    augmented,
    cyclic,
    dense,
    dihedral,
    group_average,
    mean_prediction,
    natural,
    perceptron,
    product,
    regular,
    rototranslations,
    semidirect,
    symmetric,
    trivial,
    zonal_kernels,
)
from analytic.expressions.symbols import V, z
from refusals import require_refusals

# Neither even nor odd; with it kernels of rational signals are rational.
MIXED = polynomial([0, 1, sp.Rational(1, 2)])
SCALES = (sp.Rational(3, 2), sp.Rational(1, 3))


def any_activation() -> Activation:
    """Its averages are functions of which nothing is known."""
    kernel, slope, power = map(sp.Function, ("kernel", "slope", "power"))
    return activation(
        "any", z, kernel=kernel(*GRAM), slope=slope(*GRAM), F=power(V), G=sp.S.One, G2=sp.S.Zero
    )


FINITE = {
    "Z5": regular(cyclic(5)),
    "S3": natural(3),
    "S3 on itself": regular(symmetric(3)),
    "D4": regular(dihedral(4)),
    "Z2 x Z3": regular(product(cyclic(2), cyclic(3))),
    "C4 |x Z2^2": rototranslations(2),
}


@pytest.mark.parametrize("name", FINITE)
def test_equivariance_is_augmentation_for_any_activation_signals_and_scales(name: str) -> None:
    action, acts = FINITE[name], [any_activation()] * 2
    n, scales = action.points, sp.symbols("sigma_w sigma_b")
    f, h = sp.symbols(f"f:{n}"), sp.symbols(f"h:{n}")
    net, mlp = GroupNetwork(action, acts, *scales), perceptron(n, acts, *scales)
    for kernel, flat in ((net.nngp, mlp.nngp), (net.ntk, mlp.ntk)):
        assert sp.expand(kernel(f, h) - group_average(flat, action)(f, h)) == 0
    assert net.nngp(f, h) != net.ntk(f, h)


def test_equivariance_is_augmentation_on_a_grid() -> None:
    action = rototranslations(3)
    f, h = ([(k * (k + s) + s) % 7 - 2 for k in range(9)] for s in (1, 3))
    expected = group_average(perceptron(9, [MIXED], *SCALES).ntk, action)(f, h)
    assert GroupNetwork(action, [MIXED], *SCALES).ntk(f, h) == expected


def test_equivariance_is_augmentation_for_global_filters_only() -> None:
    """A convolution with a local filter is one too as long as the lifting filter covers all points."""
    f, h = [1, 2, 4], [0, 1, -3]
    expected = group_average(perceptron(3, [MIXED], *SCALES).ntk, natural(3))(f, h)
    for lifting, support in (([0, 1], None), ([0], [0, 3])):
        net = GroupNetwork(natural(3), [MIXED], *SCALES, lifting_support=lifting, support=support)
        assert net.ntk(f, h) != expected
    assert GroupNetwork(natural(3), [MIXED], *SCALES, support=[0, 3]).ntk(f, h) == expected


def test_local_filters_are_an_average_of_planar_ones_over_turns() -> None:
    """C4 |x Z3^2 with filters of cross shape, against translations alone."""
    cross, acts = [0, 1, 2, 3, 6], [MIXED]
    turned = rototranslations(3)
    full = GroupNetwork(
        turned,
        acts,
        *SCALES,
        lifting_support=cross,
        support=[4 * t + r for t in cross for r in range(4)],
    )
    translations = rototranslations(3, turns=False)
    plane = GroupNetwork(translations, acts, *SCALES, lifting_support=cross, support=cross)
    f, h = ([(k * (k + s) + s) % 7 - 2 for k in range(9)] for s in (1, 3))
    turns = [turned.act(r, h) for r in range(4)]  # the translation by 0
    assert full.ntk(f, h) == sum(plane.ntk(f, g) for g in turns) / 4


def test_pooled_kernels_forget_where_a_signal_was_moved() -> None:
    action = natural(3)
    net = GroupNetwork(action, [MIXED], *SCALES, lifting_support=[0, 1], support=[1, 4, 5])
    f, h = ([[3, 2, 1], [k, 1, -k]] for k in (2, 3))  # two channels
    assert net.ntk(f, h) == net.ntk(h, f)
    for g in action.group.elements:
        assert net.ntk(action.act(g, f), h) == net.ntk(f, h)
        assert net.nngp(f, action.act(g, h)) == net.nngp(f, h)


def test_means_agree_at_all_times_if_the_loss_is_averaged_over_the_orbit() -> None:
    action, signals, y = natural(3), [[1, 0, "1/2"], ["1/3", -1, 1]], [1, -1]
    net, flat = GroupNetwork(action, [MIXED], *SCALES).ntk, perceptron(3, [MIXED], *SCALES).ntk
    orbit, labels = augmented(action, signals, y)
    test = [1, "1/4", -1]
    with mp.workdps(30):
        for time in ("1/50", "1/7"):
            expected = mean_prediction(net, signals, y, test, time)
            shared = mean_prediction(flat, orbit, labels, test, time, weight="1/6")
            assert abs(shared - expected) <= mp.mpf(10) ** -25
            summed = mean_prediction(flat, orbit, labels, test, sp.Rational(time) / 6)
            assert abs(summed - expected) <= mp.mpf(10) ** -25
            assert abs(mean_prediction(flat, orbit, labels, test, time) - expected) > 0.01


def test_an_even_layer_has_opposite_tangent_kernels_of_the_same_arguments() -> None:
    """(6): what the printed map takes is the same at both points, and what it should give is not."""
    taken, given = [], []
    for kxy in (-sp.Rational(1, 16), -sp.Rational(1, 48)):
        first = dense(sp.Rational(7, 72), kxy, sp.Rational(1, 16)).through(polynomial([0, 1, 2]))
        before = first.convolved((0,), sp.S.One, sp.S.Zero)
        after = before.through(monomial(2))
        taken.append((before.ntk, after.nngp, after.first, after.second))
        given.append(after.ntk[0][0])
    assert taken[0] == taken[1]
    assert given[0] == -given[1] != 0


def test_rotations_of_the_sphere() -> None:
    with mp.workdps(30):
        nngp, ntk = zonal_kernels([relu], [0, "-3/2"], [0, 1])
        assert abs(nngp - mp.mpf(9) / 32) <= mp.mpf(10) ** -28
        assert abs(ntk - mp.mpf(3) / 8) <= mp.mpf(10) ** -28
        # Of z^2/sqrt 3 the averages of 1, c^2 and c^4 are all that is needed.
        squares = zonal_kernels([monomial(2)], [0, 1], [0, 1])
        assert max(abs(a - b) for a, b in zip(squares, (mp.mpf(5) / 9, mp.mpf(1)))) < 1e-28
        # What is constant on the sphere is a single number to a perceptron.
        net = perceptron(1, [MIXED, MIXED], *SCALES)
        constant = zonal_kernels([MIXED, MIXED], ["1/2"], [2], *SCALES)
        for value, exact in zip(constant, (net.nngp(["1/2"], [2]), net.ntk(["1/2"], [2]))):
            assert abs(value / exact.evalf(30) - 1) < 1e-27


def test_groups_are_those_of_their_names() -> None:
    metacyclic = semidirect(cyclic(3), cyclic(4), [[0, 1, 2], [0, 2, 1]] * 2)
    groups = {
        "Z6": (product(cyclic(2), cyclic(3)), True, {1: 1, 2: 1, 3: 2, 6: 2}),
        "S3": (symmetric(3), False, {1: 1, 2: 3, 3: 2}),
        "D3": (dihedral(3), False, {1: 1, 2: 3, 3: 2}),
        "D4": (dihedral(4), False, {1: 1, 2: 5, 4: 2}),
        "S4": (symmetric(4), False, {1: 1, 2: 9, 3: 8, 4: 6}),
        "Z3 |x Z4": (metacyclic, False, {1: 1, 2: 1, 3: 2, 4: 6, 6: 2}),
        "C4 |x Z3^2": (rototranslations(3).group, False, {1: 1, 2: 9, 3: 8, 4: 18}),
    }
    for name, (group, abelian, orders) in groups.items():
        assert Counter(_order(group, g) for g in group.elements) == orders, name
        assert group.abelian == abelian, name
    moved = Group([[1, 2, 0], [2, 0, 1], [0, 1, 2]])  # Z3 with element 2 for the identity
    assert (moved.identity, moved.inverses) == (2, (1, 0, 2))


def _order(group: Group, g: int) -> int:
    power, count = g, 1
    while power != group.identity:
        power, count = group.table[power][g], count + 1
    return count


SWAP = regular(cyclic(2))
NET = GroupNetwork(SWAP, [MIXED])
NO_COUNT = (None, "2", 0, -1, 1.5, True)
NO_TABLE = (
    None, "01", 3, [], [[0, 1]], [[0, 1], [1, 1]], [[1, 2], [2, 1]], [[0.0, 1.0], [1.0, 0.0]],
    [[0, 1, 2], [2, 0, 1], [1, 2, 0]],  # no identity
    [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]],
)  # fmt: skip
NO_GROUP = (None, "Z2", 2, [[0, 1], [1, 0]], SWAP)
NO_SIGNAL = (None, "12", 3, [], [1], [1, 2, 3], [[1, 2], [3]], [1, float("nan")], [1, "x"], [1j, 2])
NO_ACTIVATIONS = (None, relu, "relu", [], ["relu"], [None])
WRONG = {
    "Group": (Group, NO_TABLE),
    "Group.of": (lambda bad: Group.of(bad, max), (None, "ab", 3, [], [0, 1])),
    "Group.of product": (lambda bad: Group.of([0, 1], lambda a, b: bad), (2, "one", None)),
    "cyclic": (cyclic, NO_COUNT),
    "symmetric": (symmetric, (*NO_COUNT, 6)),
    "dihedral": (dihedral, NO_COUNT),
    "product": (lambda bad: product(cyclic(2), bad), NO_GROUP),
    "semidirect": (
        lambda bad: semidirect(cyclic(3), cyclic(2), bad),
        (None, 3, [], [[0, 1, 2]], [[0, 2, 1], [0, 1, 2]], [[0, 1, 2], [1, 0, 2]], [[0, 1], [1, 0]]),
    ),
    "Action": (lambda bad: Action(bad, [[0, 1], [1, 0]]), NO_GROUP),
    "Action moves": (
        lambda bad: Action(cyclic(2), bad),
        (None, 3, [], [[0, 1]], [[1, 0], [0, 1]], [[0, 1], [0, 2]], [[0, 1], [1]], [[0, 1, 2], [1, 2, 0]]),
    ),
    "Action.act": (lambda bad: SWAP.act(1, bad), NO_SIGNAL),
    "Action.act element": (lambda bad: SWAP.act(bad, [1, 2]), (None, 2, -1, "1", 0.5)),
    "regular": (regular, NO_GROUP),
    "natural": (natural, (*NO_COUNT, 6)),
    "trivial": (trivial, NO_COUNT),
    "rototranslations": (rototranslations, (*NO_COUNT, 8)),
    "GroupNetwork": (lambda bad: GroupNetwork(bad, [relu]), (*NO_GROUP[:-1], cyclic(2))),
    "GroupNetwork activations": (lambda bad: GroupNetwork(SWAP, bad), NO_ACTIVATIONS),
    "GroupNetwork sigma_w": (
        lambda bad: GroupNetwork(SWAP, [relu], bad), (None, "w", float("inf"), True, [1]),
    ),
    "GroupNetwork support": (
        lambda bad: GroupNetwork(SWAP, [relu], support=bad), (3, "0", [], [2], [0, 0], [-1], [0.5]),
    ),
    "nngp": (lambda bad: NET.nngp(bad, [1, 2]), (*NO_SIGNAL, [[1, 2], [1, 2]])),
    "ntk": (lambda bad: NET.ntk([1, 2], bad), NO_SIGNAL),
    "dense": (lambda bad: dense(1, bad, 1), (None, "k", True, [1], float("nan"))),
    "perceptron": (lambda bad: perceptron(bad, [relu]), NO_COUNT),
    "group_average": (lambda bad: group_average(bad, SWAP), (None, "ntk", 3)),
    "group_average action": (lambda bad: group_average(NET.ntk, bad), (None, cyclic(2))),
    "augmented": (lambda bad: augmented(SWAP, bad, [1]), (None, 3, [], [[1, 2], [1, 2]], [[1, 2, 3]])),
    "mean_prediction": (
        lambda bad: mean_prediction(NET.ntk, [[1, 2]], bad, [1, 2], 1), (None, [], [1, 2], ["y"]),
    ),
    "mean_prediction time": (
        lambda bad: mean_prediction(NET.ntk, [[1, 2]], [1], [1, 2], bad),
        (None, -1, "soon", float("inf"), sp.Symbol("t")),
    ),
    "mean_prediction weight": (
        lambda bad: mean_prediction(NET.ntk, [[1, 2]], [1], [1, 2], 1, bad), (None, 0, -1, "w"),
    ),
    "zonal_kernels": (lambda bad: zonal_kernels(bad, [1], [1]), NO_ACTIVATIONS),
    "zonal_kernels f": (
        lambda bad: zonal_kernels([relu], bad, [1]), (None, [], [1, 2], ["f"], [sp.Symbol("f")]),
    ),
    "zonal_kernels sigma_b": (
        lambda bad: zonal_kernels([relu], [1], [1], 1, bad), (None, "b", sp.Symbol("b")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_refused_in_a_sentence(name: str) -> None:
    function, values = WRONG[name]
    require_refusals((f"{k}: {str(v)[:40]}", partial(function, v)) for k, v in enumerate(values))
