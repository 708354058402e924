"""`headway notify test` sends one message to each address, and tells what each answered."""

import json

import pytest
from tests.observe.test_notify import SECRET, Listener, listener

from headway.cli import main

__all__ = ["listener"]


def test_each_address_is_sent_one_message_and_its_answer_is_told(
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listener.status["/b"] = 404
    monkeypatch.setenv("HEADWAY_NOTIFY_URLS", f"{listener.url('a')} {listener.url('b')}")
    monkeypatch.setenv("HEADWAY_PUBLIC_URL", "https://hw.test/")
    assert main(["notify", "test", "--json"]) == 1
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    answer = json.loads(printed.out)
    assert [each["error"] for each in answer["sent"]] == ["", "json (2 of 2): HTTP 404"]
    assert listener.paths == ["/a", "/b"]
    assert "https://hw.test/" in listener.heard[0][1]["message"]


def test_where_nobody_is_told_it_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEADWAY_NOTIFY_URLS", raising=False)
    assert main(["notify", "test"]) == 2
    assert "HEADWAY_NOTIFY_URLS" in capsys.readouterr().err
