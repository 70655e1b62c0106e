"""The trial device behaves as an accelerator does: it is tried here before the product is tried on it."""

from collections.abc import Iterator
from copy import deepcopy
from io import BytesIO

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import trial_device
from numeric.inputs import resolve
from trial_tensor import TRAFFIC

HERE = torch.arange(6, dtype=torch.float64).reshape(2, 3) - 2


# torch loads its forward derivatives with a function that it calls old
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning"),
    pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a real device"),
]


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    with trial_device.present(monkeypatch) as present:
        yield present


@pytest.fixture
def x(device: torch.device) -> Tensor:
    return HERE.to(device)


def test_auto_means_the_device_only_while_it_is_present(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("auto").type == "trial"
    assert resolve("trial:0") == torch.device("trial", 0)
    monkeypatch.setattr(trial_device.MODULE, "present", False)
    assert resolve("auto").type == "cpu"


MIXED = {
    "sum": lambda x: x + HERE, "product": lambda x: x.T @ HERE, "mask": lambda x: x[HERE > 0],
    "in place": lambda x: HERE.clone().add_(x), "stack": lambda x: torch.stack([x, HERE]),
    "module": lambda x: nn.Linear(3, 2, dtype=x.dtype)(x),
}  # fmt: skip


@pytest.mark.parametrize("mixed", MIXED.values(), ids=MIXED)
def test_tensors_of_the_host_are_refused(mixed: object, x: Tensor) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        mixed(x)


def test_numbers_and_indices_of_the_host_are_welcome(x: Tensor) -> None:
    scaled = torch.tensor(2.0) * x
    assert scaled.device == x.device
    assert torch.equal(scaled.cpu(), 2 * HERE)
    assert torch.equal(x[torch.tensor([1, 0])].cpu(), HERE[[1, 0]])


COPIES = {
    "cpu": (1, lambda x: x.cpu()), "to": (1, lambda x: x.to("cpu", torch.float32)),
    "item": (1, lambda x: x[0, 0].item()), "list": (1, lambda x: x.tolist()),
    "bool": (1, lambda x: bool((x > 0).any())), "float": (1, lambda x: float(x[0, 0])),
    "print": (1, str), "format": (1, lambda x: f"{x[0, 0]:.2f}"),
    "copy_": (1, lambda x: torch.empty_like(HERE).copy_(x)),
    "none": (0, lambda x: torch.linalg.eigvalsh(x.T @ x.sin()).clone().to(x.device)),
}  # fmt: skip


@pytest.mark.parametrize(("count", "call"), COPIES.values(), ids=COPIES)
def test_copies_to_the_host_are_counted(count: int, call: object, x: Tensor) -> None:
    call(x)
    assert TRAFFIC.copies.total() == count


def test_what_makes_the_host_wait_is_counted_apart(x: Tensor) -> None:
    _ = x[x > 0], x.nonzero()
    x[x > 0] = 0.0  # a kernel like any other
    assert TRAFFIC.waits.total() == 2
    assert not TRAFFIC.copies


@pytest.mark.parametrize("call", [Tensor.numpy, np.asarray], ids=["numpy", "asarray"])
def test_arrays_are_refused(call: object, x: Tensor) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        call(x)


def test_tensors_are_made_and_drawn_there(device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(1)
    for made in (
        torch.zeros(3, device=device), torch.tensor([1.0, 2.0], device=device),
        torch.linspace(0, 1, 5, device=device), torch.randn(3, generator=generator, device=device),
        torch.zeros(2, device=device).new_ones(3), nn.Linear(2, 2, device=device).weight,
    ):  # fmt: skip
        assert made.device == device
    assert generator.device == device


def test_views_share_memory(x: Tensor) -> None:
    x[0].mul_(10)
    x.T[2].squeeze_().add_(1)
    expected = HERE.clone()
    expected[0] *= 10
    expected[:, 2] += 1
    assert torch.equal(x.cpu(), expected)


def _wavy(x: Tensor) -> Tensor:
    return torch.stack([x.sin().prod(), (x @ x).tanh(), x.exp().sum()])


TRANSFORMS = {
    "vmap": torch.func.vmap(_wavy),
    "reverse": torch.func.vmap(torch.func.jacrev(_wavy)),
    "forward": torch.func.vmap(torch.func.jacfwd(_wavy)),
    "second": torch.func.vmap(torch.func.jacfwd(torch.func.jacrev(_wavy))),
    "jvp": lambda x: torch.func.jvp(torch.func.vmap(_wavy), (x,), (x.cos(),))[1],
    "graph": lambda x: torch.autograd.grad(
        _wavy(leaf := x[0].detach().requires_grad_())[0], leaf
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_derivatives_stay_there(transform: object, x: Tensor) -> None:
    value = transform(x)
    assert value.device == x.device
    assert not TRAFFIC.copies
    assert torch.allclose(value.cpu(), transform(HERE), rtol=1e-14, atol=0)


def test_modules_move_are_copied_trained_and_saved(x: Tensor) -> None:
    def trained(net: nn.Module, x: Tensor) -> nn.Module:
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        return net

    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    there = trained(deepcopy(deepcopy(net).to(x.device)), x)
    assert not TRAFFIC.copies
    torch.save(there.state_dict(), file := BytesIO())
    file.seek(0)
    states = zip(
        trained(net, HERE).state_dict().values(), torch.load(file, weights_only=True).values(),
        strict=True,
    )  # fmt: skip
    assert all(torch.allclose(a, b.cpu(), rtol=1e-12) and b.device == x.device for a, b in states)
