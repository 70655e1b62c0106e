"""Kernels that know a symmetry beside those that do not: turned images, charges on the sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from analytic.activations import erf, relu
from notebooks.topics.statistics import Array
from numeric import data
from numeric.data import ImageData, Split
from numeric.estimate import Estimate
from numeric.infinite import (
    VALID,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    S2Convolution,
    SO3Convolution,
    Window,
)
from numeric.infinite.groups import p4
from numeric.infinite.spheres import (
    Rotations,
    SphericalProblem,
    SumOverAtoms,
    charges_on_a_sphere,
    molecule_signals,
    read_qm9,
)
from numeric.inputs import InputError, generator_for
from numeric.kernels import FunctionKernel, Kernel
from numeric.learned import KernelClassifier, KernelRegressor

CNN, C4, MLP, SO3 = "CNN", "C4 network", "MLP", "SO(3) network"
NOISE = 1e-4  # on the diagonal of Gram matrices, relative to its mean
PANEL_SIZES = (10, 20, 40)  # the largest is all that the panel trains on
WINDOW = Window(3, VALID)
HEAD = [Dense(), relu, Dense()]
SCALES = {"sigma_w": 1.5, "sigma_b": 0.1, "progress": False}
IMAGE_NETWORKS = {
    CNN: Network(
        [Convolution(3, padding=VALID), relu, Convolution(3, padding=VALID), relu, GlobalPool(), *HEAD],
        **SCALES,
    ),
    C4: Network(
        [Lift(p4, WINDOW), relu, GroupConvolution(WINDOW), relu, GroupPool(), *HEAD], **SCALES
    ),
}  # fmt: skip
BAND = 5  # of signals on the sphere
GRID = 8  # of rotations: with 5 the kernel is off by 1e-3 and has negative eigenvalues, with 8 it has none
SPHERE_NETWORKS = {
    MLP: Network([Flatten(), Dense(), erf, Dense(), erf, Dense()], **SCALES),
    SO3: Network([S2Convolution(GRID), erf, SO3Convolution(), erf, GroupPool(), Dense()], **SCALES),
}


# Any kernels on data.


@dataclass(frozen=True, eq=False)
class Grams:
    """Tangent kernels of networks on data, the first `train` of which are to train on."""

    grams: Mapping[str, Tensor]  # (train, all)
    train: int
    targets: Array  # (all,), classes or numbers

    def errors(
        self, sizes: Sequence[int], draws: int, noise: float, classes: bool, seed: int = 0
    ) -> Mapping[str, Learning]:
        """By network: trained on random parts of the training data, and tried on all others."""
        errors: dict[str, list[list[float]]] = {name: [] for name in self.grams}
        for n in sizes:
            for name in self.grams:
                scores = (
                    self._score(name, self._part(n, k, seed), noise, classes) for k in range(draws)
                )
                errors[name].append(list(scores))
        return {name: Learning.of(sizes, values) for name, values in errors.items()}

    def _part(self, n: int, draw: int, seed: int) -> Tensor:
        """The same rows for all networks."""
        return torch.randperm(self.train, generator=generator_for("part", n, draw, seed))[:n]

    def _score(self, name: str, rows: Tensor, noise: float, classes: bool) -> float:
        """Accuracy, or mean absolute error, at the data that are not to train on."""
        test = torch.arange(self.train, len(self.targets))
        machine = self.machine(name, rows, noise, classes)
        predicted = machine.predict(test[:, None].double()).numpy()
        right = self.targets[test]
        return float((predicted == right).mean() if classes else np.abs(predicted - right).mean())

    def machine(
        self, name: str, rows: Tensor, noise: float, classes: bool
    ) -> KernelClassifier | KernelRegressor:
        """Fitted to some of the training data; points are the numbers of data."""
        gram = self.grams[name]
        ridge = noise * float(gram.diagonal()[rows].mean())
        make = KernelClassifier if classes else KernelRegressor
        kernel = FunctionKernel(lambda i, j: gram[j[:, 0].long()][:, i[:, 0].long()].T)
        return make(kernel, noise=ridge, device="cpu").fit(
            rows[:, None].double(), self.targets[rows]
        )


@dataclass(frozen=True, eq=False)
class Learning:
    """A measure by the number of training data, with standard errors over draws of these."""

    sizes: Array
    mean: Array
    stderr: Array

    @classmethod
    def of(cls, sizes: Sequence[int], values: Sequence[Sequence[float]]) -> Learning:
        estimate = Estimate.of(torch.tensor(values, dtype=torch.float64).T)
        return cls(np.array(sizes, float), estimate.mean.numpy(), estimate.stderr.numpy())


def _gram(kernel: Kernel, x: Tensor, train: int) -> Tensor:
    """Of the first points with all, (train, n)."""
    return torch.cat([kernel(x[:train]), kernel(x[:train], x[train:])], 1)


# Images.


@dataclass(frozen=True, eq=False)
class Images:
    """Images as inputs (n, channels, h, w), upright, with classes; the first `train` are to train on."""

    upright: Tensor
    labels: Array
    train: int
    names: tuple[str, ...]

    def turned(self, seed: int) -> Tensor:
        """Each by quarter turns at random."""
        turns = torch.randint(4, (len(self.upright),), generator=generator_for("turns", seed))
        return torch.stack(
            [p4.act(int(k), one[None])[0] for k, one in zip(turns, self.upright, strict=True)]
        )


def images(folder: str, train: int, test: int, size: int, seed: int = 0) -> Images:
    """From a folder of the user's with images in a known layout, or the digits where none is named.

    Images are averaged over squares until they have `size` pixels a side at most.
    """
    pair = data.load(folder) if folder else data.digits(seed=seed)
    return of_split(pair, train, test, size, seed)


def histology(folder: str, train: int, test: int, size: int, seed: int = 0) -> Images:
    """Tiles of tissue from a folder of the user's, scaled to `size` pixels a side."""
    return of_split(data.histology(folder, size, seed=seed), train, test, size, seed)


