"""Do the examples in docstrings run, and print what they say?"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _with_examples() -> list[str]:
    """Names of the modules whose text has an example; none of them is imported."""
    paths = (
        path for room in ("analytic", "numeric") for path in sorted((ROOT / room).rglob("*.py"))
    )
    texts = (path for path in paths if ">>> " in path.read_text("utf-8"))
    modules = (path.relative_to(ROOT).with_suffix("").parts for path in texts)
    return [".".join(parts).removesuffix(".__init__") for parts in modules]


@pytest.mark.parametrize("name", _with_examples())
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write a file
    result = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted
    assert not result.failed
