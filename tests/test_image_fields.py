"""Geometry between images: against its definition, resumed, and on the command line."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev

from analytic import InputError
from numeric import data, geometry, models
from numeric.__main__ import main
from numeric.experiments import images
from numeric.experiments.images import network_fields as fields_module
from numeric.experiments.images import report
from numeric.experiments.images.network import build
from numeric.experiments.images.report import Segment
from numeric.models import ResNet, Weights
from refusals import require_refusals

FACTORIES = """
import torch
from torch import nn

def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10))

def needs(width, *, depth, seed=0):
    return plain()

def fails():
    raise OSError("no weights here")

def ends():
    raise SystemExit("a flag is missing")

def ends_in_silence():
    raise SystemExit

def maps():
    return nn.Conv2d(1, 4, 3)

def pooled():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1))

def without_aux():
    return Several(lambda y: {"logits": y, "aux": None})

def rectified():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2), nn.ReLU(), nn.Linear(2, 10))

def number():
    return 3

class Several(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.network, self.wrap = plain(), wrap

    def forward(self, x):
        return self.wrap(self.network(x))

def pair():
    return Several(lambda y: (y, y[:, :3]))

def named():
    return Several(lambda y: {"logits": y, "loss": y.sum()})

def text():
    return Several(str)

def single():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))

