"""The documents are correct: every command, setting, file and link in them exists."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_group

from headway import __version__
from headway.cli import build
from headway.cli.doctor_settings import example_file, reference
from headway.config import Settings, document_settings, load
from headway.store.accounts.job_list import is_job_name
from headway_lab.demo.shops import SELLERS
from headway_lab.simulation.world import seeded_world

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PLACES = (ROOT, ROOT / "src", ROOT / "src/headway", ROOT / "src/headway_lab", ROOT / "docs")
ADR_LINES_MAX = 40
# Settings that were renamed, and one that only the worked example has.
UNKNOWN_ON = {
    "CHANGELOG.md": {"HEADWAY_PATROL_HOURS"},
    "CONTRIBUTING.md": {"HEADWAY_EXPORT_ROWS_MAX"},
}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    """Return the words of every `headway …` in code, up to a comment or a pipe."""
    lines = re.findall(r"(?:^|[\s`(])(?:\.venv/bin/)?headway ([a-z][^`\n#|…]*)", text, re.MULTILINE)
    return [shlex.split(line) for line in lines if not line.startswith(("is ", "needs ", "keeps "))]


@pages
def test_every_headway_command_in_it_exists_with_its_options(page: Path) -> None:
    group = get_group(build(whole=True))
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text_of(page), re.DOTALL))
    for words in commands(code.replace("celery -A headway ", "celery ")):  # Celery's own
        command = group
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"{page.name}: headway {' '.join(words)}"
            command = command.commands[words.pop(0)]
        known = {
            name for option in command.params for name in (*option.opts, *option.secondary_opts)
        }
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known | {"--help", "--"}, f"{page.name}: {sorted(used - known)}"


def test_the_parts_and_jobs_of_the_first_steps_are_in_the_demo() -> None:
    steps = text_of(ROOT / "README.md") + text_of(ROOT / "docs/how-to/everyday-commands.md")
    names = [words[1] for words in commands(steps) if words[0] == "explain"]
    demo = get_group(build(["demo"])).commands["demo"]
    default = {option.name: option.default for option in demo.params}
    world = seeded_world(products=default["products"], days=1, seed=default["seed"])
    jobs = {name for name in names if is_job_name(name)}
    assert set(names) - jobs - {"SKU"}
    assert set(names) - jobs - {"SKU"} <= set(world.start)
    assert {name.partition("/")[0] for name in jobs} <= set(SELLERS)


@pages
def test_every_make_target_in_it_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text_of(page), re.DOTALL))
    named = set(re.findall(r"(?:^|[\s`])make ([a-z][a-z-]*)", code, re.MULTILINE))
    assert named <= targets, f"{page.name}: {sorted(named - targets)}"


@pages
def test_every_setting_in_it_exists(page: Path) -> None:
    known = {
        str(field.validation_alias.choices[0])  # type: ignore[union-attr]
        for field in Settings.model_fields.values()
    }
    named = set(re.findall(r"\b(?:HEADWAY|SYNC)_[A-Z_]*[A-Z]\b(?!\*)", text_of(page)))
    known |= {*document_settings.ALIASES, *document_settings.REPLACED}
    examples = {"HEADWAY_CONFIG", "SYNC_BOEING_RATE_LIMT"}  # the second is a bad example
    wrong = named - known - examples - UNKNOWN_ON.get(page.name, set())
    assert not wrong, f"{page.name}: {sorted(wrong)}"


@pages
def test_every_file_it_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text_of(page)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pages
def test_every_module_and_folder_in_it_exists(page: Path) -> None:
    code = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|sql|toml))?)(?::[\w.]+)?`", text_of(page))
    for name in code:
        assert any((place / name).exists() for place in PLACES), f"{page.name} names {name}"


def test_every_picture_is_shown_on_a_page() -> None:
    text = "\n".join(map(text_of, PAGES))
    pictures = {*ROOT.glob("docs/images/*.png"), *ROOT.glob("docs/images/*.svg")}
    icon = ROOT / "docs/images/icon.svg"  # of the site, in mkdocs.yml
    assert sorted(path.name for path in pictures - {icon} if path.name not in text) == []


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    assert project["version"] == __version__
    assert "## [Unreleased]" in text_of(ROOT / "CHANGELOG.md")


def test_the_example_file_is_up_to_date_and_has_the_defaults(tmp_path: Path) -> None:
    text = text_of(ROOT / "headway.example.toml")
    assert text == example_file(), "run: headway doctor --example > headway.example.toml"
    (tmp_path / "headway.toml").write_text(text.replace("\n# ", "\n"))
    assert load({}, file=tmp_path / "headway.toml") == Settings()


def test_the_page_of_settings_is_up_to_date() -> None:
    assert text_of(ROOT / "docs/reference/settings.md") == reference(), (
        "run: headway doctor --reference > docs/reference/settings.md"
    )


def test_decisions_are_numbered_without_a_gap_short_and_in_the_index() -> None:
    folder = ROOT / "docs/adr"
    records = sorted(folder.glob("0*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    index = re.findall(
        r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", text_of(folder / "README.md"), re.MULTILINE
    )
    for path, (number, title, name) in zip(records, index, strict=True):
        text = text_of(path)
        assert name == path.name
        assert text.startswith(f"# {number}. {title}\n")
        assert text.count("\n") <= ADR_LINES_MAX, f"{name} is too long"
        for part in ("Context", "Decision", "Consequences", "Alternatives"):
            assert f"**{part}.**" in text, f"{name} has no {part}"
