"""Hidden layers in closed form against 40 and more digits, at any condition number."""

import math
from collections.abc import Iterator

import pytest
import torch
from mpmath import mp
from torch import Tensor

from analytic import activations
from analytic.activations import erf, gelu, monomial, sigmoid, silu, softplus, tanh
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from analytic.finite.units import Units
from numeric import geometry
from numeric.geometry import closed_form
from numeric.geometry.frames import compensated_product
from numeric.models.hidden_layers import hidden_layer
from numeric.models.shallow import ShallowNetwork

DOUBLE = {"dtype": torch.float64}
DIGITS = 300  # of which 40 remain after the cancellation of saturated units


def gaussian(
    act: Activation, n: int, d: int, size: float, seed: int
) -> tuple[ShallowNetwork, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    net = ShallowNetwork.gaussian(act, n, d, size, size, generator=rng)
    return net, torch.randn(1, d, generator=rng, **DOUBLE)


def saturated(
    act: Activation, n: int, d: int, size: float, seed: int
) -> tuple[ShallowNetwork, Tensor]:
    """Large weights: most units are saturated."""
    return gaussian(act, n, d, size, seed)


def collinear(
    act: Activation, n: int, d: int, angle: float, seed: int
) -> tuple[ShallowNetwork, Tensor]:
    """Weights that nearly lie in a hyperplane."""
    net, x = gaussian(act, n, d, 1.0, seed)
    net.weights[:, -1] = 0.3 * net.weights[:, 0] + angle * net.weights[:, -1]
    return net, x


def mixed(
    act: Activation, n: int, d: int, angle: float, seed: int
) -> tuple[ShallowNetwork, Tensor]:
    """Half of the units collinear, the others saturated: neither half alone determines R."""
    net, x = gaussian(act, n, d, 1.0, seed)
    half = n // 2
    net.weights[:half, -1] = 0.3 * net.weights[:half, 0] + angle * net.weights[:half, -1]
    net.biases[half:] += 10 * net.preactivations(x)[0, half:].sign()
    return net, x


def exact(net: ShallowNetwork, x: Tensor) -> tuple[float, float]:
    """R and the condition number of the Jacobian at one point, rounded from many digits."""
    with mp.workdps(DIGITS):
        units = Units.of(net.activation, net.weights.tolist(), net.biases.tolist(), x[0].tolist())
        values = mp.eigsy(mp.matrix(units.metric().tolist()), eigvals_only=True)
        return float(units.scalar()), float(mp.sqrt(max(values) / min(values)))


def cases() -> Iterator[tuple]:
    for size in (0.7, 4.0, 8.0, 16.0, 32.0):
        yield saturated, tanh, size
    yield from ((saturated, act, 6.0) for act in (sigmoid, erf, gelu, silu, softplus, monomial(3)))
    for angle in (1e-2, 1e-4, 1e-8, 1e-12, 1e-14):
        yield collinear, tanh, angle
        yield mixed, erf, angle


@pytest.mark.parametrize(("n", "d"), [(3, 2), (8, 2), (9, 3), (12, 5)])
@pytest.mark.parametrize(
    ("family", "act", "size"), list(cases()), ids=lambda v: getattr(v, "name", None)
)
def test_no_digits_are_lost_at_any_condition_number(
    family, act, size: float, n: int, d: int
) -> None:
    for seed in range(2):
        net, x = family(act, n, d, size, seed)
        R, condition = exact(net, x)
        result = geometry.ricci_scalar(net, x)
        # A slope e^-t is as accurate as t, whose terms are as large as the weights.
        unsure = max(1, size / 8, math.log(condition) / 15)
        assert abs(result.value.item() - R) <= 1e-13 * unsure * abs(R)
        assert abs(result.condition.item() / condition - 1) < 1e-13 * unsure
        assert result.rank.item() == d


def test_the_condition_numbers_that_were_tried_reach_far() -> None:
    """From 1e4 to 1e14, and beyond what float64 distinguishes from a singular matrix."""
    sizes = ((8, 2), (9, 3))
    result = [exact(*one(act, *n_d, size, 0))[1] for one, act, size in cases() for n_d in sizes]
    assert min(result) < 10
    assert sum(1e3 < c < 1e5 for c in result) >= 2
    assert sum(1e13 < c < 1e16 for c in result) >= 2
    assert max(result) > 1e18


def test_moments_and_a_plain_qr_would_not_do() -> None:
    """The error of each method at condition number 1e8."""
    net, x = collinear(tanh, 8, 2, 1e-8, 0)
    R, _ = exact(net, x)
    layer = hidden_layer(net)
    moments, *_, trusted = closed_form.by_moments(layer, *layer.derivatives(x))
    assert not trusted.item()
    assert not abs(moments.item() / R - 1) < 1e-2
    Q, r = torch.linalg.qr(layer.jacobian(x)[0].T)
    w = torch.linalg.solve_triangular(r.T, layer.weights.T, upper=False)
    log_scale, _, bend = layer.derivatives(x)
    H = (log_scale.exp() * bend) * w[:, None] * w[None]  # (d, d, n)
    A = H - H @ Q @ Q.T
    plain = A.diagonal().T.sum(0).square().sum() - A.square().sum()
    assert abs(plain.item() / R - 1) > 1e-10
    assert abs(geometry.ricci_scalar(net, x).value.item() / R - 1) < 1e-13


def test_moments_are_used_where_they_can_be_trusted() -> None:
    net, _ = gaussian(sigmoid, 200, 2, 2.0, 1)
    axis = torch.linspace(-1.5, 1.5, 20, **DOUBLE)
    x = torch.cartesian_prod(axis, axis)
    layer = hidden_layer(net)
    derivatives = layer.derivatives(x)
    moments, condition, rank, trusted = closed_form.by_moments(layer, *derivatives)
    frames = closed_form.by_frames(layer, *derivatives)
    assert 0.5 < trusted.double().mean() < 1
    torch.testing.assert_close(moments[trusted], frames[0][trusted], rtol=5e-14, atol=0)
    torch.testing.assert_close(condition[trusted], frames[1][trusted], rtol=1e-13, atol=0)
    assert torch.equal(rank, frames[2])
    chosen = geometry.ricci_scalar(net, x).value
    assert torch.equal(chosen, torch.where(trusted, moments, chosen))
    torch.testing.assert_close(chosen[~trusted], frames[0][~trusted], rtol=1e-14, atol=0)


def test_saturation_beyond_the_range_of_floats() -> None:
    """Slopes from 1e-200 to 1e-40: their squares underflow, and R = O(1/slope^2) still fits."""
    rng = torch.Generator().manual_seed(0)
    net = ShallowNetwork.gaussian(tanh, 5, 2, 1.0, 1.0, generator=rng)
    x = torch.tensor([[0.3, -0.2]], **DOUBLE)
    z = net.preactivations(x)[0]
    net.biases[:] += torch.tensor([60.0, 100.0, -140.0, 180.0, -220.0], **DOUBLE) - z
    R, condition = exact(net, x)
    result = geometry.ricci_scalar(net, x)
    assert abs(result.value.item() / R - 1) < 1e-12  # slopes at z = 200 are accurate to 200 ulps
    assert condition > 1e30
    net.biases[:] = 400 + torch.arange(5, **DOUBLE)
    with pytest.raises(InputError, match="leaves the range"):
        geometry.ricci_scalar(net, x)


def test_two_units_in_the_plane_only_change_coordinates() -> None:
    net, _ = gaussian(erf, 2, 2, 1.0, 0)
    assert torch.equal(
        geometry.ricci_scalar(net, torch.ones(3, 2, **DOUBLE)).value, torch.zeros(3, **DOUBLE)
    )


def test_units_that_never_bend_or_are_equal() -> None:
    net, x = gaussian(tanh, 8, 2, 1.0, 3)
    net.weights[5], net.biases[5] = net.weights[4], net.biases[4]
    net.weights[6] = 0
    net.weights[7] = -2 * net.weights[4]
    R, _ = exact(net, x)
    layer = hidden_layer(net)
    assert abs(closed_form.by_frames(layer, *layer.derivatives(x))[0].item() / R - 1) < 1e-13


def test_weights_that_are_no_numbers_are_refused() -> None:
    net, x = gaussian(erf, 5, 2, 1.0, 0)
    net.weights[1, 1] = torch.nan
    with pytest.raises(InputError, match="NaN or infinite"):
        geometry.ricci_scalar(net, x)
    with pytest.raises(InputError, match="NaN or infinite"):
        geometry.ricci_scalar(gaussian(activations.exponential(50), 5, 2, 1.0, 0)[0], 100 * x)


def test_many_inputs_go_by_frames_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    net, _ = gaussian(tanh, 40, 12, 0.3, 0)
    x = torch.randn(2, 12, generator=torch.Generator().manual_seed(1), **DOUBLE)
    usual = geometry.ricci_scalar(net, x)
    monkeypatch.setattr(closed_form, "CHUNK_SIZE", 100)
    frames = geometry.ricci_scalar(net, x)
    torch.testing.assert_close(frames.value, usual.value, rtol=1e-12, atol=0)


def test_products_are_rounded_once() -> None:
    rng = torch.Generator().manual_seed(0)
    a = torch.randn(3, 2, 4, generator=rng, **DOUBLE)
    b = torch.randn(4, 5, generator=rng, **DOUBLE) * torch.tensor([[1e8], [1.0], [1e-8], [1.0]])
    a[:, :, 3], b[3] = (
        -(a[:, :, :3] @ b[:3])[..., 0],
        1.0,
    )  # the first column cancels to its last digits
    result, plain = compensated_product(a, b), a @ b
    with mp.workdps(60):
        exact = torch.tensor(
            [
                [[float(mp.fdot(map(mp.mpf, r), map(mp.mpf, c))) for c in b.T.tolist()] for r in m]
                for m in a.tolist()
            ],
            **DOUBLE,
        )
    terms = a.abs() @ b.abs()
    assert ((result - exact).abs() <= 3e-16 * exact.abs() + 1e-31 * terms).all()
    assert ((plain - exact).abs() / exact.abs()).max() > 1e-2
