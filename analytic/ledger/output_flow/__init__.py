"""Routes for the paper on flows in output space."""
