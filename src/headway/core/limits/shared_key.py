"""Signs that something else uses the same credential, and how much of the limit to leave to it.

A supplier refuses calls (429) beyond its limit. Headway keeps the limit (law L1), so a refusal that
no part explains means that another program or another deployment of Headway uses the credential,
or that the limit is lower than the settings say. Which of the three cannot be seen from outside.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

# Each refusal halves the share. Two deployments then fit into a limit of two calls a minute.
HALVINGS_MAX = 3
# Refusals within so long are one sign: those that came before Headway slowed down.
ONE_SIGN = timedelta(minutes=30)
# After so long without a refusal the share doubles again: about four refusals a day are the price
# of noticing that the other program has ended.
CALM = timedelta(hours=6)
# No sign is older than the longest memory of a halving.
REMEMBERED = HALVINGS_MAX * CALM + CALM


def learned_share(refused_at: Sequence[datetime], now: datetime) -> float:
    """Return the share of the limit to spend, from the instants of unexplained refusals."""
    halvings, since = 0, now - REMEMBERED
    for at in sorted(at for at in refused_at if since < at <= now):
        if halvings and at - since < ONE_SIGN:
            continue
        halvings = min(HALVINGS_MAX, max(0, halvings - (at - since) // CALM) + 1)
        since = at
    return 2.0 ** -max(0, halvings - (now - since) // CALM)
