"""The style guide as a test: sizes, docstrings, and names that must not return."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import LONG

ROOT = Path(__file__).parent.parent
SOURCES = sorted(ROOT.glob("src/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/*.py")) + sorted(ROOT.glob("bench/**/*.py"))
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500


def too_long(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if text.count("\n") > MODULE_LINES_MAX:
        yield f"{path} is too long"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{path}: {node.name} has {length} lines"


def test_no_module_and_no_function_grows_too_long() -> None:
    assert len(SOURCES) > 100
    assert len(TESTS) > 100
    assert [each for path in SOURCES + TESTS for each in too_long(path)] == []


def test_every_module_opens_with_a_short_docstring() -> None:
    for path in SOURCES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path} has no docstring"
        if path.name != "errors.py":
            assert docstring.count("\n") < 12, f"{path}: the module docstring is an essay"


def test_every_file_that_starts_first_is_there() -> None:
    assert [name for name in LONG if not (ROOT / "tests" / name).is_file()] == []


def test_no_module_is_called_utils_helpers_or_manager() -> None:
    banned = re.compile(r"utils?|helpers?|managers?|common|misc")
    assert not [path for path in SOURCES if banned.fullmatch(path.stem)]


def test_only_the_store_writes_sql() -> None:
    statement = re.compile(
        r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b", re.DOTALL
    )
    for path in SOURCES:
        # The lab reads the tables itself, past the engine that it judges.
        if "store" in path.parts or "headway_lab" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not statement.search(node.value), f"{path}:{node.lineno} holds SQL"


def test_no_committed_file_names_a_registry_or_a_machine_path() -> None:
    if shutil.which("git") is None:
        return  # nobody can commit from here
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        return  # an unpacked source archive has no history to look at
    banned = re.compile("pypi" + r"\.org|files\.pythonhosted|registry\.npmjs|/work/" + "main")
    for name in listed.stdout.split("\n"):
        path = ROOT / name
        if not name or not path.is_file() or path.suffix in {".png", ".woff2"}:
            continue
        found = banned.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{name} names {found and found.group()}"
