"""Wrong calls of infinite networks, kernels and learned kernels: each is refused by one clear sentence."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from analytic.activations import erf, monomial, relu
from numeric import geometry
from numeric.infinite import (
    NTK,
    FullyConnected,
    Standard,
    ZeroInitial,
    gradient_flow,
    log_marginal_likelihood,
    posterior,
)
from numeric.infinite.network import NNGPKernel, TangentKernel
from numeric.kernels import FunctionKernel, GramSpectrum, Scaled, Tiled, assert_kernel, conditional
from numeric.learned import (
    AmariWuClassifier,
    Conformal,
    FeatureMachine,
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SelfSupervisedKernel,
    SmoothedLaplace,
)
from refusals import require_refusals

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y, GRAM = X.sum(1), torch.eye(6, dtype=torch.float64)
NET, LINEAR = FullyConnected(erf, 2), FunctionKernel(lambda x, y: x @ y.T)
NO_POINTS = {
    "text": "points.csv", "None": None, "number": 3.0, "truth value": True, "one point": [1.0, 2.0],
    "empty": [], "no coordinates": [[], []], "texts": [["a", "b"]], "ragged": [[1.0], [1.0, 2.0]],
    "truth values": [[True, False]], "complex": [[1j, 0.0]], "NaN": [[math.nan, 0.0]],
    "infinite": np.full((2, 2), np.inf), "mapping": {"x": 1.0}, "three axes": np.ones((2, 2, 2)),
    "function": math.sin,
}  # fmt: skip
NO_COUNTS = ["3", None, True, 0, -2, 1.5, math.nan, [2]]
NO_NUMBERS = ["0.1", None, True, -1.0, math.nan, math.inf, [0.1, 0.2]]

ON_POINTS: dict[str, Callable[[Any], Any]] = {
    "nngp": NET.nngp,
    "ntk": NET.ntk,
    "metric of the ntk": lambda x: geometry.metric(NET.ntk, x),
    "diagonal": NET.ntk.diagonal,
    "function": LINEAR,
    "metric of a function": LINEAR.metric,
    "product": NET.nngp * LINEAR,
    "tiled": Tiled(LINEAR, 2, 2),
    "y": lambda y: NET.nngp(X, y),
    "posterior": lambda x: posterior(LINEAR, x, Y, None, 0.1),
    "learned": Mahalanobis(Gaussian(1.0)),
    "metric of a learned one": Mahalanobis(Gaussian(1.0), [[1.0, 0.0], [0.0, 2.0]]).metric,
    "conformal": Conformal(Mahalanobis(Gaussian(1.0)), (X,), 1.0),
}  # fmt: skip


@pytest.mark.parametrize("call", ON_POINTS)
def test_what_is_no_point_is_refused(call: str) -> None:
    wrong = {name: x for name, x in NO_POINTS.items() if (call, name) != ("y", "None")}  # y = x
    require_refusals((name, partial(ON_POINTS[call], x)) for name, x in wrong.items())


COUNTS: dict[str, Callable[[Any], Any]] = {
    "depth": lambda n: FullyConnected(erf, n),
    "width": Standard,
    "rows": lambda n: Tiled(LINEAR, n, 2),
    "columns": lambda n: Tiled(LINEAR, 2, n),
    "degree": Polynomial,
    "components": lambda n: SelfSupervisedKernel(components=n).fit(X, X + 0.1),
    "iterations": lambda n: FeatureMachine(iterations=n).fit(X, Y),
    "rounds": lambda n: AmariWuClassifier(rounds=n).fit(X, Y > 0),
}


RIGHT_COUNTS = {
    ("depth", "None"),
    ("iterations", "0"),
    ("rounds", "0"),
}  # a default, and a plain machine


@pytest.mark.parametrize("call", COUNTS)
def test_what_is_no_count_is_refused(call: str) -> None:
    wrong = [count for count in NO_COUNTS if (call, repr(count)) not in RIGHT_COUNTS]
    require_refusals((repr(count), partial(COUNTS[call], count)) for count in wrong)


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "sigma_w": lambda s: FullyConnected(erf, 1, s, 0.1),
    "sigma_b": lambda s: FullyConnected(erf, 1, 1.0, s),
    "ridge of a flow": lambda r: gradient_flow(LINEAR, X, Y, ridge=r, initial=ZeroInitial()),
    "noise of a posterior": lambda s: posterior(NET, X, Y, None, s),
    "noise of an evidence": lambda s: log_marginal_likelihood(NET, X, Y, s),
    "ridge of a spectrum": lambda r: GramSpectrum.of(X @ X.T, r),
    "factor": lambda c: Scaled(LINEAR, c),
    "times": lambda c: LINEAR * c,
    "ulps": lambda n: assert_kernel(LINEAR, X, X, n),
    "bandwidth": Gaussian,
    "bandwidth of a cone": Laplace,
    "smoothing": lambda e: SmoothedLaplace(1.0, e),
    "offset": lambda c: Polynomial(2, c),
    "ridge of a machine": lambda r: FeatureMachine(ridge=r).fit(X, Y),
    "tau": lambda t: AmariWuClassifier(tau=t).fit(X, Y > 0),
    "C": lambda c: AmariWuClassifier(C=c).fit(X, Y > 0),
    "tau of a kernel": lambda t: Conformal(Mahalanobis(Gaussian(1.0)), (X,), t),
}


@pytest.mark.parametrize("call", NUMBERS)
def test_what_is_no_number_in_range_is_refused(call: str) -> None:
    layers = call in ("sigma_w", "sigma_b")  # which take two numbers, one for each layer
    wrong = [[*n, 0.3] if layers and isinstance(n, list) else n for n in NO_NUMBERS]
    require_refusals((repr(number), partial(NUMBERS[call], number)) for number in wrong)


WRONG: dict[str, Callable[[], Any]] = {
    "activation as text": lambda: FullyConnected("relu"),
    "activations as texts": lambda: FullyConnected(["relu", "erf"]),
    "no activation": lambda: FullyConnected(None),
    "no activations": lambda: FullyConnected([]),
    "torch's function": lambda: FullyConnected(torch.relu),
    "open parameter": lambda: FullyConnected(monomial()),
    "too few activations": lambda: FullyConnected([erf, relu], 3),
    "too few scales": lambda: FullyConnected(erf, 2, [1.0, 2.0]),
    "scales as texts": lambda: FullyConnected(erf, 2, ["a", "b", "c"]),
    "parametrisation as text": lambda: FullyConnected(erf, 2, parametrisation="ntk"),
    "parametrisation as class": lambda: FullyConnected(erf, 2, parametrisation=NTK),
    "kernel of a text": lambda: NNGPKernel("net"),
    "tangent kernel of None": lambda: TangentKernel(None),
    "tangent metric of relu": lambda: FullyConnected(relu).ntk.metric(X),
    "weights as text": lambda: NET.nngp_gradient(X, "ones"),
    "weights of another shape": lambda: NET.nngp_gradient(X, X),
    "flow of a text": lambda: gradient_flow("net", X, Y),
    "flow of a class": lambda: gradient_flow(FullyConnected, X, Y),
    "targets as text": lambda: gradient_flow(NET, X, "targets"),
    "targets as None": lambda: gradient_flow(NET, X, None),
    "targets as texts": lambda: gradient_flow(NET, X, ["a"] * 6),
    "too few targets": lambda: gradient_flow(NET, X, Y[:3]),
    "test points of another dimension": lambda: gradient_flow(NET, X, Y, X[:, :1]),
    "time as text": lambda: gradient_flow(NET, X, Y, t="long"),
    "time as None": lambda: gradient_flow(NET, X, Y, t=None),
    "negative time": lambda: gradient_flow(NET, X, Y, t=-1.0),
    "start as text": lambda: gradient_flow(NET, X, Y, initial="zero"),
    "posterior of None": lambda: posterior(None, X, Y, None, 0.1),
    "evidence of a number": lambda: log_marginal_likelihood(1.0, X, Y, 0.1),
    "function as text": lambda: FunctionKernel("rbf"),
    "function as None": lambda: FunctionKernel(None),
    "function of another shape": lambda: FunctionKernel(lambda x, y: x)(X),
    "function of numbers": lambda: FunctionKernel(lambda x, y: 1.0)(X),
    "plus a number": lambda: LINEAR + 1.0,
    "plus a text": lambda: LINEAR + "kernel",
    "times a text": lambda: LINEAR * "2",
    "tiles of a text": lambda: Tiled("kernel"),
    "dimensions that differ": lambda: LINEAR(X, X[:, :1]),
    "nothing but a shape": lambda: NET.ntk(X.to("meta")),
    "dtypes that differ": lambda: NET.ntk(X, X.float()),
    "half precision": lambda: NET.ntk(X.half()),
    "law of a function": lambda: assert_kernel(lambda x, y: x @ y.T, X, X),
    "law at texts": lambda: assert_kernel(LINEAR, "x", "y"),
    "spectrum of a text": lambda: GramSpectrum.of("gram"),
    "spectrum of no square": lambda: GramSpectrum.of(X),
    "base as text": lambda: Mahalanobis("rbf"),
    "base as class": lambda: Mahalanobis(Gaussian),
    "matrix as text": lambda: Mahalanobis(Gaussian(), "identity"),
    "matrix of no square": lambda: Mahalanobis(Gaussian(), X),
    "learned at two dimensions": lambda: Mahalanobis(Gaussian())(X, X[:, :1]),
    "gradient with a text": lambda: Mahalanobis(Gaussian()).gradient(X, X, "weights"),
    "gradient with one axis": lambda: Mahalanobis(Gaussian()).gradient(X, X, Y),
    "conformal of a text": lambda: Conformal("rbf", (X,), 1.0),
    "conformal at a text": lambda: Conformal(Mahalanobis(Gaussian()), "centres", 1.0),
    "machine of a text": lambda: FeatureMachine("laplace").fit(X, Y),
    "machine on a text": lambda: FeatureMachine().fit("data.csv", Y),
    "machine on None": lambda: FeatureMachine().fit(None, Y),
    "machine without targets": lambda: FeatureMachine().fit(X, None),
    "machine with texts": lambda: FeatureMachine().fit(X, list("abcdef")),
    "machine with NaN": lambda: FeatureMachine().fit(X, Y * math.nan),
    "machine nowhere": lambda: FeatureMachine(device="nowhere").fit(X, Y),
    "prediction at a text": lambda: FeatureMachine().fit(X, Y).predict("new"),
    "gradient at one column": lambda: FeatureMachine().fit(X, Y).gradient(X[:, :1]),
    "classifier of a text": lambda: AmariWuClassifier("rbf").fit(X, Y > 0),
    "classifier with one class": lambda: AmariWuClassifier().fit(X, Y * 0),
    "classifier with measurements": lambda: AmariWuClassifier().fit(X, Y),
    "classifier without labels": lambda: AmariWuClassifier().fit(X, None),
    "decision at a text": lambda: AmariWuClassifier().fit(X, Y > 0).decision_function("new"),
    "pairs without partners": lambda: SelfSupervisedKernel().fit(X, None),
    "pairs with a text": lambda: SelfSupervisedKernel().fit(X, "partners"),
    "features at a text": lambda: SelfSupervisedKernel().fit(X, X + 0.1).transform("new"),
    "kernel at a text": lambda: SelfSupervisedKernel().fit(X, X + 0.1)("new"),
}

GAUSSIAN = {
    "gram": GRAM,
    "residual": Y,
    "cross": GRAM[:2, None],
    "own": torch.ones(2, 1, 1).double(),
}
NO_GAUSSIAN: list[dict[str, Any]] = [
    dict(zip(GAUSSIAN, "abcd", strict=True)), {name: part.long() for name, part in GAUSSIAN.items()},
    {"gram": None}, {"gram": GRAM[:3]}, {"gram": Y},
    {"gram": GRAM * math.nan}, {"residual": Y[:3]}, {"residual": Y[:, None]}, {"residual": Y.float()},
    {"cross": GRAM[:2]}, {"cross": GRAM[:2, None, :3]}, {"cross": "all"},
    {"own": torch.ones(2, 2, 2).double()}, {"own": torch.ones(2, 1).double()}, {"jitter": -1.0}
]  # fmt: skip


def test_wrong_parts_of_a_gaussian_process_are_refused() -> None:
    conditional(**GAUSSIAN)
    require_refusals(
        (str(sorted(wrong)), partial(conditional, **GAUSSIAN | wrong)) for wrong in NO_GAUSSIAN
    )


def test_wrong_calls_are_refused() -> None:
    require_refusals(WRONG.items())
