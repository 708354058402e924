"""The command plan: as text, as JSON, and its errors."""

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
def run_plan(on_database: Headway) -> Callable[..., str]:
    def run(*arguments: str, **settings: str) -> str:
        result = on_database("plan", *arguments, **settings)
        assert result.code == 0, result.err
        return str(result.out)

    return run


def test_the_plan_shows_whether_the_parts_fit_their_age_and_what_breaks(
    run_plan: Callable[..., str],
) -> None:
    output = run_plan("--products", "5000")
    assert "5,000 products at 2 calls a minute: fits" in output
    assert "2,738 a day for prices, 95.1% of the limit's 2,880" in output
    assert "27,382 products read once a day" in output
    assert "For parts of which 5 % change a day, as an estimate." in output
    for policy in ("rolling", "anchored", "adaptive"):
        assert f"\n{policy} " in output
    assert "22,609" in output
    assert re.search(r"^ +10 +12,294 ", output, re.MULTILINE), "five times the limit"
    assert "more:" not in output
    assert max(map(len, output.splitlines()[5:])) < 80, "tables fit the narrowest terminal"


def test_growth_beyond_the_limit_does_not_fit(run_plan: Callable[..., str]) -> None:
    output = run_plan("--products", "27000", "--add", "3000")
    assert "27,000 products at 2 calls a minute: fits" in output
    assert "3,000 more: does not fit; each read once within" in output
    assert "kept up" not in output


def test_one_product_is_written_in_the_singular(run_plan: Callable[..., str]) -> None:
    assert run_plan("--products", "1").startswith("1 product at 2 calls a minute: fits")


def test_adaptive_plans_with_its_share_of_the_budget(run_plan: Callable[..., str]) -> None:
    arguments = ("--products", "20000", "--json")
    plan = json.loads(run_plan(*arguments, HEADWAY_BUDGET_SHARE="0.5"))
    by_name = {row["policy"]: row for row in plan["expected"]}
    assert by_name["adaptive"]["calls_per_day"] == 1440
    assert (by_name["adaptive"]["fits"], by_name["rolling"]["fits"]) == (False, True)
    assert by_name["rolling"] in json.loads(run_plan(*arguments))["expected"]
    assert "fits, but not under adaptive" in run_plan(
        "--products", "20000", HEADWAY_BUDGET_SHARE="0.5"
    )
    assert {"products": 14_400, "policy": "adaptive"}.items() <= plan["breaks"][1].items()


def test_too_many_products_do_not_fit(run_plan: Callable[..., str]) -> None:
    output = run_plan("--products", "28800")
    assert "28,800 products at 2 calls a minute: does not fit" in output
    assert "never caught up with" in output
    assert "past" in output


def test_adding_parts_shows_before_and_after(run_plan: Callable[..., str]) -> None:
    output = run_plan("--products", "5000", "--add", "1000")
    assert "1,000 more: fits; each read once within 1.1 h, the others kept up" in output
    assert "5,000 → 6,000 products" in output
    assert "18.3% → 21.9%" in output


def test_the_plan_can_be_limited_to_one_policy(run_plan: Callable[..., str]) -> None:
    output = run_plan("--products", "5000", "--policy", "adaptive", "--add", "5")
    assert "\nadaptive " in output
    assert "\nrolling " not in output
    assert "anchored" not in output, "neither what breaks under another"


def test_json_holds_the_whole_answer(run_plan: Callable[..., str]) -> None:
    plan = json.loads(
        run_plan("--products", "5000", "--add", "10", "--policy", "rolling", "--json")
    )
    assert plan["fits"] is True
    assert plan["products_max"] == 27_382
    assert [row["policy"] for row in plan["expected"]] == ["rolling"]
    assert [row["policy"] for row in plan["growth"]["expected"]] == ["rolling"]
    assert [row["factor"] for row in plan["faster"]] == [1, 2, 5]
    assert [row["products"] for row in plan["breaks"]] == [27_382]


def test_the_settings_and_the_option_decide_the_limit(run_plan: Callable[..., str]) -> None:
    settings = {"SYNC_BOEING_RATE_LIMIT_TOKENS": "4", "SYNC_BOEING_RATE_LIMIT_REFILL": "15"}
    assert "at 4 calls a minute" in run_plan("--products", "5", **settings)
    assert "at 8 calls a minute" in run_plan("--products", "5", "--limit", "8", **settings)
    assert run_plan("--products", "5", "--limit", "4") == run_plan("--products", "5", **settings)


def test_without_a_number_the_parts_of_the_database_are_counted_once_each(
    run_plan: Callable[..., str], execute: Callable[..., None]
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
    assert "2 products at" in run_plan()


def test_an_empty_database_names_the_option_to_use(on_database: Headway) -> None:
    message = on_database("plan").error(2)
    assert message == (
        "headway: the database lists no part; say how many there will be: --products 5000"
    )


def test_without_a_database_none_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert main(["plan"]) == 2
    assert "there is no database yet; say how many" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (["--products", "0"], "--products 0 is out of range; take 1 to 10,000,000"),
        (["--products", "5", "--add", "-1"], "--add -1 is out of range; take 0 to 10,000,000"),
        (["--products", "5", "--limit", "0"], "--limit 0 is out of range; take 0.1 to 1,000"),
        (["--products", "5", "--limit", "nan"], "--limit nan is out of range"),
        (["--products", "5", "--policy", "hourly"], "--policy hourly is not known; known: "),
        (["--products", "many"], "--products"),
    ),
)
def test_invalid_input_is_refused(on_database: Headway, arguments: list[str], message: str) -> None:
    assert message in on_database("plan", *arguments).error(2)


def test_the_table_in_the_how_to_matches_the_functions() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 7
    for line in rows:
        cells = [cell.strip().partition(":")[0] for cell in line.strip("|").split("|")]
        expected = row(int(cells[0].replace(",", "")), Throughput())
        assert cells[1] == f"{expected.calls_per_day:,}"
        assert cells[2] == f"{100 * expected.limit_share:.1f} %"
        assert cells[3] == f"{100 * expected.permitted_share:.1f} %"
