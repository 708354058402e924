"""The hand-made recordings have the shapes of the platforms' schemas, and `verify` reads them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    OperationDefinitionNode,
    SelectionSetNode,
    get_named_type,
    parse,
)
from tests.contracts import test_etsy_simulator as etsy
from tests.contracts import test_printify_simulator as printify
from tests.contracts.test_shopify_documents import schema

from headway.cli import main
from headway.providers.recordings import RecordedReply, read_line
from headway.providers.shopify.read_queries import document_of

RECORDINGS = Path(__file__).parent / "recordings"
FILES = sorted(RECORDINGS.glob("*.jsonl"))
# What `verify` reports of each file: rows by kind, and replies that are refusals or not read.
EXPECTED: Mapping[str, Mapping[str, int]] = {
    "boeing": {"quotes": 4, "not there": 1, "refused": 2},
    "etsy": {"orders": 5, "customers": 2, "listings": 2, "payments": 7, "payment_orders": 2},
    "etsy-errors": {"not there": 1, "refused": 9},
    "printify": {"orders": 6, "customers": 2, "listings": 13},
    "printify-errors": {"not there": 1, "refused": 3},
    "shopify": {"orders": 3, "payments": 3, "customers": 5, "listings": 3, "not there": 1},
    "shopify-errors": {"refused": 5, "not read": 1},
}
ETSY_PATHS = {
    "receipts": "/receipts",
    "receipt": "/receipts/1",
    "listings": "/listings",
    "ledger": "/payment-account/ledger-entries",
    "payments": "/payments",
}
PRINTIFY_PATHS = {"order": "orders/{order_id}", "orders": "orders", "products": "products"}


def good_replies(provider: str) -> list[RecordedReply]:
    lines = (RECORDINGS / f"{provider}.jsonl").read_bytes().splitlines()
    return [reply for reply in map(read_line, lines) if reply.status == 200]


def verify(capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, dict[str, Any]]:
    code = main(["verify", *map(str, files), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_verify_reads_each_recording_as_expected(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = verify(capsys, file)
    counts: Counter[str] = Counter()
    for reply in report["replies"]:
        understood = reply["understood"]
        counts.update(understood["rows"])
        counts["refused"] += bool(understood["refusal"])
        counts["not read"] += bool(understood["problem"])
        assert understood["set_aside"] == []
        assert understood["unknown_codes"] == []
    assert {name: count for name, count in counts.items() if count} == EXPECTED[file.stem]
    assert code == (1 if "not read" in EXPECTED[file.stem] else 0)


def test_every_recording_is_listed() -> None:
    assert {file.stem for file in FILES} == set(EXPECTED)


@pytest.mark.parametrize("reply", good_replies("etsy"), ids=lambda reply: reply.request.what)
def test_replies_of_etsy_match_its_document(reply: RecordedReply) -> None:
    path = f"/v3/application/shops/1{ETSY_PATHS[reply.request.what]}"
    operation, _ = etsy.operation_of(path)
    content = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert etsy.SchemaChecker().faults(json.loads(reply.body), content, "reply") == []


@pytest.mark.parametrize("reply", good_replies("printify"), ids=lambda reply: reply.request.what)
def test_replies_of_printify_have_the_types_of_the_contract(reply: RecordedReply) -> None:
    content = printify.read(f"/shops/{{shop_id}}/{PRINTIFY_PATHS[reply.request.what]}.json")
    faults = printify.faults(json.loads(reply.body), content, "reply")
    # Real orders lack fields that the third party's document names.
    assert [fault for fault in faults if not fault.endswith("is missing")] == []


@pytest.mark.parametrize("reply", good_replies("shopify"), ids=lambda reply: reply.request.what)
def test_replies_of_shopify_match_the_document_that_asks_for_them(reply: RecordedReply) -> None:
    parsed = parse(document_of(reply.request).text)
    fragments = {
        node.name.value: node.selection_set
        for node in parsed.definitions
        if isinstance(node, FragmentDefinitionNode)
    }
    (operation,) = [n for n in parsed.definitions if isinstance(n, OperationDefinitionNode)]
    data = json.loads(reply.body)["data"]
    assert list(faults(data, schema().query_type, operation.selection_set, fragments)) == []


def faults(value: Any, kind: Any, selected: Any, fragments: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a value differs from what was selected of a type."""
    if isinstance(kind, GraphQLNonNull):
        if value is None:
            yield f"null of {kind}"
            return
        kind = kind.of_type
    if value is None:
        return
    if isinstance(kind, GraphQLList):
        for item in value:
            yield from faults(item, kind.of_type, selected, fragments)
    elif isinstance(kind, GraphQLEnumType):
        if value not in kind.values:
            yield f"{kind} has no {value}"
    elif selected is not None:
        yield from field_faults(value, kind, selected, fragments)


