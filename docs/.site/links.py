"""A hook of mkdocs: bring in pages and files outside this folder that a page links to.

Links are written as GitHub resolves them. In the site the changelog and the like are pages, and
files of the source are served as text. It also fills in `folder/*` of the navigation.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)(#[^)\s]*)?(\))")
OUTSIDE = "project"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace `folder/*` of the navigation by the folder's pages."""
    filled = _filled(config.nav)
    assert isinstance(filled, list)
    config.nav = filled
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file outside the folder that a page links to."""
    for page in list(files.documentation_pages()):
        for match in LINK.finditer(page.content_string):
            name = _outside(page.src_uri, match[2])
            if name is not None and files.get_file_from_path(_place(name)) is None:
                content = (ROOT / name).read_text(encoding="utf-8")
                if name.endswith(".md"):
                    content = _rewritten(name, content)
                files.append(File.generated(config, _place(name), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to those files to their place in the site, and rank the pages for the search."""
    if page.file.src_uri.startswith("adr/"):
        page.meta["search"] = {"boost": 0.5}
    elif page.file.src_uri == f"{OUTSIDE}/CHANGELOG.md":
        page.meta["search"] = {"exclude": True}

    def moved(match: re.Match[str]) -> str:
        name = _outside(page.file.src_uri, match[2])
        if name is None:
            return match[0]
        there = posixpath.relpath(_place(name), posixpath.dirname(page.file.src_uri) or ".")
        return f"{match[1]}{there}{match[3] or ''}{match[4]}"

    return LINK.sub(moved, markdown)


def _filled(nav: object) -> object:
    if isinstance(nav, dict):
        return {title: _filled(entry) for title, entry in nav.items()}
    if not isinstance(nav, list):
        return nav
    entries: list[object] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("/*"):
            folder = ROOT / "docs" / entry.removesuffix("/*")
            pages = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
            entries += [str(path.relative_to(ROOT / "docs")) for path in pages]
        else:
            entries.append(_filled(entry))
    return entries


def _outside(page: str, link: str) -> str | None:
    """Return the path of a file of the project that is not in this folder, or None."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    is_file = (ROOT / path).is_file() and not path.startswith(("docs/", ".."))
    return path if is_file else None


def _place(name: str) -> str:
    """Return the place of a file of the project in the site."""
    return f"{OUTSIDE}/{name if name.endswith('.md') else name + '.txt'}"


def _rewritten(name: str, text: str) -> str:
    """Return a page of the project with its links to this folder as they are in the site."""
    depth = "../" * (name.count("/") + 1)
    return re.sub(r"\]\(docs/", f"]({depth}", text)
