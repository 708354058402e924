"""The page of records has every field, as the API's document describes it."""

from pathlib import Path

from headway.cli.api import describe
from headway.operations.records import RECORDS
from headway.web.record_reference import record_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "records.md"


def test_the_page_is_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == record_reference(describe()), (
        "run: headway api --records > docs/reference/records.md"
    )


def test_every_field_has_a_meaning() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(record.__dataclass_fields__) for record in RECORDS.values())
    assert all(meaning.strip() for _, _, _, meaning, _ in rows)
