"""Every class of kernels in `numeric` obeys the one law; a class without a case fails."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

import numeric
from analytic.activations import erf, relu
from analytic.splines import INITIALISATIONS
from numeric import infinite, learned
from numeric.infinite import composition, groups, network, spheres
from numeric.infinite.groups.action import OnSignals
from numeric.inputs import InputError
from numeric.kernels import Combined, FunctionKernel, Kernel, Scaled, Tiled, assert_kernel
from numeric.learned.amari_wu import Conformal
from numeric.path_kernel import ExactPathKernel
from numeric.path_kernel.two_copies import TwoCopyKernel
from numeric.splines import SplineKernel
from numeric.tangents import EmpiricalNTK
from recorded_runs import recorded

Case = tuple[Kernel, Tensor, Tensor]
QUADRATIC = FunctionKernel(lambda x, y: (x @ y.T + 1) ** 2)
ULPS = {  # where values are sums of terms of either sign, which are larger
    learned.SelfSupervisedKernel: 2.0**14, TwoCopyKernel: 1e3,
}  # fmt: skip


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def on_points(kernel: Kernel) -> Case:
    """Some points occur twice, some are on one line through 0, and one is 0."""
    x = normal(6, 3)
    return kernel, x, torch.cat([normal(2, 3, seed=1), x[:1], 2 * x[1:2], 0 * x[:1]])


def on_signals(kernel: Kernel) -> Case:
    x = normal(4, 1, 3, 3)
    return kernel, x, torch.cat([normal(2, 1, 3, 3, seed=1), x[:1]])


def composed() -> infinite.Network:
    layers = [
        infinite.Convolution(2),
        relu,
        infinite.GlobalPool(),
        infinite.Dense(),
        erf,
        infinite.Dense(),
    ]
    return infinite.Network(layers, 1.3, 0.2)


def fully_connected() -> infinite.FullyConnected:
    return infinite.FullyConnected([relu, erf], 2, 1.4, 0.3)


def empirical() -> Case:
    layers = nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return on_points(EmpiricalNTK(nn.Sequential(*layers).double()))


def two_copies() -> Case:
    run = recorded(steps=2, batch_size=None)
    x, y = run.x[:2].flatten(1), run.x[1:3].flatten(1)
    copies = torch.tensor([[0.0], [1.0]]).double()
    kernel = ExactPathKernel(run, progress=False).during(0).kernel()
    return kernel, torch.cat([x, copies], 1), torch.cat([y, copies], 1)


def spline() -> Case:
    kernel = SplineKernel(INITIALISATIONS["uniform"], {"A": 1.3, "B": 0.7}, readout=0.5)
    return kernel, normal(6, 1), normal(4, 1, seed=1)


def fitted() -> Case:
    x = normal(6, 3)
    machine = learned.SelfSupervisedKernel(learned.Gaussian(2.0), device="cpu")
    return on_points(machine.fit(x, x + 0.1 * x.roll(1, 0)))


CASES: dict[type[Kernel], Callable[[], Case]] = {
    FunctionKernel: lambda: on_points(QUADRATIC),
    Combined: lambda: on_points(QUADRATIC * fully_connected().ntk + QUADRATIC),
    Scaled: lambda: on_points(0.3 * QUADRATIC),
    Tiled: lambda: on_points(Tiled(fully_connected().ntk, 2, 3)),
    network.NNGPKernel: lambda: on_points(fully_connected().nngp),
    network.TangentKernel: lambda: on_points(fully_connected().ntk),
    composition.network.NNGPKernel: lambda: on_signals(composed().nngp),
    composition.network.TangentKernel: lambda: on_signals(composed().ntk),
    groups.Averaged: lambda: on_signals(groups.Averaged(OnSignals(QUADRATIC), groups.p4)),
    OnSignals: lambda: on_signals(OnSignals(QUADRATIC)),
    spheres.SumOverAtoms: lambda: on_signals(spheres.SumOverAtoms(OnSignals(QUADRATIC))),
    SplineKernel: spline,
    EmpiricalNTK: empirical,
    TwoCopyKernel: two_copies,
    learned.Mahalanobis: lambda: on_points(
        learned.Mahalanobis(learned.Gaussian(1.5), normal(3, 3) @ normal(3, 3).T)
    ),
    Conformal: lambda: on_points(
        Conformal(learned.Mahalanobis(learned.Gaussian(1.0)), (normal(2, 3, seed=2),), 2.0)
    ),
    learned.SelfSupervisedKernel: fitted,
}  # fmt: skip


def _kinds(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def test_every_class_of_kernels_has_a_case() -> None:
    for module in pkgutil.walk_packages(numeric.__path__, "numeric."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    shipped = {kind for kind in _kinds(Kernel) if kind.__module__.startswith("numeric.")}
    without = {kind for kind in shipped if not inspect.isabstract(kind)} - CASES.keys()
    assert not without


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_kernels_of_this_class_obey_the_law(kind: type[Kernel]) -> None:
    kernel, x, y = CASES[kind]()
    assert type(kernel) is kind
    assert_kernel(kernel, x, y, ULPS.get(kind, 64))


def test_an_average_of_a_kernel_that_the_group_changes_breaks_the_law() -> None:
    """The average is over one argument: without k(gx, gy) = k(x, y) it is not symmetric."""
    weights = torch.arange(1.0, 10.0, dtype=torch.float64)
    uneven = OnSignals(FunctionKernel(lambda x, y: (x * weights) @ y.T))
    kernel, x, y = on_signals(groups.Averaged(uneven, groups.p4))
    with pytest.raises(AssertionError, match=r"k\(x, y\) = k\(y, x\)"):
        assert_kernel(kernel, x, y)


def test_what_is_no_kernel_has_no_signals() -> None:
    with pytest.raises(InputError, match="kernel must be of class Kernel"):
        OnSignals("flat")
