"""Routes for the paper on the exact path kernel."""
