"""docs/architecture.md is correct: every file, function, folder and law in it exists."""

import ast
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PICTURE = ROOT / "docs/images/architecture.svg"
PACKAGES = ("headway", "headway_lab")
LAWS = [f"L{number}" for number in range(1, 17)]
SVG = "{http://www.w3.org/2000/svg}"


def references(text: str) -> list[tuple[str, str]]:
    """Return every `path/file.py` or `path/file.py:Class.method` as path and name."""
    return re.findall(r"`((?:\w+/)*\w+\.(?:py|sql))(?::([\w.]+))?`", text)


def path_of(reference: str) -> Path:
    """Return the file: paths are relative to the product, or to the project."""
    inside = ROOT / "src/headway" / reference
    return inside if inside.is_file() else ROOT / reference


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the functions and classes of a module, and Class.method for each method."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            members = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            names |= {node.name, *(f"{node.name}.{member.name}" for member in members)}
    return frozenset(names)


# What make docs builds.
SITE = ROOT / "src/headway/web/site"


def folders() -> list[Path]:
    """Return every folder of both packages that holds files of ours."""
    below = [path for package in PACKAGES for path in (ROOT / "src" / package).rglob("*")]
    return sorted(
        path.relative_to(ROOT / "src")
        for path in below
        if path.is_dir()
        and path.name != "__pycache__"
        and SITE not in (path, *path.parents)
        and any(part.is_file() for part in path.iterdir())
    )


def words_of(layer: ET.Element) -> str:
    return " ".join(text.text or "" for text in layer.iter(f"{SVG}text"))


def missing_names(text: str) -> list[str]:
    """Return the references of a text whose file or function does not exist."""
    missing = []
    for reference, name in references(text):
        path = path_of(reference)
        if not path.is_file() or (name and name not in names_in(path)):
            missing.append(f"{reference}:{name}")
    return missing


def test_every_file_and_function_on_the_page_exists() -> None:
    assert len(references(PAGE)) > 50
    assert missing_names(PAGE) == []


def test_every_finding_about_isolation_names_a_test_that_exists() -> None:
    text = (ROOT / "docs/explanation/isolation.md").read_text(encoding="utf-8")
    assert missing_names(text) == []
    rows = dict(re.findall(r"^\| ([FSR]\d+) \|.*\| ([^|]+) \|$", text, re.MULTILINE))
    sizes = {"F": 13, "S": 10, "R": 13}
    numbers = [f"{kind}{number + 1}" for kind, size in sizes.items() for number in range(size)]
    assert list(rows) == numbers
    assert all(any(name for _, name in references(cell)) for cell in rows.values())


def test_a_name_that_does_not_exist_is_reported() -> None:
    assert missing_names("`engine/tick.py:Tick.sleep` and `engine/tock.py`") == [
        "engine/tick.py:Tick.sleep",
        "engine/tock.py:",
    ]


def test_every_folder_is_in_the_picture_in_its_layer() -> None:
    layers = {layer.get("id"): words_of(layer) for layer in ET.parse(PICTURE).iter(f"{SVG}g")}
    for folder in folders():
        package, *parts = folder.parts
        layer = package if package == "headway_lab" else parts[0]
        assert layer in layers, f"{folder}: the picture has no layer {layer}"
        assert re.search(rf"\b{folder.name}\b", layers[layer]), f"{folder} is not in the picture"


def test_every_layer_of_the_picture_is_in_the_import_contract() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = project.partition('containers = ["headway"]')[2].partition("exhaustive")[0]
    listed = set(re.findall(r"\w+", contract.partition("layers")[2]))
    drawn = {layer.get("id") for layer in ET.parse(PICTURE).iter(f"{SVG}g")}
    entry_points = {"celery"}  # the module that Celery's own commands import: not a layer
    assert drawn - {"headway_lab"} == listed - entry_points


def test_the_picture_has_dark_colors_and_loads_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"<script|<image|href=|url\(", text)


def test_every_law_has_a_row_with_a_test_or_a_note_that_it_is_not_proven() -> None:
    rows = re.findall(r"^\| (L\d+) .*\| (.*) \|$", PAGE, re.MULTILINE)
    assert [law for law, _ in rows] == LAWS
    for law, proof in rows:
        tests = [name for path, name in references(proof) if path.startswith("tests/")]
        assert "not yet proven" in proof or all(name.startswith("test_") for name in tests)
        assert tests or "not yet proven" in proof, f"{law} names no test"
