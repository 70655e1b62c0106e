"""Feature maps: any module or callable, at any layer, state restored; unsuitable ones are refused."""

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf
from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.geometry import closed_form
from numeric.models.model import Model
from numeric.models.shallow import ShallowNetwork

DOUBLE = {"dtype": torch.float64}


def points(n: int = 4, d: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), **DOUBLE)


def model() -> nn.Sequential:
    torch.manual_seed(1)
    parts = (
        nn.Linear(2, 5),
        nn.BatchNorm1d(5),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Linear(5, 4),
        nn.SiLU(),
    )
    return nn.Sequential(*parts).double()


class Recalled(nn.Module):
    """A layer that runs twice, one that never runs, and one that returns a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.never = nn.Linear(2, 2), nn.Linear(2, 2)
        self.pair = nn.LSTM(2, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        self.pair(x[:, None])
        return self.twice(torch.tanh(self.twice(x)))


def pulled_back(f, x: Tensor) -> Tensor:
    """g by reverse mode, point by point."""
    rows = [
        torch.autograd.functional.jacobian(lambda y: f(y[None]).flatten(), point) for point in x
    ]
    return torch.stack([J.flatten(1).T @ J.flatten(1) for J in rows])


def test_a_model_is_left_as_it_was_found() -> None:
    net, x = model(), points().requires_grad_()
    net[3].eval()  # one part in another mode than the others
    net[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [part.training for part in net.modules()]
    results = [geometry.metric(net, x), geometry.metric(net, x, layer="2")]
    results += [geometry.ricci_scalar(net, x).value, geometry.ricci_scalar(net, x, layer="4").value]
    assert [part.training for part in net.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [p.requires_grad for p in net.parameters()] == [False] + [True] * 5
    assert all(p.grad is None for p in (*net.parameters(), x))
    assert not any(part._forward_hooks for part in net.modules())
    assert not any(result.requires_grad for result in results)


def test_a_model_is_left_as_it_was_found_after_an_error_too() -> None:
    net = model()
    for layer in (None, "2"):
        with pytest.raises(InputError, match="fails on a batch"):
            geometry.metric(net, points(d=3), layer=layer)
    with pytest.raises(InputError, match="NaN"):
        geometry.metric(net, points() * torch.nan)
    assert all(part.training for part in net.modules())
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("layer", [None, "0", "1", "2", "4"])
def test_metric_is_the_pullback_of_the_layer_in_eval_mode(layer: str | None) -> None:
    net, x = model(), points()
    stop = len(net) if layer is None else int(layer) + 1
    g = geometry.metric(net, x, layer=layer)
    expected = pulled_back(net[:stop].eval(), x)
    torch.testing.assert_close(g, expected, rtol=1e-12, atol=1e-14)


def test_images_and_feature_maps_of_any_shape_are_flattened() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.GELU(), nn.AvgPool2d(2)).double()
    x = points(3, 36).view(3, 1, 6, 6)
    expected = pulled_back(net, x)
    torch.testing.assert_close(geometry.metric(net, x), expected, rtol=1e-12, atol=1e-14)


def test_transformers_are_differentiated_though_fused_attention_is_not() -> None:
    torch.manual_seed(0)
    net = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation="gelu").double()
    x = points(2, 12).view(2, 3, 4)
    expected = pulled_back(net.eval(), x)
    torch.testing.assert_close(geometry.metric(net.train(), x), expected, rtol=1e-11, atol=1e-13)
    assert net.training


def test_methods_and_networks_of_the_suite_are_feature_maps() -> None:
    net, x = model(), points()
    bound = geometry.metric(net.forward, x)
    assert net.training  # the module is found through its bound method
    torch.testing.assert_close(bound, geometry.metric(net, x))
    shallow = ShallowNetwork.gaussian(
        erf, 9, 2, 1.0, 0.5, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(
        geometry.metric(shallow, x), shallow.metric(x), rtol=1e-14, atol=1e-16
    )
    plain = geometry.metric(lambda y: shallow(y), x)
    torch.testing.assert_close(plain, shallow.metric(x), rtol=1e-13, atol=1e-15)
    again = Model.of(Model.of(net, "2"))
    torch.testing.assert_close(geometry.metric(again, x), geometry.metric(net, x, layer="2"))


def test_dtype_follows_the_points_and_factorisation_is_in_double() -> None:
    net, x = model(), points()
    exact = geometry.ricci_scalar(net[:3], x)
    single = geometry.ricci_scalar(net[:3].float(), x.float())
    assert single.value.dtype == single.condition.dtype == torch.float32
    torch.testing.assert_close(single.value.double(), exact.value, rtol=1e-4, atol=1e-5)
    assert geometry.metric(net[:3].float(), x.float()).dtype == torch.float32


def test_one_input_and_equal_points_are_no_trouble() -> None:
    net = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh()).double()
    x = points(1, 1).repeat(3, 1)
    for layer in ("1", None):
        result = geometry.ricci_scalar(net, x, layer=layer)
        assert torch.equal(result.value, torch.zeros(3, **DOUBLE))
        assert torch.equal(result.rank, torch.ones(3, dtype=torch.long))
        torch.testing.assert_close(result.condition, torch.ones(3, **DOUBLE))
    g = geometry.metric(net, x)
    assert g.shape == (3, 1, 1)
    assert torch.equal(g[0], g[2])


def test_blocks_and_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from numeric.geometry import derivatives

    net, x = model(), points(17)
    whole = [geometry.ricci_scalar(net, x, layer=layer).value for layer in ("2", "4")]
    metric = geometry.metric(net, x)
    for module, name, size in ((derivatives, "BLOCK", 13), (derivatives, "CHUNK_SIZE", 40)):
        monkeypatch.setattr(module, name, size)
    for name in ("CHUNK_SIZE", "FRAME_CHUNK_SIZE"):
        monkeypatch.setattr(closed_form, name, 40)
    for value, layer in zip(whole, ("2", "4"), strict=True):
        parts = geometry.ricci_scalar(net, x, layer=layer).value
        torch.testing.assert_close(parts, value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(geometry.metric(net, x), metric, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (lambda x: x.sum(1), r"\(2,\)"),
        (lambda x: x.T @ x, r"\(1, p\)"),
        (lambda x: x[:, :0], r"\(2, 0\)"),
        (lambda x: (x, x), "tuple"),
        (lambda x: x.argmax(1, keepdim=True), "int64"),
        (lambda x: x * torch.nan, "NaN"),
        (lambda x: (-x.square()).sqrt(), "NaN"),
        (lambda x: x.square().sum(1, keepdim=True).sub(x[:1].square().sum()).abs().sqrt(), "batch"),
        (lambda x: x - x.mean(0), "in a batch"),
        (lambda x: nn.BatchNorm1d(2, **DOUBLE)(x), "eval mode"),
        (lambda x: nn.functional.dropout(x, 0.5), "random"),
        (lambda x: x.detach() ** 2, "not that of its values"),
        (lambda x: x**2 + (x**3).detach(), "not that of its values"),
        (lambda x: torch.round(3 * x), "steps"),
        (lambda x: torch.from_numpy(x.numpy() ** 2), "forward mode"),
        (lambda x: x @ torch.ones(3, 3, **DOUBLE), "fails on a batch"),
        ("tanh", "torch.nn.Module"),
        (nn.Linear(2, 3), "float32"),
        (nn.Linear(2, 3, device="meta", **DOUBLE), "meta"),
    ],
)
def test_bad_maps_are_refused_with_a_reason(features: object, words: str) -> None:
    for quantity in (geometry.metric, geometry.ricci_scalar):
        with pytest.raises(InputError, match=words):
            quantity(features, points())


def test_a_map_without_slope_at_a_point_is_refused_there() -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], **DOUBLE)
    with pytest.raises(InputError, match="no finite slope"):
        geometry.metric(lambda y: y.abs().sqrt(), x)
    with pytest.raises(InputError, match="NaN or infinite at some points"):
        geometry.metric(lambda y: y.abs().sqrt(), x.flip(0))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.zeros(0, 2, **DOUBLE), "at least one point"),
        (torch.zeros(3, 0, **DOUBLE), "at least one point"),
        (torch.zeros(2, **DOUBLE), r"x\[None\]"),
        (torch.zeros(3, 2, dtype=torch.int64), r"double\(\)"),
        (torch.zeros(3, 2, dtype=torch.complex128), r"x\.real"),
        (torch.full((3, 2), torch.inf, **DOUBLE), "NaN or infinite"),
        ([["0", "1"]], "array of numbers"),
        (torch.zeros(3, 2), "float32"),
        (torch.zeros(3, 4, **DOUBLE), "4"),
    ],
)
def test_bad_points_are_refused_with_a_reason(x: object, words: str) -> None:
    shallow = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).double()
    for features in (model(), shallow):
        for quantity in (geometry.metric, geometry.ricci_scalar, geometry.ricci_estimate):
            with pytest.raises(InputError, match=words):
                quantity(features, x)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("5", "twice, never, pair"),
        ("twice", "2 times"),
        ("never", "0 times"),
        ("pair", "tuple"),
    ],
)
def test_bad_layers_are_refused_with_a_reason(layer: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        geometry.metric(Recalled().double(), points(), layer=layer)


def test_only_modules_have_layers() -> None:
    with pytest.raises(InputError, match="layers with names"):
        geometry.metric(torch.tanh, points(), layer="0")
    long = nn.Sequential(*(nn.Identity() for _ in range(60)))
    with pytest.raises(InputError, match="and 20 more"):
        geometry.metric(long, points(), layer="x")
    with pytest.raises(InputError, match=r"layers are 0, 1, 0\.0, 0\.1,"):  # outermost first
        geometry.metric(nn.Sequential(long, nn.Identity()), points(), layer="x")
