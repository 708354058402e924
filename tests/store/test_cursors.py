"""A cursor comes back as it was written, and whatever else comes is refused in words."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import InvalidError
from headway.store import cursors

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.integers(-cursors.BIGINT_MAX, cursors.BIGINT_MAX)
instants = st.datetimes(timezones=st.just(UTC))


@given(name=texts, number=numbers, at=instants)
def test_what_is_written_is_read_back(name: str, number: int, at: datetime) -> None:
    cursor = cursors.encode(name, number, at)
    assert cursors.decode(cursor, str, int, datetime) == (name, number, at)
    assert cursors.name(cursor) == name
    assert cursor.isascii()
    assert not set(cursor) & set("=/+& ?")


def test_an_instant_comes_back_in_utc() -> None:
    at = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    (read,) = cursors.decode(cursors.encode(at), datetime)
    assert read == at
    assert read.tzinfo is UTC


STRANGERS = [
    "",
    "x",
    "é",
    "=" * 10,
    "W10" * 2000,
    cursors.encode("other", 1),
    cursors.encode("a", "b"),
    cursors.encode("a", 1, 2),
    cursors.encode("a", 2**64),
    cursors.encode("a\0", 1),
    cursors.encode("\ud800", 1),
    "eyJhIjoxfQ",  # {"a":1}
    "W3siYXQiOjF9LDFd",  # [{"at":1},1]
    "W3siYXQiOiIyMDI2LTAxLTAxIn0sMV0",  # an instant without a zone
    "W3RydWUsMV0",  # [true,1]
]


@pytest.mark.parametrize("cursor", STRANGERS)
def test_a_strange_cursor_is_refused_by_the_name_of_its_field(cursor: str) -> None:
    with pytest.raises(InvalidError, match=r"^cursor: "):
        cursors.decode(cursor, str, datetime)


@given(st.text())
def test_no_text_at_all_breaks_the_reading(cursor: str) -> None:
    with pytest.raises(InvalidError):
        cursors.decode(cursor, str, datetime, int, int, int)
