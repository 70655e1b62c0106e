"""Losses of Barlow Twins and SimCLR against their definitions entry by entry; views, probe and sphere."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric import geometry
from numeric.data import Normalisation
from numeric.learned import augmentations as views
from numeric.learned.two_views import (
    OnSphere,
    TwoViews,
    barlow_twins,
    linear_probe,
    projector,
    simclr,
    with_readout,
)
from numeric.runs import train
from refusals import require_refusals
from short_runs import same

QUIET = {"device": "cpu", "progress": False}


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def correlation(u: list[float], v: list[float]) -> float:
    n = len(u)
    mean_u, mean_v = math.fsum(u) / n, math.fsum(v) / n
    product = math.fsum((a - mean_u) * (b - mean_v) for a, b in zip(u, v, strict=True))
    return product / math.sqrt(
        math.fsum((a - mean_u) ** 2 for a in u) * math.fsum((b - mean_v) ** 2 for b in v)
    )


def test_barlow_twins_is_its_sum_over_entries() -> None:
    one, other = drawn(7, 3) * 50 + 4, drawn(7, 3, seed=1) - 9
    columns = [z.T.tolist() for z in (one, other)]
    slow = math.fsum(
        (1 - c) ** 2 if k == m else 0.02 * c**2
        for k, u in enumerate(columns[0])
        for m, v in enumerate(columns[1])
        for c in [correlation(u, v)]
    )
    # Means of 4 and 9 beside differences of order 1 cost one digit, sums of 9 terms less than another.
    assert barlow_twins(one, other, 0.02).item() == pytest.approx(slow, rel=1e-13)


def test_simclr_is_its_sum_over_pairs() -> None:
    one, other = drawn(5, 4), drawn(5, 4, seed=1) * 30
    rows = [[v / math.hypot(*row) for v in row] for row in (*one.tolist(), *other.tolist())]

    def similar(i: int, j: int) -> float:
        return math.exp(math.fsum(a * b for a, b in zip(rows[i], rows[j], strict=True)) / 0.3)

    slow = 0.0
    for i in range(10):
        others = math.fsum(similar(i, k) for k in range(10) if k != i)
        slow -= math.log(similar(i, (i + 5) % 10) / others) / 10
    assert simclr(one, other, 0.3).item() == pytest.approx(slow, rel=1e-13)


def test_losses_have_the_gradients_of_their_differences() -> None:
    one, other = drawn(4, 3).requires_grad_(), drawn(4, 3, seed=1).requires_grad_()
    for loss in (barlow_twins, simclr):
        assert torch.autograd.gradcheck(loss, (one, other))


def images(n: int = 6, channels: int = 3, size: int = 8) -> Tensor:
    return torch.rand(n, channels, size, size, generator=generator(3), dtype=torch.float64)


EVERY = (
    views.RandomCrop(2), views.RandomResizedCrop(0.3), views.HorizontalFlip(), views.Brightness(0.4),
    views.Contrast(0.4), views.Saturation(0.2), views.Hue(0.1), views.Grayscale(), views.GaussianBlur(),
    views.Solarize(), views.Sometimes(0.5, views.HorizontalFlip()), *views.paper_views(),
)  # fmt: skip


@pytest.mark.parametrize("view", EVERY, ids=lambda view: type(view).__name__)
def test_a_view_is_that_of_its_generator_and_treats_images_apart(view: views.View) -> None:
    x = images()
    one, again, other = view(x, generator(1)), view(x, generator(1)), view(x, generator(2))
    assert torch.equal(one, again)
    fixed = (views.HorizontalFlip, views.Grayscale, views.Solarize)
    assert torch.equal(one, other) == isinstance(view, fixed)
    assert one.shape == x.shape
    assert one.min() >= -1e-12
    assert one.max() <= 1 + 1e-12
    changed = x.clone()
    changed[0] = 0.5  # of the others nothing depends on it
    torch.testing.assert_close(view(changed, generator(1))[1:], one[1:], rtol=0, atol=1e-12)
    grey = images(channels=1)
    assert view(grey, generator(1)).shape == grey.shape
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = view(x)
        torch.manual_seed(5)
        assert torch.equal(first, view(x))


def test_views_do_what_they_are_named_for() -> None:
    x = images(200, 1, 4)
    padded = F.pad(x, (1,) * 4)
    cropped = views.RandomCrop(1)(x, generator())
    windows = padded.unfold(2, 4, 1).unfold(3, 4, 1)[:, 0].flatten(1, 2)  # (n, 9, 4, 4)
    hits = (windows == cropped).flatten(2).all(2)
    assert hits.any(1).all()
    # Each of nine places with chance 1/9, five standard errors of 200 draws.
    assert (hits.double().mean(0) - 1 / 9).abs().max() < 5 * math.sqrt(8 / 81 / 200)
    # A crop that keeps everything keeps the image, but for its corners in the grid.
    whole = views.RandomResizedCrop(1.0)(torch.ones(50, 1, 6, 6).double(), generator())
    assert (whole - 1).abs().max() < 1e-12
    flipped = views.Sometimes(0.25, views.HorizontalFlip())(x, generator())
    share = (flipped == x.flip(3)).flatten(1).all(1).double().mean()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 200)
    # A blur keeps constants, and is a sum with the Gaussian's weights.
    one = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    one[0, 0, 4, 4] = 1
    spot = views.GaussianBlur(0.7, 0.7)(one, generator())[0, 0]
    weights = [math.exp(-(k**2) / (2 * 0.7**2)) for k in range(-3, 4)]
    assert spot[4, 5] / spot[4, 4] == pytest.approx(weights[4], rel=1e-12)
    assert spot.sum() == pytest.approx(1, rel=1e-12)
    # A turn of the hue keeps the grey value, and is undone by none of the other draws.
    colours = 0.4 + 0.2 * images()
    turned = views.Hue(0.1)(colours, generator())
    luma = colours.new_tensor(views.LUMA)
    before, after = (torch.einsum("c,nchw->nhw", luma, part) for part in (colours, turned))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    assert (turned - colours).abs().max() > 0.01


def small(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.GELU()).double()
    return projector(net, 6, (5, 4), seed)


def test_an_interrupted_run_sees_the_same_views(tmp_path: Path) -> None:
    x = images(20, 1, 4)
    jitter = views.Compose((views.RandomCrop(1), views.Sometimes(0.5, views.Brightness(0.4))))
    step = TwoViews(partial(simclr, temperature=0.2), jitter, jitter)
    kind = {"step": step, "batch_size": 6, "key": repr(step)} | QUIET
    kind["optimizer"] = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    whole = train(small(), None, (x[:18], None), steps=14, **kind)
    train(small(), None, (x[:18], None), steps=5, store=tmp_path / "run.pt", **kind)
    again = train(small(), None, (x[:18], None), steps=14, store=tmp_path / "run.pt", **kind)
    assert same(whole, again)
    assert len(set(whole.losses.tolist())) == 14


def test_steps_are_named_alike_in_every_process() -> None:
    """By what decides them: functions by their place, methods by their object, and no address in memory."""
    flip, norm = views.HorizontalFlip(), Normalisation((0.5,), (0.2,))
    steps = [
        TwoViews(loss, flip, view, prepare)
        for loss in (
            simclr,
            barlow_twins,
            partial(simclr, temperature=0.2),
            partial(simclr, temperature=0.3),
        )
        for view in (flip, views.RandomCrop(1))
        for prepare in (None, norm.apply, norm.undo, Normalisation((0.4,), (0.2,)).apply)
    ]
    names = {repr(step) for step in (*steps, views.Augmented(F.cross_entropy, flip, norm.apply))}
    assert len(names) == len(steps) + 1
    assert not any(" at 0x" in name for name in names)
    assert "loss=torch.nn.functional.cross_entropy," in repr(views.Augmented(F.cross_entropy, flip))


def test_training_brings_views_of_an_image_together() -> None:
    """Brighter and darker ones, against other images, which an untrained network tells less well."""
    x = images(64, 1, 4)
    step = TwoViews(simclr, views.Brightness(0.8), views.Brightness(0.8), lambda v: v - 0.3)
    run = train(
        small(), None, (x, None), partial(torch.optim.Adam, lr=0.02), steps=60, batch_size=32,
        step=step, **QUIET,
    )  # fmt: skip
    assert run.losses[-10:].mean() < run.losses[:10].mean() - 0.2


def test_the_probe_is_where_its_objective_has_no_slope() -> None:
    x, y = drawn(60, 4) * torch.tensor([1.0, 20.0, 0.1, 3.0]), torch.arange(60) % 3
    x[:, 0] += y
    layer = linear_probe(x, y, penalty=0.7)
    std = x.std(0, correction=0)
    weight = (layer.weight.detach() * std).requires_grad_()  # of standardised features
    bias = layer.bias.detach().clone().requires_grad_()
    value = F.cross_entropy((x / std) @ weight.T + bias, y, reduction="sum")
    value = value + 0.35 * weight.square().sum()
    slopes = torch.autograd.grad(value, (weight, bias))
    # sklearn stops at slopes of 1e-4 of the mean over 60 points.
    assert max(slope.abs().max() for slope in slopes) < 60 * 1e-4


def test_a_probe_of_two_classes_gives_the_lead_of_the_second() -> None:
    x = torch.tensor([[0.0], [1.0], [4.0], [5.0]], dtype=torch.float64)
    layer = linear_probe(x, torch.tensor([0, 0, 1, 1]))
    first, second = layer(x).detach().T
    lead = (second - first).tolist()
    assert lead[0] == pytest.approx(-lead[3], abs=1e-3)  # the points lie symmetrically
    assert lead[0] < 0


def test_the_metric_of_the_sphere_is_its_closed_form() -> None:
    """Rank one less, and a log volume that needs the flat Jacobian alone."""
    net = nn.Sequential(nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh()).double()
    for k, part in enumerate(net.parameters()):
        part.data = drawn(*part.shape, seed=k) * 0.6
    x = drawn(5, 9, seed=20)
    volume = geometry.log_volume(OnSphere(net), x, progress=False)
    assert volume.rank.tolist() == [3] * 5
    jacobian = torch.func.vmap(torch.func.jacrev(net))(x)
    gram, f = jacobian @ jacobian.mT, net(x)
    z = f / f.norm(dim=1, keepdim=True)
    inside = torch.einsum("ni,nij,nj->n", z, torch.linalg.inv(gram), z)
    expected = gram.logdet() / 2 - 3 * f.norm(dim=1).log() + inside.log() / 2
    torch.testing.assert_close(volume.value, expected, rtol=1e-9, atol=1e-9)


def test_wrong_calls_are_refused() -> None:
    x, one = images(2), drawn(3, 2)
    require_refusals([
        ("a batch of one", lambda: barlow_twins(one[:1], one[:1])),
        ("other shapes", lambda: simclr(one, one[:, :1])),
        ("temperature", lambda: simclr(one, one, temperature=0.0)),
        ("no tensor", lambda: simclr([[1.0]], one)),
        ("loss", lambda: TwoViews("simclr", views.HorizontalFlip(), views.HorizontalFlip())),
        ("widths", lambda: projector(nn.Flatten(), 3, ())),
        ("width", lambda: projector(nn.Flatten(), 3, (0,))),
        ("features", lambda: OnSphere(torch.sin)),
        ("a name for features", lambda: with_readout("resnet20", nn.Flatten())),
        ("no readout", lambda: with_readout(nn.Flatten(), None)),
        ("flat images", lambda: views.RandomCrop(1)(x.flatten(1))),
        ("bytes", lambda: views.HorizontalFlip()(x.to(torch.uint8))),
        ("padding", lambda: views.RandomCrop(-1)),
        ("least", lambda: views.RandomResizedCrop(0.0)),
        ("hue", lambda: views.Hue(0.7)),
        ("probability", lambda: views.Sometimes(1.5, views.HorizontalFlip())),
        ("blur", lambda: views.GaussianBlur(2.0, 1.0)),
        ("views", lambda: views.Compose(views.HorizontalFlip())),
        ("one class", lambda: linear_probe(one, torch.tensor([0, 0, 0]))),
        ("a class that never occurs", lambda: linear_probe(one, torch.tensor([0, 2, 2]))),
        ("labels", lambda: linear_probe(one, torch.tensor([0, 1]))),
        ("NaN", lambda: linear_probe(one * math.nan, torch.tensor([0, 1, 1]))),
    ])  # fmt: skip
