"""Trainings at the paper's scale, with small networks: resumed in another process, and read."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from notebooks.topics import images as topic
from numeric.data import ImageData, Split
from numeric.models import ResNet
from numeric.models.resnet import Basic

EPOCHS = (0, 1, 3)
UPDATES = 3  # of one update each, as all images are one batch


def split() -> Split:
    """24 small images of colour, of ten classes."""
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(24, 3, 8, 8, generator=generator)
    every = ImageData.of(images, torch.arange(24) % 10)
    return Split.of(every, every)


def small(seed: int, activation: nn.Module | None = None) -> ResNet:
    generator = torch.Generator().manual_seed(seed)
    return ResNet((1, 1), 2, generator=generator, activation=activation, block=Basic)


def both(store: Path | str, network: Callable[..., ResNet] = small) -> dict[str, Tensor]:
    """Weights of all that is trained, by name: with labels, shuffled labels, and from views."""
    place = {"store": str(store), "device": "cpu", "network": network, "every": 1}
    runs = {
        f"{kind}{shuffled}": topic.paper_resnet(kind, split(), EPOCHS, 0, shuffled, **place)
        for kind, shuffled in ((topic.RELU, False), (topic.GELU, True))
    }
    for objective in topic.OBJECTIVES:
        found = topic.paper_self_supervised(objective, split(), EPOCHS, 0, **place)
        runs[objective] = {epoch: one.classifier for epoch, one in found.items()}
        runs[f"{objective}, head"] = {epoch: one.head for epoch, one in found.items()}
    return {
        f"{name}, {epoch}, {part}": value
        for name, run in runs.items()
        for epoch, model in run.items()
        for part, value in model.state_dict().items()
    }


def killed(store: str, after: str) -> None:
    """Train until a network has passed so many batches, then end as a machine does that loses its power."""
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1
        if passes == int(after):
            os.kill(os.getpid(), signal.SIGKILL)

    def network(seed: int, activation: nn.Module | None = None) -> ResNet:
        net = small(seed, activation)
        net.register_forward_hook(count)
        return net

    both(store, network)


def test_a_run_that_was_killed_resumes_in_another_process_to_the_same_bits(
    tmp_path: Path, one_thread: None
) -> None:
    """In the first network, and then among views: keys of runs must not hold what one process alone knows."""
    whole = both("")
    code = "import sys, torch, test_images_runs as runs; torch.set_num_threads(1); runs.killed(*sys.argv[1:])"
    path = [
        str(Path(__file__).parent),
        str(Path(__file__).parents[1]),
        os.environ.get("PYTHONPATH", ""),
    ]
    # The first dies in its second update; the next has ended two networks by then, and dies among views.
    for after in (2, 2 * UPDATES + 1):
        child = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), str(after)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)}, check=False,
        )  # fmt: skip
        assert child.returncode == -signal.SIGKILL
    assert (tmp_path / f"19-{topic.BARLOW}-0.pt").exists()
    assert not (tmp_path / f"19-{topic.SIMCLR}-0.pt").exists()
    resumed = both(tmp_path)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
