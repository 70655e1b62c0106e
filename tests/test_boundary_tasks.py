"""Tasks and recipes are those of the paper, and seeds share nothing."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from analytic.expressions.arguments import InputError
from numeric.experiments.decision_boundaries import (
    Recipe,
    Task,
    shuffled,
    sinusoid,
    xor,
)

WIDE = {"dtype": torch.float64}


def test_xor_is_the_paper_s() -> None:
    x, y = xor().data(0)
    assert x.tolist() == [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    assert y.tolist() == [0, 1, 1, 0]
    assert ((xor().side(x) > 0).long() == y).all()
    assert xor().recipe == Recipe(rate=0.02, momentum=0.9, decay=1e-4, epochs=2_000)
    assert xor().recipe.steps(4) == 2_000


def test_the_sinusoid_is_the_paper_s() -> None:
    x, y = sinusoid().data(3)
    assert x.shape == (400, 2)
    assert x.dtype == torch.float64
    above = x[:, 1] > 0.6 * torch.sin(7 * x[:, 0] - 1)
    assert (y == above.long()).all()
    assert sinusoid().recipe == Recipe(0.05, 0.9, 0.0, 10_000, 50)
    assert sinusoid().recipe.steps(400) == 80_000
    # Uniform on the square: four moments of each coordinate and their product, in standard errors.
    x = sinusoid(100_000).data(0)[0]
    assert x.abs().max() <= 1
    for values, mean, spread in (
        (x.mean(0), 0, 3**-0.5),
        ((x**2).mean(0), 1 / 3, (4 / 45) ** 0.5),
        (x.prod(1).mean(), 0, 1 / 3),
    ):
        assert (abs(values - mean) < 5 * spread / 100_000**0.5).all()


def test_draws_follow_their_seed() -> None:
    one, again, other = (sinusoid().data(seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_optimiser_is_sgd_with_the_recipe_and_no_more() -> None:
    made = xor().recipe.optimizer([nn.Parameter(torch.zeros(1))])
    assert type(made) is torch.optim.SGD
    settings = {
        "lr": 0.02,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "nesterov": False,
        "dampening": 0,
    }
    assert settings.items() <= made.defaults.items()


def test_haste_keeps_the_training_time() -> None:
    fast = sinusoid().recipe.with_larger_steps(10)
    assert (fast.rate, fast.epochs, fast.batch_size) == (0.5, 1_000, 50)
    with pytest.raises(InputError, match="no multiple of 3"):
        sinusoid().recipe.with_larger_steps(3)
    # On a quadratic with small steps, where both are gradient flow, they end at the same place.
    slow = Recipe(1e-4, 0.0, 0.0, 4_000)
    ends = []
    for recipe in (slow, slow.with_larger_steps(10)):
        w = nn.Parameter(torch.ones(3, **WIDE))
        optimizer = recipe.optimizer([w])
        for _ in range(recipe.steps(1)):
            optimizer.zero_grad()
            (torch.tensor([1.0, 2.0, 3.0], **WIDE) @ w**2 / 2).backward()
            optimizer.step()
        ends.append(w.detach())
    torch.testing.assert_close(*ends, rtol=2e-3, atol=0)  # 3^2 (1e-3) 0.4 / 2, to first order


def test_shuffled_labels_are_as_many_and_neither_the_old_ones_nor_their_opposite() -> None:
    y = xor().data(0)[1]
    seen = {tuple(shuffled(y, seed).tolist()) for seed in range(60)}
    assert seen == {(0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0)}
    y = sinusoid().data(0)[1]
    other = shuffled(y, 0)
    assert other.sum() == y.sum()
    assert torch.equal(other, shuffled(y, 0))
    # No trace of the task, nor of the order in which points were drawn, is left.
    matches = [(shuffled(y, s) == y).double().mean() for s in range(50)]
    expected = (y.double().mean() ** 2 + (1 - y.double().mean()) ** 2).item()
    assert abs(torch.stack(matches).mean() - expected) < 5 * 0.5 / math.sqrt(400 * 50)
    drawn = [sinusoid().data(seed) for seed in range(50)]
    tied = [(x[:, 1] * (2.0 * shuffled(y, k) - 1)).mean() for k, (x, y) in enumerate(drawn)]
    assert abs(torch.stack(tied).mean()) < 5 * 3**-0.5 / math.sqrt(400 * 50)
    with pytest.raises(InputError, match="no other order"):
        shuffled(torch.tensor([0, 1]), 0)


def test_points_of_one_s_own_make_a_task() -> None:
    task = Task.of([[0.0, 1.0], [2.0, 0.0], [0.0, -1.0]], [1, 0, 1])
    x, y = task.data(7)
    assert x.tolist() == [[0, 1], [2, 0], [0, -1]]
    assert y.tolist() == [1, 0, 1]
    assert task.side is None
    assert task.reach == 3.0
    assert Task.of(x, y, reach=1.0).reach == 1.0


BAD = {
    "shape": (lambda: Task.of([[0.0, 1.0, 2.0]], [0]), r"\(1, 3\)"),
    "labels": (lambda: Task.of([[0.0, 1.0]], [0, 1]), r"\(2,\)"),
    "NaN": (lambda: Task.of([[0.0, math.nan], [0, 0]], [0, 1]), "NaN"),
    "one label": (lambda: Task.of([[0.0, 1.0], [1, 1]], [1, 1]), "both"),
    "three labels": (lambda: Task.of([[0.0, 1.0], [1, 1], [2, 2]], [0, 1, 2]), "0, 1, 2"),
    "at the origin": (lambda: Task.of([[0.0, 0.0], [0, 0]], [0, 1]), "reach = 0"),
    "no reach": (lambda: Task.of([[0.0, 1.0], [1, 1]], [0, 1], reach=0.0), "reach = 0"),
    "reach": (lambda: Task.of([[0.0, 1.0], [1, 1]], [0, 1], reach=-1.0), "reach = -1"),
    "rate": (lambda: Recipe(0.0, 0.9, 0.0, 1), "rate = 0.0"),
    "momentum": (lambda: Recipe(0.1, 1.0, 0.0, 1), "momentum"),
    "decay": (lambda: Recipe(0.1, 0.9, -1.0, 1), "decay"),
    "epochs": (lambda: Recipe(0.1, 0.9, 0.0, 1.5), "epochs"),
    "batch": (lambda: Recipe(0.1, 0.9, 0.0, 1, 0), "batch"),
    "points": (lambda: sinusoid(1), "points"),
    "seed": (lambda: sinusoid().data(-1), "seed"),
}


@pytest.mark.parametrize(("door", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_told(door: partial, message: str) -> None:
    with pytest.raises(InputError, match=message):
        door()
