"""Groups are groups, actions compose, and averages and motions of the pixel grid obey them."""

from itertools import product as pairs

import pytest
import torch

from analytic.activations import erf, relu
from density import sweep
from numeric.infinite import (
    CIRCULAR,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    Window,
    assert_equivariant,
    assert_invariant,
)
from numeric.infinite.groups import (
    Action,
    Averaged,
    Group,
    RotoTranslations,
    cyclic,
    dihedral,
    from_generators,
    p4,
    p4m,
    product,
    semidirect,
    symmetric,
    torus,
)
from numeric.inputs import InputError
from numeric.kernels import assert_kernel

GROUPS = {
    "Z6": lambda: cyclic(6),
    "D4": lambda: dihedral(4),
    "S3": lambda: symmetric(3),
    "Z2 x S3": lambda: product(cyclic(2), symmetric(3)),
    "Z3 |x Z2": lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [0, 2, 1]]),
    "from generators": lambda: from_generators([[1, 2, 0, 3], [1, 0, 2, 3]]).group,
}


def signals(n: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("name", GROUPS)
def test_inverses_and_products_are_those_of_the_action_on_signals(name: str) -> None:
    group = GROUPS[name]()
    action, x = Action(group), signals(2, 3, group.order)
    for g, h in pairs(range(group.order), repeat=2):
        both = action.act(group.products[g, h], x)
        assert torch.equal(action.act(g, action.act(h, x)), both)
    assert (group.products[torch.arange(group.order), group.inverses] == 0).all()


def test_known_groups_have_their_orders_and_commute_as_they_do() -> None:
    orders = {name: (make().order, make().abelian) for name, make in GROUPS.items()}
    assert orders == {
        "Z6": (6, True), "D4": (8, False), "S3": (6, False), "Z2 x S3": (12, False), "Z3 |x Z2": (6, False),
        "from generators": (6, False),
    }  # fmt: skip
    assert product(cyclic(2), cyclic(3)).abelian
    assert torus(3, cyclic(4)).group.order == 36


@pytest.mark.parametrize("motions", [p4, p4m, RotoTranslations(2)], ids=["p4", "p4m", "p2"])
def test_motions_of_the_grid_compose_as_their_point_group(motions: RotoTranslations) -> None:
    x, table = signals(1, 2, 4, 4), motions.point_group.products
    for g, h in pairs(range(motions.order), repeat=2):
        both = motions.act(table[g, h], x)
        assert torch.equal(motions.act(g, motions.act(h, x)), both)
    moved = {tuple(motions.act(g, x).flatten().tolist()) for g in range(motions.order)}
    assert len(moved) == motions.order


def test_the_quarter_turn_of_the_torus_is_that_of_the_grid() -> None:
    """About the pixel (0, 0) of the torus, which is moved to the centre of an odd grid."""
    action, x = torus(5, cyclic(4)), signals(1, 1, 5, 5)
    about_origin = p4.act(1, x.roll((2, 2), (2, 3))).roll((-2, -2), (2, 3))
    assert torch.equal(action.act(25, x), about_origin)


def mlp(act: object, depth: int) -> Network:
    return Network([Flatten(), Dense(), *[act, Dense()] * (depth - 1), act], 1.4, 0.3)


def group_network(action: Action, act: object, depth: int) -> Network:
    """Filters with all of X and all of G as their supports, and a pool."""
    hidden = [act, GroupConvolution()] * (depth - 1)
    return Network([Lift(action), *hidden, act, GroupPool()], 1.4, 0.3)


def quarter_turns(size: int) -> Action:
    return Action(cyclic(4), p4.sources((size, size))[[0, 3, 2, 1]])


ACTIONS = {
    "C4 on 3 x 3": lambda: quarter_turns(3),
    "C4 on 4 x 4": lambda: quarter_turns(4),
    "Z5": lambda: Action(cyclic(5)),
    "Z6": lambda: Action(cyclic(6)),
    "S3": lambda: Action(symmetric(3)),
    "S3 on three points": lambda: from_generators([[1, 2, 0], [1, 0, 2]]),
    "C4 |x Z3^2": lambda: torus(3, cyclic(4)),
}


@pytest.mark.parametrize(
    ("act", "depth"),
    [
        (relu, 2),
        *(pytest.param(*case, marks=sweep) for case in ((relu, 3), (relu, 4), (erf, 2), (erf, 3))),
    ],
    ids=lambda part: getattr(part, "name", part),
)
@pytest.mark.parametrize("name", ACTIONS)
def test_augmentation_is_equivariance(name: str, act: object, depth: int) -> None:
    r"""Equivariant NTK: Theta^GC(f, f') = mean over g of Theta^MLP(f, rho(g) f'), and so for the NNGP."""
    action = ACTIONS[name]()
    x, y = (signals(n, 2, action.positions, seed=n) for n in (3, 2))
    group, plain = group_network(action, act, depth), mlp(act, depth)
    for kernel in ("nngp", "ntk"):
        ours, theirs = getattr(group, kernel), Averaged(getattr(plain, kernel), action)
        scale = (ours.diagonal(x)[:, None] * ours.diagonal(y)).sqrt()
        assert ((ours(x, y) - theirs(x, y)).abs() <= 1e-14 * scale).all()
        # a wrong average, over all elements but one, is told apart
        one = getattr(plain, kernel)(x, y) / action.order
        assert ((ours(x, y) - theirs(x, y) + one).abs() > 1e-4 * scale).any()


@pytest.mark.parametrize("support", [None, [0, 1, 4]], ids=["all", "some"])
def test_supports_of_any_size_give_kernels_that_pooling_makes_invariant(support: object) -> None:
    action = Action(symmetric(3))
    layers = [Lift(action, support), relu, GroupConvolution(support), erf, GroupPool(), Dense()]
    x, y = signals(4, 2, 6), signals(3, 2, 6, seed=1)
    for kernel in (Network(layers).nngp, Network(layers).ntk):
        assert_kernel(kernel, x, y)
        assert_invariant(kernel, action, x)
    flat = Network([*layers[:-2], Flatten(), Dense()])
    assert_equivariant(flat.ntk, action, x)
    with pytest.raises(AssertionError, match=r"k\(x, g y\)"):
        assert_invariant(flat.ntk, action, x)


@pytest.mark.parametrize("motions", [p4, p4m], ids=["p4", "p4m"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_pooled_kernels_of_images_are_invariant(motions: object, dtype: torch.dtype) -> None:
    window = Window(3)
    layers = [
        Lift(motions, window),
        relu,
        GroupConvolution(window),
        relu,
        GroupPool(),
        Dense(),
        relu,
        Dense(),
    ]
    x = signals(3, 2, 5, 5, dtype=dtype)
    assert_invariant(Network(layers).ntk, motions, x)
    plain = Network([Convolution(3), relu, Convolution(3), relu, GlobalPool(), Dense()]).ntk
    assert_equivariant(plain, motions, x)
    with pytest.raises(AssertionError, match=r"k\(x, g y\)"):
        assert_invariant(plain, motions, x)


def test_finite_group_networks_are_equivariant_and_plain_ones_are_not() -> None:
    window = Window(3, CIRCULAR)
    x = signals(2, 2, 5, 5)
    layers = [Lift(p4m, window), relu, GroupConvolution(window), relu, GroupPool(), Dense()]
    net = Network(layers).finite(4, shape=(2, 5, 5))
    assert_equivariant(net, p4m, x)
    lifted, point_group = net[:3](x), p4m.point_group
    for g in range(p4m.order):
        moved = p4m.turn(g, lifted)[:, :, point_group.products[point_group.inverses[g]]]
        torch.testing.assert_close(net[:3](p4m.act(g, x)), moved, rtol=1e-12, atol=1e-12)
    plain = Network([Convolution(3), relu, GlobalPool(), Dense()]).finite(4, shape=(2, 5, 5))
    with pytest.raises(AssertionError, match="f\\(g x\\)"):
        assert_equivariant(plain, p4, x)
    action = torus(3, cyclic(4))
    layers = [
        Lift(action, [0, 1, 3]),
        relu,
        GroupConvolution([0, 5, 20]),
        relu,
        GroupPool(),
        Dense(),
    ]
    net = Network(layers).finite(4, shape=(2, 3, 3))
    assert_equivariant(net, action, signals(2, 2, 3, 3))
    assert_equivariant(net[:3], action, signals(2, 2, 3, 3), outputs=Action(action.group))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Group([[0, 1], [1, 1]]), "occurs twice"),
        (lambda: Group([[0, 1, 2], [1, 2, 0]]), "as many columns"),
        (lambda: Group([[0, 1], [1, 5]]), "0 to 1"),
        (lambda: Group([[1, 0], [0, 1]]), "identity"),
        (lambda: Group([[0.5]]), "whole numbers"),
        (lambda: Group("table"), "no array"),
        (
            lambda: Group(
                [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
            ),
            "associative",
        ),
        (lambda: cyclic(0), "at least 1"),
        (lambda: symmetric(9), "at most 7"),
        (lambda: from_generators([[0, 0, 1]]), "permutations"),
        (lambda: from_generators([[1, 2, 3, 4, 5, 6, 7, 0], [1, 0, 2, 3, 4, 5, 6, 7]]), "5040"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [1, 0, 2]]), "keep its products"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 2, 1], [0, 2, 1]]), "compose"),
        (lambda: Action(cyclic(2), [[0, 1], [0, 0]]), "every position once"),
        (lambda: Action(cyclic(2), [[0, 1]]), "one row for each"),
        (lambda: Action("Z2"), "Group"),
        (lambda: Action(cyclic(4)).act(1, signals(1, 2, 5)), "4"),
        (lambda: RotoTranslations(3), "n = 1, 2 and 4"),
        (lambda: RotoTranslations(4.0), "not for n = 4.0"),
        (lambda: Action(cyclic(3)).act(7, signals(1, 2, 3)), "g = 7 .* 0 to 2"),
        (lambda: Action(cyclic(3)).act(1.0, signals(1, 2, 3)), "g = 1.0 .* whole number"),
        (lambda: p4.act(9, signals(1, 2, 4, 4)), "g = 9 .* 0 to 3"),
        (lambda: p4.act(-1, signals(1, 2, 4, 4)), "g = -1 .* at least 0"),
        (lambda: p4.act(1, signals(1, 2, 4, 5)), "square"),
        (lambda: p4.act(1, signals(1, 2, 4)), "images"),
        (lambda: Averaged("k", p4), "Kernel"),
        (lambda: assert_equivariant(3, p4, signals(1, 2, 4, 4)), "Kernel or a function"),
        (lambda: assert_equivariant(lambda x: x, "p4", signals(1, 2, 4, 4)), "act on signals"),
        (lambda: assert_equivariant(lambda x: (x, x), p4, signals(1, 2, 4, 4)), "returned a tuple"),
        (lambda: assert_equivariant(lambda x: x.numpy(), p4, signals(1, 2, 4, 4)), "returned a ndarray"),
        (lambda: assert_invariant(lambda x: x, p4, signals(1, 2, 4, 4)), "Kernel"),
    ],
)  # fmt: skip
def test_what_is_no_group_is_refused(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
