"""People read the usual words: no word that was replaced comes back into text that they see.

That text is the README, the docs, the page, the help of every command, the Makefile's, the comments
of tables and settings, and the strings of the source code, which hold the messages.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Where docstrings are read by users too: as help of commands and in the API's reference.
DOCUMENTED = ("cli", "operations", "client")
FILES = (
    "*.md",
    "*.toml",
    "Makefile",
    "docs/**/*.md",
    "deploy/**/*.md",
    "src/headway/web/templates/**/*.html",
    "src/headway/web/static/*.js",
)
# A replaced word or phrase, as a pattern, and what to write instead.
REPLACED = {
    r"aboard|boarded|who boards": "in the call",
    r"ails": "what is wrong",
    r"anew": "again",
    r"baton": "dispatch lease",
    r"behaviour|catalogue|centre|colour|favour|honour|licence": "the American spelling",
    r"can(not)? be had|could be had": "is (not) available",
    r"desk": "operations",
    r"errand|parcel": "push batch",
    r"ever later": "after ever longer pauses",
    r"for ever": "forever",
    r"going price": "current price",
    r"hears? of|heard of": "is notified; heartbeat",
    r"herd": "burst of calls",
    r"in step": "up to date",
    r"in vain": "could not be made",
    r"is no instant": "is not a time",
    r"is not for you": "You don't have access",
    r"lest": "so that … not",
    r"lets? (us|them|you) in": "gives access",
    r"mend(s|ed|ing)?": "fix, repair",
    r"pardon": "reset",
    r"patrol": "drift check",
    r"play(ed)? along": "worked",
    r"room again": "available again",
    r"shows one out": "logs you out",
    r"shrug": "is ignored",
    r"so no herd comes": "this causes no burst of calls",
    r"than life|than lifelike": "than real time",
    r"this key opens": "This API key is invalid",
    r"told|said": "shown, reported",
    r"(?-i:true to)": "up to date with",
    r"walls?": "tenant isolation",
    r"who pulls next": "Next jobs",
    r"whoever|whomever": "anyone who",
    r"whom": "rewrite the sentence",
    r"(?-i:(a|the|another) headway)(?!\.)": "Headway, with a capital",
}
WORDS = re.compile(
    "|".join(rf"(?P<w{number}>\b({pattern})\b)" for number, pattern in enumerate(REPLACED)),
    re.IGNORECASE,
)
# Files that may have such a word, and why.
ALLOWED = {
    "CHANGELOG.md": {"aboard", "said"},  # it lists names that were replaced
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that people read, and where it is."""

    file: str
    line: int
    text: str


def lines_of(path: Path, *, prefix: str = "") -> Iterator[Text]:
    """Yield the lines of a file that begin so."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(prefix):
            yield Text(file=str(path.relative_to(ROOT)), line=number, text=line)


def docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of the nodes that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


def strings_of(path: Path) -> Iterator[Text]:
    """Yield the strings of a module: messages, help and labels; docstrings if users read them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = set() if any(name in path.parts for name in DOCUMENTED) else docstrings(tree)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in left_out and " " in node.value:
            yield Text(file=str(path.relative_to(ROOT)), line=node.lineno, text=node.value)


def texts() -> Iterator[Text]:
    """Yield all text that people read."""
    for pattern in FILES:
        for path in sorted(ROOT.glob(pattern)):
            yield from lines_of(path)
    for path in sorted(ROOT.glob("src/**/*.sql")):
        yield from (text for text in lines_of(path) if "'" in text.text)
    for path in sorted(ROOT.glob("src/**/*.py")):
        yield from strings_of(path)


def replaced_in(text: Text) -> Iterator[str]:
    """Yield each replaced word of a text, with its place and what to write instead."""
    for match in WORDS.finditer(text.text):
        instead = list(REPLACED.values())[int(str(match.lastgroup).removeprefix("w"))]
        if match[0].lower() not in ALLOWED.get(text.file, ()):
            yield f"{text.file}:{text.line} has {match[0]!r}; write: {instead}"


@pytest.mark.parametrize(
    ("text", "count"),
    (
        ("Sellers whom nobody gave a tier are told anew.", 3),
        ("Etsy did not play along; 9 calls wanted in vain", 2),
        ("the headway that is running now", 1),
        ("Headway keeps the shop up to date; the Headway server does too", 0),
        ("the patrolled desktop", 0),
    ),
)
def test_a_replaced_word_is_found_as_a_word_of_its_own(text: str, count: int) -> None:
    assert len(list(replaced_in(Text(file="README.md", line=1, text=text)))) == count


def test_every_kind_of_text_is_read() -> None:
    kinds = {Path(text.file).suffix for text in texts()}
    assert kinds == {".md", ".toml", "", ".html", ".js", ".py", ".sql"}


def test_no_replaced_word_is_in_text_that_people_read() -> None:
    found = [message for text in texts() for message in replaced_in(text)]
    assert found == [], "\n".join(found)
