"""Tables at a terminal: whole part numbers, ids and addresses, whatever its width."""

import re
import sys
from collections.abc import Callable

import pytest

from headway.cli.output import column_widths, facts, table

PART, SHOP = "WF330523-1234567-ABCDEF=7A", "a-shop-with-a-long-name.myshopify.com"
SESSION = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
REASON = "the price moved by more than half, and a person has to look at it before it is sold"


Shown = Callable[..., list[str]]


@pytest.fixture
def shown_by(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Return what a function prints at a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(function: Callable[..., None], *arguments: object) -> list[str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        function(*arguments)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
        assert max(map(len, lines)) <= 80
        return lines

    return run


def test_sentences_are_wrapped_and_part_numbers_are_not(shown_by: Shown) -> None:
    headings = ("part", "seller", "held because", "since")
    shown = shown_by(table, headings, [(PART, "acme", REASON, "12:31 UTC")])
    assert PART in shown[1]
    assert len(shown) > 3
    words = " ".join(shown[1:]).replace(PART, "").replace("acme", "").replace("12:31 UTC", "")
    assert words.split() == REASON.split()


def test_rows_that_do_not_fit_are_printed_one_value_a_line(shown_by: Shown) -> None:
    headings = ("id", "part", "shop", "trouble")
    shown = shown_by(table, headings, [(SESSION, PART, SHOP, "none"), (SESSION, PART, SHOP, None)])
    assert [line.split() for line in shown if line.strip()] == [
        ["id", SESSION],
        ["part", PART],
        ["shop", SHOP],
        ["trouble", "none"],
        ["id", SESSION],
        ["part", PART],
        ["shop", SHOP],
    ]


def test_names_beside_values_keep_addresses_whole(shown_by: Shown) -> None:
    shown = shown_by(facts, [("shop", SHOP), ("why", f"{REASON}: {PART}")])
    assert sum(PART in line for line in shown) == 1


def test_a_table_takes_no_more_than_it_needs_and_no_more_than_there_is() -> None:
    rows = [("part", "why"), (PART, "one two three")]
    assert column_widths(rows, 80) == [len(PART), len("one two three")]
    assert column_widths([("part", "why"), (PART, REASON)], 60) == [len(PART), 60 - 2 - len(PART)]
    assert column_widths([("part", "shop"), (PART, SHOP)], 60) is None


def test_a_pipe_gets_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    table(("part", "shop", "why"), [(PART, SHOP, f"{REASON}; {REASON}")])
    assert len(capsys.readouterr().out.splitlines()) == 2
