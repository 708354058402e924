"""Charts: what they hold, as text that fits a terminal and as pictures that carry nothing else."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli import sparkline
from headway.errors import InvalidError
from headway_lab.charts import terminal
from headway_lab.charts.chart import Chart, ChartSeries, binned, chart_of, number, scale, ticks
from headway_lab.charts.svg import (
    RIGHT,
    TONES,
    DrawnText,
    assert_plottable,
    lay_out,
    to_svg,
    write_plot,
)

SVG = "{http://www.w3.org/2000/svg}"
POLICIES = ("rolling", "anchored", "packed", "split", "adaptive")


def report(policy: str = "rolling", days: float = 2.0, **others: Any) -> dict[str, Any]:
    hours = max(1, int(days * 24))
    return {
        "policy": policy, "products": 5000, "days": days, "seed": 7, "world": "steady",
        "calls": 20 * hours, "staleness_min_per_listing_day": 24.0, "faults_injected": {},
        "staleness_by_hour": [1.0] * hours, "calls_by_hour": [20] * hours, **others,
    }  # fmt: skip


def lines(chart: Chart, columns: int = 80, height: int = 40, **others: Any) -> list[str]:
    return [line.plain for line in terminal.render(chart, columns=columns, lines=height, **others)]


# -- what is charted -------------------------------------------------------------------------


def test_staleness_is_charted_in_the_unit_of_the_figure_beside_its_baselines() -> None:
    known = {"staleness_bound_min": 3.8, "staleness_round_robin_min": 8.9}
    staleness, calls = chart_of([report(**known)]).panels
    assert set(staleness.series[0].values) == {24.0}
    assert [(guide.name, guide.value) for guide in staleness.guides] == [
        ("bound", 3.8),
        ("round robin", 8.9),
    ]
    assert set(calls.series[0].values) == {20}
    assert [(guide.name, guide.value) for guide in calls.guides] == [("limit", 120)]


def test_a_limit_far_above_all_values_is_written_as_text() -> None:
    _staleness, calls = chart_of([report(calls_by_hour=[2] * 48)]).panels
    assert calls.guides == ()
    assert calls.title == "price calls an hour, of 120 permitted"


def test_an_incomplete_last_hour_is_added_to_the_one_before() -> None:
    run = report(days=2.5 / 24, calls_by_hour=[10, 10, 5], staleness_by_hour=[1, 1, 0.5])
    staleness, calls = chart_of([run]).panels
    assert calls.series[0].values == pytest.approx((10, 10))
    assert staleness.series[0].values == pytest.approx((24, 24))


def test_a_run_of_a_few_minutes_has_one_part() -> None:
    run = report(days=0.01, calls_by_hour=[6], staleness_by_hour=[0.12])
    assert chart_of([run]).panels[1].series[0].values == pytest.approx((25,))


@given(
    st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=60),
    st.floats(min_value=0.01, max_value=0.99),
    st.integers(min_value=1, max_value=200),
)
def test_parts_of_a_run_keep_its_mean_however_many_they_are(
    values: list[float], more: float, count: int
) -> None:
    hours = len(values) + more
    series = ChartSeries(name="", values=tuple(values), mean=0)
    mean = (sum(values) + values[-1] * more) / hours
    parts = binned(series, hours, count)
    assert len(parts) == count
    assert sum(parts) / count == pytest.approx(mean, abs=1e-6)
    assert max(parts) <= max(values) * (1 + 1e-9)


@given(st.floats(min_value=1e-6, max_value=1e6), st.integers(min_value=2, max_value=8))
def test_a_scale_holds_the_largest_value_and_little_more(most: float, marks: int) -> None:
    top, step = scale(most, marks)
    assert most * (1 - 1e-6) <= top < most + step * (1 + 1e-6)
    assert top / step <= marks + 1e-6


def test_a_scale_of_nothing_is_still_a_scale() -> None:
    assert scale(0, 4) == (1, 1)


def test_time_is_shown_in_hours_at_first_and_in_days_later() -> None:
    assert ticks(24, 5) == [(0, "0 h"), (6, "6 h"), (12, "12 h"), (18, "18 h"), (24, "24 h")]
    assert [name for _at, name in ticks(24 * 4, 15)] == [f"day {day}" for day in range(5)]
    assert [name for _at, name in ticks(24 * 14, 8)] == [f"day {day}" for day in range(0, 15, 2)]
    assert len(ticks(24 * 3650, 10)) <= 11


def test_numbers_are_short() -> None:
    assert [number(value) for value in (0, 0.25, 3.82, 120.0, 2880)] == [
        "0", "0.25", "3.8", "120", "2,880",
    ]  # fmt: skip


# -- as text ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", (60, 80, 120, 300))
@pytest.mark.parametrize("days", (0.01, 0.3, 1, 14, 365))
def test_no_line_is_wider_than_the_terminal(columns: int, days: float) -> None:
    chart = chart_of([report(policy, days) for policy in POLICIES])
    rows = lines(chart, columns)
    assert max(map(len, rows)) < columns
    assert not [line for line in rows if line != line.rstrip()]


def test_five_policies_fit_below_their_table_on_a_small_screen() -> None:
    chart = chart_of([report(policy) for policy in POLICIES])
    assert len(lines(chart, height=13)) == 13


def test_a_band_is_as_high_as_its_value_and_bands_share_a_scale() -> None:
    high = report("high", staleness_by_hour=[2.5] * 24 + [0.0] * 24)
    low = report("low", staleness_by_hour=[0.0] * 24 + [0.625] * 24)
    rows = lines(chart_of([high, low]), height=11)
    assert rows[0] == "stale minutes per listing and day, 0 to 60"
    assert rows[1].startswith("     ██████")
    assert rows[2].startswith("high ██████")
    assert rows[3] == ""
    assert rows[4].startswith("low        ")
    assert rows[1].count("█") == rows[4].count("▄") == 33


def test_any_value_above_zero_is_visible() -> None:
    rows = lines(chart_of([report(staleness_by_hour=[10.0] * 47 + [1e-5])]))
    assert rows[3].split()[0].endswith("█▁")


def test_one_policy_needs_no_name_and_few_lines() -> None:
    rows = lines(chart_of([report()]))
    assert len(rows) == 8
    assert not any("rolling" in line for line in rows)
    assert rows[-1].startswith("╵0 h")


def test_baselines_and_the_limit_are_written_as_text() -> None:
    rows = lines(chart_of([report(staleness_bound_min=3.82)]))
    assert rows[0] == "stale minutes per listing and day, 0 to 24; bound 3.8"
    assert rows[4] == "price calls an hour, 0 to 20; busiest hour 20; limit 120"


def test_a_peak_that_averages_hide_is_written_as_text() -> None:
    calls = [10] * 24 * 30
    calls[100] = 76
    rows = lines(chart_of([report(days=30, calls_by_hour=calls)]))
    assert rows[4] == "price calls an hour, 0 to 20; busiest hour 76; limit 120"


def test_a_terminal_without_block_characters_gets_ascii() -> None:
    rows = lines(chart_of([report()]), blocks=sparkline.ASCII)
    assert "\n".join(rows).isascii()
    assert "####" in rows[-2]


# -- as a picture ----------------------------------------------------------------------------


def test_the_svg_is_xml_with_a_line_for_each_policy_and_no_script_or_outside_reference() -> None:
    text = to_svg(lay_out(chart_of([report(policy) for policy in POLICIES])))
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "Staleness and calls: 5,000 SKUs over 2 days" in words
    assert "world steady, seed 7" in words
    assert [word for word in words if word.endswith(" 24.0")] == [
        f"{policy} 24.0" for policy in POLICIES
    ]
    for place in range(len(POLICIES)):
        drawn = [element for element in root.iter() if element.get("class") == f"s-series-{place}"]
        assert len(drawn) == 3, "in the legend and in both panels"
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "polyline", "text"}
    assert text.count("http") == 1, "the name of the format, which is not fetched"
    assert not [
        word for word in ("url(", "href", "import", "<script", " on") if word in text.lower()
    ]


def test_a_picture_of_one_policy_is_filled() -> None:
    root = ET.fromstring(to_svg(lay_out(chart_of([report()]))))
    assert len(list(root.iter(f"{SVG}polygon"))) == 2


@pytest.mark.parametrize(
    "odd", ('<b>&"it\'s"</b>', "]]><script>x()</script>", "a\x00\x1b[31m\ud800")
)
def test_odd_names_are_text_in_the_svg(odd: str) -> None:
    text = to_svg(lay_out(chart_of([report(odd, world=odd)])))
    root = ET.fromstring(text.encode())
    assert "<script" not in text
    shown = "".join(character if character.isprintable() else "\ufffd" for character in odd)
    assert f"world {shown}, seed 7" in [element.text for element in root.iter(f"{SVG}text")]


def test_every_shape_lies_on_the_page_and_has_a_color_in_light_and_dark_mode() -> None:
    known = {"staleness_bound_min": 0.01, "staleness_round_robin_min": 0.02}
    names = [f"a rather long name of a policy {number}" for number in range(12)]
    picture = lay_out(chart_of([report(name, 30, **known) for name in names]))
    for shape in picture.shapes:
        assert len(TONES[shape.tone]) == 2
        for x, y in (shape.at,) if isinstance(shape, DrawnText) else shape.points:
            assert 0 <= x <= picture.width
            assert 0 <= y <= picture.height
    legend = [
        shape for shape in picture.shapes if isinstance(shape, DrawnText) and "name" in shape.text
    ]
    assert len({text.at for text in legend}) == 12
    assert max(text.at[0] for text in legend) < RIGHT


def test_names_of_baselines_close_to_each_other_do_not_overlap() -> None:
    known = {"staleness_bound_min": 3.8, "staleness_round_robin_min": 3.9}
    picture = lay_out(chart_of([report(**known)]))
    names = [shape for shape in picture.shapes if isinstance(shape, DrawnText)]
    bound, robin = (
        next(text.at[1] for text in names if text.text.startswith(name))
        for name in ("bound", "round robin")
    )
    assert bound - robin >= 14


def test_a_line_has_no_more_points_than_a_screen_can_show() -> None:
    assert len(to_svg(lay_out(chart_of([report(days=3650)])))) < 60_000


@pytest.mark.parametrize("name", ("chart.gif", "chart.png", "chart", "svg"))
def test_other_kinds_of_file_are_refused(name: str) -> None:
    with pytest.raises(InvalidError, match=rf"--plot {name}: the file name must end in .svg"):
        assert_plottable(Path(name))


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "CHART.SVG"
    assert_plottable(path)
    write_plot(chart_of([report()]), path)
    assert path.read_text(encoding="utf-8").startswith("<svg ")
