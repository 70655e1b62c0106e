"""Claims about everything in the catalogue and about the moments it rests on."""

from analytic.claimed import moments, nngp

CLAIMS = (*moments.CLAIMS, *nngp.CLAIMS)
