"""Is every public call of `numeric` tried on a device, and every tensor made on a device that is named?

What is not tried stands in `UNTRIED`, and what makes tensors of the host in `ON_HOST`, by why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

import numeric

ROOM, TESTS = Path(numeric.__file__).parent, Path(__file__).parent
PUBLIC = sorted(path for path in ROOM.rglob("__init__.py") if "__all__" in path.read_text("utf-8"))
UNTRIED = {  # public names by why no test of devices calls them, with the room where others have the name
    "returned by calls that are tried, or raised by them": """
        Approach Approaches Coefficient Coefficients Collapse Comparison Conformal Curve Divergence
        Errors EstimatedFields EulerFlow EvaluatedMap Event FewEffectiveDraws Fields FollowedPath Geodesic
        GeometryMap
        Gradients HiddenLayer Interpolation Jet KernelMachine KinkEvent EventKind LogVolume LogVolumeEstimate
        Mean MetricSpectrum NotConverged ParallelNetworks PointwiseGaussian RandomFeatureNetwork
        RankEvent Ray Record Ricci Run SingularGram SlidingFlow SphericalProblem SupportVectorMachine
        Suspects Top Trajectory Variation Volume Weighted flows.Descent flows.Flow
    """,
    "types, and the parts that tried calls are made of or take unless told otherwise": """
        InputError NTK RandomInitial Batch Copy Differentiation Independent Kernel Meter ModelLike
        Recorder Stratified Task Recipe TrainedLayers Zones cross_entropies differentiation gaussian_fisher
        half_mean_squared_error Disc Evidence Laplace Expansion Mehler expand pairs
        resnet18 resnet20 resnet32 resnet34 resnet44 resnet50 resnet56 resnet101
    """,
    "tables of the host: groups, data sets, files, statistics of results": """
        Solution Group RotoTranslations dihedral from_generators p4m product semidirect symmetric wigner
        Molecule molecule_signals read_qm9 CIFAR10 FASHION_MNIST MNIST Download ImageData Normalisation Split
        cifar10 digits histology idx image_folder load Weights Bias shuffled sinusoid record_size
    """,
    "a cost, tried with another one": "softmax_fisher",
}
ON_HOST = {  # functions whose tensors are numbers of the host, by why they are
    "data sets as they are read, moved by whoever uses them": {
        "data/digits.py": "_all",
        "data/images.py": "ImageData.split Normalisation.of _as_pixels",
    },
    "problems, draws and tables of an experiment": {
        "experiments/bayes/dataset.py": (
            "Problem._by_rule Problem.gamma Problem.metric Problem.one_example Problem.sampled"
        ),
        "experiments/class_changes.py": "Evidence.weights _rows_classified_right",
        "experiments/decision_boundaries/tasks.py": "Task.of shuffled sinusoid.sample xor",
        "experiments/deep_width/bias.py": (
            "module Bias._errors Bias._n Bias._weighed Bias.misfit Bias.slope"
        ),
        "experiments/images/command.py": "Settings.run _pairs",
        "experiments/images/interpolation.py": "Hull.of module",
        "experiments/images/network_fields.py": "_Work.rows _sums_of_features",
        "experiments/knots.py": "probability_near",
        "experiments/width.py": "WidthSweep WidthSweep.__post_init__",
    },
    "random directions, the same for all devices, moved to where points are": {
        "geometry/volume_estimate.py": "estimate_each",
    },
    "indices": {
        "geometry/gauss_equation.py": "pairs",
    },
    "tables of groups, moved to where signals are": {
        "infinite/groups/action.py": "Action.__post_init__ Action.moves",
        "infinite/groups/constructions.py": (
            "_of_permutations _quarter_turns cyclic dihedral from_generators semidirect"
        ),
        "infinite/groups/group.py": "Group.__post_init__ Group.products",
        "infinite/groups/laws.py": "_elements",
        "infinite/groups/pixels.py": "RotoTranslations.sources",
    },
    "nodes, weights and molecules, moved to where signals are": {
        "infinite/spheres/charges.py": "charges_on_a_sphere",
        "infinite/spheres/harmonics.py": "SphereGrid._rings uniform_angles",
        "infinite/spheres/molecules.py": (
            "Molecule.__post_init__ Molecule.distances _coefficients _degrees molecule_signals"
        ),
        "infinite/spheres/rotations.py": (
            "Rotations._tensor Rotations.random _matrices _tables _tilts coefficient_pairs"
        ),
        "infinite/spheres/wigner.py": "_tilt",
    },
    "numbers that were given as lists, and memory that holds none": {
        "inputs.py": "as_numbers",
        "models/memory.py": "keep_memory",
        "path_kernel/record.py": "_tensor",
        "splines/natural.py": "natural",
    },
    "what scikit-learn found, moved to where its inputs are": {
        "learned/amari_wu.py": "AmariWuClassifier.decision_function AmariWuClassifier.predict",
        "learned/two_views.py": "linear_probe",
    },
    "what SciPy integrated, times, and events": {
        "relu_dynamics/descent.py": "Descent.run",
        "relu_dynamics/mean_field.py": "MeanField.__post_init__",
        "relu_dynamics/readout.py": "Readout.times",
        "relu_dynamics/record.py": "follow",
        "relu_dynamics/sliding/integrator.py": "_fields",
        "relu_dynamics/sliding/solution.py": (
            "Solution.at Solution.events Solution.path Solution.residuals Solution.sliding "
            "Solution.times"
        ),
        "relu_dynamics/sliding/tables.py": "Tables.locate Tables.of",
    },
    "order of examples and losses of steps": {
        "runs/training.py": (
            "TrainingState.__init__ TrainingState._batch TrainingState.run TrainingState.save "
            "_require_number"
        ),
    },
}
FACTORIES = {
    "arange", "as_tensor", "empty", "eye", "from_numpy", "full", "linspace", "logspace", "ones", "rand",
    "randint", "randn", "randperm", "tensor", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip


def _used_in_tests_of_devices() -> set[int]:
    """Objects of `numeric`, by their identity, that these tests name: x.mean() is not geodesics.mean."""
    paths = (*TESTS.glob("test_devices*.py"), *TESTS.glob("test_*_devices.py"))
    return set().union(
        *(_used(path.read_text("utf-8")) for path in paths if path != Path(__file__))
    )


def _used(text: str) -> set[int]:
    """Objects that names and dotted names in a module's text stand for, by its imports from `numeric`."""
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: _member(node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numeric"
        for alias in node.names
    }

    def value(node: ast.AST) -> object:
        match node:
            case ast.Name(id=name):
                return imported.get(name)
            case ast.Attribute(value=base, attr=name):
                return getattr(value(base), name, None)
        return None

    return {id(found) for node in ast.walk(tree) if (found := value(node)) is not None}


