"""Marks: they come back as they were, and nothing else is taken for one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import marks
from headway.errors import InvalidError

AT = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(words, min_size=1, max_size=4))
def test_a_mark_comes_back_as_it_was_and_fits_an_address(parts: list[str]) -> None:
    mark = marks.dump(*parts)
    assert marks.load(mark, len(parts)) == parts
    assert mark.replace("-", "").replace("_", "").isalnum()


def test_an_instant_comes_back_to_the_microsecond() -> None:
    (part,) = marks.load(marks.dump(AT), 1)
    assert marks.instant(part) == AT


@given(st.text(max_size=40))
def test_a_strange_word_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="begin without one"):
        marks.load(text, 3)


def test_a_part_that_is_no_instant_or_a_mark_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidError):
        marks.instant("soon")
    with pytest.raises(InvalidError):
        marks.load(marks.dump("a", "b"), 3)
