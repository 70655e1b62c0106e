"""Routes for the curvature paper: sections II to IV, appendices A to F."""
