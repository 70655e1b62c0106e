"""torch experiments that try the closed forms of `analytic`, and fast kernels compiled from them."""
