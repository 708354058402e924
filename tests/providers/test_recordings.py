"""Recordings: whatever comes in, no secret and no buyer is in a line, and it is read the same."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import Settings, load
from headway.core.accounts.pagination import PageRequest
from headway.errors import HeadwayError, InvalidError
from headway.providers.recordings import (
    RawReply,
    RecordedReply,
    RecordingRule,
    read_line,
    strip_replies,
)
from headway.providers.registry import BUILT_IN
from headway.providers.replay import answer_of, replay
from headway.providers.stand_ins import StandIns, StripRule, dump_json, parse_json
from headway_lab.conformance.shape import shape

RECORDINGS = Path(__file__).parents[1] / "contracts/recordings"
REPLIES = [
    read_line(line)
    for file in sorted(RECORDINGS.glob("*.jsonl"))
    for line in file.read_bytes().splitlines()
]
NOW = datetime(2026, 11, 2, tzinfo=UTC)
# What must not occur, and the parts of it by which it would be recognized.
PLANTS = {
    "Xanthippe Quillfeather": ("xanthippe", "quillfeather"),
    "Zoë Ångströmsdóttir": ("zoë", "ångströmsdóttir"),
    "x.quillfeather@mailhost.example": ("quillfeather", "mailhost"),
    "O&#39;Quillfeather": ("quillfeather",),
    "+49 170 5550147": ("5550147",),
    "4012-8888-8888-1881": ("8888-8888",),
    "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": ("9f8e7d6c5b4a",),
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiI3MyJ9.c2ln": ("eyjhbgcioijsuzi1nij9",),
    "17 Brackenthwaite Gardens, NR3 2QX": ("brackenthwaite", "nr3 2qx"),
    "https://cdn.example/u?key=quillfeather-5550147": ("quillfeather", "5550147"),
    '{"mail": "x@quillfeather.example", "n": 5550147}': ("quillfeather", "5550147"),
}
SETTINGS = {
    name: load(dict.fromkeys(provider.settings, "recorded"), file=Path("/dev/null"))
    for name, provider in BUILT_IN.items()
}


def rule_of(provider: str) -> RecordingRule:
    recording = BUILT_IN[provider].recording
    assert recording is not None
    return recording(SETTINGS[provider])


def recorded(
    reply: RecordedReply, *, salt: str = "salt", headers: Mapping[str, str] | None = None
) -> RecordedReply:
    """Return a reply as it is after it was recorded."""
    raw = RawReply(
        provider=reply.provider,
        role=reply.role,
        shop=reply.shop,
        at=reply.at,
        request=reply.request,
        status=reply.status,
        headers={**reply.headers, **(headers or {})},
        body=reply.body,
    )
    (line,) = strip_replies(rule_of(reply.provider), [raw], salt=salt)
    return read_line(line.encode())


def understood(reply: RecordedReply) -> object:
    """Return the shape of what is read, or which error it is."""
    try:
        return shape(answer_of(BUILT_IN[reply.provider], reply, SETTINGS[reply.provider]))
    except HeadwayError as error:
        return type(error)


def planted(value: Any, plants: Iterator[str | None], kept: frozenset[str], name: str = "") -> Any:
    """Return JSON with plants in its texts, in new fields, and in the names of new fields."""
    if isinstance(value, dict):
        fields = {key: planted(item, plants, kept, key) for key, item in value.items()}
        if plant := next(plants):
            fields |= {"extra": plant, "notes": [{"reason": plant}], plant: {"phone": 5550147}}
        return fields
    if isinstance(value, list):
        return [planted(item, plants, kept, name) for item in value]
    if not isinstance(value, str) or type(value) is not str or name in kept:
        return value
    plant = next(plants)
    is_id = value.startswith("gid://") or name.endswith(("id", "_id", "Cursor"))
    return value if plant is None or is_id else plant


def leaks(reply: RecordedReply) -> list[str]:
    text = json.dumps([reply.document, reply.text, reply.request.values, dict(reply.headers)])
    lines = [text, text.encode().decode("unicode_escape"), reply.body.decode()]
    shown = "\n".join([*lines, dump_json(reply.document)]).casefold()
    return [part for parts in PLANTS.values() for part in parts if part.casefold() in shown]


replies = st.integers(0, len(REPLIES) - 1).map(REPLIES.__getitem__)
draws = st.lists(st.none() | st.sampled_from(list(PLANTS)), min_size=1, max_size=40)


def endless(values: list[str | None]) -> Iterator[str | None]:
    while True:
        yield from values


@settings(max_examples=100, deadline=None)
@given(reply=replies, plants=draws)
def test_what_is_planted_in_texts_is_gone_and_all_else_is_read_the_same(
    reply: RecordedReply, plants: list[str | None]
) -> None:
    strip = rule_of(reply.provider).strip
    kept = strip.kept | strip.codes.keys() | {"error", "message", "skus", "aviallPartNumber"}
    document = planted(reply.document, endless(plants), kept)
    hostile = replace(reply, document=document)
    stripped = recorded(hostile, headers={"set-cookie": "quillfeather", "x-user": plants[0] or ""})
    assert leaks(stripped) == []
    assert understood(stripped) == understood(hostile)


@settings(max_examples=100, deadline=None)
@given(reply=replies, plants=draws)
def test_what_is_planted_anywhere_is_gone_and_as_many_rows_are_read(
    reply: RecordedReply, plants: list[str | None]
) -> None:
    document = planted(reply.document, endless(plants), frozenset())
    text = None if reply.text is None else f"{reply.text}<p>{''.join(filter(None, plants))}</p>"
    request = planted(dict(reply.request.values), endless(plants), frozenset({"field", "sort_on"}))
    hostile = replace(
        reply,
        document=document,
        text=text,
        request=PageRequest(what=reply.request.what, values=json.loads(dump_json(request))),
    )
    stripped = recorded(
        hostile, headers={"date": plants[0] or "", "content-type": plants[-1] or ""}
    )
    assert leaks(stripped) == []
    provider, own = BUILT_IN[reply.provider], SETTINGS[reply.provider]
    before, after = (replay(provider, one, own) for one in (hostile, stripped))
    assert after.rows == before.rows
    assert [row.kind for row in after.set_aside] == [row.kind for row in before.set_aside]
    assert (bool(after.problem), bool(after.refusal)) == (
        bool(before.problem),
        bool(before.refusal),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(reply=replies, body=JSON | st.binary(max_size=60))
def test_any_body_at_all_is_recorded_and_is_the_same_error_or_page(
    reply: RecordedReply, body: object
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    hostile = replace(reply, document=None, text=raw.decode(errors="replace"))
    assert understood(recorded(hostile)) == understood(hostile)


def test_a_body_too_deep_for_us_is_recorded_without_it() -> None:
    deep = '{"results": [], "count": 0, "x": ' + "[" * 900 + '"Quillfeather"' + "]" * 900 + "}"
    (reply,) = [reply for reply in REPLIES if reply.request.values.get("state") == "sold_out"]
    stripped = recorded(replace(reply, document=None, text=deep))
    assert leaks(stripped) == []
    assert understood(stripped) == understood(reply)


def test_a_number_of_any_length_is_recorded() -> None:
    (reply,) = [reply for reply in REPLIES if reply.request.values.get("state") == "sold_out"]
    digits = "7" * 6000
    body = f'{{"count": 1, "results": [{{"listing_id": {digits}, "id": "{digits}"}}]}}'
    hostile = replace(reply, document=None, text=body)
    assert understood(recorded(hostile)) == understood(hostile)
    assert replay(BUILT_IN["etsy"], recorded(hostile), SETTINGS["etsy"]).set_aside


def test_stand_ins_keep_shape_joins_and_order_of_ids() -> None:
    rule = StripRule(kept=frozenset({"amount"}), id_prefix="gid://shopify/Order/")
    values = {
        "id": "gid://shopify/Order/1003",
        "order_id": 1001,
        "other_id": "1002",
        "amount": "12.50",
        "big": 1e300,
        "mail": "Quill@Host.example",
        "again": "quill@host.EXAMPLE ",
        "part": "WF12=K3",
        "base": "wf12",
    }
    stand_ins = StandIns(rule, salt="a")
    document = parse_json(json.dumps(values))
    stand_ins.learn(document)
    stripped = json.loads(dump_json(stand_ins.strip(document)))
    assert stripped.keys() == values.keys()
    numbers = [int(str(stripped[name]).split("/")[-1]) for name in ("order_id", "other_id", "id")]
    assert numbers == sorted(set(numbers))
    assert not set(numbers) & {1001, 1002, 1003}
    assert stripped["id"].startswith("gid://shopify/Order/")
    assert isinstance(stripped["order_id"], int)
    assert stripped["amount"] == "12.50"
    assert stripped["mail"].casefold() == stripped["again"].casefold().strip()
    assert [char.isupper() for char in stripped["mail"]] == [
        char.isupper()
        for char in values["mail"]  # type: ignore[attr-defined]
    ]
    assert stripped["part"].casefold().startswith(f"{stripped['base'].casefold()}=")


def test_two_recordings_have_other_stand_ins() -> None:
    reply = next(reply for reply in REPLIES if reply.request.what == "customers")
    assert recorded(reply, salt="a").body != recorded(reply, salt="b").body


LINE: dict[str, Any] = {
    "headway_recording": 1, "provider": "etsy", "role": "platform", "shop": "1",
    "at": NOW.isoformat(), "request": {"what": "listings", "values": {}}, "status": 200,
    "headers": {}, "body": {"count": 0, "results": []},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"headway_recording": 2}, "headway_recording"),
        ({"provider": 7}, "provider"),
        ({"role": "buyer"}, "role"),
        ({"at": "yesterday"}, "at must"),
        ({"at": "2026-01-01T00:00:00"}, "time zone"),
        ({"request": []}, "request"),
        ({"request": {"what": "listings"}}, "values"),
        ({"status": 9000}, "status"),
        ({"headers": {"date": 1}}, "headers"),
        ({"text": "both"}, "either"),
    ),
)
def test_a_malformed_line_names_its_field(changes: dict[str, Any], message: str) -> None:
    read_line(json.dumps(LINE).encode())
    with pytest.raises(InvalidError, match=message):
        read_line(json.dumps({**LINE, **changes}).encode())


@pytest.mark.parametrize("line", (b"\xff", b"{", b"[" * 100_000, b"7", b"null", b"{}"))
def test_a_line_that_is_no_recording_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidError):
        read_line(line)


def test_a_line_with_endless_numbers_or_depth_is_refused() -> None:
    line = json.dumps({**LINE, "request": {"what": "x", "values": {"n": 7}}})
    with pytest.raises(InvalidError, match="digits"):
        read_line(line.replace('"n": 7', f'"n": {"7" * 6000}').encode())
    with pytest.raises(InvalidError, match="deep"):
        read_line(line.replace('"n": 7', f'"n": {"[" * 700}{"]" * 700}').encode())


def test_settings_of_a_deployment_decide_which_fields_of_a_supplier_are_kept() -> None:
    fields = {**Settings().boeing_fields, "list_price": "catalogPrice"}
    recording = BUILT_IN["boeing"].recording
    assert recording is not None
    kept = recording(Settings(boeing_fields=fields)).strip.kept
    assert "catalogPrice" in kept
    assert "listPrice" not in kept
