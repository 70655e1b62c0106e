"""Gram matrices where they are called from: other modes, threads and processes, rows of zeros."""

import multiprocessing
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from analytic import activations as A
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from numeric.infinite import (
    FullyConnected,
    Standard,
    gradient_flow,
    log_marginal_likelihood,
    posterior,
)
from numeric.kernels.spectrum import SingularGram

pytestmark = pytest.mark.usefixtures("two_threads")

F64 = torch.float64
NET = FullyConnected(A.relu, 2, 1.3, 0.2)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


X = normal(300, 4, seed=0)


ULPS = 8 * torch.finfo(F64).eps  # products round by where their memory begins, a few times a layer


def same(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= ULPS * other.abs().max()).all())


def test_inference_mode_changes_nothing() -> None:
    gram, part = NET.ntk(X), NET.nngp(X, X[:9])
    with torch.inference_mode():
        assert same(NET.ntk(X), gram)
        assert same(NET.nngp(X.clone(), X[:9].clone()), part)


def test_several_threads_may_call_at_once() -> None:
    gram, grams = NET.ntk(X), []
    callers = [threading.Thread(target=lambda: grams.append(NET.ntk(X))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(grams) == 4
    assert all(same(one, gram) for one in grams)
    assert torch.get_num_threads() == 2


def _corner(_: int) -> float:
    return NET.ntk(X)[0, -1].item()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    corner = _corner(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads, on purpose
        with multiprocessing.get_context("fork").Pool(1) as pool:
            (forked,) = pool.map_async(_corner, [0]).get(timeout=60)
    assert abs(forked - corner) <= ULPS * corner


KEEP = [A.relu, A.erf, A.gelu, A.relu_power("3/4"), A.absolute, A.sine(1), A.tanh, A.monomial(2)]


@pytest.mark.parametrize("act", KEEP, ids=lambda act: act.name)
def test_a_row_of_zeros_without_biases_is_zero(act: Activation) -> None:
    x = torch.cat([X[:2], 0 * X[:2]])
    for kind in ({}, {"parametrisation": Standard(8)}):
        net = FullyConnected(act, 2, 1.2, 0.0, **kind)
        for gram in (net.nngp(x), net.ntk(x), net.nngp(x, x.clone()), net.ntk(x, x.clone())):
            assert (gram[:2, :2] != 0).all()
            assert not gram[2:].any()
            assert not gram[:, 2:].any()


def test_any_bias_or_a_function_that_moves_zero_gives_such_a_row_values() -> None:
    x = torch.cat([X[:2], 0 * X[:1]])
    for act, biases in ((A.relu, (0, 0.1, 0)), (A.relu, (0.1, 0, 0)), (A.cosine(1), (0, 0, 0))):
        assert (FullyConnected(act, 2, 1.2, biases).ntk(x) > 0).all()
    last = FullyConnected(A.relu, 2, 1.2, (0, 0, 0.5)).nngp(x)
    torch.testing.assert_close(last[2], torch.full((3,), 0.25, dtype=F64), rtol=1e-15, atol=0)


def test_nothing_is_learnt_from_zeros_alone() -> None:
    """Once 1e-154 stood there, and its inverse in the mean."""
    net, y = FullyConnected(A.relu, 2, 1.3, 0.0), normal(3, seed=1)
    with pytest.warns(SingularGram, match="3 of 3 eigenvalues"):
        assert not gradient_flow(net, 0 * X[:3], y, X[:2]).mean.any()
    with pytest.raises(InputError, match="no posterior exists"):
        posterior(net, 0 * X[:3], y, X[:2], noise=0.0)


def test_whole_numbers_of_numpy_are_depths() -> None:
    assert FullyConnected(A.relu, np.int64(2)) == FullyConnected(A.relu, 2)


def test_what_no_gram_matrix_is_made_of_is_told() -> None:
    with pytest.raises(InputError, match=r"x is torch.sparse_coo: convert it by x.to_dense\(\)"):
        NET.ntk(X.to_sparse())
    with pytest.raises(InputError, match="sigma_w must be one number above 0, or a list of them"):
        FullyConnected(A.relu, 2, np.ones((3, 1, 2)))


@pytest.mark.parametrize("start", ["zero", type(None)])
def test_wrong_starts_and_networks_are_told(start: object) -> None:
    y = normal(300, seed=2)
    with pytest.raises(InputError, match=r"initial must be RandomInitial\(\) or ZeroInitial"):
        gradient_flow(NET, X, y, initial=start)
    with pytest.raises(InputError, match="must have Gram matrices, ntk"):
        gradient_flow(start, X, y)
    with pytest.raises(InputError, match="must have Gram matrices, nngp"):
        posterior(FullyConnected, X, y, None, noise=0.1)
    with pytest.raises(InputError, match="must have Gram matrices, nngp"):
        log_marginal_likelihood(start, X, y, noise=0.1)


@pytest.mark.parametrize("act", [A.relu, A.gelu, A.tanh], ids=lambda act: act.name)
def test_a_network_that_was_used_can_be_sent_to_another_process(act: Activation) -> None:
    net, x = FullyConnected(act, 2, 1.3, 0.2), torch.eye(3, dtype=torch.float64)
    gram = net.ntk(x)
    assert same(pickle.loads(pickle.dumps(net)).ntk(x), gram)
