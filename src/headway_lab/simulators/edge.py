"""What stands in front of a platform and answers in its place, such as a firewall."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway_lab.simulators.reply import Handle, SimReply, json_reply

PAGE = b"<!DOCTYPE html><html><title>Attention Required!</title><body>Blocked</body></html>"


def html_page(status: int) -> SimReply:
    """Return a page for people, as a firewall sends it."""
    return SimReply(status=status, headers={"Content-Type": "text/html"}, body=PAGE)


def json_error(status: int, message: str) -> SimReply:
    """Return an error of unknown meaning."""
    return json_reply({"error": message}, status=status)


@dataclass
class EdgeServer:
    """A simulator's `handle` behind an edge that answers `reply` while it is set.

    Only requests whose path contains `path` are affected, and none whose path contains `spares`.
    """

    handle: Handle
    reply: SimReply | None = None
    path: str = ""
    spares: str = ""
    answered: int = 0
    paths: list[str] = field(default_factory=list)

    def __call__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer as the edge does, or else as the simulator."""
        self.paths.append(path)
        is_spared = bool(self.spares) and self.spares in path
        if self.reply is None or self.path not in path or is_spared:
            return self.handle(method, path, headers, body)
        self.answered += 1
        return self.reply
