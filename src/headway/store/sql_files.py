"""The hot statements, one `.sql` file each, in the `sql` folder of their subject.

The comment at the top of a file says what the statement guarantees and which index it uses
(`-- index: NAME, …`); a test checks the plans. Python binds values, and nothing else.
"""

from importlib.resources import files


def read_sql(subject: str, name: str) -> str:
    """Return the statement of a file, without its comment."""
    text = (files("headway.store") / subject / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("--"))
