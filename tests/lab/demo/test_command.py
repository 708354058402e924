"""`headway demo` as a person runs it: a process of its own, watched and ended from outside."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS

from headway.store.server.folder import is_owned

HEADWAY = str(Path(sys.executable).with_name("headway"))
QUICK = ("--speed", "2000", "--products", "150", "--port", "0")
# These only bound a hang: on a busy machine a demo takes minutes to work through its past, and a
# test starts two of them.
PATIENCE_S = 900
TIMEOUT_S = 2 * PATIENCE_S
END_S = 120
pytestmark = pytest.mark.timeout(TIMEOUT_S)


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
        """Return a handle for each process it started, by id."""
        return handles_of(descendants(self.process.pid))

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
    """Return the processes below this one; threads and processes may end while we look."""
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (thread / "children").read_text().split())
    return children + [descendant for child in children for descendant in descendants(child)]


def handles_of(pids: list[int]) -> dict[int, int]:
    """Return a handle for each process that still runs; a handle outlives a reused id."""
    handles: dict[int, int] = {}
    for pid in pids:
        with suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    return handles


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
        return all(select.select([handle], [], [], END_S)[0] for handle in handles.values())
    finally:
        for handle in handles.values():
            os.close(handle)


@contextmanager
def logged_in(link: str) -> Iterator[httpx.Client]:
    """Open the link that was printed, as a browser does."""
    base_url = link.partition("login/")[0]
    with httpx.Client(
        base_url=base_url,
        timeout=HTTP_TIMEOUT_S,
        trust_env=False,
        follow_redirects=True,
        verify=NO_ROOTS,
    ) as client:
        page = client.get(link)
        assert (page.status_code, page.url.path) == (200, "/")
        yield client


def status_of(client: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/api/sync/status").raise_for_status().json()
    return answer


def watch_until(client: httpx.Client, what: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
    """Read the live stream until the status is so; it is read again after each event."""
    with client.stream("GET", "/live") as response:
        for line in response.iter_lines():
            if line == "" and is_so(status_of(client)):
                return
    pytest.fail(f"the stream ended before {what}")


def watch_a_call_leave(client: httpx.Client) -> None:
    """Read the live stream until a call has left that had not when we came."""
    before = status_of(client)["calls"][0]["at"]
    watch_until(client, "a call had left", lambda status: status["calls"][0]["at"] > before)


def watch_a_shop_be_written(client: httpx.Client) -> None:
    """Read the live stream until a shop was written to since we came."""
    came_at = status_of(client)["now"]
    watch_until(
        client,
        "a shop was written to",
        lambda status: any(
            (shop["pushed_at"] or "") > came_at for shop in status["storefront"]["shops"]
        ),
    )


def run(home: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in another terminal."""
    return subprocess.run(
        [HEADWAY, *command, "--json"],
        env=environment(home), cwd=home, capture_output=True, check=False,
    )  # fmt: skip


def command_json(home: Path, *command: str) -> Any:
    """Return the JSON of a command in another terminal."""
    done = run(home, *command)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def held_now(home: Path) -> dict[tuple[str, str], Any]:
    """Return the changes that are held, by part number and the time since when."""
    return {
        (change["sku"], change["held_at"]): change for change in command_json(home, "held")["held"]
    }


@contextmanager
def reading_paused(home: Path) -> Iterator[None]:
    """Let no price be read: at this speed the supplier moves one faster than a command starts."""
    command_json(home, "pause", "--supplier", "--reason", "a person decides")
    yield
    command_json(home, "resume", "--supplier")


def approve_one(home: Path, client: httpx.Client) -> str:
    """Approve a held change, as soon as there is one; return its part number."""
    while True:
        with reading_paused(home):
            for key, held in held_now(home).items():
                if held["can_approve"] and approve(home, key, held["seller"]):
                    return key[0]
        watch_a_call_leave(client)


def approve(home: Path, key: tuple[str, str], seller: str) -> bool:
    """Approve a held change; return False if it was settled first, which the list then shows.

    Only the call that was under way when reading was paused can have done that.
    """
    why = ("--reason", "looked at it")
    done = run(home, "approve", key[0], "--seller", seller, *why)
    left = held_now(home)
    if done.returncode == 0:
        assert json.loads(done.stdout)["done"] == 1
        assert key not in left
        return True
    assert done.returncode == 1, done
    assert json.loads(done.stdout)["left"] == 1
    assert key not in left or not left[key]["can_approve"], done
    return False


def join(home: Path, client: httpx.Client) -> None:
    """Look at a running demo, and decide, as a person in another terminal does."""
    overview = command_json(home, "status")["overview"]
    assert overview["counts"]["total"] >= 150
    assert {shop["shop"] for shop in overview["storefront"]["shops"]} == {
        "acme.myshopify.com", "northwind.myshopify.com", "skyline.myshopify.com",
    }  # fmt: skip
    assert overview["storefront"]["written"]["p95_s"] is not None
    sku = approve_one(home, client)
    assert command_json(home, "check")["is_lawful"]
    (explained,) = command_json(home, "explain", sku)["listings"]
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
                    join(tmp_path, client)
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
        assert is_owned(tmp_path / ".local/share/headway/demo"), "another command would find none"
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
