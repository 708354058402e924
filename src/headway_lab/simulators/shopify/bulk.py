"""Bulk operations of a simulated shop: a file is staged, then one mutation runs over its lines.

Lines run at their own pace on the clock, and are executed whenever the operation is looked up.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.shopify.request import Info, Payload, ShopRequest
from headway_lab.simulators.shopify.schema import Operation, read_document

RUNNING_MAX = 5
CLIENT_CHARS = (10, 255)
FILE_BYTES_MAX = 100_000_000
NOT_ITSELF = frozenset({"bulkOperationRunMutation", "stagedUploadsCreate"})
RunLine = Callable[["BulkOperation", Mapping[str, Any], float], Payload]


@dataclass(slots=True, kw_only=True)
class BulkOperation:
    """One mutation over many lines, and its progress."""

    id: str
    text: str
    operation: Operation
    request: int
    lines: list[dict[str, Any]]
    created_at: datetime
    starts_s: float
    line_s: float
    url: str
    results: list[bytes] = field(default_factory=list)
    completed_at: datetime | None = None

    @property
    def ends_s(self) -> float:
        """When its last line is done."""
        return self.starts_s + self.line_s * len(self.lines)

    def view(self, at_s: float) -> Payload:
        """Return it as the API shows it."""
        is_done = self.completed_at is not None
        body = b"".join(self.results)
        running = "RUNNING" if at_s >= self.starts_s else "CREATED"
        return {
            "__typename": "BulkOperation",
            "id": self.id,
            "completedAt": self.completed_at and self.completed_at.isoformat(),
            "createdAt": self.created_at.isoformat(),
            "errorCode": None,
            "fileSize": str(len(body)) if is_done else None,
            "objectCount": str(len(self.results)),
            "rootObjectCount": str(len(self.results)),
            "partialDataUrl": None,
            "query": self.text,
            "status": "COMPLETED" if is_done else running,
            "type": "MUTATION",
            "url": self.url if is_done else None,
        }


class BulkOperations:
    """The staged files and bulk operations of one shop."""

    def __init__(
        self, *, start_s: float, line_s: float, file_bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        self._start_s = start_s
        self._line_s = line_s
        self._file_bytes_max = file_bytes_max
        self._keys: dict[str, str] = {}
        self._files: dict[str, bytes] = {}
        self.operations: dict[str, BulkOperation] = {}
        self.running: list[BulkOperation] = []

    def stage(self, number: int, filename: str) -> str:
        """Make room for a file; return the key that its upload and its use must name."""
        key = f"tmp/{number}/bulk/{filename}"
        self._keys[str(number)] = key
        return key

    def upload(self, number: str, content_type: str, body: bytes) -> SimReply:
        """Take a file that is uploaded as a form with the parameters of its stage."""
        form = _multipart(content_type, body)
        key = form.get("key", b"").decode("utf-8", errors="replace")
        if not key or key != self._keys.get(number) or "file" not in form:
            return json_reply({"error": "the form is not what was agreed"}, status=403)
        if len(form["file"]) > self._file_bytes_max:
            return json_reply({"error": "EntityTooLarge"}, status=400)
        self._files[key] = form["file"]
        return SimReply(status=201)

    def run(
        self, shop_request: ShopRequest, text: str, path: str
    ) -> tuple[str, str] | BulkOperation:
        """Start an operation, or return the code and reason why not."""
        operation = read_document(text)
        if not isinstance(operation, Operation) or not _is_fit(operation):
            return "INVALID_MUTATION", "The mutation must be one that the shop can run in bulk."
        if path not in self._files:
            return "NO_SUCH_FILE", "The JSONL file could not be found."
        if len(self.running) >= RUNNING_MAX:
            return "OPERATION_IN_PROGRESS", "Another bulk mutation is already running."
        try:
            lines = [json.loads(line) for line in self._files[path].splitlines() if line.strip()]
        except ValueError:
            lines = []
        if not lines or not all(isinstance(line, dict) for line in lines):
            return "INVALID_STAGED_UPLOAD_FILE", "Every line must be a JSON object."
        gid = shop_request.shop.new_id("BulkOperation")
        made = BulkOperation(
            id=gid,
            text=text,
            operation=operation,
            request=shop_request.request,
            lines=lines,
            created_at=shop_request.now,
            starts_s=shop_request.at_s + self._start_s,
            line_s=self._line_s,
            url=f"{shop_request.url}/bulk/{gid.rpartition('/')[2]}.jsonl",
        )
        self.operations[gid] = made
        self.running.append(made)
        return made

    def advance(self, at_s: float, now: datetime, run_line: RunLine) -> None:
        """Run the lines that are due."""
        for operation in self.running:
            while len(operation.results) < len(operation.lines):
                index = len(operation.results)
                line_at_s = operation.starts_s + operation.line_s * (index + 1)
                if line_at_s > at_s:
                    break
                result = run_line(operation, operation.lines[index], line_at_s)
                text = json.dumps({**result, "__lineNumber": index}, separators=(",", ":"))
                operation.results.append(text.encode() + b"\n")
            if len(operation.results) == len(operation.lines):
                operation.completed_at = now - timedelta(seconds=at_s - operation.ends_s)
        self.running = [operation for operation in self.running if operation.completed_at is None]

    def result(self, number: str) -> SimReply:
        """Answer a request for the lines of an operation that is done."""
        operation = self.operations.get(f"gid://shopify/BulkOperation/{number}")
        if operation is None or operation.completed_at is None:
            return json_reply({"error": "not found"}, status=404)
        headers = {"Content-Type": "application/jsonl"}
        return SimReply(headers=headers, body=b"".join(operation.results))


def stage_uploads(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Return upload targets for files."""
    shop_request = info.context
    targets = []
    for argument in arguments["input"]:
        number = int(shop_request.shop.new_id("StagedUpload").rpartition("/")[2])
        key = shop_request.bulk.stage(number, argument["filename"])
        values = {"key": key, "Content-Type": argument["mimeType"], "policy": f"simulated-{number}"}
        url = f"{shop_request.url}/staged/{number}"
        parameters = [{"name": name, "value": value} for name, value in values.items()]
        targets.append({"url": url, "resourceUrl": f"{url}/{key}", "parameters": parameters})
    return {"stagedTargets": targets, "userErrors": []}


