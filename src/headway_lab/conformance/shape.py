"""The shape of what was read: amounts, counts, instants and codes, and which texts are equal."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from headway.providers.recordings import Recorder, read_line
from headway.providers.replay import answer_of
from headway_lab.conformance.world import ProviderWorld

CODES = frozenset(
    {"currency", "fulfillment_status", "kind", "payment_status", "reference_type", "state"}
    | {"status"}
)
# Texts that quote a reply, rows as they came, and titles, which are put together from others.
QUOTED = frozenset({"raw", "reason", "next", "title"})


def shape(value: object) -> object:
    """Return a page or a reply with every text but codes replaced by its number."""
    return _shape(value, "", {"": 0})


def check_recording(world: ProviderWorld, recorder: Recorder) -> None:
    """Check that the lines of a recording are read like the replies, and show no secret."""
    provider, settings = world.provider, world.context.settings
    assert provider.recording is not None
    lines = recorder.lines(provider.recording(settings))
    assert lines, "the client did not read its reply by `exchange`, so nothing was recorded"
    for line, raw in zip(lines, recorder.replies, strict=True):
        recorded = read_line(line.encode())
        own = replace(
            recorded, shop=raw.shop, request=raw.request, document=None, text=raw.body.decode()
        )
        what = raw.request.what
        stripped, whole = (answer_of(provider, reply, settings) for reply in (recorded, own))
        assert shape(stripped) == shape(whole), f"{what}: the recording is read otherwise"
        shown = [secret for secret in world.secrets if secret in line]
        assert not shown, f"{what}: the recording shows a secret"


def _shape(value: Any, name: str, numbers: dict[str, int]) -> object:  # noqa: ANN401 - any record
    if name in QUOTED:
        return bool(value)
    if isinstance(value, frozenset) or name == "doubts":
        return len(value)
    if isinstance(value, str):
        return value if name in CODES else numbers.setdefault(value, len(numbers))
    if is_dataclass(value):
        return {
            field.name: _shape(getattr(value, field.name), field.name, numbers)
            for field in fields(value)
        }
    if isinstance(value, Mapping):
        return sorted(str(_shape(item, name, dict(numbers))) for item in value.values())
    return [_shape(item, name, numbers) for item in value] if isinstance(value, tuple) else value
