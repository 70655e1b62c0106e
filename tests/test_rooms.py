"""Who may import whom, and how large a module may grow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from density import THINNED

ROOT = Path(__file__).parents[1]
MODULES = sorted(ROOT.glob("analytic/**/*.py"))


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_analytic_imports_neither_torch_nor_numeric(path: Path) -> None:
    assert not _imports(path) & {"torch", "numeric", "notebooks"}


def test_importing_analytic_loads_no_heavy_library() -> None:
    code = (
        "import sys, analytic; print([m for m in ('torch', 'scipy', 'numpy') if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("room", ["analytic", "numeric", "notebooks", "bench", "tests"])
def test_modules_open_with_a_sentence(room: str) -> None:
    for path in ROOT.glob(f"{room}/**/*.py"):
        if path.name[:2].isdecimal():  # a notebook
            continue
        text = path.read_text("utf-8")
        assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


@pytest.mark.parametrize("name", THINNED)
def test_what_is_thinned_exists(name: str) -> None:
    file, _, function = name.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
