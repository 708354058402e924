"""The log as text and as JSON: it names calls and sellers, and holds no secret."""

import json
import logging
from typing import Any

import pytest
from pydantic import SecretStr

from headway.cli.console import CommandConsole
from headway.config import Settings
from headway.observe.logs import HIDDEN, Log, Redactor, forget_call, name_call, name_failure

SECRETS = {
    "database_url": "postgresql://me:pass-word-1@db.test/headway",
    "secret_key": "fernet-key-number-one,fernet-key-number-two",
    "broker_url": "redis://:pass-word-2@broker.test:6379/0",
    "api_key": "hw_key-that-nobody-may-see",
    "boeing_client_secret": "boeing-client-hush",
    "boeing_password": "boeing-pass-hush",
    "shopify_client_secret": "shopify-client-hush",
    "etsy_shared_secret": "etsy-shared-hush",
    "etsy_webhook_secret": "whsec_etsy-webhook-hush",
    "printify_webhook_secret": "printify-webhook-hush",
    "return_secret": "return-address-hush-which-is-long-enough",
    "notify_urls": "slack://T1A2B3C4D/B1A2B3C4D/slack-hush-hush mailto://me:mail-hush@mail.test",
}
PIECES = (
    *("pass-word-1", "pass-word-2", "fernet-key-number-one", "fernet-key-number-two"),
    *("T1A2B3C4D", "B1A2B3C4D", "slack-hush-hush", "mail-hush"),
)
# These are locations, not secrets.
PLACES = ("db.test", "broker.test", "mail.test")
# Not from a setting: recognized by the field name or by the pattern.
HEADERS = (
    "Authorization: Bearer abcdef123456 and more",
    "authorization='Basic bWU6cGFzc3dvcmQ='",
    "{'Cookie': 'headway_session=abcdef123456'}",
    "X-Shopify-Access-Token: shpat_abcdef123456",
    "https://me:abcdef123456@shop.test/admin",
    "redis://:abcdef123456@127.0.0.1:6379/0",
    "POST /oauth?client_secret=abcdef123456&code=1",
    '{"access_token": "abcdef123456", "expires_in": 3600}',
    "the password: abcdef123456",
    "Bearer abcdef123456",
    "hw_abcdef123456 is a key",
)


class Lines(list[str]):
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self]


@pytest.fixture
def lines() -> Lines:
    return Lines()


def test_every_secret_of_the_settings_is_redacted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {
        name for name, info in Settings.model_fields.items() if "SecretStr" in str(info.annotation)
    }
    assert fields == set(SECRETS), "a new secret setting: name it here"
    log = CommandConsole(Settings.model_validate({**SECRETS, "log_format": "json"}))
    for secret in [*SECRETS.values(), *PIECES]:
        log.say(f"something went wrong with {secret} there")
        log.tell("fetch", f"refused: <{secret}>")
    output = capsys.readouterr().out
    assert output.count(HIDDEN) >= 2 * len(SECRETS)
    assert not [secret for secret in [*SECRETS.values(), *PIECES] if secret in output]
    for host in PLACES:
        log.say(f"no connection to {host}")
        assert host in capsys.readouterr().out


@pytest.mark.parametrize("is_json", (True, False), ids=("json", "text"))
@pytest.mark.parametrize("text", HEADERS)
def test_a_text_that_looks_like_a_secret_is_redacted(
    lines: Lines, text: str, *, is_json: bool
) -> None:
    Log(lines.append, is_json=is_json).info(text)
    assert HIDDEN in lines[0]
    assert "abcdef123456" not in lines[0]
    assert "bWU6" not in lines[0]


def test_a_field_with_the_name_of_a_secret_is_redacted() -> None:
    event = {
        "event": "call",
        "headers": {"Authorization": "x1", "Accept": "json", "set-cookie": ["x2"]},
        "api_key": "x3",
        "access_token": SecretStr("x4"),
        "calls": [{"password": "x5", "sku": "P-1"}],
        "monkey": "kept",
    }
    logged = json.dumps(Redactor()(None, "info", event))
    assert [secret for secret in ("x1", "x2", "x3", "x4", "x5") if secret in logged] == []
    assert all(text in logged for text in ("json", "P-1", "kept"))


def test_ordinary_lines_are_not_changed(lines: Lines) -> None:
    messages = [
        "read 10 SKUs",
        "acme.myshopify.com: new access token",
        "part token failed",
        "Headway runs. The page: http://127.0.0.1:8650/login/abcDEF123",
        "Boeing answered 500: try again, token: soon",
        "no connection to Etsy (ConnectError)",
    ]
    log = Log(lines.append)
    for message in messages:
        log.info(message)
    assert lines == messages


def test_a_line_of_text_has_the_step_and_its_result(lines: Lines) -> None:
    log = Log(lines.append)
    name_call("call-1", "acme")
    log.log_step("fetch", "read 10 SKUs")
    assert lines == ["fetch: read 10 SKUs"]


def test_a_line_of_json_has_the_call_and_its_seller_once(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", "acme")
    log.log_step("push", "acme.myshopify.com: price of 3")
    log.log_step("push", "permit lapsed")
    first, second = lines.json()
    assert first["at"].endswith("Z")
    del first["at"]
    assert first == {
        "level": "info",
        "step": "push",
        "event": "acme.myshopify.com: price of 3",
        "call": "call-1",
        "seller": "acme",
    }
    assert not {"call", "seller"} & set(second)


def test_a_failed_call_is_logged_as_a_warning_with_its_outcome(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", None)
    name_failure("timed_out")
    log.log_step("fetch", "the call failed")
    name_call("call-2", None)
    log.log_step("fetch", "read 10 SKUs")
    assert [(line["level"], line.get("ended")) for line in lines.json()] == [
        ("warning", "timed_out"),
        ("info", None),
    ]


def test_a_call_for_all_sellers_does_not_log_the_seller_of_an_earlier_call(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", "acme")
    name_call("call-2", None)
    log.info("now")
    forget_call()
    assert lines.json()[0]["call"] == "call-2"
    assert "seller" not in lines.json()[0]


def test_warnings_of_libraries_are_logged_without_secrets(lines: Lines) -> None:
    log = Log(lines.append, is_json=True, secrets=["boeing-client-hush"])
    library = logging.getLogger("some.library")
    with log.library_warnings():
        library.info("nobody wants to know")
        library.warning("lost %s", "boeing-client-hush")
        try:
            raise ValueError("https://me:abcdef123456@shop.test")  # noqa: TRY301 - to be logged
        except ValueError:
            library.exception("it broke")
    library.warning("after the end")
    lost, broke = lines.json()
    assert (lost["level"], lost["step"], lost["event"]) == (
        "warning",
        "some.library",
        f"lost {HIDDEN}",
    )
    assert broke["level"] == "error"
    assert "ValueError" in broke["exception"]
    assert "abcdef123456" not in lines[1]


def test_a_line_of_json_has_no_line_breaks(lines: Lines) -> None:
    Log(lines.append, is_json=True).info("one\ntwo é")
    assert lines.json()[0]["event"] == "one\ntwo é"
    assert "\n" not in lines[0]
