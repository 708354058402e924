import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from headway.config import Settings, load
from headway.config.supplier_fields import HEADERS, PATHS
from headway.core.catalog.listings import AuthStep, Sku
from headway.errors import (
    ConfigError,
    PermanentError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.boeing.api import api_of
from headway.providers.boeing.client import BoeingSupplier, _life_s
from headway.providers.boeing.settings import BoeingAccess
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.boeing import BoeingSimulator
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.simulators.reply import SimReply

if TYPE_CHECKING:
    from tests.providers.conftest import Rig

API = api_of(Settings())
TWO = [Sku("WF1=K3"), Sku("WF2=K3")]


def only(fault: str) -> FaultPlan:
    return FaultPlan(rates={fault: 1.0})


def test_the_first_price_call_needs_both_tokens_in_order(rig: "Rig") -> None:
    worker = rig.worker(rig.supplier())
    assert worker.auth_step() is AuthStep.OAUTH
    assert worker.authenticate(AuthStep.OAUTH)
    assert worker.auth_step() is AuthStep.PART_TOKEN
    assert worker.authenticate(AuthStep.PART_TOKEN)
    assert worker.auth_step() is None


def test_a_quote_says_what_the_supplier_has(rig: "Rig") -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier)
    rig.sign_in(worker)
    skus = [Sku(f"WF{number}=K3") for number in range(10)]
    reply = worker.quote(skus)
    assert not reply.missing
    assert not reply.faulty
    for sku in skus:
        part = supplier._catalog.lookup(sku)
        quote = reply.quotes[sku]
        assert (quote.list_price, quote.net_price) == supplier.shown_prices(part)
        assert quote.currency == "USD"
        for place, quantity in part.stock.items():
            assert quote.quantities.get(place, 0) == quantity


def test_each_step_is_exactly_one_request(rig: "Rig") -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier)
    rig.sign_in(worker)
    worker.quote(TWO)
    assert supplier.calls == {"oauth": 1, "part_token": 1, "price": 1}


def test_a_sku_unknown_to_the_supplier_is_missing(rig: "Rig") -> None:
    worker = rig.worker(rig.supplier())
    rig.sign_in(worker)
    reply = worker.quote([Sku("WF1=K3"), Sku("NO-SUCH")])
    assert reply.missing == {"NO-SUCH"}
    assert set(reply.quotes) == {"WF1=K3"}


@pytest.mark.parametrize(
    ("fault", "error"),
    (
        ("error", TransientError),
        ("html", UnreadableError),
        ("truncate", UnreadableError),
        ("drop", TimedOutError),
        ("timeout", TimedOutError),
    ),
)
def test_a_fault_of_the_supplier_becomes_one_error_after_one_request(
    rig: "Rig", fault: str, error: type[ProviderError]
) -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier, timeout_s=10)
    rig.sign_in(worker)
    supplier.faults = only(fault)
    with pytest.raises(ProviderError) as raised:
        worker.quote(TWO)
    assert type(raised.value) is error
    assert supplier.calls["price"] == 1
    assert supplier.faults.injected == {fault: 1}


@pytest.mark.parametrize("fault", ("error", "html", "truncate", "drop"))
def test_a_fault_on_a_token_request_is_an_error_and_leaves_no_lease(rig: "Rig", fault: str) -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier)
    supplier.faults = only(fault)
    with pytest.raises(TransientError):
        worker.authenticate(AuthStep.OAUTH)
    supplier.faults = FaultPlan()
    rig.sign_in(worker)
    assert worker.quote(TWO).quotes


def test_a_repeated_line_is_one_quote_or_a_faulty_sku_but_never_an_error(rig: "Rig") -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier)
    rig.sign_in(worker)
    supplier.faults = only("duplicate")
    replies = [worker.quote(TWO) for _ in range(12)]
    assert {reply.faulty.get(TWO[0]) for reply in replies} == {None, "two different lines"}
    assert all(TWO[1] in reply.quotes for reply in replies)