module = plain()
constant = 3
"""


def small_resnet() -> ResNet:
    net = ResNet(
        (1, 1), 2, generator=torch.Generator().manual_seed(0), classes=3, colours=1,
        dtype=torch.float64,
    )  # fmt: skip
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):  # statistics that matter
            part.running_mean.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(1))
            part.running_var.uniform_(0.5, 2, generator=torch.Generator().manual_seed(2))
    return net.train()


def some_images(n: int = 6) -> Tensor:
    pixels = data.digits().test.inputs([0, 1], torch.float64)
    return images.segment(pixels[0], pixels[1], n)


def test_fields_are_what_they_are_defined_as() -> None:
    net, x = small_resnet(), some_images()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = images.fields(net, x, "pool", progress=False)
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net.eval()
    whole = nn.Sequential(*list(net.children())[:-1])  # up to the pool
    for k, point in enumerate(x):
        J = jacrev(lambda y: whole(y[None])[0])(point).flatten(1).detach()
        values = torch.linalg.svdvals(J)
        rank = int((values > 1e-12 * values[0]).sum())
        assert found.rank[k] == rank
        assert (found.log_singular[k, :rank] - values[:rank].log()).abs().max() < 1e-9
        assert abs(found.log_volume[k] - values[:rank].log().sum()) < 1e-8
        p = net(point[None])[0].softmax(0).detach()
        assert found.prediction[k] == p.argmax()
        assert abs(found.entropy[k] + (p * p.log()).sum() / math.log(3)) < 1e-12


def test_many_points_at_a_time_and_one_give_the_same() -> None:
    net, x = small_resnet(), some_images()
    together = images.fields(net, x, "pool", progress=False)
    for k in range(len(x)):
        alone = images.fields(net, x[k : k + 1], "pool", progress=False)
        assert (together.log_singular[k] - alone.log_singular[0]).abs().max() < 1e-9
    few = geometry.log_volume(net, x, "pool", memory=4_000_000, progress=False)
    assert (few.value - together.log_volume).abs().max() < 1e-8


def test_an_interrupted_run_goes_on_to_the_same_numbers(tmp_path: Path, monkeypatch) -> None:
    net, x = small_resnet(), some_images(5)
    monkeypatch.setattr(fields_module, "CHUNK", 2)
    whole = images.fields(net, x, "pool", progress=False)
    calls = []

    def interrupted(*args: object, **options: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return geometry.spectrum(*args, **options)

    monkeypatch.setattr(fields_module, "geometry", SimpleNamespace(spectrum=interrupted))
    store = tmp_path / "pair.rows"
    with pytest.raises(KeyboardInterrupt):
        images.fields(net, x, "pool", store=store, progress=False)
    resumed = images.fields(net, x, "pool", store=store, progress=False)
    assert len(calls) == 4  # one before, one interrupted, two after
    with store.open("r+b") as file:
        head = len(file.readline())
        row = (store.stat().st_size - head) // 5
        file.truncate(head + 3 * row + 1)  # as by a kill while the second chunk was written
    mended = images.fields(net, x, "pool", store=store, progress=False)
    assert len(calls) == 6  # the second chunk from its start
    for found in (resumed, mended):
        assert torch.equal(found.log_singular, whole.log_singular)
        assert torch.equal(found.condition, whole.condition)
    with pytest.raises(InputError, match="another run"):
        images.fields(net, x.flip(0), "pool", store=store, progress=False)
    net.conv1.weight.data *= 2
    with pytest.raises(InputError, match="another run"):
        images.fields(net, x, "pool", store=store, progress=False)


def test_large_jacobians_are_written_one_by_one(monkeypatch) -> None:
    """Or an interruption would lose the minutes of sixteen of them."""
    monkeypatch.setattr(fields_module, "ENTRIES", 2 * 4 * 64 - 1)  # of 4 features and 64 pixels
    seen = []

    def spectrum(model: object, x: Tensor, **options: object) -> object:
        seen.append(len(x))
        return geometry.spectrum(model, x, **options)

    monkeypatch.setattr(fields_module, "geometry", SimpleNamespace(spectrum=spectrum))
    images.fields(small_resnet(), some_images(3), "pool", progress=False)
    assert seen == [1, 1, 1]


def test_a_store_is_refused_to_functions_that_differ_in_what_they_compute_alone(
    tmp_path: Path,
) -> None:
    """They print alike, but for an address in memory, and have no weights."""

    def scaled(factor: float) -> Callable[[Tensor], Tensor]:
        return lambda x: factor * x.flatten(1)[:, 20:23].sin()

    x, store = some_images(3), tmp_path / "pair.rows"
    before = images.fields(scaled(1.0), x, store=store, progress=False)
    size = store.stat().st_size
    again = images.fields(scaled(1.0), x, store=store, progress=False)
    assert store.stat().st_size == size
    assert torch.equal(before.log_singular, again.log_singular)
    with pytest.raises(InputError, match="at image 0 the model gives other outputs or features"):
        images.fields(scaled(1.001), x, store=store, progress=False)
    with pytest.raises(
        InputError, match="other outputs or features"
    ):  # the classifier alone differs
        images.fields(scaled(1.0), x, classifier=scaled(2.0), store=store, progress=False)


def test_segments_and_hulls_pass_through_their_images() -> None:
    a, b, c = torch.rand(3, 2, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    line = images.segment(a, b, 5)
    assert torch.equal(line[0], a)
    assert torch.equal(line[-1], b)
    assert (line[1] - (0.75 * a + 0.25 * b)).abs().max() < 1e-15
    hull = images.Hull.of(a, b, c, steps=4)
    assert len(hull.images) == 15
    assert hull.weights.min() == 0
    for corner, image in zip(torch.eye(3).double(), (a, b, c)):
        (row,) = (hull.weights == corner).all(1).nonzero()[:, 0]
        assert (hull.images[row] - image).abs().max() < 1e-15
    corners = hull.places[(hull.weights == 1).any(1)]
    assert (torch.pdist(corners) - 1).abs().max() < 1e-15
    affine = images.Hull.of(a, b, c, steps=4, reach=0.5)
    assert affine.weights.min() == -0.5
    assert (affine.weights.sum(1) - 1).abs().max() < 1e-15


@pytest.fixture
def run(tmp_path: Path, monkeypatch, capsys) -> Callable[[str], tuple[int, str, str]]:
    """A command line, after `geometry`, to (exit code, stdout, stderr)."""
    (tmp_path / "factories_here.py").write_text(FACTORIES)
    (tmp_path / "ends_here.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str, str]:
        try:
            code = main(["geometry", *line.split()])
        except SystemExit as stop:  # argparse
            code = stop.code
        return code, *capsys.readouterr()

    return call


def test_the_command_writes_tables_figures_and_a_page(run, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    net = build("factories_here:plain")
    norm = data.Normalisation((0.25,), (0.5,))
    Weights.of(net, norm).write(tmp_path / "w.safetensors")
    line = "--model factories_here:plain --checkpoint w.safetensors --pairs 2 --steps 4 --layer 2 --out out"
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert "mean 0.25, deviation 0.5 (of the checkpoint)" in out
    with (tmp_path / "out" / "geometry.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    test = data.digits().test.normalised_by(norm)
    first, second = (int(rows[0][name]) for name in ("first", "second"))
    assert test.labels[first] != test.labels[second]
    x = images.segment(*test.inputs([first, second]), steps=4)
    expected = geometry.log_volume(net, x, "2", progress=False).value
    for row, value, label in zip(rows, expected, net(x).argmax(1)):
        assert abs(float(row["log_volume"]) - value) < 1e-5
        assert row["prediction"] == str(label.item())
    with (tmp_path / "out" / "spectrum.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * 3 * 12
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    for k in range(2):
        assert f"pair-00{k}.png" in page
        assert (tmp_path / "out" / f"pair-00{k}.png").stat().st_size > 10_000
    assert page.count("<td>12</td>") == 2  # the rank
    monkeypatch.setattr(fields_module, "geometry", None)  # nothing is left to compute
    before = (tmp_path / "out" / "geometry.csv").read_text()
    assert run(line)[0] == 0
    assert (tmp_path / "out" / "geometry.csv").read_text() == before


def test_a_classifier_may_keep_pixels_of_size_one(run) -> None:
    pytest.importorskip("matplotlib")
    line = "--model factories_here:pooled --pairs 1 --steps 2 --out out"
    assert run(line)[0] == 0


def test_volumes_are_estimated_from_random_directions(run, tmp_path: Path, monkeypatch) -> None:
    """Within standard errors of the exact ones, told with them, and not computed anew."""
    pytest.importorskip("matplotlib")
    line = "--model factories_here:plain --pairs 2 --steps 3 --layer 2 --directions 64 --out out"
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert "means over 64 random directions" in out
    with (tmp_path / "out" / "geometry.csv").open() as file:
        rows = list(csv.DictReader(file))
    net, test = build("factories_here:plain"), data.digits().test
    pair = [int(rows[0][name]) for name in ("first", "second")]
    x = images.segment(*test.inputs(pair), steps=3)
    exact = geometry.log_volume(net, x, "2", progress=False).value
    estimate = geometry.log_volume_estimate(net, x, "2", probes=64, progress=False)
    # Twelve singular values take twelve steps at most, so that there is no bias; 4 is a luck of 1e-4.
    for row, value, expected, deviation in zip(rows, exact, estimate.value, estimate.stderr):
        assert abs(float(row["log_volume"]) - expected) < 1e-4
        assert abs(float(row["standard_error"]) - deviation) < 1e-4
        assert abs(float(row["log_volume"]) - value) < 4 * deviation
        assert row["rank"] == "12"
        assert "condition" not in row
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert f"{float(rows[0]['log_volume']):.2f} ± {float(rows[0]['standard_error']):.2f}" in page
    assert not (tmp_path / "out" / "spectrum.csv").exists()
    assert "spectrum.csv" not in page
    monkeypatch.setattr(fields_module, "estimate_each", None)  # nothing is left to compute
    assert run(line)[0] == 0
    code, _, err = run(line.replace("64", "32"))
    assert code == 2
    assert "another run" in err


def test_an_image_that_lacks_rank_is_left_out_of_estimates_and_told() -> None:
    """Both features answer to one pixel alone where the other is 0."""

    def some(x: Tensor) -> Tensor:
        first, second = x.flatten(1)[:, 20:22].T
        return torch.stack([first.sin(), first.sin() + second**3], 1)

    x = some_images(3)
    x[:, 0, 2, 4:6] = torch.tensor([[0.3, 0.0], [0.3, 0.5], [0.3, 0.7]])
    found = images.estimated_fields(some, x, directions=4, progress=False)
    assert found.log_volume.isnan().tolist() == [True, False, False]
    t, shown = torch.linspace(0, 1, 3), torch.zeros(3, 1, 2, 2)
    page = report._page([Segment((0, 1), ("a", "b"), t, shown, found)], ("a", "b"), ())
    assert "At 1 of 3 points the Jacobian lacks rank to rounding" in page
    assert f"{found.log_volume[1:].max():.2f} ± " in page


def test_ranks_that_vary_along_a_segment_are_told() -> None:
    """Volumes of several ranks have several numbers of factors."""
    logs = torch.tensor([[1.0, 0.0, -torch.inf], [1.0, 0.5, 0.0]])
    found = images.Fields(logs, torch.ones(2), torch.zeros(2, 2))
    t, shown = torch.linspace(0, 1, 2), torch.zeros(2, 1, 2, 2)
    assert Segment((0, 1), ("a", "b"), t, shown, found).ranks == "2 to 3"


def test_one_of_several_outputs_is_picked(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tables = []
    for model, option in (("plain", ""), ("pair", "--output 0"), ("named", "--output logits")):
        line = f"--model factories_here:{model} {option} --pairs 1 --steps 2 --out {model}"
        assert run(line)[0] == 0
        tables.append((tmp_path / model / "geometry.csv").read_text())
    assert tables[0] == tables[1] == tables[2]


REFUSED = {
    "--model factories_here": "MODULE:FACTORY",
    "--model nowhere:plain": "cannot be imported",
    "--model factories_here:none": "has no none",
    "--model factories_here:constant": "is no function",
    "--model factories_here:needs": r"needs arguments \(width, depth\)",
    "--model factories_here:fails": "no weights here",
    "--model factories_here:ends": r"fails \(SystemExit: a flag is missing\)",
    "--model factories_here:ends_in_silence": r"fails \(SystemExit: no reason given\)",
    "--model ends_here:plain": r"cannot be imported \(SystemExit: 3\)",
    "--model factories_here:maps": r"shape \(n, 4, 6, 6\).*--output.*pooling head.*--layer",
    "--model factories_here:without_aux --output aux": r"is None.*name another output \(logits\)",
    "--model factories_here:named --output loss": "one row of features for each",
    "--model factories_here:plain --directions 1": "--directions 1",
    "--model factories_here:plain --directions few": "--directions few",
    "--model factories_here:rectified --directions 4": "leave out the directions",
    "--model factories_here:number": "returns a int",
    "--model factories_here:pair": "returns a tuple of 0, 1, but none was named: name one by --output 0",
    "--model factories_here:named --output loose": "returns a dict of logits, loss, but --output loose",
    "--model factories_here:text": "returns a str",
    "--model factories_here:single": "single output",
    "--model factories_here:plain --output 0": "single tensor",
    "--model factories_here:plain --layer 7": "no layer '7'",
    "--model numeric.models:resnet20": "fails on an image of shape",
    "--model factories_here:plain --checkpoint none.pt": "does not exist",
    "--model factories_here:plain --checkpoint other.pt": "1.weight has shape",
    "--model factories_here:plain --data none": "does not exist",
    "--model factories_here:plain --size 8": "--data",
    "--model factories_here:plain --pairs 0": "--pairs 0",
    "--model factories_here:plain --pairs 1000000": "pairs of two classes",
    "--model factories_here:plain --steps many": "--steps many",
    "--model factories_here:plain --memory -1": "--memory -1",
    "--model factories_here:plain --mean .5": "both",
    "--model factories_here:plain --mean a --std b": "numbers with commas",
    "--model factories_here:plain --mean .5,.5 --std 1,1": "channels",
}


def test_wrong_command_lines_are_refused_in_one_sentence(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    torch.save({"1.weight": torch.zeros(3, 3)}, tmp_path / "other.pt")
    for line, words in REFUSED.items():
        code, _, err = run(f"{line} --out out")
        assert code == 2, (line, err)
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        with pytest.raises(InputError, match=words):
            raise InputError(err)
    file = tmp_path / "file"
    file.write_text("")
    assert run("--model factories_here:plain --out file")[0] == 2


def test_without_matplotlib_it_is_said_what_to_install(run, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    code, _, err = run("--model factories_here:plain --out out")
    assert code == 2
    assert "kernel-geometry[notebooks]" in err


def test_wrong_calls() -> None:
    x = some_images(2)
    net = models.cifar_resnet(8, dtype=torch.float64)
    a, b = torch.zeros(1, 2, 2), torch.zeros(1, 3, 3)
    require_refusals({
        "segment of two shapes": lambda: images.segment(a, b),
        "segment of numbers": lambda: images.segment(1, 2),
        "segment of one step": lambda: images.segment(a, a, 1),
        "hull of two shapes": lambda: images.Hull.of(a, a, b),
        "hull without steps": lambda: images.Hull.of(a, a, a, 0),
        "hull with a negative reach": lambda: images.Hull.of(a, a, a, reach=-1),
        "images of another channel count": lambda: images.fields(net, x, progress=False),
        "no layer": lambda: images.fields(net, x, "none", progress=False),
        "images of text": lambda: images.fields(net, "x", progress=False),
        "no network": lambda: images.fields("net", x, progress=False),
    }.items())  # fmt: skip
