"""The style guide as a test: sizes, docstrings and banned names. Class names: test_glossary."""

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
# Words of the old vocabulary; docs/glossary.md has the plain ones.
REPLACED = frozenset(
    {"aboard", "baton", "boarded", "desk", "errand", "herd", "pardon", "parcel", "patrol"}
)
REPLACED_IN_CODE = REPLACED | {"mended", "ticket", "whoever"}


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
    assert [reason for path in SOURCES + TESTS for reason in too_long(path)] == []


def test_every_module_opens_with_a_short_docstring() -> None:
    for path in SOURCES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path} has no docstring"
        if path.name != "errors.py":
            assert docstring.count("\n") < 12, f"{path}: the module docstring is an essay"


def test_every_file_that_starts_first_exists() -> None:
    assert [name for name in LONG if not (ROOT / "tests" / name).is_file()] == []


def test_no_module_is_called_utils_helpers_or_manager() -> None:
    banned = re.compile(r"utils?|helpers?|managers?|common|misc")
    assert not [path for path in SOURCES if banned.fullmatch(path.stem)]


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module gives to something, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def words_of(name: str) -> list[str]:
    """Return the words of a name in snake or camel case, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def replaced_names(path: Path) -> Iterator[str]:
    """Yield the names of a module that use a replaced word."""
    for name, line in identifiers(ast.parse(path.read_text(encoding="utf-8"))):
        if REPLACED_IN_CODE & set(words_of(name)):
            yield f"{path.relative_to(ROOT)}:{line} {name}"


def test_no_identifier_uses_a_replaced_word() -> None:
    assert [name for path in SOURCES for name in replaced_names(path)] == []


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
        match = banned.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not match, f"{name} contains {match and match.group()}"
