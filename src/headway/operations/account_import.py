"""Many accounts at once: each row is connected or refused by itself, and answered as it is done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from headway.core.access import Need
from headway.errors import HeadwayError, StoreError
from headway.operations.accounts import TAG
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import RequestBody, example, field_errors
from headway.operations.operation import operation
from headway.operations.shops import ConnectBody, connect_with_tokens

ROWS_MAX = 10_000
# 10,000 rows with tokens of 800 characters.
BODY_BYTES = 10_000_000
# A row that stands for a line of a file that is none, so that it is refused by its number.
NO_OBJECT = "no object"
Result = Literal["connected", "refused", "stopped"]
ROW = {
    "shop": "5432101",
    "seller": "acme",
    "platform": "printify",
    "access_token": "...",
    "check": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAccount:
    """What became of one row.

    A row that is `refused` changed nothing. `stopped` is the last line if the database went away;
    send that row and the rest again.
    """

    line: int
    """The row's number, from 1."""
    result: Result
    """`connected`, `refused` or `stopped`."""
    seller: str
    shop: str
    platform: str
    account_id: str
    """The account's id; empty if the row was refused.
    Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`
    """
    reason: str
    """Why it was refused; empty otherwise. Example: `seller: must not be empty`"""


class AccountImportBody(RequestBody):
    """Accounts with their tokens, as `POST /api/shops/connect` takes one of them."""

    model_config = example({"accounts": [ROW]})
    accounts: Annotated[
        list[dict[str, Any]], Field(min_length=1, max_length=ROWS_MAX, examples=[[ROW]], repr=False)
    ]
    """The rows. Bad rows are refused by line, and the good ones are connected."""
    first_line: Annotated[int, Field(ge=1)] = 1
    """The number of the first row, where a file is sent in parts."""


@operation(
    "POST",
    "/api/accounts/import",
    need=Need.OPERATE,
    tag=TAG,
    name="import_accounts",
    body_bytes=BODY_BYTES,
)
def import_accounts(caller: OperatorCaller, body: AccountImportBody) -> Iterator[ImportedAccount]:
    """Connect up to 10,000 accounts; the reply is a line of JSON for each, as it is done.

    A row is connected with its tokens or refused with the reason, and the others go on. Sending the
    same rows again changes nothing, so repeat a request that broke off.
    """
    return _imported(caller, body.accounts, body.first_line)


def _imported(
    caller: OperatorCaller, rows: Sequence[dict[str, Any]], first: int
) -> Iterator[ImportedAccount]:
    for line, row in enumerate(rows, start=first):
        result = _import(caller, line, row)
        yield result
        if result.result == "stopped":
            return


def _import(caller: OperatorCaller, line: int, row: dict[str, Any]) -> ImportedAccount:
    reason, result, account_id = "", "connected", ""
    if NO_OBJECT in row:
        return ImportedAccount(
            line=line,
            result="refused",
            seller="",
            shop="",
            platform="",
            account_id="",
            reason="a line must be a JSON object",
        )
    shop, platform = str(row.get("shop", "")), str(row.get("platform", ""))
    try:
        # A shop that cannot be asked at once must not hold up the rest: its first job tries it.
        body = ConnectBody.model_validate(row)
        account = connect_with_tokens(caller, body)
        account_id, shop, platform = account.id, account.shop, account.platform
        if account.status != "connected":
            reason, result, account_id = account.reason, "refused", ""
    except ValidationError as error:
        reason, result = field_errors(error.errors()), "refused"
    except StoreError as error:
        reason, result = str(error), "stopped"
    except HeadwayError as error:
        reason, result = str(error), "refused"
    return ImportedAccount(
        line=line,
        result=result,  # type: ignore[arg-type]
        seller=str(row.get("seller", "")),
        shop=shop,
        platform=platform,
        account_id=account_id,
        reason=reason,
    )
