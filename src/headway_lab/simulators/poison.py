"""Faults tied to one row: whatever reply would show a poisoned row fails, every time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headway_lab.simulators.reply import SimReply, json_reply

Handle = Callable[[str, str, Mapping[str, str], bytes], SimReply]
OK = 200
LARGE_BYTES = 5_000_001


class PoisonForm(StrEnum):
    """How a reply that would show a poisoned row fails."""

    ERROR = "500"
    REFUSED = "400"
    HTML = "html"
    LARGE = "large"
    GRAPHQL = "graphql"
    # The reply arrives, and the row in it makes no sense.
    GARBAGE = "garbage"


REPLIES: Mapping[PoisonForm, SimReply] = {
    PoisonForm.ERROR: json_reply({"error": "Server Error"}, status=500),
    PoisonForm.REFUSED: json_reply({"error": "Bad Request"}, status=400),
    PoisonForm.HTML: SimReply(headers={"Content-Type": "text/html"}, body=b"<html>Oops</html>"),
    PoisonForm.LARGE: SimReply(body=b" " * LARGE_BYTES),
    PoisonForm.GRAPHQL: json_reply(
        {
            "data": None,
            "errors": [
                {"message": "Internal error", "extensions": {"code": "INTERNAL_SERVER_ERROR"}}
            ],
        }
    ),
}


@dataclass
class PoisonedServer:
    """A simulator's `handle` with poisoned rows, named by a text that only they contain."""

    handle: Handle
    texts: set[str] = field(default_factory=set)
    form: PoisonForm = PoisonForm.ERROR
    # Only replies to requests whose path contains this fail.
    path: str = ""
    failures: int = 0

    def __call__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer as the simulator does, unless a poisoned row would be shown."""
        reply = self.handle(method, path, headers, body)
        is_shown = any(text.encode() in reply.body for text in self.texts)
        if reply.status != OK or self.path not in path or not is_shown:
            return reply
        self.failures += 1
        return replace(REPLIES[self.form], delay_s=reply.delay_s)
