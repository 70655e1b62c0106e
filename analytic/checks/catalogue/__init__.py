"""Claims about every formula of the catalogue and about the Gaussian moments that they derive from.

They are grouped by subject: the beginning of a catalogue name, such as `nngp.erf`, or `moments.` and
an activation. The claims of a subject are built when `CLAIMS[subject]()` is called.
"""

from collections.abc import Callable, Iterator

from analytic.checks.catalogue import deep, erf3, moments, nngp, ntk, perturbation, relu, splines
from analytic.checks.claims import Claim

__all__ = ["CLAIMS", "DENSE"]

MODULES = (moments, nngp, ntk, deep, erf3, perturbation, splines, relu)
CLAIMS: dict[str, Callable[[], Iterator[Claim]]] = {
    subject: claims for module in MODULES for subject, claims in module.CLAIMS.items()
}
DENSE = moments.DENSE  # more claims of the same kind, which take minutes of quadrature
