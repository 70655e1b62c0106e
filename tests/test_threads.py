"""Work that threads share: done once each, and whatever fails is told."""

import threading
import time
from contextlib import suppress

import pytest
import torch

from analytic.activations import relu
from analytic.expressions.arguments import InputError
from numeric.infinite import FullyConnected
from numeric.kernels.threads import computed_once, run_in_threads, worker_threads


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_every_part_is_done_once_without_gradients(threads: int, count: int) -> None:
    done = []
    run_in_threads(
        lambda k, worker: done.append((k, worker, torch.is_grad_enabled())), count, threads
    )
    assert sorted(k for k, _, _ in done) == list(range(count))
    assert all(worker in range(threads) and not grad for _, worker, grad in done)


def test_threads_take_part() -> None:
    meeting, met = threading.Barrier(2, timeout=60), set()

    def meet(k: int, worker: int) -> None:
        meeting.wait()
        met.add((worker, threading.current_thread()))

    run_in_threads(meet, 2, 2)
    assert {worker for worker, _ in met} == {0, 1}
    assert (0, threading.main_thread()) in met


@pytest.mark.parametrize("here", [True, False])
def test_what_fails_in_any_thread_is_told_and_ends_the_work(here: bool) -> None:
    meeting, done = threading.Barrier(2, timeout=60), []

    def fail(k: int, worker: int) -> None:
        if k < 2:
            meeting.wait()
            if (threading.current_thread() is threading.main_thread()) == here:
                raise MemoryError(k)
        time.sleep(1e-4)
        done.append(k)

    with pytest.raises(MemoryError):
        run_in_threads(fail, 10_000, 2)
    assert len(done) < 5_000  # the other thread may do some more before it is told


def test_torch_keeps_to_one_thread_meanwhile() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with suppress(KeyboardInterrupt), worker_threads(torch.device("cpu")) as threads:
            assert (threads, torch.get_num_threads()) == (2, 1)
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 2
        with worker_threads(torch.device("meta")) as threads:
            assert (threads, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)


def test_what_is_needed_once_is_made_once_and_again_after_a_failure() -> None:
    made = []

    @computed_once
    def slow() -> int:
        time.sleep(0.01)
        made.append(len(made))
        if len(made) == 1:
            raise MemoryError
        return len(made)

    with pytest.raises(MemoryError):
        slow()
    counts = []
    run_in_threads(lambda k, worker: counts.append(slow()), 20, 4)
    assert counts == [2] * 20


@pytest.mark.usefixtures("two_threads")
def test_bad_points_are_told_though_a_thread_has_begun() -> None:
    x = torch.randn(400, 5, dtype=torch.float64)
    x[17, 3] = torch.nan
    for _ in range(5):
        with pytest.raises(InputError, match="1 of 400 points have NaN"):
            FullyConnected(relu, 2, 1.0, 0.1).ntk(x)
