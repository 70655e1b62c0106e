"""Do the modules of `analytic` say what they offer, and of what type its arguments are?"""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = ("checks", "ledger")  # what judges results is offered to nobody else
UNLISTED = (  # a package of modules only, and a generator of code for one caller in numeric
    "analytic.expressions", "analytic.activations.gram_tiles",
)  # fmt: skip
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


def _modules() -> list[str]:
    paths = (
        path.relative_to(ROOT).with_suffix("") for path in sorted(ROOT.glob("analytic/**/*.py"))
    )
    public = (path for path in paths if path.parts[1] not in (*CHECKED, "__main__"))
    names = (".".join(path.parts).removesuffix(".__init__") for path in public)
    return [name for name in names if name not in UNLISTED]


@pytest.mark.parametrize("name", _modules())
def test_a_module_lists_names_that_exist(name: str) -> None:
    module = import_module(name)
    for offered in module.__all__:
        assert hasattr(module, offered) or import_module(f"{name}.{offered}")


def _untyped(body: list[ast.stmt], inside: str = "") -> Iterator[str]:
    """Arguments of public functions and methods that are annotated with Any."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _untyped(node.body, f"{inside}{node.name}.")
        if isinstance(node, ast.FunctionDef) and node.name.strip("_")[:1] == node.name[:1]:
            args = node.args
            for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                if one is not None and "Any" in ast.unparse(one.annotation or ast.Constant("")):
                    yield f"{inside}{node.name}({one.arg})"


@pytest.mark.parametrize("name", CALLED)
def test_public_arguments_have_a_type(name: str) -> None:
    text = Path(import_module(f"analytic.{name}").__file__).read_text("utf-8")
    assert not list(_untyped(ast.parse(text).body))