def test_too_many_calls_are_throttled_with_the_time_to_wait(rig: "Rig") -> None:
    supplier = rig.supplier(limit=2)
    worker = rig.worker(supplier)
    rig.sign_in(worker)
    with pytest.raises(ThrottledError) as raised:
        worker.quote(TWO)
    assert 0 < raised.value.retry_after_s <= 60
    assert supplier.refusals == 1


def test_more_skus_than_the_supplier_takes_is_a_permanent_error(rig: "Rig") -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier, seats=11)
    rig.sign_in(worker)
    with pytest.raises(PermanentError, match="400"):
        worker.quote([Sku(f"WF{number}=K3") for number in range(11)])


def test_a_second_worker_uses_the_tokens_of_the_first_without_a_request(rig: "Rig") -> None:
    supplier = rig.supplier()
    rig.sign_in(rig.worker(supplier))
    second = rig.worker(supplier)
    assert second.auth_step() is None
    assert second.quote(TWO).quotes
    assert supplier.calls["oauth"] == 1


def test_a_storm_of_refusals_leads_to_one_refresh(rig: "Rig") -> None:
    supplier = rig.supplier()
    workers = [rig.worker(supplier) for _ in range(4)]
    for worker in workers:
        rig.sign_in(worker)
    supplier.revoke_tokens()
    # All send with the dead tokens before the first of them has refreshed; one comes late.
    *early, late = workers
    for worker in early:
        with pytest.raises(UnauthorizedError):
            worker.quote(TWO)
    rig.sign_in(early[0])
    with pytest.raises(UnauthorizedError):
        late.quote(TWO)
    assert [worker.auth_step() for worker in workers] == [None] * 4
    assert all(worker.quote(TWO).quotes for worker in workers)
    assert (supplier.calls["oauth"], supplier.calls["part_token"]) == (2, 2)


def test_while_one_refreshes_another_makes_no_request(rig: "Rig") -> None:
    supplier = rig.supplier()
    worker = rig.worker(supplier)
    now = rig.clock.now()
    shelf = Credentials(rig.pool)
    assert shelf.begin_refresh(
        worker.limit_key, owner="another", now=now, lease_until=now + timedelta(days=1)
    )
    assert worker.authenticate(AuthStep.OAUTH) is False
    assert not supplier.calls


def test_a_refresh_that_another_worker_has_just_done_is_not_repeated(rig: "Rig") -> None:
    supplier = rig.supplier()
    first, second = rig.worker(supplier), rig.worker(supplier)
    step = second.auth_step()
    rig.sign_in(first)
    assert step is AuthStep.OAUTH
    assert second.authenticate(step) is False
    assert second.auth_step() is None
    assert supplier.calls["oauth"] == 1


