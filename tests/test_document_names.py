"""The page of the documents' names: each entry is what the code and the database have."""

import json
import re
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.documents.databases import FOLDER
from tests.test_config import PLAN_V2
from typer.main import get_group

from headway.cli import build
from headway.config import Settings, setting_name
from headway.config.document_settings import ALIASES, REPLACED
from headway.core.dispatch import Verb
from headway.runners.celery_app import QUEUES, make_celery, task_name

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "document-names.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| (00[^|]*) \|([^|]*)\|([^|]*)\|$", re.MULTILINE)
ROWS = [tuple(cell.strip() for cell in match.groups()) for match in ROW.finditer(PAGE)]
TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)^\);", re.DOTALL | re.MULTILINE)
OF_TABLES = """
SELECT table_name || '.' || column_name FROM information_schema.columns
WHERE table_schema = current_schema()
UNION SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()
UNION SELECT proname || '()' FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
"""


@pytest.fixture
def known(pool: ConnectionPool) -> set[str]:
    """Return every name that the page may give: what the code and the database have."""
    with pool.connection() as connection:
        names = {name for (name,) in connection.execute(OF_TABLES)}
    names |= {setting_name(field) for field in Settings.model_fields}
    names |= {task_name(verb) for verb in Verb}
    names |= set(QUEUES)
    names |= {f"headway {name}" for name in get_group(build(whole=True)).commands}
    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    for path, methods in document["paths"].items():
        names |= {f"{method.upper()} {path}" for method in methods}
    return names


def test_every_name_it_gives_is_in_the_code_or_the_database(known: set[str]) -> None:
    assert len(ROWS) > 120
    given = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])}
    assert given - known == set()


def test_every_entry_says_what_it_is_here_or_what_replaces_it() -> None:
    assert [row[0] for row in ROWS if not row[2] and not row[3]] == []
    assert {row[0] for row in ROWS if not row[2]} <= set(REPLACED)


def test_every_table_and_column_of_the_documents_is_on_it() -> None:
    named = {name for row in ROWS for name in row[0].split(", ")}
    own = {"warehouse_note"}  # a column that only the tests' former shop has
    for file in FOLDER.glob("*.sql"):
        for table, body in TABLE.findall(file.read_text()):
            columns = set(re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE))
            assert {table, *columns} - named - own == set(), file.name


def test_every_setting_of_the_documents_is_on_it_and_accepted() -> None:
    settings = {row[0] for row in ROWS if row[0].startswith("SYNC_")}
    assert settings == set(PLAN_V2)
    fields = {setting_name(field) for field in Settings.model_fields}
    assert settings <= {*fields, *ALIASES, *REPLACED}


def test_beat_has_the_one_entry_that_the_page_names() -> None:
    celery = make_celery(Settings(broker_url="redis://127.0.0.1:1/0"))
    assert list(celery.conf.beat_schedule) == ["tick"]
    assert "One entry, `tick`," in PAGE
