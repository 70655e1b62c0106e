"""Who may import whom."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from density import THINNED

ROOT = Path(__file__).parents[1]
MODULES = sorted(ROOT.glob("analytic/**/*.py"))


def _modules(path: Path, for_checkers: bool = True) -> set[str]:
    """What a module imports, wherever it does; `from package import name` counts as package.name.

    Without `for_checkers`, imports under TYPE_CHECKING are left out: they are never run.
    """
    names: set[str] = set()
    tree = ast.parse(path.read_text("utf-8"))
    if not for_checkers:
        tree.body = [node for node in tree.body if not _for_checkers(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _for_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


RESULTS = (
    "signal_propagation", "finite", "perturbation", "splines", "relu_dynamics", "output_flow", "equivariant",
)  # fmt: skip
CAPABILITIES = (
    "infinite", "tangents", "path_kernel", "flows", "geometry", "geodesics", "learned", "splines",
    "relu_dynamics",
)  # fmt: skip


def _of(package: str, *rooms: str) -> tuple[str, ...]:
    return tuple(f"{package}.{room}" for room in rooms)


CORE = _of("analytic", "expressions", "activations", "geometry")
SHARED = _of("numeric", "inputs", "progress", "estimate", "data", "kernels", "models", "runs")
BELOW = {  # the rooms that each room may import beside itself
    "analytic.lazy": (),
    "analytic.expressions": (),
    "analytic.activations": _of("analytic", "lazy", "expressions"),
    "analytic.geometry": (*CORE, "analytic.lazy"),
    **dict.fromkeys(_of("analytic", *RESULTS), (*CORE, "analytic.lazy")),
    "analytic.catalogue": (*CORE, *_of("analytic", *RESULTS)),
    "analytic.checks": (*CORE, *_of("analytic", *RESULTS, "catalogue")),
    "analytic.ledger": (*CORE, *_of("analytic", *RESULTS, "catalogue", "checks")),
    "numeric.inputs": (),
    "numeric.progress": ("numeric.inputs",),
    "numeric.estimate": _of("numeric", "inputs"),
    "numeric.data": _of("numeric", "inputs", "progress"),
    "numeric.kernels": _of("numeric", "inputs", "progress", "estimate"),
    "numeric.models": _of("numeric", "inputs", "progress", "estimate", "data"),
    "numeric.runs": _of("numeric", "inputs", "progress", "estimate", "models"),
    **dict.fromkeys(_of("numeric", *CAPABILITIES), SHARED),
    "numeric.flows": (*SHARED, "numeric.tangents"),
    "numeric.geodesics": (*SHARED, "numeric.geometry"),
    "numeric.learned": (*SHARED, "numeric.infinite"),
    "numeric.path_kernel": (*SHARED, "numeric.tangents"),
    "numeric.experiments": (*SHARED, *_of("numeric", *CAPABILITIES)),
}


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("room", BELOW)
def test_rooms_stand_on_those_below(room: str) -> None:
    folder = ROOT / room.replace(".", "/")
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    package = room.partition(".")[0]
    above = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in paths
        for module in _modules(path)
        if module.startswith(f"{package}.") and _room(module) not in (room, *BELOW[room])
    }
    assert not above


def test_numeric_takes_results_and_neither_what_checks_them_nor_what_shows_them() -> None:
    judges = {"analytic.checks", "analytic.ledger"}
    above = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted(ROOT.glob("numeric/**/*.py"))
        for module in _modules(path)
        if _room(module) in judges or module.partition(".")[0] in ("notebooks", "bench", "tests")
    }
    assert not above


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_analytic_imports_neither_torch_nor_numeric(path: Path) -> None:
    packages = {module.partition(".")[0] for module in _modules(path)}
    assert not packages & {"torch", "numeric", "notebooks"}


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


LAZY = (
    "analytic", "analytic.activations", "analytic.finite", "analytic.geometry", "numeric",
    "numeric.experiments",
)  # fmt: skip


@pytest.mark.parametrize("package", LAZY)
def test_names_imported_when_asked_for_are_those_that_checkers_see(package: str) -> None:
    """Lazy packages name their contents twice: for the interpreter, and under TYPE_CHECKING."""
    module = import_module(package)
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {alias.name: node.module for node in block.body for alias in node.names}
    eager = {"Activation", "Formula", "InputError", "catalogue"} if package == "analytic" else set()
    assert set(homes) == set(module.__all__) - eager
    for name, home in homes.items():
        assert getattr(module, name) is getattr(import_module(home), name)


NOTHING_OFFERED = {"analytic.checks", "analytic.expressions"}  # rooms whose own `__all__` is empty


@pytest.mark.parametrize("package", ["analytic", "numeric"])
def test_a_package_offers_all_its_rooms(package: str) -> None:
    rooms = {f"{package}.{path.parent.name}" for path in ROOT.glob(f"{package}/*/__init__.py")}
    names = {room.rpartition(".")[2] for room in rooms - NOTHING_OFFERED}
    assert names
    assert names <= set(import_module(package).__all__)


def test_importing_analytic_is_enough_to_reach_what_its_rooms_offer() -> None:
    """In a process of its own: here a module may be an attribute since another test imported it."""
    code = """if True:
        import analytic
        rooms = [getattr(analytic, name) for name in dir(analytic)]
        print([
            f"{room.__name__}.{name}"
            for room in rooms
            for name in getattr(room, "__all__", ())
            if not hasattr(room, name)
        ])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


TOPICS = sorted(ROOT.glob("notebooks/topics/**/[a-z]*.py"))
DRAWING = [path for path in TOPICS if path.stem.endswith("_figures")]
COMPUTING = [path for path in TOPICS if path not in DRAWING]


def test_every_topic_computes_in_one_place_and_draws_in_another() -> None:
    """What computes is a module, or a package of several."""
    places = {path.relative_to(ROOT / "notebooks/topics").parts[0] for path in COMPUTING}
    names = {f"{place.removesuffix('.py')}_figures" for place in places}
    assert {path.stem for path in DRAWING} == names


@pytest.mark.parametrize("path", COMPUTING, ids=lambda path: path.stem)
def test_modules_that_compute_know_nothing_of_pictures(path: Path) -> None:
    modules = _modules(path)
    assert not {module.partition(".")[0] for module in modules} & {
        "matplotlib",
        "ipywidgets",
        "IPython",
        "PIL",
    }
    assert not [m for m in modules if "_figures" in m or m.startswith("notebooks.panels")]


@pytest.mark.parametrize("path", DRAWING, ids=lambda path: path.stem)
def test_modules_that_draw_compute_nothing(path: Path) -> None:
    """They take named arrays: no closed form, experiment or solver is at hand, and no tensor is opened."""
    packages = {module.partition(".")[0] for module in _modules(path, for_checkers=False)}
    assert not packages & {"analytic", "numeric", "scipy", "sympy", "mpmath", "torch", "sklearn"}
    tree = ast.parse(path.read_text("utf-8"))
    calls = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"numpy", "torch", "mpmath", "evaluate", "cpu", "run", "predict"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("bench/[a-z]*.py")), ids=lambda path: path.stem)
def test_benchmarks_import_what_there_is(path: Path) -> None:
    import_module(f"bench.{path.stem}")
