"""How the supplier's API is called and answers: paths, headers, flags and names, from settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.catalog.listings import Sku
from headway.providers.boeing.replies import ReplyForm
from headway.providers.boeing.settings import ApiSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BoeingApi:
    """The API as its customer knows it; paths and headers are by their purpose."""

    paths: Mapping[str, str]
    scope: str
    headers: Mapping[str, str]
    flags: Mapping[str, bool]
    form: ReplyForm

    def price_request(self, skus: Sequence[Sku]) -> dict[str, Any]:
        """Return the body that asks for the prices of these SKUs."""
        return {**self.flags, self.form.fields["requested"]: list(skus)}


def api_of(settings: ApiSettings) -> BoeingApi:
    """Return the API as the settings describe it."""
    return BoeingApi(
        paths=settings.boeing_paths,
        scope=settings.boeing_scope,
        headers=settings.boeing_headers,
        flags=settings.boeing_flags,
        form=ReplyForm(fields=settings.boeing_fields, currency=settings.boeing_currency),
    )
