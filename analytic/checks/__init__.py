"""What judges the results: claims with mutants, oracles that share no code with them, and the claims."""
