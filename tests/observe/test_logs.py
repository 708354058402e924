"""A log is for people or for programs, names calls and sellers, and holds no secret."""

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
    "notify_urls": "slack://T1A2B3C4D/B1A2B3C4D/slack-hush-hush mailto://me:mail-hush@mail.test",
}
PIECES = (
    *("pass-word-1", "pass-word-2", "fernet-key-number-one", "fernet-key-number-two"),
    *("T1A2B3C4D", "B1A2B3C4D", "slack-hush-hush", "mail-hush"),
)
# Those say where something is, and are none.
PLACES = ("db.test", "broker.test", "mail.test")
# Nobody's setting: found by where it stands, or by how it looks.
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


def test_every_secret_of_the_settings_is_given_to_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {
        name for name, info in Settings.model_fields.items() if "SecretStr" in str(info.annotation)
    }
    assert fields == set(SECRETS), "a new secret setting: name it here"
    voice = CommandConsole(Settings.model_validate({**SECRETS, "log_format": "json"}))
    for secret in [*SECRETS.values(), *PIECES]:
        voice.say(f"something went wrong with {secret} there")
        voice.tell("fetch", f"refused: <{secret}>")
    said = capsys.readouterr().out
    assert said.count(HIDDEN) >= 2 * len(SECRETS)
    assert not [each for each in [*SECRETS.values(), *PIECES] if each in said]
    for place in PLACES:
        voice.say(f"no connection to {place}")
        assert place in capsys.readouterr().out


@pytest.mark.parametrize("is_json", (True, False), ids=("json", "text"))
@pytest.mark.parametrize("text", HEADERS)
def test_what_looks_like_a_secret_is_cut_out_of_a_line(
    lines: Lines, text: str, *, is_json: bool
) -> None:
    Log(lines.append, is_json=is_json).say(text)
    assert HIDDEN in lines[0]
    assert "abcdef123456" not in lines[0]
    assert "bWU6" not in lines[0]


def test_a_secret_in_a_field_is_cut_out_by_the_name_of_the_field() -> None:
    event = {
        "event": "call",
        "headers": {"Authorization": "x1", "Accept": "json", "set-cookie": ["x2"]},
        "api_key": "x3",
        "access_token": SecretStr("x4"),
        "calls": [{"password": "x5", "sku": "P-1"}],
        "monkey": "kept",
    }
    shown = json.dumps(Redactor()(None, "info", event))
    assert [each for each in ("x1", "x2", "x3", "x4", "x5") if each in shown] == []
    assert all(each in shown for each in ("json", "P-1", "kept"))


def test_ordinary_lines_stay_as_they_are(lines: Lines) -> None:
    said = [
        "read 10 SKUs",
        "acme.myshopify.com: new access token",
        "part token failed",
        "Headway runs. The page: http://127.0.0.1:8650/login/abcDEF123",
        "Boeing answered 500: try again, token: soon",
        "no connection to Etsy (ConnectError)",
    ]
    log = Log(lines.append)
    for each in said:
        log.say(each)
    assert lines == said


def test_a_line_for_people_is_the_step_and_what_it_did(lines: Lines) -> None:
    log = Log(lines.append)
    name_call("call-1", "acme")
    log.tell("fetch", "read 10 SKUs")
    assert lines == ["fetch: read 10 SKUs"]


def test_a_line_of_json_names_the_call_and_its_seller_once(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", "acme")
    log.tell("push", "acme.myshopify.com: price of 3")
    log.tell("push", "permit lapsed")
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


def test_a_line_of_a_call_that_failed_is_a_warning_and_says_how(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", None)
    name_failure("timed_out")
    log.tell("fetch", "the call failed")
    name_call("call-2", None)
    log.tell("fetch", "read 10 SKUs")
    assert [(each["level"], each.get("ended")) for each in lines.json()] == [
        ("warning", "timed_out"),
        ("info", None),
    ]


def test_a_call_of_all_sellers_names_none_of_an_earlier_one(lines: Lines) -> None:
    log = Log(lines.append, is_json=True)
    name_call("call-1", "acme")
    name_call("call-2", None)
    log.say("now")
    forget_call()
    assert lines.json()[0]["call"] == "call-2"
    assert "seller" not in lines.json()[0]


def test_what_libraries_warn_of_comes_the_same_way_without_secrets(lines: Lines) -> None:
    log = Log(lines.append, is_json=True, secrets=["boeing-client-hush"])
    library = logging.getLogger("some.library")
    with log.heard():
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


def test_a_line_of_json_is_one_line_whatever_it_says(lines: Lines) -> None:
    Log(lines.append, is_json=True).say("one\ntwo é")
    assert lines.json()[0]["event"] == "one\ntwo é"
    assert "\n" not in lines[0]
