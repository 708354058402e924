"""How long to pause, so that error replies stay a small share of all replies.

A platform that counts errors requires less than 5 % and names no period; Headway uses a day. All
statuses from 400 on count, including 429. The remaining errors are spread over the time ahead: the
fewer are left, the longer is each pause. Once none is left, one call an hour checks whether errors
persist.
"""

from datetime import timedelta

SPAN = timedelta(hours=24)
LIMIT_PERCENT, BRAKE_PERCENT = 5, 4
# Fewer calls are too small a sample: the first of them may well be an error.
CALLS_MIN = 20
# Fewer than this are judged as if they were so many: one error among twenty calls says little, and
# an account that makes fewer calls a day seldom calls anyway.
SAMPLE_CALLS = 100
PAUSE_MAX_S = 3600.0


def pause_for(errors: int, calls: int) -> float | None:
    """Return for how many seconds to make no call, given the counts of a span; None for none."""
    assert 0 <= errors <= calls, f"{errors} of {calls} replies"
    if calls < CALLS_MIN or errors * 100 < BRAKE_PERCENT * max(calls, SAMPLE_CALLS):
        return None
    return PAUSE_MAX_S / (1 + errors_left(errors, calls))


def errors_left(errors: int, calls: int) -> int:
    """Return how many calls in a row may end in an error before the share reaches the limit."""
    calls = max(calls, SAMPLE_CALLS)
    return max(0, (LIMIT_PERCENT * calls - 100 * errors - 1) // (100 - LIMIT_PERCENT))
