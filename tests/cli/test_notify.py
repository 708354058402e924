"""`headway notify test` sends one message to each address and reports each reply."""

import json

import pytest
from tests.observe.test_notify import SECRET, NotificationServer, notification_server

from headway.cli import main

__all__ = ["notification_server"]


def test_each_address_gets_one_message_and_its_reply_is_reported(
    notification_server: NotificationServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notification_server.status["/b"] = 404
    monkeypatch.setenv(
        "HEADWAY_NOTIFY_URLS", f"{notification_server.url('a')} {notification_server.url('b')}"
    )
    monkeypatch.setenv("HEADWAY_PUBLIC_URL", "https://hw.test/")
    assert main(["notify", "test", "--json"]) == 1
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    reply = json.loads(captured.out)
    assert [message["error"] for message in reply["sent"]] == ["", "json (2 of 2): HTTP 404"]
    assert notification_server.paths == ["/a", "/b"]
    assert "https://hw.test/" in notification_server.received[0][1]["message"]


def test_without_an_address_it_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEADWAY_NOTIFY_URLS", raising=False)
    assert main(["notify", "test"]) == 2
    assert "HEADWAY_NOTIFY_URLS" in capsys.readouterr().err
