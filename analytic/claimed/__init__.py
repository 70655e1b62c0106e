"""Claims about everything in the catalogue and about the moments it rests on."""

from analytic.claimed import deep, moments, nngp, ntk

CLAIMS = (*moments.CLAIMS, *nngp.CLAIMS, *ntk.CLAIMS, *deep.CLAIMS)
