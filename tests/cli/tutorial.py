"""Run a tutorial as its reader does: its commands, word for word, and what it says they print.

`console` blocks hold commands, each after a `$`, and below it lines of its output, shortened at the
right or left out; numbers may differ, and `…` stands for anything. Blocks with a title are files.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.conftest import Headway, start_command

from headway.clock import SystemClock

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# What made the environment in which the test itself runs.
INSTALLED = {"make setup", ". .venv/bin/activate"}
# Commands that run until Ctrl-C, and those that may be repeated until they show what is expected.
SERVICES = {"demo", "run"}
REPEATABLE = {"history", "held", "jobs", "quota", "rehearse", "shops", "status"}
PATIENCE_S = 240
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
VERSION = re.compile(r"\d{8}T\d{6}-[0-9a-f]{12}")
PORT = re.compile(re.escape(re.escape("127.0.0.1:")) + r"\d+")
NUMBER = re.compile(r"[-+(]?\d[\d,.:]*%?[),;]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command and the lines that the tutorial shows below it, or a file to write."""

    command: str = ""
    shown: tuple[str, ...] = ()
    file: str = ""
    content: str = ""


def steps_of(text: str) -> Iterator[Step]:
    """Yield the steps of a part of a tutorial."""
    for language, info, body in FENCE.findall(text):
        title = TITLE.search(info)
        if title:
            yield Step(file=title[1], content=body)
        elif language == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                first, *shown = command.splitlines()
                yield Step(command=first, shown=tuple(filter(None, shown)))


def part_of(page: str, heading: str) -> str:
    """Return the part of a tutorial below a heading of the second level."""
    text = (TUTORIALS / page).read_text(encoding="utf-8")
    (part,) = re.findall(rf"^## {heading}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(part)


def pattern_of(line: str) -> re.Pattern[str]:
    """Return what a line of real output must begin with."""

    def word_pattern(word: str) -> str:
        if NUMBER.fullmatch(word):
            return NUMBER.pattern
        if VERSION.fullmatch(word):
            return VERSION.pattern
        return PORT.sub(r"127.0.0.1:\\d+", ".*".join(map(re.escape, word.split("…"))))

    return re.compile(r"\s+".join(map(word_pattern, line.split())))


def missing_from(output: str, shown: tuple[str, ...]) -> str | None:
    """Return the first shown line that the output does not have, in this order."""
    lines = iter(output.splitlines())
    for line in shown:
        pattern = pattern_of(line)
        if not any(pattern.match(text.strip()) for text in lines):
            return line
    return None


@dataclass(slots=True, kw_only=True)
class Reader:
    """Follows a tutorial in a folder; `run` runs one command of headway in this process."""

    run: Headway
    folder: Path
    stack: ExitStack
    environment: dict[str, str]
    version: str = ""
    before: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def follow(self, text: str) -> None:
        """Do all steps; fail at the first line of output that differs."""
        for step in steps_of(text):
            if step.file:
                (self.folder / step.file).write_text(step.content, encoding="utf-8")
                continue
            self.done.append(step.command)
            program, _, rest = step.command.partition(" ")
            if step.command in INSTALLED:
                continue
            if program == "headway":
                self._headway(shlex.split(VERSION.sub(self.version, rest)), step.shown)
            elif program == "export":
                name, _, value = shlex.split(rest)[0].partition("=")
                self.environment.setdefault(name, value)
            else:
                self._shell(step.command)

    def _shell(self, command: str) -> None:
        """Run a line of the shell; its calls of headway are collected, and run in this process."""
        calls = self.folder / ".calls"
        calls.write_bytes(b"")
        collect = r"""headway() { printf '%s\0' "$@" >> .calls; echo >> .calls; }"""
        subprocess.run(["sh", "-ec", f"{collect}\n{command}"], cwd=self.folder, check=True)
        for call in calls.read_text(encoding="utf-8").splitlines():
            self._headway(call.rstrip("\0").split("\0"), ())

    def _headway(self, words: list[str], shown: tuple[str, ...]) -> None:
        if words[0] in self.before:
            self.before[words[0]]()
        if words[0] in SERVICES:
            self._start(words, shown)
            return
        give_up_s = SystemClock().monotonic() + PATIENCE_S
        while True:
            result = self.run(*words, **self.environment)
            assert result.code == 0, (words, result.out, result.err)
            missing = missing_from(result.out, shown)
            if missing is None:
                break
            is_late = SystemClock().monotonic() > give_up_s
            may_repeat = words[0] in REPEATABLE and not is_late
            assert may_repeat, f"{words} does not print {missing!r}:\n{result.out}"
        self.version = next(iter(VERSION.findall(result.out)), self.version)

    def _start(self, words: list[str], shown: tuple[str, ...]) -> None:
        settings = {name: value for name, value in self.environment.items() if value}
        process = self.stack.enter_context(start_command(*words, **settings))
        assert process.stdout is not None
        output = ""
        give_up_s = SystemClock().monotonic() + PATIENCE_S
        while (missing := missing_from(output, shown)) is not None:
            line = process.stdout.readline()
            is_late = SystemClock().monotonic() > give_up_s
            assert line, f"{words} ended:\n{output}"
            assert not is_late, f"{words} does not print {missing!r}:\n{output}"
            output += line


def environment_of(data_dir: Path, **settings: str) -> dict[str, str]:
    """Return the settings of a reader who has nothing yet, on ports of their own."""
    return {"HEADWAY_DATA_DIR": str(data_dir), "HEADWAY_WEB_PORT": "0", **settings}
