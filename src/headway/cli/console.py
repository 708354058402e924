"""How a command that stays speaks: its console, and its log in the form that is set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from headway.config import Settings


class CommandConsole:
    """The console of a command; lines go through the log, a view of the line goes to the console.

    Lines of JSON are for a program, which has no use for the view: then there is none.
    """

    def __init__(self, settings: Settings) -> None:
        from rich.console import Console

        from headway.observe.logs import Log

        is_json = settings.log_format == "json"
        self.console = Console(force_terminal=False) if is_json else Console()
        self.log = Log(self._write, is_json=is_json, secrets=list(_secrets(settings)))

    @property
    def is_watched(self) -> bool:
        """True if the output is a terminal."""
        return self.console.is_terminal

    def say(self, text: str) -> None:
        """Write one line as it is."""
        self.log.info(text)

    def tell(self, step: str, text: str) -> None:
        """Write what a step did."""
        self.log.log_step(step, text)

    def _write(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)


def _secrets(settings: Settings) -> Iterator[str]:
    """Yield every secret of the settings, and the parts of it that are secret by themselves."""
    from pydantic import SecretStr

    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            secret = value.get_secret_value()
            yield secret
            for piece in re.split(r"[,\s]+", secret):
                yield piece
                yield from _pieces(piece, is_path_secret=name == "notify_urls")


def _pieces(address: str, *, is_path_secret: bool) -> Iterator[str]:
    """Yield the password of an address; Apprise writes tokens for user, host and path, too."""
    try:
        split = urlsplit(address)
        password, host = split.password, split.netloc.rpartition("@")[2]
    except ValueError:
        return
    if password:
        yield password
    if is_path_secret and not split.scheme.startswith(("http", "json", "form", "xml", "mail")):
        yield from (split.username or "", host, *split.path.split("/"))
    elif is_path_secret:
        yield from split.path.split("/")