def _member(package: str, name: str) -> object:
    """What `from package import name` binds: an attribute, or a module."""
    module = import_module(package)
    return getattr(module, name) if hasattr(module, name) else import_module(f"{package}.{name}")


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.parent.name)
def test_public_names_are_tried_on_a_device_or_said_not_to_be(path: Path) -> None:
    """A new public call without a test of devices is a defect that only an accelerator would show."""
    module = import_module(".".join(path.parent.relative_to(ROOM.parent).parts))
    said = set(" ".join(UNTRIED.values()).split())
    used = _used_in_tests_of_devices()
    calls = {name: getattr(module, name) for name in {*module.__all__} - said}
    untried = {name for name, call in calls.items() if callable(call) and id(call) not in used}
    assert not {f"{path.parent.name}.{name}" for name in untried} - said


def test_a_method_of_the_same_name_is_not_a_use() -> None:
    imports = "from numeric import geodesics\nfrom numeric.flows import follow as along\n"
    for text, uses in {
        "x.mean()": False,
        "mean(x)": False,
        "geodesics.mean(model, x)": True,
        "[geodesics.mean]": True,
    }.items():
        assert (id(numeric.geodesics.mean) in _used(imports + text)) == uses
    assert id(numeric.flows.follow) in _used(imports + "along(model)")


def test_what_is_said_to_be_untried_is_public() -> None:
    modules = (".".join(path.parent.relative_to(ROOM.parent).parts) for path in PUBLIC)
    names = {name.rpartition(".")[2]: import_module(name).__all__ for name in modules}
    public = {f"{room}.{name}" for room, parts in names.items() for name in parts}
    public |= set(chain.from_iterable(names.values()))
    said = " ".join(UNTRIED.values()).split()
    assert len(said) == len(set(said))
    unknown = set(said) - public
    assert not unknown


def test_tensors_are_made_on_a_device_that_is_named() -> None:
    """Or moved there at once, by `.to`: branches too that no call takes. Exempt are functions, not files."""
    exempt = {
        (path, function)
        for places in ON_HOST.values()
        for path, functions in places.items()
        for function in functions.split()
    }
    astray = {
        (str(path.relative_to(ROOM)), function)
        for path in ROOM.rglob("*.py")
        for function in _without_device(ast.parse(path.read_text("utf-8")))
    }
    unnamed, no_longer_exempt = astray - exempt, exempt - astray
    assert not unnamed
    assert not no_longer_exempt


def _without_device(tree: ast.AST, inside: str = "", moved: bool = False) -> Iterator[str]:
    """Functions with calls of factories without `device`, in trees that are not moved as a whole."""
    if isinstance(tree, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{tree.name}".strip(".")
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        moved = moved or tree.func.attr == "to"
    match tree:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), keywords=words):
            named = {word.arg for word in words} & {"device", None}  # None is of **kind
            if name in FACTORIES and not named and not moved:
                yield inside or "module"
    for part in ast.iter_child_nodes(tree):
        yield from _without_device(part, inside, moved)
