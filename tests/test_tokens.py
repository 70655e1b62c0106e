"""Models that take tokens: tangents and path kernels differentiate by parameters, and take whole numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.optim import SGD, AdamW

from numeric import flows, geodesics, geometry, path_kernel, tangents
from numeric.inputs import InputError
from numeric.path_kernel import ExactPathKernel, LeftRiemann, Recorder, influence, record
from recorded_runs import QUIET
from refusals import require_refusals

WORDS, LENGTH = 11, 5


class Sentences(nn.Module):
    """Tokens (n, LENGTH) -> (n, 3) by the mean of what a table has for them."""

    def __init__(self, act: type[nn.Module] = nn.Tanh) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.hidden, self.act = nn.Embedding(WORDS, 4), nn.Linear(4, 6), act()
        self.readout = nn.Linear(6, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.act(self.hidden(self.table(x).mean(1))))


def sentences(n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, WORDS, (n, LENGTH), generator=generator)


X, NEW = sentences(12), sentences(4, seed=1)
Y = torch.arange(12) % 3


def by_jacobians(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """(n, m, k, k) from dense Jacobians of torch.func."""
    values = {name: value.detach() for name, value in net.named_parameters()}
    left, right = (
        jacrev(lambda at, points=points: functional_call(net, at, (points,)))(values)
        for points in (x, y)
    )
    parts = [
        torch.einsum("naf,mbf->nmab", left[name].flatten(2), right[name].flatten(2))
        for name in values
    ]
    return torch.stack(parts).sum(0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_the_tangent_kernel_of_tokens_is_that_of_dense_jacobians(dtype: torch.dtype) -> None:
    net, x, y = Sentences(), X.to(dtype), NEW.to(dtype)
    exact = by_jacobians(net, x, y)
    bound = 1e-13 * exact.abs().max()
    ours = tangents.ntk(net, x, y)
    assert ours.dtype == torch.float64
    assert (ours - exact).abs().max() <= bound
    small = tangents.ntk(net, x, y, memory=200_000)  # in blocks
    assert (small - exact).abs().max() <= bound
    assert not tangents.gradients(net, x).fallbacks
    kernel = tangents.EmpiricalNTK(net)
    mean = exact.diagonal(dim1=2, dim2=3).mean(2)
    assert (kernel(x, y) - mean).abs().max() <= bound
    own = by_jacobians(net, x, x).diagonal(dim1=2, dim2=3).mean(2).diagonal()
    assert (kernel.diagonal(x) - own).abs().max() <= bound


@pytest.mark.parametrize("make", [partial(SGD, lr=0.5), partial(AdamW, lr=0.05, weight_decay=0.1)])
@pytest.mark.parametrize("act", [nn.Tanh, nn.ReLU])
def test_sums_are_the_outputs_of_a_model_of_tokens(act: type[nn.Module], make: Callable) -> None:
    kind: Any = {"steps": 4, "batch_size": 5} | QUIET
    run = record(Sentences(act), F.cross_entropy, make, (X, Y), **kind)
    kernel = ExactPathKernel(run, progress=False)
    rebuilt = kernel.start(NEW) + kernel.attributions(NEW).sum(2) + kernel.decay(NEW)
    assert (rebuilt - kernel.network(NEW)).abs().max() <= 1e-12
    assert (kernel.predict(NEW) - kernel.network(NEW)).abs().max() <= 1e-12
    assert torch.equal(kernel.network(NEW.double()), kernel.network(NEW))  # as lists come


def test_what_else_reads_a_record_takes_tokens() -> None:
    net = Sentences()
    recorder = Recorder(net, F.cross_entropy, SGD(net.parameters(), lr=0.5))
    for rows in torch.arange(12).split(12):
        for _ in range(2):
            recorder.step(X[rows], Y[rows], rows)
    run = recorder.record((X, Y))
    kernel = ExactPathKernel(run, progress=False)
    machine = kernel.start(NEW) + sum(
        torch.einsum("nmkj,mj->nk", kernel.during(s).gram(NEW, X), kernel.coefficients(s))
        for s in range(2)
    )
    assert (machine - kernel.network(NEW)).abs().max() <= 1e-12
    discrete = ExactPathKernel(run, LeftRiemann(1), progress=False).defects(NEW)
    at_start = path_kernel.tangent_defects(run, NEW)
    assert (discrete[0] - at_start[0]).abs().max() <= 1e-14 < 1e-3 < at_start.abs().max()
    line = path_kernel.interpolation(run, count=3)
    assert (line.outputs[-1] - net(X)).abs().max() <= 1e-12
    h, one = 1e-4, torch.zeros(12, dtype=torch.float64).index_fill(0, torch.tensor(3), 1)
    above, below = (
        path_kernel.retrain(run, 1 + s * h * one, progress=False)(NEW).detach() for s in (1, -1)
    )
    slope = (above - below) / (2 * h)
    assert (influence(run, NEW, progress=False)[:, :, 3] - slope).abs().max() <= 1e-6


def test_tokens_are_refused_where_points_are_real() -> None:
    """Geometry, geodesics and flows as before; elsewhere a model that takes none, and tokens it has not."""
    net, linear, kind = Sentences(), nn.Linear(LENGTH, 2).double(), {"steps": 1} | QUIET
    run = record(net, F.cross_entropy, partial(SGD, lr=0.5), (X, Y), **kind)
    calls: dict[str, Callable[[], object]] = {
        "geometry": lambda: geometry.metric(net, X),
        "geodesics": lambda: geodesics.shoot(net, X[:1], X[:1]),
        "the kernel's metric": lambda: tangents.EmpiricalNTK(net).jet(X),
        "flows": lambda: flows.integrate(net, X, F.one_hot(Y, 3).double()),
        "a model of real points": lambda: tangents.ntk(linear, X),
        "words that are none": lambda: tangents.ntk(net, X + WORDS),
        "halves": lambda: ExactPathKernel(run).start(NEW + 0.5),
        "recorded": lambda: record(linear, F.cross_entropy, partial(SGD, lr=0.5), (X, Y), **kind),
    }
    require_refusals(calls.items())
    with pytest.raises(InputError, match=r"x is torch\.int64, but points are real"):
        calls["flows"]()
    with pytest.raises(InputError, match=r"if it takes real points, write x\.double\(\)"):
        calls["a model of real points"]()


def test_points_that_are_all_one_sentence_are_compared_with_another() -> None:
    """A model that mixes the rows of a batch shows on them too."""

    class Mixing(Sentences):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            return out - out.mean(0)

    for x in (X[:1].expand(3, LENGTH), torch.ones_like(X[:3])):
        assert tangents.ntk(Sentences(), x).shape == (3, 3, 3, 3)
        with pytest.raises(InputError, match="other features for a point in a batch"):
            tangents.ntk(Mixing(), x)
