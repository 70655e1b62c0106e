"""What tests of panels share: each begins with every control where it starts."""

import pytest


@pytest.fixture(autouse=True)
def _start_over(request: pytest.FixtureRequest) -> None:
    if "panel" in request.fixturenames:
        request.getfixturevalue("panel").reset()
