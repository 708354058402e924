"""Find breaking changes between two OpenAPI documents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
Schema = Mapping[str, Any]
METHODS = {"get", "put", "post", "delete", "patch"}
# A bound that is new or tighter refuses what was accepted before.
LOWER, UPPER = ("minimum", "minLength", "minItems"), ("maximum", "maxLength", "maxItems")


def breaking_changes(old: Document, new: Document) -> list[str]:
    """Return everything that the new document removes or newly requires."""
    return [
        f"{method.upper()} {path}: {change}"
        for path, methods in old["paths"].items()
        for method in METHODS & set(methods)
        for change in _of_operation(
            methods[method], new["paths"].get(path, {}).get(method), old, new
        )
    ]


def _of_operation(
    before: Schema, after: Schema | None, old: Document, new: Document
) -> Iterator[str]:
    if after is None:
        yield "is gone"
        return
    yield from _of_parameters(before, after, old, new)
    body, new_body = (side.get("requestBody", {}) for side in (before, after))
    if new_body.get("required") and not body.get("required"):
        yield "a body is now required"
    yield from _of_contents(body, new_body, "the body", Comparison(old, new, is_input=True))
    for status, reply in before["responses"].items():
        if status not in after["responses"]:
            yield f"status {status} is gone"
            continue
        is_reply = Comparison(old, new, is_input=False)
        yield from _of_contents(reply, after["responses"][status], f"reply {status}", is_reply)


def _of_parameters(before: Schema, after: Schema, old: Document, new: Document) -> Iterator[str]:
    known, now = (
        {(one["in"], one["name"]): one for one in side.get("parameters", ())}
        for side in (before, after)
    )
    for key, parameter in known.items():
        if key not in now:
            yield f"parameter {key[1]} is gone"
            continue
        schemas = parameter["schema"], now[key]["schema"]
        yield from Comparison(old, new, is_input=True).of(*schemas, f"parameter {key[1]}")
    for key, parameter in now.items():
        was_required = known.get(key, {}).get("required", False)
        if parameter.get("required") and not was_required:
            yield f"parameter {key[1]} is now required"


def _of_contents(
    before: Schema, after: Schema, where: str, comparison: "Comparison"
) -> Iterator[str]:
    for media, content in before.get("content", {}).items():
        content_after = after.get("content", {}).get(media)
        if content_after is None:
            yield f"{where}: {media} is gone"
        elif "schema" in content:
            yield from comparison.of(content["schema"], content_after.get("schema", {}), where)


class Comparison:
    """Compares schemas of two documents; a recursive schema is followed once."""

    def __init__(self, old: Document, new: Document, *, is_input: bool) -> None:
        self._old, self._new, self._is_input = old, new, is_input
        self._followed: set[tuple[str, str]] = set()

    def of(self, before: Schema, after: Schema, where: str) -> Iterator[str]:
        names = before.get("$ref", ""), after.get("$ref", "")
        if all(names):
            if names in self._followed:
                return
            self._followed.add(names)
        before, after = _resolved(before, self._old), _resolved(after, self._new)
        choices = _alternatives(before, self._old), _alternatives(after, self._new)
        if gone := choices[0].keys() - choices[1].keys():
            yield f"{where}: type {', '.join(sorted(gone))} is gone"
        for kind in choices[0].keys() & choices[1].keys():
            yield from self._of_kind(choices[0][kind], choices[1][kind], where)

    def _of_kind(self, before: Schema, after: Schema, where: str) -> Iterator[str]:
        if "enum" in before and (
            gone := set(before["enum"]) - set(after.get("enum", before["enum"]))
        ):
            yield f"{where}: value {', '.join(map(str, sorted(gone)))} is gone"
        if self._is_input and "enum" in after and "enum" not in before:
            yield f"{where}: only some values are taken now"
        if self._is_input:
            yield from _tighter(before, after, where)
        if "items" in before:
            yield from self.of(before["items"], after.get("items", {}), f"{where}[]")
        fields, now = before.get("properties", {}), after.get("properties", {})
        for name, schema in fields.items():
            if name not in now:
                yield f"{where}.{name} is gone"
            else:
                yield from self.of(schema, now[name], f"{where}.{name}")
        required = set(before.get("required", ())), set(after.get("required", ()))
        if self._is_input and (more := required[1] - required[0]):
            yield f"{where}: {', '.join(sorted(more))} is now required"
        if not self._is_input and (less := (required[0] - required[1]) & now.keys()):
            yield f"{where}: {', '.join(sorted(less))} may now be missing"


def _tighter(before: Schema, after: Schema, where: str) -> Iterator[str]:
    for names, sign in ((LOWER, 1), (UPPER, -1)):
        for name in names:
            if name in after and (name not in before or sign * (after[name] - before[name]) > 0):
                yield f"{where}: {name} is now {after[name]}"
    is_other = "pattern" in after and after["pattern"] != before.get("pattern")
    # A pattern in place of an enum takes nothing away if it matches every value.
    if is_other and not _matches(after["pattern"], before.get("enum")):
        yield f"{where}: the pattern is another one"


def _matches(pattern: str, values: Sequence[str] | None) -> bool:
    return values is not None and all(re.search(pattern, value) for value in values)


def _resolved(schema: Schema, document: Document) -> Schema:
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = document["components"]["schemas"][name]
    return schema


def _alternatives(schema: Schema, document: Document) -> dict[str, Schema]:
    """Return the schema by type; several of the same type are one with all their fields."""
    kinds: dict[str, Schema] = {}
    for choice in schema.get("anyOf") or schema.get("oneOf") or [schema]:
        resolved = _resolved(choice, document)
        if "anyOf" in resolved:
            kinds |= _alternatives(resolved, document)
        else:
            kind = str(resolved.get("type", "object" if "properties" in resolved else "any"))
            kinds[kind] = {**kinds.get(kind, {}), **resolved}
    return kinds
