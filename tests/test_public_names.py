"""Do the modules of `analytic` and `numeric` say what they offer, and of what type its arguments are?"""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("analytic", "numeric")
CALLED = (  # the calls a user makes
    "expressions.formula", "activations.activation", "activations.powers", "activations.slopes",
    "activations.waves", "activations.hermite_polynomials", "catalogue", "geometry.nngp", "geometry.ntk",
    "geometry.deep", "geometry.riemann", "signal_propagation.signal", "signal_propagation.critical",
    "signal_propagation.diagram", "signal_propagation.trajectory", "signal_propagation.variance",
    "signal_propagation.correlation", "splines.initialisation", "perturbation.linear",
    "perturbation.monotone", "finite.bumps", "finite.units", "relu_dynamics.boost", "relu_dynamics.measure",
    "relu_dynamics.neuron", "relu_dynamics.regions", "relu_dynamics.velocity_field", "output_flow.classes",
    "output_flow.fields", "output_flow.inverses", "output_flow.kernels", "output_flow.rank_loss",
    "output_flow.straight_line", "equivariant.actions", "equivariant.augmentation", "equivariant.groups",
    "equivariant.network", "equivariant.sphere",
)  # fmt: skip


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def _trees() -> dict[str, ast.Module]:
    return {
        _name(path): ast.parse(path.read_text("utf-8"))
        for room in ROOMS
        for path in sorted(ROOT.glob(f"{room}/**/*.py"))
    }


def _public(tree: ast.Module) -> set[str]:
    """Functions, classes and values at the top of a module, without those that begin with an underscore."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            parts = [part for target in node.targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def _imported() -> dict[str, set[str]]:
    """What other modules import from each module."""
    trees = _trees()
    names: dict[str, set[str]] = {name: set() for name in trees}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in names:
                names[node.module] |= {alias.name for alias in node.names}
    return {
        name: {one for one in used if f"{name}.{one}" not in trees and not one.startswith("_")}
        for name, used in names.items()
    }


def _offering() -> list[str]:
    """Modules, but for those that are started or hold other modules only."""
    trees = _trees().items()
    return [name for name, tree in trees if _public(tree) and not name.endswith("__main__")]


def test_modules_list_names_that_exist_and_all_that_others_import() -> None:
    imported, missing, unlisted = _imported(), set(), set()
    for name in _offering():
        offered = import_module(name).__all__
        missing |= {(name, one) for one in offered if not _has(name, one)}
        unlisted |= {(name, one) for one in imported[name] - set(offered)}
    assert not missing
    assert not unlisted


def _has(name: str, offered: str) -> bool:
    """As an attribute, or as a module that is imported when it is asked for."""
    return hasattr(import_module(name), offered) or find_spec(f"{name}.{offered}") is not None


def _untyped(body: list[ast.stmt], inside: str = "", only: str = "") -> Iterator[str]:
    """Arguments of public functions and methods that are annotated with Any, or with what is `only` that."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _untyped(node.body, f"{inside}{node.name}.", only)
        if isinstance(node, ast.FunctionDef) and node.name.strip("_")[:1] == node.name[:1]:
            args = node.args
            for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                kind = "" if one is None or one.annotation is None else ast.unparse(one.annotation)
                if one is not None and (kind == only if only else "Any" in kind):
                    yield f"{inside}{node.name}({one.arg})"


@pytest.mark.parametrize("name", CALLED)
def test_public_arguments_have_a_type(name: str) -> None:
    text = Path(import_module(f"analytic.{name}").__file__).read_text("utf-8")
    assert not list(_untyped(ast.parse(text).body))


ANYTHING = {  # arguments that may be anything, since they are handed on as they are
    "numeric.infinite.composition.signal": {"weighted(changes)"},
    "numeric.path_kernel.kinks": {"note(func)", "note(args)", "note(kwargs)"},
    "numeric.runs.names": {"qualified_name(function)"},
}


def test_arguments_in_numeric_are_not_plainly_anything() -> None:
    untyped = {
        name: arguments
        for name in _offering()
        if name.startswith("numeric")
        and (
            arguments := {
                one.rpartition(".")[2] for one in _untyped(_trees()[name].body, only="Any")
            }
        )
    }
    assert untyped == ANYTHING
