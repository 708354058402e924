"""The hot statements, one `.sql` file each, in the `sql` folder of their subject.

The comment at the top of a file says what the statement guarantees and which index it uses
(`-- index: NAME, …`); a test checks the plans. Python binds values, and nothing else.

`-- extends: NAME` at the top means that the statement begins with the common table expressions of
NAME.sql, and the file holds the rest.
"""

import re
from importlib.resources import files

EXTENDS = re.compile(r"^-- extends: (\w+)$", re.MULTILINE)
COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_sql(subject: str, name: str) -> str:
    """Return the statement of a file, without its comment."""
    text = (files("headway.store") / subject / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    base = EXTENDS.search(text)
    beginning = read_sql(subject, base[1]).rpartition("\n)\nSELECT ")[0] if base else ""
    return beginning + "\n" * bool(base) + COMMENT.sub("", text)