def of_split(pair: Split, train: int, test: int, size: int, seed: int = 0) -> Images:
    parts = [_random_part(part, n, seed) for part, n in zip(pair, (train, test), strict=True)]
    pixels = torch.cat([part.inputs(dtype=torch.float64) for part in parts])
    if (factor := max(1, pixels.shape[-1] // size)) > 1:
        pixels = torch.nn.functional.avg_pool2d(pixels, factor)
    labels = torch.cat([part.labels for part in parts]).numpy()
    return Images(pixels, labels, len(parts[0]), pair.train.classes)


def _random_part(part: ImageData, n: int, seed: int) -> ImageData:
    if len(part) < n:
        raise InputError(f"{n} images are needed, but there are {len(part)}: give a larger set.")
    return part.take(torch.randperm(len(part), generator=generator_for("images", seed))[:n])


def image_grams(images: Images, x: Tensor, names: Sequence[str] = (CNN, C4)) -> Grams:
    """Of images x, upright or turned."""
    grams = {name: _gram(IMAGE_NETWORKS[name].ntk, x, images.train) for name in names}
    return Grams(grams, images.train, images.labels)


@dataclass(frozen=True, eq=False)
class TurnedDigit:
    """How far the right class is ahead as an image turns, and accuracies by the number of training images."""

    angles: Array
    margins: Mapping[str, Array]
    image: Array  # (8, 8)
    label: int
    accuracy: Mapping[str, Learning]
    size: int


def turned_digit(size: int, noise: float, image: int) -> TurnedDigit:
    """After training on so many turned digits, at one that was not among them."""
    digits, grams = _panel_data()
    rows = torch.arange(size)
    angles = np.arange(0.0, 361.0, 15.0)
    one = digits.upright[digits.train + image]
    label = int(digits.labels[digits.train + image])
    margins = {}
    for name in IMAGE_NETWORKS:
        machine = grams.machine(name, rows, noise, True)
        weights = machine.process_.weights
        outputs = _cross(image, name)[:, :size] @ weights
        which = int(np.flatnonzero(machine.classes_ == label)[0])
        others = outputs[:, [k for k in range(outputs.shape[1]) if k != which]]
        margins[name] = (outputs[:, which] - others.amax(1)).numpy()
    accuracy = grams.errors(sorted({*(n for n in PANEL_SIZES if n < size), size}), 3, noise, True)
    return TurnedDigit(angles, margins, one[0].numpy(), label, accuracy, size)


@lru_cache(maxsize=1)
def _panel_data() -> tuple[Images, Grams]:
    pair, count = data.digits(), PANEL_SIZES[-1]
    each = [pair.train.of_class(k)[: count // 10] for k in range(10)]
    rows = torch.stack(each, 1).flatten()  # one of each class, then another: the first ten have all
    parts = pair.train.take(rows), _random_part(pair.test, 60, 0)
    pixels = torch.cat([part.inputs(dtype=torch.float64) for part in parts])
    labels = torch.cat([part.labels for part in parts]).numpy()
    images = Images(pixels, labels, count, pair.train.classes)
    return images, image_grams(images, images.turned(0))


@lru_cache(maxsize=64)
def _cross(image: int, name: str) -> Tensor:
    """The kernel of one image, turned by each angle, with the training images: (angles, train)."""
    digits, _ = _panel_data()
    turned = torch.stack(
        [rotate(digits.upright[digits.train + image], angle) for angle in range(0, 361, 15)]
    )
    training = digits.turned(0)[: digits.train]
    return IMAGE_NETWORKS[name].ntk(turned, training)


def rotate(image: Tensor, degrees: float) -> Tensor:
    """An image (channels, h, w) turned about its middle, bilinearly, with its least value outside."""
    angle = np.deg2rad(degrees)
    matrix = image.new_tensor(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]
    )
    grid = torch.nn.functional.affine_grid(matrix[None], [1, *image.shape], align_corners=False)
    ground = image.amin()
    kind = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    return torch.nn.functional.grid_sample((image - ground)[None], grid, **kind)[0] + ground


# The sphere.


@dataclass(frozen=True, eq=False)
class Energies:
    """Signals (n, ..., channels, band^2) on spheres with energies; the first `train` are to train on."""

    signals: Tensor
    energies: Array  # less the mean of those to train on, perhaps over their standard deviation
    train: int

    @classmethod
    def of(cls, problem: SphericalProblem, train: int, unit: float | None = None) -> Energies:
        """Energies in that unit, or for None in standard deviations."""
        energies = problem.targets.numpy()
        training = energies[:train]
        return cls(problem.signals, (energies - training.mean()) / (unit or training.std()), train)

    @property
    def of_the_mean(self) -> float:
        """The mean absolute error of predicting the mean energy."""
        return float(np.abs(self.energies[self.train :]).mean())


def charges(train: int, test: int, seed: int = 0) -> Energies:
    """Four charges at random places of the sphere, and their energies in standard deviations."""
    return Energies.of(charges_on_a_sphere(train + test, seed, band_limit=BAND), train)


def molecules(folder: str, train: int, test: int, seed: int = 0) -> Energies:
    """Molecules of QM9 at random from a folder of the user's, and their atomization energies in meV."""
    available = read_qm9(folder)
    if len(available) < train + test:
        raise InputError(f"{train + test} molecules are needed, but there are {len(available)}.")
    order = torch.randperm(len(available), generator=generator_for("molecules", seed))[
        : train + test
    ]
    chosen = [available[k] for k in order.tolist()]
    return Energies.of(molecule_signals(chosen, band_limit=BAND), train, unit=1.0)


def sphere_grams(problem: Energies) -> Grams:
    """Of signals on one sphere, or of molecules as sums over their atoms."""
    x = problem.signals
    grams = {}
    for name, net in SPHERE_NETWORKS.items():
        kernel = net.ntk if x.ndim == 3 else SumOverAtoms(net.ntk)
        grams[name] = _gram(kernel, x, problem.train)
    return Grams(grams, problem.train, problem.energies)


def turned_predictions(
    problem: Energies, grams: Grams, rows: Tensor, noise: float, turns: int, seed: int
) -> Mapping[str, Array]:
    """Predicted energies of one arrangement of charges, turned at random: (turns,) by network."""
    one = problem.signals[problem.train :][:1]
    turned = Rotations.random(turns, seed).orbit(one).flatten(0, 1)
    x = problem.signals[rows]
    predictions = {}
    for name, net in SPHERE_NETWORKS.items():
        weights = grams.machine(name, rows, noise, False).process_.weights
        predictions[name] = (net.ntk(turned, x) @ weights)[:, 0].numpy()
    return predictions
