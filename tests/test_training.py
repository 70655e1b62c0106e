"""The training loop does what a hand-written one does, states it, and refuses bad input."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric.runs import train
from short_runs import SGD, data, model, same, trained


@pytest.mark.parametrize("batch", [None, 5])
def test_it_is_the_loop_that_one_writes_by_hand(batch: int | None) -> None:
    """Another loss, such as one with a volume term, would end elsewhere."""
    x, y = data()
    net, losses = model(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    shuffles = torch.Generator().manual_seed(3)
    while len(losses) < 40:
        rows = torch.arange(len(x)) if batch is None else torch.randperm(len(x), generator=shuffles)
        for some in rows.split(batch or len(x))[: 40 - len(losses)]:
            loss = F.cross_entropy(net(x[some]), y[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    run = trained(batch_size=batch, seed=3)
    assert run.losses.tolist() == losses
    final = run.model.state_dict()
    assert all(torch.equal(final[name], value) for name, value in net.state_dict().items())


def test_a_step_follows_the_gradient_of_the_stated_loss_alone() -> None:
    plain = partial(torch.optim.SGD, lr=0.1)
    run = trained(1, optimizer=plain)
    net = model()
    F.cross_entropy(net(data()[0]), data()[1]).backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(
            run.snapshots[1][name], p.detach() - 0.1 * p.grad, rtol=1e-14, atol=0
        )


def test_a_run_states_what_was_minimised_and_how() -> None:
    statement = trained(7, batch_size=5, seed=2).statement
    for part in (
        "cross_entropy on 23 examples in batches of 5, nothing added",
        "seed 2",
        "7 updates",
    ):
        assert part in statement
    assert "SGD(lr=0.05, momentum=0.9, weight_decay=0.001)" in statement
    assert "maximize=True" in trained(1, optimizer=partial(SGD, maximize=True)).statement
    smooth = partial(F.cross_entropy, label_smoothing=0.1)
    net, (x, y) = model(), data()
    run = train(net, smooth, (x, y), SGD, steps=1, device="cpu", progress=False)
    assert run.statement.startswith("cross_entropy(label_smoothing=0.1) on 23 examples all at once")
    assert run.loss is smooth
    assert (
        "CrossEntropyLoss()"
        in train(
            net, nn.CrossEntropyLoss(), (x, y), SGD, steps=0, device="cpu", progress=False
        ).statement
    )


def test_seeds_decide_batches_and_dropout_and_leave_the_world_alone() -> None:
    net = model(0.3)
    before = torch.get_rng_state()
    one, again, other = (trained(net=net, batch_size=5, seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, again)
    assert not torch.equal(one.losses, other.losses)
    every = [trained(5, net=net, seed=s).losses for s in (1, 2)]  # dropout alone
    assert not torch.equal(*every)


def test_each_epoch_shows_every_example_once() -> None:
    x = torch.arange(23.0, dtype=torch.float64)[:, None]
    seen: list[Tensor] = []

    def loss(out: Tensor, y: Tensor) -> Tensor:
        seen.append(y)
        return (out**2).mean()

    net = nn.Linear(1, 1).double()
    train(net, loss, (x, x[:, 0]), partial(torch.optim.SGD, lr=1e-6), steps=10, batch_size=5,
          device="cpu", progress=False)  # fmt: skip
    assert [len(part) for part in seen] == [5, 5, 5, 5, 3] * 2
    first, second = torch.cat(seen[:5]), torch.cat(seen[5:])
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(23))
    assert not torch.equal(first, second)


def test_the_given_model_is_left_alone_and_snapshots_are_models() -> None:
    net = model()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    run = trained(10, net=net, at=(4,))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert run.steps == (0, 4, 10)
    x, y = data()
    for step in (0, 4):
        value = F.cross_entropy(run.model_at(step)(x), y).item()
        assert value == run.losses[step].item()
    run.model_at(4)[0].weight.data.zero_()
    assert run.model_at(4)[0].weight.abs().min() > 0
    assert torch.equal(run.model_at(0)[0].weight, net[0].weight)
    with pytest.raises(InputError, match=r"no snapshot of step 5, only of \(0, 4, 10\)"):
        run.model_at(5)


def diverging(out: Tensor, y: Tensor) -> Tensor:
    return (out**4).sum()


def test_divergence_stops_with_the_step_and_what_to_do() -> None:
    fast = partial(torch.optim.SGD, lr=10.0)
    with pytest.raises(
        InputError, match=r"loss is (nan|inf) after \d+ updates.*Lower the learning"
    ):
        train(model(), diverging, data(), fast, steps=99, device="cpu", progress=False)
    # The last update may be the one that overflows, and no loss tells it.
    huge = partial(torch.optim.SGD, lr=1e308)
    with pytest.raises(InputError, match="Parameters are NaN or infinite after 1 updates"):
        train(model(), diverging, data(), huge, steps=1, device="cpu", progress=False)


X, Y = data(4)
BAD = {
    "no module": ({"model": torch.tanh}, "torch.nn.Module with parameters"),
    "nothing to train": ({"model": nn.Tanh()}, "torch.nn.Module with parameters"),
    "no pair": ({"data": X}, "pair of tensors"),
    "lists": ({"data": ([1.0], [0])}, "pair of tensors"),
    "unequal": ({"data": (X, Y[:3])}, "4 inputs and 3 targets"),
    "empty": ({"data": (X[:0], Y[:0])}, "at least one"),
    "NaN": ({"data": (X * torch.nan, Y)}, "NaN or infinite"),
    "steps": ({"steps": 1.5}, "steps = 1.5"),
    "negative": ({"steps": -1}, "steps = -1"),
    "every": ({"every": 0}, "every = 0"),
    "seed": ({"seed": "one"}, "seed = 'one'"),
    "batch": ({"batch_size": 5}, "Batches of 5 were asked for, but there are 4"),
    "no batch": ({"batch_size": 0}, "batch_size = 0"),
    "late": ({"at": (3, 9)}, "snapshot at step 9"),
    "optimizer": ({"optimizer": lambda p: None}, "NoneType"),
    "others": ({"optimizer": lambda p: SGD(model().parameters())}, "not the model's"),
    "frozen": (
        {"optimizer": lambda p: SGD([next(p).requires_grad_(False)])},
        "no parameter to train",
    ),
    "many losses": ({"loss": lambda out, y: out}, "one number that depends on the parameters"),
    "detached": ({"loss": lambda out, y: out.detach().sum()}, "one number that depends"),
    "a float": ({"loss": lambda out, y: 1.0}, "one number that depends"),
    "key": ({"key": 3}, "key must be text"),
    "no loss": ({"loss": None}, "loss = None was given"),
    "no targets": ({"data": (X, None)}, "pair of tensors"),
    "step": ({"step": "two views"}, "step = 'two views' was given"),
    "step's loss": ({"step": lambda *_: X, "loss": None}, "return one number"),
    "scheduler": ({"scheduler": lambda o: o}, "scheduler made a SGD"),
    "scheduler text": ({"scheduler": "cosine"}, "scheduler = 'cosine' was given"),
    "optimizer text": ({"optimizer": "sgd"}, "optimizer = 'sgd' was given"),
    "at": ({"at": "1"}, "at must be numbers of updates"),
    "at once": ({"at": 1}, "at must be numbers of updates"),
    "path": ({"store": 3}, "3 is no path of a file"),
    "device": ({"device": "cuda:77"}, "device = 'cuda:77'"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_told(change: dict, message: str) -> None:
    arguments = {
        "model": model(), "loss": F.cross_entropy, "data": (X, Y), "optimizer": SGD, "steps": 2,
        "device": "cpu", "progress": False,
    } | change  # fmt: skip
    with pytest.raises(InputError, match=message):
        train(**arguments)
