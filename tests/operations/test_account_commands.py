"""Sellers and accounts over the operations: one by one, and thousands at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.sample import ACME, BEST, SampleDeployment
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.app import build
from headway.app.providers import shared_vault
from headway.config import Settings
from headway.core.access import Role
from headway.core.accounts.jobs import DataKind, Tier
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, NotFoundError
from headway.operations import account_commands, account_import, accounts, sellers, shops
from headway.operations.account_commands import AccountEndBody, AccountJobsBody
from headway.operations.account_import import AccountImportBody
from headway.operations.callers import OperatorCaller, operator
from headway.operations.sellers import SellerBody
from headway.operations.shops import ConnectBody
from headway.providers.token_store import token_key
from headway.store.accounts.credentials import Credentials
from headway.web.site import create
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

NOVA = SellerId("nova")


def etsy_of(sample: SampleDeployment, seller: SellerId) -> str:
    page = accounts.accounts(sample.operator, seller=seller, platform=ETSY)
    return page.accounts[0].id


def statuses(sample: SampleDeployment, account_id: str) -> dict[str, int]:
    rows = sample.execute(
        "SELECT status, count(*) FROM sync_jobs WHERE account_id = %s GROUP BY 1", account_id
    )
    return dict(rows)


def test_a_seller_is_created_once_and_listed_by_name(sample: SampleDeployment) -> None:
    caller = sample.operator
    made = sellers.create_seller(caller, SellerBody(seller=NOVA, tier=Tier.GROWTH))
    assert (made.is_new, made.seller.tier, made.seller.orders_quota) == (True, Tier.GROWTH, 1500)
    again = sellers.create_seller(caller, SellerBody(seller=NOVA, tier=Tier.PRO))
    assert (again.is_new, again.seller.tier) == (False, Tier.GROWTH), "nothing was changed"
    first = sellers.sellers(caller, limit=2)
    rest = sellers.sellers(caller, cursor=first.next_cursor, limit=2)
    assert [row.seller for row in (*first.items, *rest.items)] == [ACME, BEST, NOVA]
    assert rest.next_cursor is None
    assert sellers.seller(caller, ACME).connected == 2
    with pytest.raises(NotFoundError, match="no seller nobody"):
        sellers.seller(caller, SellerId("nobody"))


def test_a_seller_sees_only_itself_and_its_own_accounts(sample: SampleDeployment) -> None:
    caller = sample.seller(ACME)
    assert [row.seller for row in sellers.sellers(caller).items] == [ACME]
    mine, other = etsy_of(sample, ACME), etsy_of(sample, BEST)
    assert account_commands.account(caller, mine).seller == ACME
    for command in (account_commands.pause_jobs, account_commands.resync):
        with pytest.raises(NotFoundError, match="no such account"):
            command(caller, other, AccountJobsBody())
    with pytest.raises(NotFoundError, match="no such account"):
        account_commands.account(caller, other)
    assert set(statuses(sample, other)) == {"queued"}


def test_jobs_of_one_kind_are_paused_resumed_and_read_anew(sample: SampleDeployment) -> None:
    caller, account_id = sample.seller(ACME), etsy_of(sample, ACME)
    orders = AccountJobsBody(kinds=[DataKind.ORDERS], reason="moving")
    total = sum(statuses(sample, account_id).values())
    assert account_commands.pause_jobs(caller, account_id, orders).jobs == 2
    assert statuses(sample, account_id) == {"paused": 2, "queued": total - 2}
    (reason,) = {
        job.reason
        for job in sample.app.account_queries.of_account(caller.now, account_id) or ()
        if job.status == "paused"
    }
    assert reason == (
        f"Paused by a person (moving); to continue: headway accounts resume {account_id}"
    )
    assert account_commands.resync(caller, account_id, orders).jobs == 0, "paused jobs stay so"
    assert account_commands.resume_jobs(caller, account_id, AccountJobsBody()).jobs == 2
    sample.execute("""UPDATE sync_jobs SET cursor = '{"since": 1}'""")
    assert account_commands.resync(caller, account_id, orders).jobs == 2
    cursors = sample.execute(
        "SELECT kind FROM sync_jobs WHERE account_id = %s AND cursor = '{}'", account_id
    )
    assert cursors == [("orders",)] * 2


def test_an_account_is_disconnected_by_its_id(sample: SampleDeployment) -> None:
    account_id = etsy_of(sample, ACME)
    ended = account_commands.disconnect_account(
        sample.operator, account_id, AccountEndBody(reason="the shop is sold")
    )
    assert (ended.status, ended.reason) == ("disconnected", "the shop is sold")
    assert set(statuses(sample, account_id)) == {"cancelled"}


@pytest.fixture
def printify(clock: VirtualClock) -> PrintifySimulator:
    return PrintifySimulator(clock)


@pytest.fixture
def caller(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path, printify: PrintifySimulator
) -> OperatorCaller:
    transport = SimTransport(printify.handle, clock)
    settings = Settings(data_dir=tmp_path)
    return operator(build(settings, clock, pool, platform_transport=transport), "tester")


def row(shop: int, token: str, **more: Any) -> dict[str, Any]:
    named = {"seller": "acme", "platform": "printify", "access_token": token}
    return {"shop": str(shop), **named, **more}


def test_two_shops_of_one_owner_share_the_owners_limit(
    caller: OperatorCaller, printify: PrintifySimulator, pool: ConnectionPool
) -> None:
    one, two = (printify.add_shop(account="ada", title=f"Shop {n}") for n in (1, 2))
    token = printify.personal_token("ada")
    connected = [
        shops.connect(caller, ConnectBody.model_validate(row(shop, token))).account
        for shop in (two, one)
    ]
    assert {account.owner_id for account in connected} == {str(min(one, two))}
    assert {account.title for account in connected} == {"Shop 1", "Shop 2"}
    keys = {caller.app.open_platform(account.bare).keys for account in connected}
    assert len(keys) == 1, "one bucket"
    with pool.connection() as connection:
        calls = connection.execute("SELECT limit_key, purpose FROM call_ledger").fetchall()
    asked = [(f"printify:{shop}", "connect") for shop in (one, two)]
    assert sorted(calls) == asked, "the questions passed the limiter"


def test_a_shop_that_the_token_does_not_reach_is_not_connected(
    caller: OperatorCaller, printify: PrintifySimulator
) -> None:
    own, foreign = printify.add_shop(account="ada"), printify.add_shop(account="bob")
    body = ConnectBody.model_validate(row(foreign, printify.personal_token("ada")))
    account = shops.connect(caller, body).account
    assert account.status == "disconnected"
    assert account.reason == f"the token's account has no shop {foreign}; its shops: {own}"


def test_good_rows_of_an_import_are_kept_and_bad_ones_refused_by_line(
    caller: OperatorCaller, printify: PrintifySimulator, pool: ConnectionPool
) -> None:
    shop, token = printify.add_shop(account="ada"), printify.personal_token("ada")
    rows = [
        row(shop, token),
        row(shop, token, seller=""),
        {"shop": "7"},
        row(999, token),
        row(shop, token, seller="someone-else"),
        row(4711, token, check=False),
    ]
    body = AccountImportBody(accounts=rows, first_line=11)
    results = list(account_import.import_accounts(caller, body))
    assert [result.line for result in results] == [11, 12, 13, 14, 15, 16]
    assert [result.result for result in results] == [
        "connected", "refused", "refused", "refused", "refused", "connected",
    ]  # fmt: skip
    reasons = [result.reason for result in results]
    assert reasons[1].startswith("seller: ")
    assert reasons[2] == "seller: Field required"
    assert "has no shop 999" in reasons[3]
    assert "a shop has one seller" in reasons[4]
    again = list(account_import.import_accounts(caller, body))
    assert [result.account_id for result in again] == [result.account_id for result in results]
    with pool.connection() as connection:
        (jobs,) = (
            connection.execute("SELECT count(*) FROM sync_jobs WHERE status = 'queued'").fetchone()
            or ()
        )
    assert jobs == 6, "three for each account, once"
    stored = Credentials(pool).load(token_key(PRINTIFY, "4711"))
    vault = shared_vault(caller.app.settings)
    assert [vault.decrypt(secret.secret) for secret in stored] == [token]


def test_an_import_answers_line_by_line_over_http(
    caller: OperatorCaller, pool: ConnectionPool
) -> None:
    api = ApiClient(create(caller.app, refresh_s=0), headers=auth_headers(pool))
    rows = [row(number, "token", check=False, seller=f"s{number}") for number in range(1, 41)]
    reply = api.post("/api/accounts/import", json={"accounts": [*rows, {"shop": "1"}]})
    assert reply.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert [line["line"] for line in lines] == list(range(1, 42))
    assert {line["result"] for line in lines[:40]} == {"connected"}
    assert lines[40]["reason"].startswith("seller: ")
    assert "token" not in {text for line in lines for text in map(str, line.values())}
    seller = ApiClient(
        create(caller.app, refresh_s=0), headers=auth_headers(pool, Role.SELLER, "s1")
    )
    assert seller.post("/api/accounts/import", json={"accounts": rows}).status_code == 403
    large = {"accounts": [row(n, "t" * 900, check=False) for n in range(1, 1500)]}
    assert len(json.dumps(large)) > 1_000_000
    assert api.post("/api/accounts/import", json=large).status_code == 200


def test_a_shop_is_named_where_a_seller_has_several(
    caller: OperatorCaller, printify: PrintifySimulator
) -> None:
    for shop in ("1", "2"):
        body = ConnectBody.model_validate(row(int(shop), "token", check=False))
        shops.connect(caller, body)
    named = {"seller": "acme", "platform": "printify"}
    with pytest.raises(ConflictError, match="several shops on printify: 1, 2; name one"):
        shops.disconnect(caller, shops.DisconnectBody.model_validate(named))
    ended = shops.disconnect(caller, shops.DisconnectBody.model_validate({**named, "shop": "2"}))
    assert ended.shop == "2"
