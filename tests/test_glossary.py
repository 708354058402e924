"""The glossary is correct: its names exist, and the code uses its words."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from psycopg_pool import ConnectionPool
from tests.web.document import DOCUMENT

ROOT = Path(__file__).parent.parent
PRODUCT = ROOT / "src/headway"
PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| term ")
]
METAPHORS = {"seat", "permit", "slot", "lane", "law"}
# Words of module names that any programmer knows.
ORDINARY = """
agreement authentication background base beat body child cli client clock command completion
config console core counter deliver detection docs doctor embedded error excerpt exporter field flow
form formatting
health heartbeat http input launch lifecycle link live memory migrate model monitoring narrowing
notify offset openapi optimum outage outgoing output pagination panel people pool population port
position
problem progress query receipt reference registry remote response retention route runbook sampling
search section sender server serving setting signature site sparkline speed sql standard
state status target trace
transition view web
"""


def classes() -> Iterator[tuple[str, Path]]:
    """Yield every public class of the product with its file."""
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def stem(word: str) -> str:
    """Return the word without the endings of a plural and of a verb form."""
    word = re.sub(r"(?<=[^s])s$", "", re.sub(r"ies$", "y", word.lower()))
    return re.sub(r"(?<=\w\w\w)(ing|ed|e)$", "", word)


def names_in_column(number: int) -> list[str]:
    return [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[number])]


def test_every_term_has_one_line_in_alphabetical_order() -> None:
    terms = [row[0].lower() for row in ROWS]
    assert len(terms) > 100
    assert terms == sorted(terms)
    assert [term for term, count in Counter(terms).items() if count > 1] == []
    assert all(len(row) == 6 and row[1] for row in ROWS)


def test_the_five_metaphors_are_explained_and_there_is_no_sixth() -> None:
    assert {row[0] for row in ROWS if row[1].startswith("metaphor:")} == METAPHORS


def test_class_names_are_unique_in_the_product() -> None:
    files = defaultdict(list)
    for name, path in classes():
        files[name].append(str(path.relative_to(PRODUCT)))
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_every_class_in_the_glossary_exists() -> None:
    assert set(names_in_column(4)) - {name for name, _ in classes()} == set()


def test_every_column_in_the_glossary_exists(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT table_name || '.' || column_name FROM information_schema.columns"
        ).fetchall()
    assert set(names_in_column(2)) - {name for (name,) in rows} == set()


def test_every_api_field_in_the_glossary_exists() -> None:
    shapes = DOCUMENT["components"]["schemas"].values()
    fields = {name for shape in shapes for name in shape.get("properties", {})}
    assert set(names_in_column(3)) - fields == set()


def test_the_words_of_module_names_are_in_the_glossary_or_ordinary() -> None:
    known = {stem(word) for row in ROWS for word in re.findall(r"[A-Za-z]+", f"{row[0]} {row[1]}")}
    known |= {stem(word) for word in ORDINARY.split()}
    unknown = {
        word: str(path.relative_to(PRODUCT))
        for path in sorted(PRODUCT.rglob("*.py"))
        for part in path.relative_to(PRODUCT).with_suffix("").parts
        for word in part.split("_")
        if word not in {"", "init", "main"} and stem(word) not in known
    }
    assert unknown == {}
