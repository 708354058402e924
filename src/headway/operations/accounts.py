"""Sellers' accounts at platforms, and what is used of the platforms' daily quotas."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from headway.core.access import Need
from headway.core.accounts.admission import PlatformAdmission
from headway.core.accounts.jobs import Tier
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import Cursor, PlatformText, SellerQuery
from headway.operations.jobs import JobLimit
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.operations.shops import missing_scopes, scope_advice
from headway.providers.access_scopes import list_scopes
from headway.providers.registry import known_platform, platform_role
from headway.store.accounts.status import AccountView, SellerView
from headway.store.limits.quotas import Budget

TAG = "accounts"
SellersCount = Annotated[int, Field(ge=1, le=1_000_000, description="How many more sellers.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPage:
    """Accounts, those that need a person first, their sellers, and where to go on."""

    now: datetime
    accounts: tuple[AccountView, ...]
    """The accounts, those that need a person first."""
    sellers: tuple[SellerView, ...]
    """Their sellers, with the use of the monthly order quota."""
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaList:
    """The platforms that have a daily quota."""

    now: datetime
    quotas: tuple[Budget, ...]
    """One entry for each platform with a daily quota."""


@operation("GET", "/api/accounts", need=Need.READ, tag=TAG, errors=(404, 422), name="list_accounts")
def accounts(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    platform: PlatformText | None = None,
    cursor: Cursor = None,
    limit: JobLimit = 100,
) -> AccountPage:
    """List accounts, those that need a person first."""
    now, queries = caller.now, caller.own.account_queries
    rows = queries.accounts(
        user_id=caller.known(seller),
        platform=None if platform is None else known_platform(platform),
        limit=limit + 1,
        cursor=cursor,
    )
    shown, next_cursor = cut(rows, limit)
    advised = tuple(with_advice(caller, row) for row in shown)
    sellers = queries.sellers(now, {account.seller for account in shown})
    return AccountPage(now=now, accounts=advised, sellers=sellers, next_cursor=next_cursor)


@operation("GET", "/api/quotas", need=Need.OVERSEE, tag=TAG, name="list_quotas")
def quotas(caller: OperatorCaller) -> QuotaList:
    """Show what is used of each platform's day, and what the next one will bring."""
    now = caller.now
    return QuotaList(now=now, quotas=caller.app.account_queries.budgets(now))


def with_advice(caller: Caller, account: AccountView) -> AccountView:
    """Return the account with the access scopes that it lacks, and how to grant them."""
    return replace(account, scope_advice=_lacks(caller, account))


@dataclass(frozen=True, slots=True, kw_only=True)
class SellersPlan:
    """What more sellers mean for the platforms that have a daily quota."""

    now: datetime
    sellers: int
    """How many more sellers."""
    tier: Tier
    platforms: tuple[PlatformAdmission, ...]
    """One entry for each platform with a daily quota."""


@operation("GET", "/api/plan/sellers", need=Need.OVERSEE, tag=TAG, name="plan_sellers")
def plan_sellers(
    caller: OperatorCaller,
    *,
    sellers: SellersCount = 1000,
    tier: Tier = Tier.FREE,
) -> SellersPlan:
    """Say how many more sellers fit into each platform's day, and what bringing them in costs."""
    app, now = caller.app, caller.now
    kinds = {name: platform_role(name).kinds for name in app.platforms}
    found = app.account_queries.admissions(now, kinds, tier=tier, sellers=sellers)
    return SellersPlan(now=now, sellers=sellers, tier=tier, platforms=found)


def _lacks(caller: Caller, account: AccountView) -> str:
    """Return the access scopes that a shop has not granted, and how to grant them."""
    missing = missing_scopes(caller.shared, account)
    if not missing:
        return ""
    return f"has not granted {list_scopes(missing)}; {scope_advice(caller.shared, account)}"
