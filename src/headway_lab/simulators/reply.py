"""Replies of simulators, in the form that both transports understand."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

ReplyOutcome = Literal["answer", "hang", "drop", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimReply:
    """A reply, when it comes, and whether it comes at all.

    hang: silence. drop: the connection breaks. refuse: no connection was made, nothing counted.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    outcome: ReplyOutcome = "answer"


# Method, path with its query, headers, body.
Handle = Callable[[str, str, Mapping[str, str], bytes], SimReply]


def json_reply(
    body: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> SimReply:
    """Make a JSON answer."""
    return SimReply(
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
        body=json.dumps(body, separators=(",", ":")).encode(),
    )