def test_a_wrong_secret_is_refused_and_shown_nowhere(
    rig: "Rig", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    worker = rig.worker(rig.supplier(), client_secret="hush-hush-hush")
    with pytest.raises(UnauthorizedError) as raised:
        worker.authenticate(AuthStep.OAUTH)
    assert "hush" not in f"{raised.value!r} {raised.value} {caplog.text} {worker!r}"


def test_no_token_and_no_password_reaches_the_log(
    rig: "Rig", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    worker = rig.worker(rig.supplier())
    rig.sign_in(worker)
    worker.quote(TWO)
    tokens = [token.text for token in worker._tokens.values()]
    assert len(tokens) == 2
    for secret in ("sim-client-secret", "sim-password", *tokens):
        assert secret not in caplog.text
        assert secret not in repr(worker._tokens)


def test_a_wrong_password_kills_the_oauth_token_it_was_sent_with(rig: "Rig") -> None:
    worker = rig.worker(rig.supplier(), password="wrong-password")
    assert worker.authenticate(AuthStep.OAUTH)
    with pytest.raises(UnauthorizedError):
        worker.authenticate(AuthStep.PART_TOKEN)
    assert worker.auth_step() is AuthStep.OAUTH


def test_an_outage_is_refused_connections_silence_and_503(virtual_rig: "Rig") -> None:
    plan = FaultPlan(outage=[Interval(start_s=0, end_s=10_000)])
    worker = virtual_rig.worker(virtual_rig.supplier(faults=plan))
    steps = set()
    for _ in range(3):
        with pytest.raises(TransientError) as raised:
            worker.authenticate(AuthStep.OAUTH)
        steps.add(type(raised.value))
    assert steps == {UnsentError, TimedOutError, TransientError}


def test_a_port_nobody_listens_on_means_that_nothing_was_sent(rig: "Rig") -> None:
    supplier = rig.supplier()
    if rig.kind == "sockets":
        rig.stack.pop_all().close()
    else:
        supplier.faults = FaultPlan(outage=[Interval(start_s=0, end_s=10_000)])
    worker = rig.worker(supplier)
    with pytest.raises(UnsentError):
        worker.authenticate(AuthStep.OAUTH)
    assert not supplier.calls
    worker.close()


def test_a_token_is_renewed_a_minute_before_it_dies(virtual_rig: "Rig") -> None:
    supplier = virtual_rig.supplier(token_life_s=600)
    worker = virtual_rig.worker(supplier)
    worker.authenticate(AuthStep.OAUTH)
    begun_s = virtual_rig.clock.monotonic()
    virtual_rig.clock.sleep(begun_s + 539 - virtual_rig.clock.monotonic())
    assert worker.auth_step() is AuthStep.PART_TOKEN
    virtual_rig.clock.sleep(1.5)
    assert worker.auth_step() is AuthStep.OAUTH


def test_a_life_that_is_absurd_or_absent_is_brought_to_reason() -> None:
    assert _life_s({}) == 3600
    assert _life_s({"expires_in": "900"}) == 900
    assert _life_s({"expires_in": 1}) == 180
    assert _life_s({"expires_in": 10**12}) == 86_400
    for nonsense in ("soon", True, float("nan"), float("inf"), [], {}):
        assert _life_s({"expires_in": nonsense}) == 3600


def test_a_month_of_expiring_tokens_never_sends_a_dead_one(virtual_rig: "Rig") -> None:
    supplier = virtual_rig.supplier()
    worker = virtual_rig.worker(supplier)
    for _ in range(200):
        virtual_rig.sign_in(worker)
        assert worker.quote(TWO).quotes
        virtual_rig.clock.sleep(1234)
    assert supplier.calls["oauth"] < 200


def test_two_actors_in_virtual_time_refresh_once(virtual_rig: "Rig") -> None:
    supplier = virtual_rig.supplier()
    made = []

    def act() -> None:
        made.append(virtual_rig.worker(supplier).authenticate(AuthStep.OAUTH))

    for _ in range(5):
        virtual_rig.clock.spawn(act)
    virtual_rig.clock.sleep(100)
    assert sorted(made) == [False, False, False, False, True]
    assert supplier.calls == {"oauth": 1}


def test_tokens_are_stored_encrypted(virtual_rig: "Rig") -> None:
    worker = virtual_rig.worker(virtual_rig.supplier())
    virtual_rig.sign_in(worker)
    stored = {row.name: row.secret for row in Credentials(virtual_rig.pool).load(worker.limit_key)}
    for name, token in worker._tokens.items():
        assert token.text.encode() not in stored[name]
        assert (
            Vault(["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]).decrypt(stored[name])
            == token.text
        )


def test_a_reply_that_echoes_a_token_does_not_show_it(virtual_rig: "Rig") -> None:
    supplier = virtual_rig.supplier()
    worker = virtual_rig.worker(supplier)
    virtual_rig.sign_in(worker)
    tokens = [token.text for token in worker._tokens.values()]

    body = " ".join(tokens).encode()
    for status in (200, 400, 500):
        answer = SimReply(status=status, body=body)
        echoing = virtual_rig.worker(SimpleNamespace(handle=lambda *_, answer=answer: answer))
        assert echoing.auth_step() is None
        with pytest.raises(ProviderError) as raised:
            echoing.quote(TWO)
        assert "***" in str(raised.value)
        assert not any(token in str(raised.value) for token in tokens)


def test_prices_are_exact_decimals(virtual_rig: "Rig") -> None:
    supplier = virtual_rig.supplier()
    worker = virtual_rig.worker(supplier)
    virtual_rig.sign_in(worker)
    quote = worker.quote([Sku("WF7=K3")]).quotes[Sku("WF7=K3")]
    assert quote.net_price == Decimal("17.25")


@pytest.mark.parametrize("url", ("", "boeing", "ftp://boeing.test", "http://", "http://[", "//x"))
def test_a_bad_address_is_explained_in_one_line(url: str) -> None:
    access = BoeingAccess(client_id="a", client_secret="b", username="c", password="d")
    with pytest.raises(ConfigError, match="HEADWAY_BOEING_URL") as raised:
        BoeingSupplier(url, access, token_store=None, vault=None, clock=None, api=API)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("bad", ("", " padded", "new\nline", "nul\0"))
def test_a_password_that_no_header_can_carry_is_named_but_not_shown(bad: str) -> None:
    access = BoeingAccess(client_id="a", client_secret="b", username="c", password=bad)
    with pytest.raises(ConfigError, match="HEADWAY_BOEING_PASSWORD") as raised:
        BoeingSupplier("http://x.test", access, token_store=None, vault=None, clock=None, api=API)
    assert not bad or bad not in str(raised.value)


def test_access_shows_no_secret() -> None:
    access = BoeingAccess(
        client_id="a", client_secret="hush-one", username="c", password="hush-two"
    )
    assert "hush" not in repr(access)


def test_paths_headers_flags_scope_and_fields_of_the_requests_are_settings(
    virtual_rig: "Rig",
) -> None:
    """Check it with a supplier whose API is the simulated one, with every name changed."""
    named = {"HEADWAY_BOEING_SCOPE": "other-scope", "HEADWAY_BOEING_FLAGS": "verbose=false"}
    for name, usual in (("PATHS", PATHS), ("HEADERS", HEADERS)):
        named[f"HEADWAY_BOEING_{name}"] = ",".join(
            f"{key}={value}-2" for key, value in usual.items()
        )
    settings = load({**named, "HEADWAY_BOEING_FIELDS": "requested=wanted,net_price=cost"})
    simulator = virtual_rig.supplier()
    bodies: list[bytes] = []

    def handle(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        assert path.endswith("-2")
        bodies.append(body)
        usual = {name.removesuffix("-2"): value for name, value in headers.items()}
        assert not set(HEADERS.values()) & set(headers), "no name of before is sent"
        body = body.replace(b'"wanted"', b'"productCodes"')
        reply = simulator.handle(method, path.removesuffix("-2"), usual, body)
        part_token = HEADERS["part_token_reply"]
        renamed = {
            f"{name}-2" if name.lower() == part_token else name: value
            for name, value in reply.headers.items()
        }
        return replace(reply, headers=renamed, body=reply.body.replace(b'"netPrice"', b'"cost"'))

    other = cast("BoeingSimulator", SimpleNamespace(handle=handle))
    worker = virtual_rig.worker(other, api=api_of(settings))
    virtual_rig.sign_in(worker)
    assert b"scope=other-scope" in bodies[0]
    assert worker.quote(TWO).quotes[TWO[0]].net_price is not None
    assert b'"verbose":false' in bodies[-1].replace(b" ", b"")
    assert b"showNoStock" not in bodies[-1]
