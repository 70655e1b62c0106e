"""What training points did to trained networks: rebuilt outputs, attributions, kernels, retrainings."""

from notebooks.topics.path_kernel.outputs import (
    Agreement,
    Line,
    Misalignment,
    TopAttributions,
    WrongLabels,
    agreement,
    line_of,
    misalignment,
    top_attributions,
    wrong_labels,
)
from notebooks.topics.path_kernel.panels import (
    STEPS,
    TRAINED,
    WEIGHTS,
    AttributionMap,
    WeighedPoint,
    attribution_map,
    run_in_plane,
    weighed_point,
)
from notebooks.topics.path_kernel.planes import (
    SPREAD,
    KernelValues,
    PlaneMaps,
    Square,
    from_data,
    kernel_values,
    machine_maps,
    plane_maps,
    posterior_maps,
)
from notebooks.topics.path_kernel.retrainings import (
    DERIVATIVE,
    PATH,
    TRACIN,
    Retrainings,
    accounts,
    leave_one_out_by_damping,
    retrainings,
    scores_of,
)
from notebooks.topics.path_kernel.runs import (
    CENTRES,
    CLASSES,
    Data,
    convolutional,
    digits,
    drawn,
    exact,
    gaussians,
    perceptron,
    trained,
)

__all__ = [
    "CENTRES", "CLASSES", "DERIVATIVE", "PATH", "SPREAD", "STEPS", "TRACIN", "TRAINED", "WEIGHTS",
    "Agreement", "AttributionMap", "Data", "KernelValues", "Line", "Misalignment", "PlaneMaps",
    "Retrainings", "Square", "TopAttributions", "WeighedPoint", "WrongLabels", "accounts", "agreement",
    "attribution_map", "convolutional", "digits", "drawn", "exact", "from_data", "gaussians",
    "kernel_values", "leave_one_out_by_damping", "line_of", "machine_maps", "misalignment", "perceptron",
    "plane_maps", "posterior_maps", "retrainings", "run_in_plane", "scores_of", "top_attributions", "trained",
    "weighed_point", "wrong_labels",
]  # fmt: skip
