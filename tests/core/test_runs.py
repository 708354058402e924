"""How large a run may be, and the command that it is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.core.runs import Run, RunKind, assert_sane, words
from headway.errors import InvalidError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "request_",
    (
        {"products": 20_000, "days": 11},
        {"products": 5000, "days": 10, "policy": "all"},
        {"products": 5000, "days": 14, "sellers": 5},
        {"lane": "account", "sellers": 500, "days": 11},
    ),
)
def test_what_would_keep_a_server_busy_for_long_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match="headway simulate"):
        assert_sane(RunKind.SIMULATE, request_)


def test_what_a_server_can_do_passes() -> None:
    assert_sane(RunKind.SIMULATE, {})
    assert_sane(RunKind.SIMULATE, {"products": 5000, "days": 14})
    assert_sane(RunKind.SIMULATE, {"lane": "account", "sellers": 200, "days": 7})
    assert_sane(RunKind.PLAN, {"products": 10_000_000})


def test_a_value_is_never_an_option() -> None:
    request = {"policy": "all", "faults": ["--json", "crash:1/h"], "days": 0.5}
    run = Run(id="1", kind=RunKind.SIMULATE, request=request, created_at=NOW)
    assert words(run) == [
        "simulate", "--policy=all", "--fault=--json", "--fault=crash:1/h", "--days=0.5",
        "--progress=json", "--server=", "--json",
    ]  # fmt: skip


@pytest.mark.parametrize(("watch", "flags"), ((True, ["--watch"]), (False, [])))
def test_a_switch_is_written_as_its_name_alone(*, watch: bool, flags: list[str]) -> None:
    run = Run(id="1", kind=RunKind.SIMULATE, request={"watch": watch}, created_at=NOW)
    assert words(run) == ["simulate", *flags, "--progress=json", "--server=", "--json"]