def field_faults(
    value: Mapping[str, Any], kind: Any, selected: SelectionSetNode, fragments: Mapping[str, Any]
) -> Iterator[str]:
    for node in selected.selections:
        if isinstance(node, FragmentSpreadNode):
            yield from field_faults(
                value, owner(kind, value), fragments[node.name.value], fragments
            )
        elif isinstance(node, FieldNode):
            name = (node.alias or node.name).value
            if name not in value:
                yield f"{kind} lacks {name}"
                continue
            field = get_named_type(kind).fields[node.name.value]
            yield from faults(value[name], field.type, node.selection_set, fragments)


def owner(kind: Any, value: Mapping[str, Any]) -> Any:
    """Return the type of a node, which its id names."""
    named = get_named_type(kind)
    return schema().type_map[value["id"].split("/")[3]] if named.name == "Node" else named


def test_a_checker_of_shopifys_replies_reports_what_does_not_match() -> None:
    reply = next(reply for reply in good_replies("shopify") if reply.request.what == "products")
    parsed = parse("{ shop { currencyCode } products(first: 1) { nodes { id status title } } }")
    (operation,) = parsed.definitions
    assert isinstance(operation, OperationDefinitionNode)
    data = json.loads(reply.body)["data"]
    data["shop"]["currencyCode"] = "XXL"
    data["products"]["nodes"][0]["status"] = None
    del data["products"]["nodes"][1]["title"]
    found = list(faults(data, schema().query_type, operation.selection_set, {}))
    assert found == ["CurrencyCode has no XXL", "null of ProductStatus!", "Product lacks title"]


@pytest.mark.parametrize("damage", ("cut", "binary", "other provider", "deep"))
def test_a_damaged_file_is_an_error_with_its_line_and_exit_code_2(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = (RECORDINGS / "etsy.jsonl").read_bytes().splitlines()
    bad = {
        "cut": second[: len(second) // 2],
        "binary": b"\x00\xff\xfe",
        "other provider": second.replace(b'"etsy"', b'"nobody"', 1),
        "deep": b"[" * 200_000,
    }
    file = tmp_path / "damaged.jsonl"
    file.write_bytes(first + b"\n" + bad[damage] + b"\n")
    assert main(["verify", str(file)]) == 2
    assert f"{file}, line 2: " in capsys.readouterr().err


def test_an_empty_file_and_no_file_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.jsonl"
    assert main(["verify", str(file)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    file.touch()
    assert main(["verify", str(file)]) == 2
    assert "no reply" in capsys.readouterr().err


def test_verify_names_bad_rows_unknown_codes_and_missing_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads((RECORDINGS / "printify.jsonl").read_text().splitlines()[0])
    good, other, *_ = line["body"]["data"]
    good["status"] = "teleported"
    other["total_price"] = "much"
    line["body"]["data"] = [good, other]
    file = tmp_path / "odd.jsonl"
    file.write_text(json.dumps(line) + "\n")
    code, report = verify(capsys, file)
    assert code == 1
    understood = report["replies"][0]["understood"]
    assert understood["set_aside"] == [
        {"kind": "orders", "id": other["id"], "reason": 'total_price is "much"'}
    ]
    assert understood["unknown_codes"] == ["status: teleported"]
    assert understood["missing_fields"] == {"currency": 1, "shipments.shipped_at": 1}
    assert main(["verify", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "1 set aside" in shown
    assert f"{file}:1: unknown code: status: teleported" in shown
    assert f"{file}:1: missing (rows): currency (1), shipments.shipped_at (1)" in shown