def run_mutation(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Start one mutation over the lines of a staged file."""
    shop_request = info.context
    client, (least, most) = arguments.get("clientIdentifier"), CLIENT_CHARS
    if client is not None and not least <= len(client) <= most:
        text = f"must have from {least} to {most} characters"
        error = shop_request.user_error(None, ("clientIdentifier",), text)
        return {"bulkOperation": None, "userErrors": [error]}
    made = shop_request.bulk.run(shop_request, arguments["mutation"], arguments["stagedUploadPath"])
    if isinstance(made, BulkOperation):
        return {"bulkOperation": made.view(shop_request.at_s), "userErrors": []}
    code, message = made
    return {"bulkOperation": None, "userErrors": [shop_request.user_error(code, None, message)]}


def _is_fit(operation: Operation) -> bool:
    is_one = operation.is_mutation and len(operation.fields) == 1
    return is_one and operation.fields[0] not in NOT_ITSELF


def _multipart(content_type: str, body: bytes) -> dict[str, bytes]:
    """Read the parts of a form by name."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode("latin-1")
    form: dict[str, bytes] = {}
    for part in body.split(b"--" + boundary)[1:-1] if boundary else ():
        head, _, content = part.partition(b"\r\n\r\n")
        name = head.partition(b' name="')[2].partition(b'"')[0]
        form[name.decode("latin-1")] = content.removesuffix(b"\r\n")
    return form
