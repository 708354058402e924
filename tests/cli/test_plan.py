"""`headway plan` as a merchant asks: an answer in words, or as an object; errors in one line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli import main
from headway.core.timetable.capacity import Throughput, row

Headway = Callable[..., Any]
PAGE = Path(__file__).parents[2] / "docs/how-to/plan-capacity.md"


@pytest.fixture
def say(on_database: Headway) -> Callable[..., str]:
    def run(*arguments: str, **settings: str) -> str:
        done = on_database("plan", *arguments, **settings)
        assert done.code == 0, done.err
        return str(done.out)

    return run


def test_a_person_reads_whether_it_fits_how_old_and_what_breaks(say: Callable[..., str]) -> None:
    said = say("--products", "5000")
    assert "5,000 products at 2 calls a minute: fits" in said
    assert "2,738 a day for prices, 95.1% of the limit's 2,880" in said
    assert "27,382 products read once a day" in said
    assert "For parts of which 5 % change a day, as an estimate." in said
    for policy in ("rolling", "anchored", "adaptive"):
        assert f"\n{policy} " in said
    assert "22,609" in said
    assert re.search(r"^ +10 +12,294 ", said, re.MULTILINE), "five times the limit"
    assert "more:" not in said
    assert max(map(len, said.splitlines()[5:])) < 80, "tables fit the narrowest terminal"


def test_growth_beyond_the_limit_is_said_so(say: Callable[..., str]) -> None:
    said = say("--products", "27000", "--add", "3000")
    assert "27,000 products at 2 calls a minute: fits" in said
    assert "3,000 more: does not fit; each read once within" in said
    assert "kept up" not in said


def test_one_product_is_one_product(say: Callable[..., str]) -> None:
    assert say("--products", "1").startswith("1 product at 2 calls a minute: fits")


def test_adaptive_plans_with_its_share_of_the_budget(say: Callable[..., str]) -> None:
    words = ("--products", "20000", "--json")
    plan = json.loads(say(*words, HEADWAY_BUDGET_SHARE="0.5"))
    by_name = {row["policy"]: row for row in plan["expected"]}
    assert by_name["adaptive"]["calls_per_day"] == 1440
    assert (by_name["adaptive"]["fits"], by_name["rolling"]["fits"]) == (False, True)
    assert by_name["rolling"] in json.loads(say(*words))["expected"]
    assert "fits, but not under adaptive" in say("--products", "20000", HEADWAY_BUDGET_SHARE="0.5")
    assert {"products": 14_400, "policy": "adaptive"}.items() <= plan["breaks"][1].items()


def test_what_does_not_fit_is_said_so(say: Callable[..., str]) -> None:
    said = say("--products", "28800")
    assert "28,800 products at 2 calls a minute: does not fit" in said
    assert "never caught up with" in said
    assert "past" in said


def test_adding_parts_shows_before_and_after(say: Callable[..., str]) -> None:
    said = say("--products", "5000", "--add", "1000")
    assert "1,000 more: fits; each read once within 1.1 h, the others kept up" in said
    assert "5,000 → 6,000 products" in said
    assert "18.3% → 21.9%" in said


def test_one_policy_may_be_asked_for(say: Callable[..., str]) -> None:
    said = say("--products", "5000", "--policy", "adaptive", "--add", "5")
    assert "\nadaptive " in said
    assert "\nrolling " not in said
    assert "anchored" not in said, "neither what breaks under another"


def test_json_holds_the_whole_answer(say: Callable[..., str]) -> None:
    told = json.loads(say("--products", "5000", "--add", "10", "--policy", "rolling", "--json"))
    assert told["fits"] is True
    assert told["products_max"] == 27_382
    assert [each["policy"] for each in told["expected"]] == ["rolling"]
    assert [each["policy"] for each in told["growth"]["expected"]] == ["rolling"]
    assert [each["factor"] for each in told["faster"]] == [1, 2, 5]
    assert [each["products"] for each in told["breaks"]] == [27_382]


def test_the_settings_and_the_option_decide_the_limit(say: Callable[..., str]) -> None:
    settings = {"SYNC_BOEING_RATE_LIMIT_TOKENS": "4", "SYNC_BOEING_RATE_LIMIT_REFILL": "15"}
    assert "at 4 calls a minute" in say("--products", "5", **settings)
    assert "at 8 calls a minute" in say("--products", "5", "--limit", "8", **settings)
    assert say("--products", "5", "--limit", "4") == say("--products", "5", **settings)


def test_without_a_number_the_parts_of_the_database_are_counted_once_each(
    say: Callable[..., str], execute: Callable[..., None]
) -> None:
    for seller, sku, active in (
        ("a", "X", True),
        ("b", "X", True),
        ("a", "Y", True),
        ("a", "Z", False),
    ):
        execute(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, minute_offset,"
            " next_sync_at, is_active) VALUES (%s, %s, 0, 0, now(), %s)",
            seller,
            sku,
            active,
        )
    assert "2 products at" in say()


def test_an_empty_database_says_what_to_give(on_database: Headway) -> None:
    said = on_database("plan").complaint(2)
    assert said == (
        "headway: the database lists no part; say how many there will be: --products 5000"
    )


def test_without_a_database_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert main(["plan"]) == 2
    assert "there is no database yet; say how many" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (["--products", "0"], "--products 0 is out of range; take 1 to 10,000,000"),
        (["--products", "5", "--add", "-1"], "--add -1 is out of range; take 0 to 10,000,000"),
        (["--products", "5", "--limit", "0"], "--limit 0 is out of range; take 0.1 to 1,000"),
        (["--products", "5", "--limit", "nan"], "--limit nan is out of range"),
        (["--products", "5", "--policy", "hourly"], "--policy hourly is not known; known: "),
        (["--products", "many"], "--products"),
    ),
)
def test_bad_input_is_one_line(on_database: Headway, words: list[str], said: str) -> None:
    assert said in on_database("plan", *words).complaint(2)


def test_the_table_of_the_page_is_what_the_functions_say() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 7
    for line in rows:
        cells = [cell.strip().partition(":")[0] for cell in line.strip("|").split("|")]
        found = row(int(cells[0].replace(",", "")), Throughput())
        assert cells[1] == f"{found.calls_per_day:,}"
        assert cells[2] == f"{100 * found.limit_share:.1f} %"
        assert cells[3] == f"{100 * found.permitted_share:.1f} %"
