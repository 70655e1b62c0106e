"""Wrong calls of training, dynamics, splines and experiments end in one sentence, never in the depths."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from analytic.activations import erf, monomial, relu
from analytic.splines import INITIALISATIONS
from numeric import inputs
from numeric.estimate import Estimate, power_law
from numeric.experiments import autodiff_curvature
from numeric.experiments import decision_boundaries as boundaries
from numeric.experiments.bayes import PosteriorVolume, Problem, at_infinite_width
from numeric.experiments.deep_width import Bias, KernelSweep
from numeric.experiments.knots import Gathering, clustering
from numeric.experiments.random_features import DenseInterpolant, FeatureSweep, RandomFeatures
from numeric.experiments.width import WidthSweep
from numeric.infinite import FullyConnected
from numeric.models.shallow import ShallowNetwork
from numeric.relu_dynamics import Descent, Flow, MeanField, Neurons, sliding, variation
from numeric.relu_dynamics.regimes import milestones, regime
from numeric.runs import train
from numeric.runs.store import GrowingArray, checkpoint
from numeric.splines import SplineInterpolant, SplineKernel
from numeric.splines.natural import natural
from numeric.splines.norms import norm_by_integral
from numeric.splines.norms import variation as spline_variation
from refusals import require_refusals
from short_runs import SGD, data, model

NAN, INF = math.nan, math.inf
TEXT, FOLDER, X, Y = "abc", "/", [0.1, 0.5, 0.9], [1.0, -1.0, 2.0]
SIGNS, ONE = INITIALISATIONS["signs"], {"B": 1.0}
NEURONS = Neurons.drawn(6, 0, device="cpu")
RAGGED = [[1.0], [1.0, 2.0]]
THREE = torch.zeros(3, dtype=torch.float64)
META = THREE.to("meta")


def trained(**wrong: object) -> object:
    right = {
        "model": model(),
        "loss": F.cross_entropy,
        "data": data(),
        "optimizer": SGD,
        "steps": 1,
    }
    return train(**right | {"device": "cpu", "progress": False} | wrong)


def flow(**wrong: object) -> object:
    right = {"x": X, "y": Y, "neurons": NEURONS, "delta": 1.0, "time": 1e-3}
    return Flow(**right | wrong)


def descent(**wrong: object) -> object:
    return Descent(**{"x": X, "y": Y, "neurons": NEURONS, "rate": 1e-3, "steps": 2} | wrong)


def fit(x: object = X, y: object = Y, **more: object) -> SplineInterpolant:
    kind = {"initialisation": SIGNS, "values": ONE} | more
    return SplineInterpolant(**kind).fit(x, y)


def features(**wrong: object) -> RandomFeatures:
    right = {"initialisation": SIGNS, "values": ONE, "m": 8, "device": "cpu"}
    return RandomFeatures(**right | wrong)


def hypothesis(**wrong: object) -> object:
    right = {"task": boundaries.xor(), "shapes": (3,), "networks": 2, "device": "cpu"}
    return boundaries.Hypothesis(**right | wrong)


def kernel_sweep(**wrong: object) -> object:
    right = {"network": FullyConnected(relu, 1, 1.0, 0.0), "x": [[1.0, 2.0]], "widths": (4,)}
    return KernelSweep(**right | {"draws": 4, "device": "cpu"} | wrong)


def width_sweep(**wrong: object) -> object:
    return WidthSweep(**{"activation": erf, "widths": (4,), "device": "cpu"} | wrong)


def feature_sweep(**wrong: object) -> object:
    right = {"initialisation": SIGNS, "values": ONE, "x": X, "y": Y, "widths": (8,)}
    return FeatureSweep(**right | {"device": "cpu"} | wrong)


def gathering(**wrong: object) -> object:
    return Gathering(**{"x": X, "y": Y, "delta": 0.0, "device": "cpu"} | wrong)


def problem(**wrong: object) -> Problem:
    eye = torch.eye(2, dtype=torch.float64)
    right = {"activation": monomial(2), "inputs": eye, "labels": eye[:, :1], "points": eye}
    return Problem(**right | wrong)


def each(
    make: Callable[..., object], **wrong: list[object]
) -> list[tuple[str, Callable[[], object]]]:
    """Calls with one wrong argument each, for each of the wrong values."""
    called = make.func if isinstance(make, partial) else make
    name = getattr(called, "__qualname__", type(called).__name__).replace("<lambda>", "")
    return [
        (f"{name}({argument}={str(value)[:40]})", partial(make, **{argument: value}))
        for argument, values in wrong.items()
        for value in values
    ]


BAD = (
    each(
        trained,
        model=[TEXT, None, 3, nn.Tanh()],
        loss=[TEXT, None, 3],
        data=[TEXT, None, 3, (TEXT, TEXT), (None, None), (THREE, TEXT), (THREE * NAN, THREE), (META, THREE)],
        optimizer=[TEXT, None, 3, lambda p: TEXT],
        steps=[TEXT, None, 1.5, -1, True],
        batch_size=[TEXT, 0, -1, 2.5, True, 10**6],
        seed=[TEXT, None, -1, 0.5, True, 2**70],
        progress=["no", 0, None],
        at=[TEXT, 3, None, (TEXT,), (-1,), (9,)],
        store=[3, FOLDER, "/dev/null/run.pt", "a\0b", b"run.pt", True],
        key=[None, 3],
        every=[TEXT, 0, None],
        device=[TEXT, 3.5, "cuda:77"],
        scheduler=[TEXT, 3, lambda optimizer: TEXT],
        step=[TEXT, 3, lambda *_: TEXT, lambda *_: None, lambda *_: THREE],
    )
    + each(
        flow,
        x=[TEXT, None, [TEXT] * 3, X[:2], [0.1, NAN, 0.2], [0.1, 0.1, 0.2], RAGGED, [[0.1]] * 3, 3],
        y=[TEXT, None, [TEXT] * 3, Y[:2], [0.1, INF, 0.2], [True, False, True], [1j, 2, 3]],
        neurons=[TEXT, None, 3],
        delta=[TEXT, NAN, True, [1.0, 2.0]],
        time=[TEXT, None, NAN, INF, -1.0, True],
        tolerance=[TEXT, None, NAN, 0.0, True],
        largest=[TEXT, None, NAN, 0.0],
    )
    + each(
        flow().run, store=[3, FOLDER, b"run.pt"]
    )
    + each(partial(flow().run(progress=False).at), time=[TEXT, None, NAN, -1.0, 2.0, True])
    + each(
        descent,
        x=[TEXT, None, X[:2]],
        y=[TEXT, None, [NAN] * 3],
        neurons=[TEXT, None],
        rate=[TEXT, None, NAN, 0.0, True],
        steps=[TEXT, None, 0, 1.5, True],
        frames=[TEXT, None, 0],
        trained=["abc", None, 3],
        optimizer=[TEXT, None, 3],
    )
    + each(descent().run, store=[3, FOLDER])
    + each(descent(optimizer=lambda *_, **__: TEXT).run, progress=[False])
    + each(
        partial(MeanField, X, Y), penalty=[TEXT, None, NAN, -1.0, True]
    )
    + each(partial(MeanField, y=Y), x=[TEXT, None, X[:2]])
    + each(MeanField(X, Y).objective, measure=[TEXT, None, 3])
    + each(partial(MeanField(X, Y).potential, NEURONS, 1.0), theta=[TEXT, None, True])
    + each(partial(MeanField(X, Y).potential, NEURONS, [1.0, 2.0]), theta=[[1.0, 2.0, 3.0]])
    + each(
        partial(MeanField(X, Y).flow, NEURONS, progress=False),
        time=[TEXT, None, NAN, INF, 0.0],
    )
    + each(partial(Neurons, b=THREE, c=THREE, alpha=1.0), a=[TEXT, None, 3, THREE[:2], THREE.long()])
    + each(partial(Neurons, THREE, THREE, THREE), alpha=[TEXT, None, NAN, 0.0, True])
    + each(
        partial(Neurons.drawn, **{"m": 4, "seed": 0, "device": "cpu"}),
        m=[TEXT, None, 0, 2.5, True],
        seed=[TEXT, None, -1],
        alpha=[TEXT, NAN, 0.0],
        a=[TEXT, None, NAN, -1.0],
        dtype=[TEXT, None, torch.int64],
        device=[TEXT, 3.5],
    )
    + each(
        partial(Neurons.canonical, **{"r": [1.0], "theta": [0.0], "delta": -1.0}),
        r=[TEXT, None, [1.0, 2.0], [], 1.0],
        theta=[TEXT, None],
        delta=[TEXT, None, NAN, [1.0, 2.0]],
        alpha=[TEXT, 0.0],
    )
    + each(NEURONS.predict, x=[TEXT, None, [[1.0]], [NAN], []])
    + each(NEURONS.rescaled, delta=[TEXT, None, INF, [1.0, 2.0]])
    + each(variation, neurons=[TEXT, None])
    + each(
        partial(regime, **{"neurons": NEURONS, "x": X, "y": Y, "delta": 1.0, "span": 1.0}),
        neurons=[TEXT, None], delta=[TEXT, None, NAN], span=[TEXT, None, -1.0], tolerance=[TEXT, 0.0],
    )
    + each(partial(milestones, flow().run(progress=False)), count=[TEXT, None, 1, 2.5])
    + each(partial(milestones, count=3), run=[TEXT, None])
    + each(
        partial(sliding.integrate, **dict.fromkeys("abc", THREE + 1), alpha=1.0, x=X, y=Y, time=1.0),
        a=[TEXT, None], x=[TEXT, None], y=[TEXT], time=[TEXT, None, INF, 0.0], alpha=[TEXT, 0.0],
        store=[3, FOLDER],
    )
    + each(
        fit,
        x=[TEXT, None, [TEXT] * 3, X[:2], [0.1, NAN, 0.2], RAGGED, [[0.1]] * 3, 3.0, [True] * 3],
        y=[TEXT, None, [TEXT] * 3, Y[:2], [0.1, INF, 0.2], [1j, 2, 3]],
        initialisation=[TEXT, None, 3],
        values=[TEXT, None, 3, {}, {"B": TEXT}, {"B": NAN}, {"B": -1.0}, {"B": None}, {"C": 1.0}],
        readout=[TEXT, None, NAN, -1.0, True],
        ridge=[TEXT, None, NAN, -1.0, INF],
        time=[TEXT, None, NAN, -1.0],
    )
    + each(fit().predict, x=[TEXT, None, [NAN], [TEXT], RAGGED])
    + each(fit().smooth_part, x=[TEXT, None, [NAN]])
    + each(partial(fit().derivative, X), order=[TEXT, None, 0, 3, 1.5, True])
    + each(partial(SplineKernel, SIGNS, ONE), readout=[TEXT, None, NAN, -1.0])
    + each(partial(SplineKernel, SIGNS), values=[TEXT, None, 3, {"B": TEXT}])
    + each(partial(SplineKernel, values=ONE), initialisation=[TEXT, None])
    + each(SplineKernel(SIGNS, ONE), x=[TEXT, None, 3, THREE])
    + each(SplineKernel(SIGNS, ONE).diagonal, x=[TEXT, None])
    + each(partial(natural, y=Y), x=[TEXT, None, X[:2], [1.0] * 3, [NAN] * 3])
    + each(natural(X, Y), points=[TEXT, None])
    + each(norm_by_integral, fitted=[TEXT, None])
    + each(spline_variation, fitted=[TEXT, None])
    + each(
        width_sweep,
        activation=[TEXT, None, 3],
        widths=[TEXT, None, 3, (), (0,), (TEXT,), (2.5,), (True,), (4, 4)],
        realisations=[TEXT, None, 1, 2.5],
        d=[TEXT, None, 0],
        sigma=[TEXT, None, NAN, 0.0],
        zeta=[TEXT, None, -1.0],
        radii=[TEXT, None, 3, (), (TEXT,), (-1.0,), (NAN,)],
        seed=[TEXT, None, -1, 0.5],
        dtype=[TEXT, None, torch.int64],
    )
    + each(
        kernel_sweep,
        network=[TEXT, None, relu],
        x=[TEXT, None, 3, [1.0], RAGGED, [[NAN]], [[]]],
        widths=[TEXT, None, 3, (), (0,), (4, 4)],
        draws=[TEXT, None, 1],
        seed=[TEXT, None, -1],
        device=[TEXT, 3.5],
        dtype=[TEXT, None],
        store=[3, b"folder", True],
    )
    + each(
        partial(Bias, **{"widths": (1, 2, 4), "values": (3.0, 2.0, 1.0), "stderrs": (1.0, 1.0, 1.0)}),
        widths=[TEXT, None, (1, 2)],
        values=[TEXT, None, (NAN, 1.0, 1.0), (TEXT,) * 3],
        stderrs=[TEXT, None, (0.0, 1.0, 1.0)],
    )
    + each(Bias((1, 2, 4), (3.0, 2.0, 1.0), (1.0, 1.0, 1.0)).expansion, powers=[TEXT, None, 3, (-1,)])
    + each(Bias((1, 2, 4), (3.0, 2.0, 1.0), (1.0, 1.0, 1.0)).misfit, p=[TEXT, None, NAN])
    + each(
        features,
        initialisation=[TEXT, None],
        values=[TEXT, None, 3, {"B": TEXT}, {}],
        m=[TEXT, None, 0, 2.5],
        seed=[TEXT, None, -1],
        sampling=[TEXT, None],
        device=[TEXT, 3.5],
        dtype=[TEXT, None],
    )
    + each(partial(features().fit, X, Y), ridge=[TEXT, None, NAN, -1.0])
    + each(partial(features().fit, y=Y), x=[TEXT, None, X[:2], [NAN] * 3])
    + each(features().features, x=[TEXT, None, [[1.0]]])
    + each(features().fit(X, Y).predict, x=[TEXT, None])
    + each(
        partial(features().train, X, Y, progress=False),
        steps=[TEXT, None, 0],
    )
    + each(partial(features().train, X, Y, 2, progress=False), momentum=[TEXT, None, 1.0, NAN])
    + each(
        feature_sweep,
        initialisation=[TEXT, None],
        values=[TEXT, None],
        x=[TEXT, None, X[:2]],
        widths=[TEXT, None, 3, (), (2,), (8, 8)],
        draws=[TEXT, None, 1],
        seed=[TEXT, None, -1],
    )
    + each(lambda **wrong: feature_sweep(**wrong).run(progress=False), points=[TEXT, (TEXT,), (NAN,)])
    + each(lambda x: DenseInterpolant(SIGNS, ONE, x, Y).norm, x=[TEXT, None, [1.0]])
    + each(
        gathering,
        x=[TEXT, None], y=[TEXT], delta=[TEXT, None, NAN], m=[TEXT, None, 1, 3], networks=[TEXT, 1],
        span=[TEXT, None, 0.0], distance=[TEXT, None, 1.0], milestones=[TEXT, 1], scale=[TEXT, 0.0],
        seed=[TEXT, -1], tolerance=[TEXT, None], device=[TEXT],
    )
    + each(
        partial(clustering, **{"x": X, "before": NEURONS, "after": NEURONS}),
        x=[TEXT, None, [1.0]], before=[TEXT, None], after=[TEXT, None], distance=[TEXT, NAN, 1.0],
        draws=[TEXT, None, 3], seed=[TEXT, None, -1],
    )
    + each(
        problem,
        activation=[TEXT, None], inputs=[TEXT, None, 3], labels=[TEXT, None], points=[TEXT, None],
        sigma=[TEXT, None, 0.0], zeta=[TEXT, None, -1.0], temperature=[TEXT, None, NAN],
    )
    + each(problem().sampled, draws=[TEXT, None, 1], seed=[TEXT, None, -1], device=[TEXT])
    + each(problem().quadrature, nodes=[TEXT, None, 1, 101])
    + each(
        partial(Problem.one_example, **{"activation": monomial(2), "d": 2, "rho": 0.5, "ratio": 1.0}),
        activation=[TEXT, None], d=[TEXT, None, 0], rho=[TEXT, None, 2.0], ratio=[TEXT, None],
    )
    + each(
        partial(PosteriorVolume, **{"problem": problem(), "n": 9}),
        problem=[TEXT, None], n=[TEXT, None, 0], draws=[TEXT, None, 3], seed=[TEXT, None, -1],
    )
    + each(partial(at_infinite_width, None), wide=[TEXT])
    + each(
        hypothesis,
        task=[TEXT, None], shapes=[TEXT, None, 3, (), (TEXT,), (0,)], networks=[TEXT, None, 1],
        seed=[TEXT, None, -1], recipe=[TEXT, 3], activation=[TEXT, torch.tanh], zones=[TEXT, None],
        level=[TEXT, None, 1.0, NAN], circles=[TEXT, None, 0], store=[3, b"folder"], device=[TEXT],
        dtype=[TEXT, None, torch.int64],
    )
    + each(
        partial(boundaries.Recipe, **{"rate": 0.1, "momentum": 0.9, "decay": 0.0, "epochs": 1}),
        rate=[TEXT, None, NAN, 0.0], momentum=[TEXT, None, 1.0, True], decay=[TEXT, None, -1.0],
        epochs=[TEXT, None, -1], batch_size=[TEXT, 0, True],
    )
    + each(boundaries.xor().recipe.with_larger_steps, factor=[TEXT, None, 0, 7])
    + each(partial(boundaries.Task.of, y=[0, 1]), x=[TEXT, None, 3, [[1.0]] * 2, RAGGED, [[NAN, 0]] * 2])
    + each(
        partial(boundaries.Task.of, [[0.0, 0.0], [1.0, 1.0]], [0, 1]),
        reach=[TEXT, NAN, 0.0], recipe=[TEXT, 3],
    )
    + each(partial(boundaries.Task.of, [[0.0, 0.0], [1.0, 1.0]]), y=[TEXT, None, [TEXT] * 2, [0, 2]])
    + each(boundaries.sinusoid, points=[TEXT, None, 1])
    + each(boundaries.xor().data, seed=[TEXT, None, -1])
    + each(partial(boundaries.shuffled, seed=0), y=[TEXT, None])
    + each(
        boundaries.Lattice, reach=[TEXT, None, NAN, 0.0]
    )
    + each(
        partial(boundaries.Lattice, 1.0), points=[TEXT, None, 1], dtype=[TEXT, None], device=[TEXT, 3.5]
    )
    + each(partial(boundaries.Disc, 1.0), circles=[TEXT, None, 0], dtype=[TEXT], device=[TEXT])
    + each(boundaries.Zones, near=[TEXT, None, 0.0, NAN, 0.9], far=[TEXT, None, 1.0])
    + each(partial(boundaries.geometry_map, boundaries.perceptron(3)), lattice=[TEXT, None])
    + each(partial(boundaries.geometry_map, lattice=boundaries.Lattice(1.0, 2)), model=[TEXT, None])
    + each(partial(boundaries.geometry_maps, lattice=boundaries.Lattice(1.0, 2)), run=[TEXT, None])
    + each(
        partial(autodiff_curvature.compare, x=[[0.1, 0.2]]), network=[TEXT, None]
    )
    + each(
        partial(
            autodiff_curvature.compare,
            ShallowNetwork.gaussian(erf, 3, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(0)),
        ),
        x=[TEXT, None, [1.0], [[NAN, 0.0]], [[1.0]]],
    )
    + each(Estimate.of, draws=[TEXT, None, 3.0, [1.0], [NAN, 1.0], [TEXT] * 2, RAGGED])
    + each(Estimate.of([1.0, 2.0]).sigmas_from, exact=[TEXT, None])
    + each(partial(power_law, y=Y), x=[TEXT, None, X[:2], [TEXT] * 3, [[1.0]] * 3, 3.0])
    + each(partial(checkpoint, run="run"), store=[3, FOLDER, b"run.pt", "a\0b", "/dev/null/a"])
    + each(partial(GrowingArray, run="run", shape=(3,)), path=[None, 3, FOLDER])
    + each(partial(inputs.points), x=[TEXT, None, 3, [1.0], RAGGED, [[NAN]], [[True]]])
    + each(partial(inputs.whole_numbers, "widths"), values=[TEXT, None, 3, (), (1, 1)])
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({label.partition("(")[0] for label, _ in BAD}))
def test_wrong_calls_are_refused_in_one_sentence(name: str) -> None:
    require_refusals(call for call in BAD if call[0].partition("(")[0] == name)


def test_arrays_lists_and_tensors_are_taken_alike(tmp_path: Path) -> None:
    kinds = (list, np.array, torch.tensor, lambda x: np.array(x)[::-1][::-1])
    frozen = np.array(X)
    frozen.setflags(write=False)
    x = [kind(X) for kind in kinds] + [frozen]
    y = torch.tensor(Y, dtype=torch.float64)
    assert len({NEURONS.predict(one).sum().item() for one in x if one is not x[2]}) == 1
    assert len({Flow(one, y, NEURONS, -INF, 1.0).run().losses[-1].item() for one in x[:2]}) == 1
    fitted = [fit(one, Y).predict(0.3).item() for one in (*x[:2], *x[3:])]
    assert len(set(fitted)) == 1
    assert flow().run(progress=False, store=str(tmp_path / "run.pt")).times[-1] == 1e-3
