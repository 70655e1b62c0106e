"""Claims about everything in the catalogue and about the moments it rests on."""

from analytic.claimed import deep, erf3, moments, nngp, ntk, perturbation, relu, splines

MODULES = (moments, nngp, ntk, deep, erf3, perturbation, splines, relu)
CLAIMS = tuple(claim for module in MODULES for claim in module.CLAIMS)
