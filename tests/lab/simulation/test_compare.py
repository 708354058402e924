"""`headway simulate --policy all`: side by side in one world, as a person and a pipe see it."""

import os
import pty
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
from tests.cli.conftest import PROGRAM, Headway, bare_environment

from headway.config import Settings
from headway.core.timetable.policies import POLICIES
from headway_lab.simulation.command import RunOutcome, _exit_if_broken, _run
from headway_lab.simulation.compare import best, print_compared
from headway_lab.simulation.scenario import Parts, Plan
from headway_lab.simulation.world import seeded_world

ALL = ("simulate", "--policy", "all", "--products", "40", "--days", "0.05", "--seed", "3")
ONE = ("simulate", "--policy", "rolling", "--products", "40", "--days", "0.2", "--seed", "3")


def quiet(_at_s: float) -> None:
    """Report to no one."""


def test_every_policy_has_a_line_in_the_table_and_bands_in_both_charts(
    on_database: Headway,
) -> None:
    done = on_database(*ALL)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "40 SKUs over 0.05 days, world steady, seed 3"
    assert lines[1].split()[:5] == ["policy", "calls", "fill", "fresh", "stale"]
    assert lines[1].split()[-4:] == ["p50", "p95", "worst", "laws"]
    for name in POLICIES:
        assert len([line for line in lines if line.partition(" ")[0].rstrip("*") == name]) == 3
    assert any(line.partition(" ")[0].endswith("*") for line in lines)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]
    assert "\x1b" not in done.out


def test_json_is_a_list_of_reports_and_a_picture_may_come_with_it(
    on_database: Headway, tmp_path: Path
) -> None:
    done = on_database(*ALL, "--json", "--plot", "all.svg")
    reports = done.object()
    assert (done.code, done.err) == (0, "")
    assert [report["policy"] for report in reports] == list(POLICIES)
    words = [
        element.text or ""
        for element in ET.parse(tmp_path / "all.svg").iter()
        if element.tag.endswith("text")
    ]
    assert set(POLICIES) <= {word.partition(" ")[0] for word in words}


@pytest.mark.parametrize(
    ("plot", "message"),
    (
        ("all.gif", "--plot all.gif: the file name must end in .svg"),
        ("nowhere/all.svg", "cannot write --plot nowhere/all.svg: No such file or directory"),
        (".", "--plot .: the file name must end in .svg"),
    ),
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_run(
    on_database: Headway, tmp_path: Path, plot: str, message: str
) -> None:
    done = on_database(*ALL, "--plot", plot)
    assert done.error(2) == f"headway: {message}"
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_start_leaves_no_empty_picture(
    on_database: Headway, tmp_path: Path
) -> None:
    done = on_database(*ALL, "--plot", "all.svg", "--database", "postgresql://nobody@127.0.0.1:1/x")
    assert done.code != 0
    assert not (tmp_path / "all.svg").exists()


def test_a_policy_that_breaks_a_law_is_shown_and_so_are_the_others(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def loose(settings: Settings) -> Settings:
        return settings.model_copy(update={"rate_limit": 3, "rate_gap_s": 0})

    world = seeded_world(products=300, days=0.05, seed=1)
    outcomes = [
        _run(Plan(world=world, days=0.05, policy=name), database, None, quiet, parts)
        for name, parts in (("rolling", Parts(settings=loose)), ("anchored", None))
    ]
    broken, lawful = (outcome.report for outcome in outcomes)
    broken |= {"staleness_min_per_listing_day": 0.0}
    print_compared([broken, lawful])
    with pytest.raises(typer.Exit) as caught:
        _exit_if_broken(outcomes, as_json=False)
    assert caught.value.exit_code == 1
    output = capsys.readouterr().out
    lines = {line.partition(" ")[0]: line for line in reversed(output.splitlines())}
    assert lines["rolling"].endswith(f"L1 {broken['laws']['L1']:,}x")
    assert lines["anchored*"].endswith("ok"), "the best is one that broke no law"
    assert "reproduce: headway simulate --policy rolling" in output


def test_a_reader_of_json_finds_what_broke_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = RunOutcome(report={"laws": {"L1": 1}}, broken=("L1 at day 0",))
    with pytest.raises(typer.Exit):
        _exit_if_broken([outcome], as_json=True)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "L1 at day 0\n")


def test_the_result_is_compared_with_the_baselines_of_the_world(
    on_database: Headway, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = on_database(*ALL, "--json").object()
    figures = {"staleness_min_per_listing_day": 10.0, "staleness_to_bound": 2.5}
    print_compared([report | figures | {"staleness_to_round_robin": 1.25} for report in reports])
    lines = capsys.readouterr().out.splitlines()
    assert "/bound  /robin" in lines[1]
    assert "10.0    2.50    1.25" in lines[2]
    assert max(map(len, lines)) <= 80
    print_compared([report | {"staleness_to_bound": None} for report in reports])
    assert "/bound" not in capsys.readouterr().out
    alerts = [{"name": name} for name in ("paused", "held", "held")]
    quietly, loudly = reports[:2]
    print_compared([quietly | {"alerts": []}, loudly | {"alerts": alerts}])
    _, headings, quiet, loud, *_ = capsys.readouterr().out.splitlines()
    assert headings.endswith("alerts")
    assert quiet.endswith("none")
    assert loud.endswith("paused, held 2x")


def test_the_best_are_the_least_stale_of_those_that_broke_no_law() -> None:
    figures = (("a", 1.0, 2), ("b", 3.0, 0), ("c", 3.0, 0), ("d", 4.0, 0))
    reports = [
        {"policy": name, "staleness_min_per_listing_day": stale_min, "laws": {"L3": count}}
        for name, stale_min, count in figures
    ]
    assert best(reports) == ["b", "c"]
    assert best(reports[:1]) == []


def test_a_person_sees_colors_and_which_policy_runs_of_how_many(database: str) -> None:
    """A terminal of our own stands for the person's."""
    parent, child = pty.openpty()
    environment = bare_environment(DATABASE_URL=database, TERM="xterm-256color", COLUMNS="100")
    with subprocess.Popen(
        [PROGRAM, *ALL], env=environment, stdin=child, stdout=child, stderr=child
    ) as process:
        os.close(child)
        shown = _read_all(parent)
    assert process.returncode == 0
    assert "\x1b[94m" in shown
    for number, name in enumerate(POLICIES, start=1):
        assert f"{name} ({number} of {len(POLICIES)}), 40 SKUs" in shown


def _read_all(terminal: int) -> str:
    pieces = []
    with open(terminal, "rb", buffering=0) as file:
        try:
            while piece := file.read(65_536):
                pieces.append(piece)
        except OSError:
            pass  # how Linux reports that the other end was closed
    return b"".join(pieces).decode()


def test_one_policy_is_compact_and_keeps_its_chart(on_database: Headway) -> None:
    done = on_database(*ONE)
    assert done.code == 0
    assert len(done.out.splitlines()) == 25
    assert "stale minutes per listing and day, 0 to" in done.out
    assert "price calls an hour, of 120 permitted" in done.out


def test_help_shows_a_comparison_with_a_picture(on_database: Headway) -> None:
    text = " ".join(on_database("simulate", "--help").out.split())
    assert "--policy all --products 5000 --days 14 --seed 7 --plot policies.svg" in text


def test_json_and_text_have_the_same_figures(on_database: Headway) -> None:
    report = on_database(*ONE, "--json").object()
    text = on_database(*ONE).out
    stale_min = report["staleness_min_per_listing_day"]
    assert stale_min > 0
    assert f"staleness               {stale_min:.1f} min per listing and day" in text
