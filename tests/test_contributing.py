"""The examples of CONTRIBUTING.md work: operation and command, policy, alert, setting."""

import inspect
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
import typer
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.core.timetable.replay import MIDNIGHT, listing, next_due
from tests.operations.sample import create_sample
from typer.testing import CliRunner

from headway import config
from headway.core.catalog.listings import SellerId
from headway.core.limits.breaker import Breaker
from headway.core.monitoring.alerts import AlertRule
from headway.core.monitoring.metrics import AlertMetrics, ConnectionMetric
from headway.providers.provider import ProviderRole
from headway.providers.registry import BUILT_IN
from headway.web.routes import _endpoint
from headway_lab.virtual_clock import VirtualClock

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ACME, ZEN = SellerId("acme"), SellerId("zen")


@pytest.fixture
def example() -> Iterator[ModuleType]:
    """Return a module to run examples in; dataclasses look their module up."""
    module = ModuleType("contributing_example")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def run(title: str, module: ModuleType) -> None:
    """Run the Python examples of one section, in order."""
    section = re.split(r"^### ", PAGE.partition(f"### {title}\n")[2], flags=re.MULTILINE)[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert blocks, f"the section {title} has no example"
    for block in blocks:
        exec(compile(block, title, "exec"), vars(module))


def test_the_operation_is_called_routed_and_described(
    example: ModuleType, pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    run("An API operation with its command", example)
    sample = create_sample(pool, clock, tmp_path)
    sample.add(ACME, "NEW-1", "NEW-2")
    before = example.total(sample.operator).total
    sample.add(ZEN, "NEW-2", "NEW-3")
    assert example.total(sample.operator).total == before + 1
    site = FastAPI()
    description = inspect.getdoc(example.total.function)
    endpoint = _endpoint(example.total)
    site.add_api_route(example.total.path, endpoint, methods=["GET"], description=description)
    (described,) = site.openapi()["paths"]["/api/sync/total"].values()
    assert described["description"].startswith("Count the part numbers")


def test_the_command_has_the_usual_options(example: ModuleType) -> None:
    run("An API operation with its command", example)
    app = typer.Typer()
    app.command("count")(example.count)
    output = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    assert "--server" in output
    assert "--json" in output


def test_the_policy_reads_twice_a_day(example: ModuleType) -> None:
    run("A policy", example)
    policy = example.POLICY
    row = listing("P1", policy)
    assert next_due(policy, row, MIDNIGHT) == MIDNIGHT + timedelta(hours=12)


def test_the_alert_fires_beyond_its_threshold(example: ModuleType) -> None:
    run("An alert", example)
    rule = example.many_disconnected
    assert isinstance(rule, AlertRule)
    now = datetime(2026, 3, 4, tzinfo=UTC)
    lost = tuple(
        ConnectionMetric(seller=ACME, name=f"shop {number}", is_connected=False)
        for number in range(11)
    )
    metrics = AlertMetrics(now=now, breaker=Breaker(), connections=lost)
    assert [alert.count for alert in rule.alerts(metrics, rule.threshold)] == [11]
    assert list(rule.alerts(metrics, 11)) == []


def test_the_setting_is_read_from_the_environment_and_has_bounds(example: ModuleType) -> None:
    vars(example).update(Settings=config.Settings, _setting=config._setting)
    run("A setting", example)
    assert example.MoreSettings().export_rows_max == 1000
    assert example.MoreSettings(HEADWAY_EXPORT_ROWS_MAX=5).export_rows_max == 5
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        example.MoreSettings(HEADWAY_EXPORT_ROWS_MAX=0)


def test_the_platform_is_a_record_that_the_product_understands(example: ModuleType) -> None:
    vars(example).update(AcmePlatform=object, paginator_of=lambda kind, **_: kind)
    run("A platform", example)
    role = example.ACME.platform
    assert example.ACME.roles == (ProviderRole.PLATFORM,)
    assert role.shop_name(" mugs ") == "mugs"
    assert role.token_key(None, "mugs") == "acme:mugs"
    assert role.tokens.refresh_required


def test_every_provider_has_its_folder_with_its_record() -> None:
    for name in BUILT_IN:
        assert (ROOT / "src/headway/providers" / name / "provider.py").is_file()
