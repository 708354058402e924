"""Search: choose the fastest way to the listings that contain a text.

A text that few listings contain is looked up by its trigrams. For a common text, listings that
begin with it come first, and the others are filtered in random order, so that every stretch
contains its share of matches. Either way a page returns what ILIKE over all rows would.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError

TEXT_MAX = 200
GRAM = 3
# How many listings are read to learn how common a piece is.
PROBE = 2000
# A piece found in one of this many listings counts as common.
COMMON = 200

PROBE_TEXT = """
SELECT lower(%(q)s::text), count(*), count(*) FILTER (WHERE strpos(search_text,
  lower(%(q)s::text)) > 0)
FROM (SELECT search_text FROM listing_search WHERE {where} ORDER BY sample_key LIMIT %(probe)s)
  AS probe
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A search text, in the database's lower case."""

    text: str
    is_common: bool

    @property
    def end(self) -> str:
        """The first text, in character order, after all texts that begin with this one."""
        return self.text[:-1] + chr(ord(self.text[-1]) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How common a text must be to be filtered for instead of looked up."""

    probe: int = PROBE
    common: int = COMMON

    def probe_text(self, connection: Connection, q: str, seller: SellerId | None) -> Piece:
        """Estimate how common a text is; raise InvalidError if it cannot be searched for."""
        if len(q) > TEXT_MAX:
            raise InvalidError(f"q: at most {TEXT_MAX} characters are searched for")
        if not q.isprintable():
            raise InvalidError("q: only printable characters are searched for")
        values: dict[str, Any] = {"q": q, "seller": seller, "probe": self.probe}
        where = "true" if seller is None else "user_id = %(seller)s"
        row = connection.execute(PROBE_TEXT.format(where=where), values).fetchone()
        assert row is not None, "a count always answers"
        text, probed, hits = row
        is_all = probed < self.probe
        # A text that is too short has no trigrams.
        is_common = hits * self.common >= probed or len(text) < GRAM
        return Piece(text=text, is_common=is_common and not is_all)
