"""Formulas, infinite networks, geometry and geodesics run on an accelerator, or on the trial device.

Numbers are those of the CPU, results are where the inputs are, and copies to the host do not grow with the
problem. The rest of `numeric` is in `test_devices_training`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
import torch
from torch import Tensor, nn

from analytic import activations as A
from analytic import catalogue
from analytic.activations.activation import activation
from analytic.expressions.symbols import z
from device_checks import F64, Call, Device, check, network, normal
from numeric import geodesics, geometry, infinite
from numeric.infinite.finite_width import FiniteNetwork
from numeric.kernels.spectrum import GramSpectrum
from numeric.models import ResNet
from numeric.models.shallow import ShallowNetwork

# Formulas and infinite networks: points grow.


def formula(name: str, device: Device, n: int) -> Any:
    fixed = {"d": 3, "depth": 2, "q": 2}
    args = {
        arg.name: fixed.get(arg.name, 0.3 + k / 9 + normal(device, 3 * n, seed=k).abs() / 20)
        for k, arg in enumerate(catalogue[name].args)
    }
    return catalogue[name].torch(**args)


def mixed(device: Device, n: int) -> Any:
    """Numbers may be tensors of the CPU, and come first."""
    r = normal(device, 3 * n)
    return catalogue["nngp.erf.ricci"].torch(d=3, sigma=torch.tensor(1.5), zeta=0.3, r=r)


def kernel(act: Any, device: Device, n: int) -> Any:
    """Points are repeated, so that quadratures need as many nodes."""
    net = infinite.FullyConnected(act, 2, 1.4, 0.2)
    x, y = normal(device, 3, 2).repeat(n, 1), normal(device, 2, 2, seed=1).repeat(n, 1)
    return net.nngp(x, y), net.ntk(x, y), net.nngp(x)


def kernel_metrics(device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.erf, 2, 1.4, 0.2), normal(device, 3 * n, 2)
    return geometry.metric(net.nngp, x), geometry.metric(0.5 * net.ntk * net.nngp + net.ntk, x)


def quadrature(device: Device, n: int) -> Tensor:
    net = infinite.FullyConnected(activation("arc", sp.atan(z)), 1, 0.5, 0.2)
    return net.nngp(normal(device, 2, 2).repeat(n, 1), normal(device, 1, 2, seed=1))


COMPOSED = {
    "convolution": [
        infinite.Convolution(3),
        A.relu,
        infinite.AveragePool(),
        infinite.SelfAttention(),
        A.erf,
    ],
    "p4": [infinite.Lift(infinite.groups.p4, infinite.Window(3)), infinite.LayerNorm(), A.relu],
    "group": [infinite.Lift(infinite.groups.torus(4), [0, 1, 5]), A.relu, infinite.Dropout(0.2)],
}


def composed(name: str, device: Device, n: int) -> Any:
    """Images are repeated, so that no pair is the nearer to collinear."""
    net = infinite.Network([*COMPOSED[name], infinite.GlobalPool(), infinite.Dense()], 1.4, 0.2)
    x, y = normal(device, 2, 1, 4, 4).repeat(n, 1, 1, 1), normal(device, 1, 1, 4, 4, seed=1)
    return net.nngp(x, y), net.ntk(x, y), net.ntk(x), net.ntk.diagonal(x)


SPHERICAL = [
    infinite.S2Convolution(3), A.relu, infinite.SO3Convolution(2), A.erf, infinite.GroupPool(),
    infinite.Dense(),
]  # fmt: skip


def spherical(device: Device, n: int) -> Any:
    net = infinite.Network(SPHERICAL, 1.4, 0.2)
    x, y = normal(device, 2, 1, 4).repeat(n, 1, 1), normal(device, 1, 1, 4, seed=1)
    atoms = infinite.spheres.SumOverAtoms(net.nngp)(x[:, None], y[:, None])
    return net.nngp(x, y), net.ntk(x, y), net.ntk(x), net.ntk.diagonal(x), atoms


def spherical_twin(device: Device, n: int) -> Tensor:
    module = infinite.Network(SPHERICAL).finite(4, shape=(1, 4), device=device)
    with torch.no_grad():
        return module(normal(device, 2 * n, 1, 4))


def composed_twin(device: Device, n: int) -> Tensor:
    net = infinite.Network([*COMPOSED["convolution"], infinite.GlobalPool(), infinite.Dense()])
    module = net.finite(4, shape=(1, 4, 4), device=device)
    with torch.no_grad():
        return module(normal(device, 2 * n, 1, 4, 4))


def group_average(device: Device, n: int) -> Tensor:
    flat = infinite.Network([infinite.Flatten(), infinite.Dense(), A.erf, infinite.Dense()]).ntk
    kernel = infinite.groups.Averaged(flat, infinite.groups.p4)
    infinite.assert_equivariant(kernel, infinite.groups.p4, normal(device, 2, 1, 4, 4))
    return kernel(normal(device, 2 * n, 1, 4, 4))


def predicted(predict: Callable[..., Any], device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.relu, 1, 1.4, 0.2), normal(device, 5 * n, 3)
    result = predict(net, x, normal(device, 5 * n, 2, seed=1), normal(device, 4 * n, 3, seed=2))
    return result.mean, result.covariance, result.std


def evidence(device: Device, n: int) -> Any:
    net, x = infinite.FullyConnected(A.relu, 1, 1.4, 0.2), normal(device, 5 * n, 3)
    result = infinite.log_marginal_likelihood(net, x, normal(device, 5 * n, seed=1), 0.3)
    return result.value, result.gradient


def spectrum(device: Device, n: int) -> Any:
    x = normal(device, 5 * n, 3 * n)
    result = GramSpectrum.of(x @ x.T, 0.1)
    return result.values, result.filters(normal(device, 2, seed=1).abs())


INFINITE: dict[str, Call] = {
    **{
        name: partial(formula, name)
        for name in ("nngp.erf.kernel", "nngp.erf.ricci", "spline.uniform.rf", "relu.c_squared")
    },
    "nngp.erf.ricci, mixed": mixed,
    "FullyConnected, relu": partial(kernel, A.relu),
    "FullyConnected, erf": partial(kernel, A.erf),
    "FullyConnected, metrics": kernel_metrics,
    "FullyConnected, quadrature": quadrature,
    **{f"Network, {name}": partial(composed, name) for name in COMPOSED},
    "Network, finite": composed_twin,
    "Network, sphere": spherical,
    "Network, sphere, finite": spherical_twin,
    "Averaged": group_average,
    "gradient_flow": partial(predicted, infinite.gradient_flow),
    "gradient_flow, early": partial(predicted, partial(infinite.gradient_flow, t=2.0, ridge=0.1)),
    "posterior": partial(predicted, partial(infinite.posterior, noise=0.3)),
    "log_marginal_likelihood": evidence,
    "GramSpectrum": spectrum,
}


# Geometry: points grow.


def wavy(x: Tensor) -> Tensor:
    """A map of no known layers."""
    return torch.stack([x.sin().prod(1), x.square().sum(1), (x[:, 0] + x[:, 1]).exp()], 1)


def hidden(device: Device) -> nn.Module:
    return network(device, 2, 5)


def deep(device: Device) -> nn.Module:
    return network(device, 2, 4, 3)


def rectified(device: Device) -> nn.Module:
    return network(device, 2, 4, 3, phi=nn.ReLU)


def saturated(device: Device) -> nn.Module:
    """Its Jacobians have condition numbers that one matrix does not hold."""
    net = deep(device)
    net[0].weight.data.mul_(30)
    return net


def measured(measure: Callable[..., Any], made: Any, device: Device, n: int) -> Any:
    features = wavy if made is wavy else made(device)
    return measure(features, normal(device, 2, 2).repeat(n, 1) / 2, progress=False)


def shallow(device: Device, n: int) -> Any:
    net = ShallowNetwork(A.erf, normal(device, 9, 2), normal(device, 9, seed=1))
    x = normal(device, 4 * n, 2, seed=2)
    return net(x), net.metric(x), net.magnification(x), net.ricci_scalar(x)


def finite(device: Device, n: int) -> Any:
    described = infinite.FullyConnected(A.relu, 2, 1.4, 0.2)
    net = FiniteNetwork(described, 6, 2, generator=torch.Generator(device).manual_seed(0), stack=2)
    x = normal(device, 4 * n, 2, seed=2)
    with torch.no_grad():
        return net(x), net.nngp(x), net.ntk(x)


def resnet(device: Device, n: int) -> Tensor:
    net = ResNet((1, 1, 1, 1), 4, generator=torch.Generator().manual_seed(0), **F64).to(device)
    with torch.no_grad():
        return net.eval()(normal(device, n, 3, 8, 8))


ONE = geodesics.Search(starts=1)
GEOMETRY: dict[str, Call] = {
    **{
        f"{measure.__name__}, {made.__name__}": partial(measured, measure, made)
        for measure, maps in {
            geometry.metric: (hidden, deep),
            geometry.log_volume: (hidden, rectified, saturated),
            geometry.spectrum: (wavy, saturated),
            geometry.ricci_scalar: (hidden, wavy),
        }.items()
        for made in maps
    },
    "ricci_estimate, wavy": partial(measured, partial(geometry.ricci_estimate, probes=4), wavy),
    "ShallowNetwork": shallow,
    "FiniteNetwork": finite,
    "ResNet": resnet,
}


# Geodesics: SciPy solves them on the host, and takes derivatives from the device at every step.


def straight(device: Device, n: int) -> nn.Module:
    """A linear map into more dimensions, whose geodesics take as many steps in any of them."""
    return network(device, 2, 3 * n, phi=nn.Identity)


def joined(device: Device, n: int) -> Any:
    p, q = normal(device, 2, 2) / 9
    path = geodesics.between(hidden(device), p, q, search=ONE)
    return path.length, path.log, path.at([0.3] * n)


def relaxed(device: Device, n: int) -> Any:
    p, q = normal(device, 2, 2, seed=1)
    path = geodesics.relax(straight(device, n), p, q, segments=4, search=ONE)
    return path.length, path.at(0.3)


def shot(device: Device, n: int) -> Any:
    p, v = normal(device, 2, 2) / 9
    ray = geodesics.shoot(hidden(device), p, v, tolerance=1e-4)
    return ray.length, ray.end, ray.at([0.5] * n)


def apart(device: Device, n: int) -> Tensor:
    return geodesics.distances(
        straight(device, n), normal(device, 2, 2), search=ONE, progress=False
    )


def averaged(device: Device, n: int) -> Any:
    result = geodesics.mean(straight(device, n), normal(device, 2, 2), search=ONE, progress=False)
    return result.point, result.variance, result.geodesics[0].at(0.5)


GEODESICS: dict[str, Call] = {
    "between": joined, "distances": apart, "relax": relaxed, "shoot": shot, "mean": averaged,
}  # fmt: skip


CALLS = INFINITE | GEOMETRY | GEODESICS


@pytest.mark.parametrize("name", CALLS)
def test_calls_run_where_their_inputs_are(name: str, device: Device) -> None:
    check(
        CALLS[name],
        device,
        drawn=name in ("FiniteNetwork", "Network, finite", "Network, sphere, finite"),
        solver=name in GEODESICS,
    )


# Modules whose tensors are numbers of the host: tables, times, tasks, indices, what SciPy returns.
ON_HOST = {
    "data/digits.py", "data/images.py", "estimate.py", "experiments/bayes/dataset.py",
    "experiments/class_changes.py", "experiments/decision_boundaries/curves.py",
    "experiments/decision_boundaries/tasks.py", "experiments/deep_width/bias.py",
    "experiments/images/command.py", "experiments/images/interpolation.py",
    "experiments/images/network_fields.py", "experiments/knots.py", "experiments/width.py",
    "geometry/gauss_equation.py", "infinite/groups/action.py", "infinite/groups/constructions.py",
    "infinite/groups/group.py", "infinite/groups/laws.py", "infinite/groups/pixels.py",
    "infinite/spheres/charges.py", "infinite/spheres/harmonics.py", "infinite/spheres/molecules.py",
    "infinite/spheres/rotations.py", "infinite/spheres/wigner.py", "inputs.py", "learned/amari_wu.py",
    "learned/two_views.py", "models/memory.py", "relu_dynamics/descent.py",
    "relu_dynamics/mean_field.py", "relu_dynamics/readout.py", "relu_dynamics/record.py",
    "runs/training.py", "splines/natural.py",
}  # fmt: skip
FACTORIES = {
    "arange", "as_tensor", "empty", "eye", "from_numpy", "full", "linspace", "logspace", "ones", "rand",
    "randint", "randn", "randperm", "tensor", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip


def test_tensors_are_made_on_a_device_that_is_named() -> None:
    """Or moved there at once, by `.to`: branches too that no call above takes."""
    room, astray = Path(infinite.__file__).parents[1], []
    for path in room.rglob("*.py"):
        place = str(path.relative_to(room))
        if place not in ON_HOST and "sliding" not in place:
            astray += [f"{place}:{line}" for line in _without_device(ast.parse(path.read_text()))]
    assert not astray


def _without_device(tree: ast.AST, moved: bool = False) -> list[int]:
    """Lines of factory calls without `device`, in trees that are not moved as a whole."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        moved = moved or tree.func.attr == "to"
    lines = []
    match tree:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), keywords=words):
            named = {word.arg for word in words} & {"device", None}  # None is of **kind
            if name in FACTORIES and not named and not moved:
                lines.append(tree.lineno)
    return lines + [n for part in ast.iter_child_nodes(tree) for n in _without_device(part, moved)]
