"""The pseudoinverse: (A.5) to (A.16) and lemma A.2."""

from __future__ import annotations

from analytic.ledger.output_flow.instances import (
    ITSELF,
    identity,
    kernel_projector,
    one,
    onto,
    plus,
)
from analytic.ledger.verification import Verification, holds
from analytic.output_flow import pseudoinverse as pinv
from analytic.output_flow import range_projector as P

__all__ = ["ROUTES"]

_twice = identity("(A^+)^+", lambda k, A: pinv(pinv(A)), lambda k, A: A, route=ITSELF)
_transposed = identity("(A^+)^T", lambda k, A: pinv(A).T, lambda k, A: plus(A.T))
_of_square = identity("A^+ (A^T)^+", lambda k, A: pinv(A) * pinv(A.T), lambda k, A: plus(A.T * A))
_left = identity("A A^+", lambda k, A: A * pinv(A), lambda k, A: onto(A))
_right = identity("A^+ A", lambda k, A: pinv(A) * A, lambda k, A: onto(A.T))
_range = identity("projector onto ran A^+", lambda k, A: P(pinv(A)), lambda k, A: onto(A.T))
_kernel = identity(
    "projector onto ker A^+",
    lambda k, A: kernel_projector(pinv(A)),
    lambda k, A: one(A.rows) - onto(A),
)
_first = identity("A A^T (A^T)^+", lambda k, A: A * A.T * pinv(A.T), lambda k, A: A, route=ITSELF)
_second = identity("(A^T)^+ A^T A", lambda k, A: pinv(A.T) * A.T * A, lambda k, A: A, route=ITSELF)
_nullspace = identity(
    "projector onto ker A^T A",
    lambda k, A: kernel_projector(A.T * A),
    lambda k, A: one(A.cols) - plus(A) * A,
)
_expanded = identity(
    "A^T A A^+ A", lambda k, A: A.T * A * pinv(A) * A, lambda k, A: A.T * A, route=ITSELF
)
_reduced = identity(
    "A^+ (A^T)^+ A^T A", lambda k, A: pinv(A) * pinv(A.T) * A.T * A, lambda k, A: plus(A) * A
)

ROUTES: dict[str, Verification] = {
    "output-space-flow/A.5": holds(_twice),
    "output-space-flow/A.6": holds(_transposed),
    "output-space-flow/A.7": holds(_of_square),
    "output-space-flow/A.8": holds(_left),
    "output-space-flow/A.9": holds(_right),
    "output-space-flow/A.10": holds(_range),
    "output-space-flow/A.11": holds(_kernel),
    "output-space-flow/A.12": holds(_first, _second),
    "output-space-flow/lemma-A.2": holds(_nullspace),
    "output-space-flow/A.13": holds(_expanded),
    "output-space-flow/A.14": holds(_expanded),
    "output-space-flow/A.15": holds(_reduced),
    "output-space-flow/A.16": holds(_reduced),
}
