"""`headway demo` as a person runs it: a process of its own, watched and ended from outside."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

HEADWAY = str(Path(sys.executable).with_name("headway"))
QUICK = ("--speed", "2000", "--products", "150", "--port", "0")
PATIENCE_S = 120


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    kept.pop("DATABASE_URL", None)
    return kept | {"HOME": str(home), "PYTHONUNBUFFERED": "1"}


class Demo:
    """A running demo; its lines come through a pipe, so waiting is reading."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [HEADWAY, "demo", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment(home), cwd=home,
        )  # fmt: skip
        self.lines: list[str] = []

    def read_until(self, words: str) -> str:
        """Return the first line that contains this text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if words in line:
                return line
        pytest.fail(f"it ended without saying {words!r}: {self.lines}")

    def family(self) -> dict[int, int]:
        """Return a handle for each process it started, by id; a handle outlives a reused id."""
        return {pid: os.pidfd_open(pid) for pid in descendants(self.process.pid)}

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and the last line."""
        self.process.send_signal(how)
        assert self.process.stdout is not None
        self.lines += [line.rstrip() for line in self.process.stdout]
        return self.process.wait(), self.lines[-1]


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[Demo]:
    demo = Demo(home, *arguments)
    watchdog = threading.Timer(PATIENCE_S, demo.process.kill)
    watchdog.start()
    try:
        yield demo
    finally:
        watchdog.cancel()
        demo.process.kill()
        demo.process.wait()
        assert demo.process.stdout is not None
        demo.process.stdout.close()


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(piece) for path in children for piece in path.read_text().split()]
    return pids + [descendant for child in pids for descendant in descendants(child)]


def running_in(folder: Path) -> list[str]:
    """Return the commands of all processes that work in this folder."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if str(folder) in command:
            pids.append(command)
    return pids


def all_end(handles: dict[int, int]) -> bool:
    """Wait for these processes to end, up to a bound."""
    try:
        return all(select.select([handle], [], [], 20)[0] for handle in handles.values())
    finally:
        for handle in handles.values():
            os.close(handle)


@contextmanager
def logged_in(link: str) -> Iterator[httpx.Client]:
    """Open the link that was printed, as a browser does."""
    with httpx.Client(
        base_url=link.partition("login/")[0], timeout=30, trust_env=False, follow_redirects=True
    ) as client:
        page = client.get(link)
        assert (page.status_code, page.url.path) == (200, "/")
        yield client


def watch_a_call_leave(client: httpx.Client) -> None:
    """Read the live stream until a new call was made."""
    before = client.get("/api/sync/status").json()["calls"][0]["at"]
    with client.stream("GET", "/live") as response:
        for line in response.iter_lines():
            if line == "" and client.get("/api/sync/status").json()["calls"][0]["at"] > before:
                return
    pytest.fail("the stream ended before a call had left")


def watch_a_shop_be_written(client: httpx.Client) -> None:
    """Read the live stream until a shop was written to."""

    def status() -> dict[str, Any]:
        answer: dict[str, Any] = client.get("/api/sync/status").json()
        return answer

    came_at = status()["now"]
    with client.stream("GET", "/live") as response:
        for line in response.iter_lines():
            if line == "" and any(
                (shop["pushed_at"] or "") > came_at for shop in status()["storefront"]["shops"]
            ):
                return
    pytest.fail("the stream ended before a shop was written to")


def command_json(home: Path, *command: str) -> Any:
    """Return the JSON of a command in another terminal."""
    done = subprocess.run(
        [HEADWAY, *command, "--json"],
        env=environment(home), cwd=home, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def join(home: Path) -> None:
    """Use a running demo as a person in another terminal does."""
    overview = command_json(home, "status")["overview"]
    assert overview["counts"]["total"] >= 150
    assert {shop["shop"] for shop in overview["storefront"]["shops"]} == {
        "acme.myshopify.com", "northwind.myshopify.com", "skyline.myshopify.com",
    }  # fmt: skip
    assert overview["storefront"]["written"]["p95_s"] is not None
    held = next(row for row in command_json(home, "hold")["held"] if row["can_approve"])
    command_json(
        home, "approve", held["sku"], "--seller", held["user_id"], "--reason", "looked at it"
    )
    # At this speed the supplier may have changed its price again, and that is held again.
    left = [(row["sku"], row["held_at"]) for row in command_json(home, "hold")["held"]]
    assert (held["sku"], held["held_at"]) not in left
    assert command_json(home, "check")["is_lawful"]
    (explained,) = command_json(home, "explain", held["sku"])["listings"]
    assert explained["explanation"]["sentence"]
    shops = [line for line in command_json(home, "doctor")["lines"] if line["subject"] == "shops"]
    assert [shop["finding"] for shop in shops] == ["3 of 3 connected"]


def test_the_demo_runs_twice_in_a_row_can_be_joined_and_leaves_nothing(tmp_path: Path) -> None:
    for how in (signal.SIGINT, signal.SIGTERM):
        with started(tmp_path, *QUICK) as demo:
            url = demo.read_until("The page: ").split("The page: ")[1].strip()
            demo.read_until("next call")
            family = demo.family()
            assert len(family) > 1, "PostgreSQL runs beside it"
            with logged_in(url) as client:
                watch_a_call_leave(client)
                if how is signal.SIGINT:
                    watch_a_shop_be_written(client)
                    join(tmp_path)
            code, last = demo.end(how)
            assert (code, last) == (0, "The demo has ended; nothing is left running.")
            assert all_end(family)
            folder = tmp_path / ".local" / "share" / "headway"
            assert not folder.stat().st_mode & 0o066, "as doctor wants it"
            assert not any("Traceback" in line or "WARNING" in line for line in demo.lines)


def test_killed_outright_it_leaves_no_process_behind(tmp_path: Path) -> None:
    with started(tmp_path, *QUICK) as demo:
        demo.read_until("next call")
        family = demo.family()
        assert demo.end(signal.SIGKILL)[0] == -signal.SIGKILL
        assert all_end(family)


def test_interrupted_while_it_starts_it_still_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path, *QUICK) as demo:
        demo.read_until("Headway demo, ")
        assert demo.end(signal.SIGINT)[0] == 0
        assert running_in(tmp_path) == []
        assert len(set(demo.lines)) == 2, "what it is, and that it has ended"


@pytest.mark.parametrize("way", ("option", "setting"))
def test_a_port_in_use_is_one_line_and_nothing_is_started(tmp_path: Path, way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        option = ["--port", port] if way == "option" else []
        setting = {"HEADWAY_WEB_PORT": port} if way == "setting" else {}
        done = subprocess.run(
            [HEADWAY, "demo", *option],
            env=environment(tmp_path) | setting, cwd=tmp_path,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert list(tmp_path.iterdir()) == []
