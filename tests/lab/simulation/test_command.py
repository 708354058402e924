"""`headway simulate` as a user types it: keys, exit codes, one-line errors."""

import json
from pathlib import Path

import pytest
import typer
from psycopg_pool import ConnectionPool
from typer.testing import CliRunner

from headway.cli import build, main
from headway.config import Settings
from headway.core.timetable.policies import POLICIES
from headway_lab.simulation import throwaway_database
from headway_lab.simulation.command import _exit_if_broken, _run
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.results import alert_facts, print_alerts, print_one
from headway_lab.simulation.scenario import Parts, Plan
from headway_lab.simulation.world import seeded_world

KEYS = {
    "lane", "policy", "products", "days", "seed", "world", "calls", "seats_used", "seats_paid",
    "fill", "max_calls_in_window", "refusals", "laws", "freshness", "staleness_min_per_listing_day",
    "detection_p50_min", "detection_p95_min", "worst_age_h", "changes", "pushed", "held",
    "superseded", "lost", "double_writes", "parked", "scheduled_per_hour", "retries_per_window",
    "rescued", "real_seconds",
}  # fmt: skip
OURS = {
    "alerts", "auth_calls", "calls_by_hour", "culprits", "eta_within_headway", "faults_injected",
    "laws_not_in_play", "permitted_seats_per_min",
    "push_p50_s", "push_p95_s", "shop_calls", "shop_points", "shop_refusals",
    "simulated_seconds_per_real_second", "staleness_bound_min", "staleness_by_hour",
    "staleness_round_robin_min", "staleness_to_bound", "staleness_to_round_robin",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _on_the_tests_own_server(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate on a throw-away database of the tests' own server, which is up already."""
    monkeypatch.setenv("DATABASE_URL", database)


def simulated_databases(pool: ConnectionPool) -> int:
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT count(*) FROM pg_database WHERE datname LIKE 'headway\\_sim\\_%'"
        ).fetchone()
    assert rows is not None
    return int(rows[0])


def test_json_holds_the_keys_of_the_design_and_nothing_is_left_behind(
    capsys: pytest.CaptureFixture[str], pool: ConnectionPool, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    words = ["--products", "40", "--days", "0.1", "--seed", "3", "--trace", str(trace), "--json"]
    assert main(["simulate", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == KEYS | OURS
    assert (report["lane"], report["products"], report["seed"]) == ("catalog", 40, 3)
    assert len(report["scheduled_per_hour"]) == 24
    assert report["laws_not_in_play"] == ["L4", "L11", "L12", "L16"]
    assert trace.read_text().startswith("t_min,call,sku,ok")
    assert simulated_databases(pool) == 0


def test_a_person_reads_figures_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--products", "20", "--days", "0.05"]) == 0
    output = capsys.readouterr().out
    assert f"20 SKUs under {Settings().policy}" in output
    assert "seen to shown" in output
    assert "0 double writes" in output
    assert "not in play" in output


def test_json_lists_which_alerts_fired_and_when(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--products", "20", "--days", "0.06", "--fault", "pause:20m@00:30", "--watch"]
    assert main(["simulate", *words, "--json"]) == 0
    (alert,) = json.loads(capsys.readouterr().out)["alerts"]
    assert (alert["name"], alert["subject"], alert["severity"]) == ("paused", "all", "warning")
    assert 30 <= alert["fired_at_min"] < 35
    assert 50 <= alert["resolved_at_min"] < 55
    assert alert["worse_at_min"] is None


def test_a_person_reads_which_alerts_fired_and_when(capsys: pytest.CaptureFixture[str]) -> None:
    alert = {"name": "paused", "subject": "all", "severity": "warning", "worse_at_min": None}
    times = {"fired_at_min": 1471.0, "resolved_at_min": None}
    print_alerts({"alerts": [alert | times]})
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["alert", "of", "severity", "fired", "over"]
    assert line.split() == ["paused", "all", "warning", "1d00:31"]
    print_alerts({"alerts": []})
    print_alerts({"alerts": None})
    assert capsys.readouterr().out == ""
    assert alert_facts({"alerts": None}) == []
    assert alert_facts({"alerts": []}) == [("alerts", "none")]


def test_all_policies_come_as_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["simulate", "--policy", "all", "--products", "10", "--days", "0.02", "--json"]) == 0
    )
    reports = json.loads(capsys.readouterr().out)
    assert [report["policy"] for report in reports] == list(POLICIES)


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (["--fault", "flood:5%"], "known: outage:6h@10:00"),
        (["--policy", "hourly"], f"known: {', '.join(POLICIES)}, all"),
        (["--products", "5", "--fault", "poison:6"], "6 SKUs are to suffer but there are 5"),
        (["--world", "flat"], "--world flat is not known; known: steady, bursty"),
        (["--world", "bursty", "--changes", "x.csv"], "--changes is a world of its own"),
        (["--changes", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--trace", "/nowhere/trace.csv"], "cannot write --trace /nowhere/trace.csv"),
        (["--trace", "t.csv", "--policy", "all"], "--trace holds one run; choose one --policy"),
        (["--products", "0"], "--products 0 is out of range; take 1 to 1,000,000"),
        (["--workers", "0"], "--workers 0 is out of range; take 1 to 64"),
        (["--days", "nan"], "--days nan is out of range"),
        (["--database", "postgresql://nobody@127.0.0.1:1/none"], "127.0.0.1:1/none"),
    ),
)
def test_bad_input_is_one_line_and_nothing_runs(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], pool: ConnectionPool
) -> None:
    assert main(["simulate", *words]) in {2, 3}
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert simulated_databases(pool) == 0


def test_a_bad_row_names_file_line_and_field_and_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("t_min,sku,price,quantity\n0,A,1,1\n5,A,x,1\n", encoding="utf-8")
    assert main(["simulate", "--changes", str(path)]) == 2
    assert f"{path}, line 3, field price: 'x' is not a number" in capsys.readouterr().err


def test_a_broken_law_exits_with_1_and_says_how_to_reproduce_it(
    capsys: pytest.CaptureFixture[str], database: str
) -> None:
    def loose(settings: Settings) -> Settings:
        return settings.model_copy(update={"rate_limit": 3, "rate_gap_s": 0})

    faults = parse_faults(["outage:5h@01:00"])
    world = seeded_world(products=200, days=0.3, seed=1)
    plan = Plan(world=world, days=0.3, faults=faults)
    outcome = _run(plan, database, None, lambda _at_s: None, Parts(settings=loose))
    print_one(outcome.report)
    with pytest.raises(typer.Exit) as caught:
        _exit_if_broken([outcome], as_json=False)
    assert caught.value.exit_code == 1
    output = capsys.readouterr().out
    assert "L1   limit  broken" in output
    assert "L1 at day 0" in output
    assert (
        "reproduce: headway simulate --policy rolling --world steady --products 200 --days 0.3"
        " --seed 1 --workers 2 --sellers 1 --fault outage:5h@01:00"
    ) in output


def test_the_help_shows_examples() -> None:
    result = CliRunner().invoke(build(["simulate"]), ["simulate", "--help"])
    assert result.exit_code == 0
    assert "headway simulate --policy rolling --products 5000" in result.output


def test_a_run_leaves_no_folder_and_removes_those_of_killed_runs(database: str) -> None:
    dead = throwaway_database._memory() / f"{throwaway_database.PREFIX}999999999-x"
    dead.mkdir()
    with throwaway_database.open_throwaway_database(database) as opened:
        assert opened.data_dir.exists()
        assert not dead.exists()
    assert not opened.data_dir.exists()
