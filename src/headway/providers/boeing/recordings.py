"""What is kept of the supplier's replies in a recording; the names of fields are settings."""

from typing import Any

from headway.providers.boeing.api import api_of
from headway.providers.boeing.replies import BoeingLine
from headway.providers.boeing.settings import ApiSettings
from headway.providers.recordings import RecordingRule
from headway.providers.stand_ins import StripRule

KEPT = (
    "list_price", "net_price", "currency", "line_currency", "quantity", "in_stock", "available",
    "unit", "minimum",
)  # fmt: skip
STATUSES = "ok active available error err fail failed failure invalid rejected discontinued"


def recording_rule(settings: ApiSettings) -> RecordingRule:
    """Return the rule for an API whose fields are called as the settings say."""
    form = api_of(settings).form
    names = {name: text.split("|") for name, text in form.fields.items()}

    def read(row: Any) -> BoeingLine:  # noqa: ANN401 - JSON
        values = {name: form.find(row, name) for name in BoeingLine.model_fields}
        present = {name: value for name, value in values.items() if value is not None}
        return BoeingLine.model_construct(**present)

    return RecordingRule(
        strip=StripRule(
            kept=frozenset(alias for name in KEPT for alias in names[name]) | {"step"},
            codes=dict.fromkeys(names["status"], frozenset(STATUSES.split())),
        ),
        rows={"quote": (names["lines"][:1], read)},
    )
