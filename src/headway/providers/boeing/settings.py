"""What Boeing's clients are given: the settings they read, and a customer's credentials."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import SecretStr

from headway.providers.boeing.limits import RateSettings


class ApiSettings(Protocol):
    """The settings that describe the API; the tables are by purpose."""

    boeing_paths: Any
    boeing_scope: str
    boeing_headers: Any
    boeing_flags: Any
    boeing_fields: Any
    boeing_currency: str


class BoeingSettings(ApiSettings, RateSettings, Protocol):
    """The settings that Boeing's clients read."""

    boeing_url: str
    boeing_client_id: str
    boeing_client_secret: SecretStr
    boeing_username: str
    boeing_password: SecretStr
    boeing_timeout_s: float
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoeingAccess:
    """The credentials that the supplier gave its customer."""

    client_id: str
    client_secret: str = field(repr=False)
    username: str
    password: str = field(repr=False)
