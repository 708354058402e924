"""The supplier's limit: a minute, and a day where the settings have a ceiling."""

import pytest

from headway.config import load
from headway.core.catalog.listings import LimitKey
from headway.core.timetable.capacity import Throughput
from headway.errors import ConfigError
from headway.providers.boeing.limits import supplier_resource

KEY = LimitKey("boeing:x")


def test_a_daily_ceiling_is_one_more_window_of_the_same_limit() -> None:
    (minute,) = supplier_resource(load({}), KEY).rules
    both = supplier_resource(load({"HEADWAY_BOEING_DAY_LIMIT": "500"}), KEY).rules
    assert both[0] == minute
    assert [(rule.limit, rule.span_s) for rule in both] == [(2, 60), (500, 86_400)]


def test_a_plan_keeps_the_daily_ceiling() -> None:
    assert Throughput(day_limit=500).calls_per_day == 500
    assert Throughput(day_limit=500).limit_per_day == 500
    assert Throughput(day_limit=10**6).calls_per_day == Throughput().calls_per_day


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("HEADWAY_BOEING_DAY_LIMIT", "0"),
        ("HEADWAY_BOEING_PATHS", "price=no/slash"),
        ("HEADWAY_BOEING_PATHS", "prices=/v2"),
        ("HEADWAY_BOEING_HEADERS", "part_token=two words"),
        ("HEADWAY_BOEING_FLAGS", "showLocation=perhaps"),
        ("HEADWAY_BOEING_FIELDS", "listprice=x"),
        ("HEADWAY_BOEING_FIELDS", "list_price=a b"),
        ("HEADWAY_BOEING_CURRENCY", "US$"),
        ("HEADWAY_UNITS", "HD=0"),
        ("HEADWAY_LOCATIONS", "Miami FL=A,miami  fl=B"),
    ),
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load({name: value})
