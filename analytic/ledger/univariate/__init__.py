"""Routes for the paper on univariate ReLU networks."""
