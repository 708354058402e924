"""Files that a client sends in chunks, until they are imported."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from headway.store.queries import Queries

KEPT = timedelta(days=1)

STORE = """
INSERT INTO import_chunks (upload, number, content, created_at)
VALUES (%(upload)s, %(number)s, %(content)s, %(now)s)
ON CONFLICT (upload, number) DO UPDATE SET content = excluded.content,
  created_at = excluded.created_at
"""
# Chunks before the first gap.
COUNT = """
SELECT count(*) FROM (
  SELECT number, row_number() OVER (ORDER BY number) - 1 AS position
  FROM import_chunks WHERE upload = %(upload)s) AS numbered
WHERE number = position
"""
READ = "SELECT content FROM import_chunks WHERE upload = %(upload)s AND number = %(number)s"
DELETE = "DELETE FROM import_chunks WHERE upload = %(upload)s"
FORGET = "DELETE FROM import_chunks WHERE created_at < %(before)s"


class ImportChunks(Queries):
    """Table `import_chunks`."""

    def store(self, upload: str, number: int, content: bytes, *, now: datetime) -> None:
        """Store one chunk, or replace it; delete chunks of abandoned uploads."""
        values = {"upload": upload, "number": number, "content": content, "now": now}
        self._write(FORGET, {"before": now - KEPT})
        self._write(STORE, values)

    def count(self, upload: str) -> int:
        """Return how many chunks are stored, from the first to the first that is missing."""
        return int(self._one(COUNT, {"upload": upload})[0])

    def read(self, upload: str) -> Iterator[bytes]:
        """Yield the chunks in order, one at a time."""
        number = 0
        while row := self._first(READ, {"upload": upload, "number": number}):
            yield bytes(row[0])
            number += 1

    def delete(self, upload: str) -> None:
        """Delete an upload."""
        self._write(DELETE, {"upload": upload})
