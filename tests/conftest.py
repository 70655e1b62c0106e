"""What tests share: thinned grids, panels that begin where they start, threads of torch, a device to try."""

from collections.abc import Iterator

import pytest

import density


@pytest.hookimpl(tryfirst=True)  # before marks are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    density.thin(items)


@pytest.fixture(autouse=True)
def _start_over(request: pytest.FixtureRequest) -> None:
    if "panel" in request.fixturenames:
        request.getfixturevalue("panel").reset()


@pytest.fixture(scope="module")
def device() -> Iterator[object]:
    """An accelerator, or where there is none a trial device."""
    import torch

    import trial_device

    if torch.accelerator.is_available():
        place = torch.accelerator.current_accelerator()
        if place.type == "mps":
            pytest.skip("it has no float64")
        yield torch.empty(0, device=place).device
    else:
        with pytest.MonkeyPatch.context() as patch, trial_device.present(patch) as trial:
            yield trial


@pytest.fixture
def one_thread() -> Iterator[None]:
    yield from _threads(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    yield from _threads(2)


def _threads(count: int) -> Iterator[None]:
    import torch  # not before it is needed

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)
