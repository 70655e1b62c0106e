"""Claims about everything in the catalogue and about the moments it rests on, by subject.

A subject is the beginning of the catalogue's names, as `nngp.erf`, or `moments.` with an activation;
its claims are derived when `CLAIMS[subject]()` is called.
"""

from collections.abc import Callable, Iterator

from analytic.checks.catalogue import deep, erf3, moments, nngp, ntk, perturbation, relu, splines
from analytic.checks.claims import Claim

MODULES = (moments, nngp, ntk, deep, erf3, perturbation, splines, relu)
CLAIMS: dict[str, Callable[[], Iterator[Claim]]] = {
    subject: claims for module in MODULES for subject, claims in module.CLAIMS.items()
}
DENSE = moments.DENSE  # more of a kind: minutes of quadrature
