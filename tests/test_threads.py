"""Work that threads share: done once each, and whatever fails is told."""

import threading
import time
from contextlib import suppress

import pytest
import torch

from numeric.infinite.threads import each, sharing


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_every_part_is_done_once_without_gradients(threads: int, count: int) -> None:
    done = []
    each(lambda k: done.append((k, torch.is_grad_enabled())), count, threads)
    assert sorted(done) == [(k, False) for k in range(count)]


def test_threads_take_part() -> None:
    meeting, met = threading.Barrier(2, timeout=60), set()

    def meet(k: int) -> None:
        meeting.wait()
        met.add(threading.current_thread())

    each(meet, 2, 2)
    assert len(met) == 2
    assert threading.main_thread() in met


@pytest.mark.parametrize("here", [True, False])
def test_what_fails_in_any_thread_is_told_and_ends_the_work(here: bool) -> None:
    meeting, done = threading.Barrier(2, timeout=60), []

    def fail(k: int) -> None:
        if k < 2:
            meeting.wait()
            if (threading.current_thread() is threading.main_thread()) == here:
                raise MemoryError(k)
        time.sleep(1e-4)
        done.append(k)

    with pytest.raises(MemoryError):
        each(fail, 10_000, 2)
    assert len(done) < 5_000  # the other thread may do some more before it is told


def test_torch_keeps_to_one_thread_meanwhile() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with suppress(KeyboardInterrupt), sharing(torch.device("cpu")) as threads:
            assert (threads, torch.get_num_threads()) == (2, 1)
            raise KeyboardInterrupt
        assert torch.get_num_threads() == 2
        with sharing(torch.device("meta")) as threads:
            assert (threads, torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)
