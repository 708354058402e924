"""The errors that a route declares beside those of every route."""

from typing import Any

from headway.web.response_model import ProblemShape

PROBLEMS: dict[int, str] = {
    404: "No such thing, or not yours to see.",
    409: "Not as things are; the detail says why.",
    422: "Malformed; the detail names the field.",
    503: "The database is down.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the declaration of these statuses."""
    return {status: {"model": ProblemShape, "description": PROBLEMS[status]} for status in statuses}
