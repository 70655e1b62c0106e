"""What tests of panels share: each begins with every control where it starts."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _start_over(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "panel" in request.fixturenames:
        request.getfixturevalue("panel").reset()
