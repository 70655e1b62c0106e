"""Routes for the slides on equivariant tangent kernels."""
