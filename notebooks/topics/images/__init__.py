"""Networks that classify images: volumes, classes and entropies between images, over training; evidence."""

from notebooks.topics.images.evidence import (
    SHUFFLED,
    UNTRAINED,
    WITHIN,
    AroundChange,
    Contrast,
    Contrasts,
    Elsewhere,
    FilmsElsewhere,
    LineSample,
    around_change,
    evidence_by_metric,
    outcomes,
    trained_elsewhere,
)
from notebooks.topics.images.films import NetworkFilms, PathFilm, PlaneFilm, SpectrumFilm
from notebooks.topics.images.networks import (
    CIFAR,
    DEEP_EPOCHS,
    DIGITS,
    DIGITS_RECIPE,
    EPOCHS,
    GELU,
    MNIST,
    RELU,
    accuracy,
    adam,
    cifar_or_digits,
    classified_right,
    deep_digits,
    flat_inputs,
    images_of,
    in_other_order,
    paper_resnet,
    rows_of,
    shallow,
    shallow_digits,
    trained,
)
from notebooks.topics.images.panels import (
    PAIRS,
    Between,
    between_deep,
    between_digits,
    between_features,
)
from notebooks.topics.images.self_supervision import (
    BARLOW,
    OBJECTIVES,
    SIMCLR,
    SUPERVISED,
    Representation,
    paper_self_supervised,
    self_supervised,
)
from notebooks.topics.images.spectra import (
    EMBEDDED,
    FEATURES,
    FLAT,
    HIDDEN,
    SPHERE,
    STAGES,
    TEN,
    DrawnFields,
    feature_spectrum,
    metric_spectrum,
    spectrum_at,
    volume_at,
)

__all__ = [
    "BARLOW", "CIFAR", "DEEP_EPOCHS", "DIGITS", "DIGITS_RECIPE", "EMBEDDED", "EPOCHS", "FEATURES", "FLAT",
    "GELU", "HIDDEN", "MNIST", "OBJECTIVES", "PAIRS", "RELU", "SHUFFLED", "SIMCLR", "SPHERE", "STAGES",
    "SUPERVISED", "TEN", "UNTRAINED", "WITHIN", "AroundChange", "Between", "Contrast", "Contrasts",
    "DrawnFields", "Elsewhere", "FilmsElsewhere", "LineSample", "NetworkFilms", "PathFilm", "PlaneFilm",
    "Representation", "SpectrumFilm", "accuracy", "adam", "around_change", "between_deep", "between_digits",
    "between_features", "cifar_or_digits", "classified_right", "deep_digits", "evidence_by_metric",
    "feature_spectrum",
    "flat_inputs", "images_of", "in_other_order", "metric_spectrum", "outcomes", "paper_resnet",
    "paper_self_supervised", "rows_of", "self_supervised", "shallow", "shallow_digits", "spectrum_at",
    "trained", "trained_elsewhere", "volume_at",
]  # fmt: skip
