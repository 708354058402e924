"""Tables that a seller writes: locations, and markups of groups of parts."""

from decimal import Decimal

import pytest

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.listings import Sku
from headway.core.catalog.term_tables import read_locations, read_markups, write_table
from headway.core.catalog.terms import check_terms
from headway.errors import InvalidError

MARKUPS = "WF338109=K3=30%, wf*=12%, *=K9=0.05, family:Hardware Co=-0.02"


@pytest.mark.parametrize(
    ("sku", "family", "markup"),
    (
        ("WF338109=K3", None, "0.3"),
        ("WF1=K9", None, "0.12"),
        ("AN1=K9", "Hardware Co", "0.05"),
        ("AN1", "hardware co", "-0.02"),
        ("AN1", "Hardware", "0.10"),
        ("AN1", None, "0.10"),
    ),
)
def test_the_first_group_that_covers_a_part_sets_its_markup(
    sku: str, family: str | None, markup: str
) -> None:
    terms = Terms(locations={}, currency="USD", markups=read_markups(MARKUPS))
    assert terms.of_part(Sku(sku), family).markup == Decimal(markup)


def test_a_map_of_locations_is_read_and_written() -> None:
    text = "Dallas Central=Main Street 5, Chicago IL=Main Street 5"
    assert write_table(read_locations(text)) == text


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    (
        ("markups", "WF*", "must be written as"),
        ("markups", "WF*=much", "'much' is no share"),
        ("markups", "WF*=-100%", "above -100%"),
        ("markups", "WF*=NaN", "above -100%"),
        ("markups", "A=1%, A=2%", "names something twice"),
        ("locations", "", "must name a location"),
        ("locations", "Dallas=", "must be written as"),
        ("locations", "Dallas=A, dallas =B", "differ only in case"),
        ("currency", "eur", "three capital letters"),
    ),
)
def test_a_table_that_makes_no_sense_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidError, match=f"{name} .*{reason}"):
        check_terms({name: text})
