"""Networks side by side are networks alone, and curves are where they are."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric.experiments.decision_boundaries import (
    Disc,
    Lattice,
    ParallelNetworks,
    cross_entropies,
    distance,
    margin,
    perceptron,
    sinusoid,
    xor,
)
from numeric.models.perceptron import hidden_layers
from numeric.runs import train

WIDE = {"dtype": torch.float64}


def test_a_perceptron_is_the_paper_s_network() -> None:
    net, x = perceptron((5, 3), seed=2), torch.randn(7, 2, **WIDE)
    state = net.state_dict()
    first = torch.sigmoid(x @ state["linear1.weight"].T + state["linear1.bias"]) / 5**0.5
    second = torch.sigmoid(first @ state["linear2.weight"].T + state["linear2.bias"]) / 3**0.5
    out = second @ state["readout.weight"].T + state["readout.bias"]
    torch.testing.assert_close(net(x), out, rtol=1e-14, atol=1e-14)
    assert hidden_layers(net) == {"phi1": (net[0], net[1]), "phi2": (net[3], net[4])}
    assert type(perceptron(4, activation=nn.Tanh()).phi1) is nn.Tanh
    many = torch.cat([p.flatten() for p in perceptron(20_000).parameters()])
    assert abs(many.mean()) < 5 / len(many) ** 0.5
    assert abs(many.var() - 1) < 5 * (2 / len(many)) ** 0.5


def test_making_a_perceptron_leaves_the_world_s_chance_alone() -> None:
    before = torch.get_rng_state()
    perceptron((4, 4))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("shape", [(7,), (4, 3)])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_networks_side_by_side_train_as_if_alone(shape: tuple, optimizer: type) -> None:
    nets = [perceptron(shape, seed) for seed in range(3)]
    draws = [sinusoid(30).data(seed) for seed in range(3)]
    data = tuple(torch.stack(part, 1) for part in zip(*draws, strict=True))
    kind = {"steps": 60, "batch_size": 8, "device": "cpu", "progress": False}
    make = partial(optimizer, lr=0.05, weight_decay=1e-3)
    together = train(ParallelNetworks(nets), cross_entropies, data, make, **kind)
    alone = [train(n, F.cross_entropy, d, make, **kind) for n, d in zip(nets, draws, strict=True)]
    torch.testing.assert_close(
        together.losses, sum(run.losses for run in alone), rtol=1e-12, atol=0
    )
    for k, run in enumerate(alone):
        one = together.model.network(k)
        assert str(one) == str(run.model)
        for name, value in run.model.state_dict().items():
            torch.testing.assert_close(one.state_dict()[name], value, rtol=1e-11, atol=1e-11)


def test_one_of_many_is_a_copy() -> None:
    together = ParallelNetworks([perceptron(3, seed) for seed in range(2)])
    x = torch.randn(5, 2, 2, **WIDE)
    for k in range(2):
        torch.testing.assert_close(together.network(k)(x[:, k]), together(x)[:, k])
    together.network(0).linear1.weight.data.zero_()
    assert together.layers.linear1.weight.abs().min() > 0


def test_the_margin_is_the_lead_of_label_one() -> None:
    net, x = perceptron(3), torch.randn(5, 2, **WIDE)
    assert ((margin(net)(x) > 0) == (net(x).argmax(1) == 1)).all()
    assert not margin(net)(x).requires_grad


def test_a_lattice_goes_row_by_row_from_below() -> None:
    lattice = Lattice(2.0, 3)
    assert lattice.x[:4].tolist() == [[-2, -2], [0, -2], [2, -2], [-2, 0]]
    square = lattice.square(lattice.x[:, 1])
    assert square[0].tolist() == [-2, -2, -2]
    assert square[2].tolist() == [2, 2, 2]


def circle(x: Tensor) -> Tensor:
    return x.norm(dim=-1) - 0.7


def test_curves_lie_where_functions_change_sign_to_second_order() -> None:
    for points in (41, 81):
        step = 2 / (points - 1)
        curve = Lattice(1.0, points).curve(circle)
        # Between neighbours a function is off a line by at most f'' step^2 / 8, here with f'' <= 1/r.
        assert circle(curve).abs().max() < step**2 / 8 / (0.7 - step)
        angles = torch.atan2(curve[:, 1], curve[:, 0]).sort().values
        assert angles.diff().max() * 0.7 < 2**0.5 * step  # a cell's diagonal, and no gap
    line = Lattice(1.0, 11).curve(lambda x: 2 * x[:, 0] + x[:, 1] - 0.03)
    torch.testing.assert_close(2 * line[:, 0] + line[:, 1], torch.full((len(line),), 0.03, **WIDE))
    assert Lattice(1.0).curve(lambda x: 1 + x[:, 0] ** 2).shape == (0, 2)


def test_distances_are_those_of_known_curves() -> None:
    x = Disc(1.0).x
    half = 0.01 / 2**0.5  # the diagonal of a cell, which two points of a curve have between them
    away = distance(x, Lattice(1.2, 241).curve(circle))
    assert (away - circle(x).abs()).abs().max() < half
    axes = distance(x, Lattice(1.2, 241).curve(xor().side))
    assert (axes - x.abs().amin(1)).abs().max() < half
    assert distance(x, x[:0]).isinf().all()


def test_a_disc_is_left_as_it_is_by_turns_and_mirrors() -> None:
    disc = Disc(1.5, 7)
    radius = disc.x.norm(dim=1)
    torch.testing.assert_close(radius, 1.5 * (disc.circle + 0.5) / 7, check_dtype=False)
    assert len(disc.x) == pytest.approx(math.pi * 49, rel=0.2)
    for task in (xor(), sinusoid()):
        turn = disc.x.new_tensor(task.decoy)
        torch.testing.assert_close(turn @ turn.T, torch.eye(2, **WIDE))
        assert torch.cdist(disc.x @ turn.T, disc.x).amin(1).max() < 1e-7


BAD = {
    "no layers": (lambda: perceptron(()), "one hidden layer"),
    "width": (lambda: perceptron((3, 0)), "width = 0"),
    "outputs": (lambda: perceptron(3, outputs=0), "outputs"),
    "unlike": (lambda: ParallelNetworks([perceptron(3), perceptron(4)]), "one shape"),
    "none": (lambda: ParallelNetworks([]), "one at least"),
    "no hidden": (lambda: hidden_layers(nn.Sequential(nn.Linear(2, 2))), "perceptron"),
    "lattice": (lambda: Lattice(1.0, 1), "points"),
    "infinite": (lambda: Lattice(math.inf), "reach = inf"),
    "disc": (lambda: Disc(0.0), "reach = 0"),
    "circles": (lambda: Disc(1.0, 0), "circles"),
    "curve": (lambda: Lattice(1.0).curve(lambda x: x), "one finite number"),
    "NaN curve": (lambda: Lattice(1.0).curve(lambda x: x[:, 0] * math.nan), "1600 NaN"),
}


@pytest.mark.parametrize(("door", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_told(door: partial, message: str) -> None:
    with pytest.raises(InputError, match=message):
        door()
