"""The OpenAPI document is committed, and changes of it are compatible."""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.web.document import DOCUMENT
from tests.web.openapi_changes import breaking_changes

ROOT = Path(__file__).parents[2]
NAME = "docs/reference/openapi.json"
Change = Callable[[dict[str, Any]], object]


def committed() -> dict[str, Any]:
    """Return the document of the last commit, or of the folder if there is no history."""
    if shutil.which("git"):
        result = subprocess.run(
            ["git", "show", f"HEAD:{NAME}"], cwd=ROOT, capture_output=True, check=False
        )
        if not result.returncode:
            return json.loads(result.stdout)
    return json.loads((ROOT / NAME).read_text(encoding="utf-8"))


def test_the_document_is_compatible_with_the_last_commit() -> None:
    assert breaking_changes(committed(), DOCUMENT) == []


def test_the_committed_document_is_the_one_that_is_served() -> None:
    kept = json.loads((ROOT / NAME).read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(DOCUMENT)), (
        f"write it again: headway api --openapi > {NAME}"
    )


def body(document: dict[str, Any]) -> dict[str, Any]:
    return document["components"]["schemas"]["KeyBody"]


def parameters(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document["paths"]["/api/jobs"]["get"]["parameters"]


def statuses(document: dict[str, Any]) -> list[str]:
    return document["components"]["schemas"]["JobStatus"]["enum"]


def match_status(document: dict[str, Any], pattern: str) -> None:
    status = next(one for one in parameters(document) if one["name"] == "status")
    status["schema"] = {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "null"}]}


def drop(document: dict[str, Any], schema: str, field: str) -> None:
    del document["components"]["schemas"][schema]["properties"][field]


BREAKS: dict[str, Change] = {
    "a path": lambda document: document["paths"].pop("/api/me"),
    "a method": lambda document: document["paths"]["/api/keys"].pop("post"),
    "a field of a reply": lambda document: drop(document, "JobView", "reason"),
    "a field of a body": lambda document: drop(document, "KeyBody", "expires_at"),
    "a value of an enum": lambda document: document["components"]["schemas"]["JobStatus"][
        "enum"
    ].remove("dead"),
    "a type": lambda document: body(document)["properties"].update(seller={"type": "string"}),
    "a parameter": lambda document: parameters(document).pop(),
    "what may be left out": lambda document: parameters(document)[0].update(required=True),
    "a body without a field": lambda document: body(document)["required"].append("seller"),
    "an enum, for a pattern of fewer values": lambda document: match_status(document, "^[a-p]+$"),
    "a longer name": lambda document: body(document)["properties"]["name"].update(maxLength=10),
}
ADDITIONS: dict[str, Change] = {
    "a path": lambda document: document["paths"].update({"/api/new": {"get": {"responses": {}}}}),
    "a field": lambda document: body(document)["properties"].update(note={"type": "string"}),
    "a pattern of more values than the enum": lambda document: match_status(document, "^[a-z_]+$"),
    "a value": lambda document: document["components"]["schemas"]["JobStatus"]["enum"].append(
        "new"
    ),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=list(BREAKS))
def test_a_removal_is_a_breaking_change(change: Change) -> None:
    changed = copy.deepcopy(DOCUMENT)
    change(changed)
    assert breaking_changes(DOCUMENT, changed) != []


@pytest.mark.parametrize("change", ADDITIONS.values(), ids=list(ADDITIONS))
def test_an_addition_is_compatible(change: Change) -> None:
    changed = copy.deepcopy(DOCUMENT)
    change(changed)
    assert breaking_changes(DOCUMENT, changed) == []
