"""`python -m tests.browser.pictures`: retakes the pictures of docs/images from a running demo.

The demo lives through the same past each time, so that the pictures change only with the page.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright
from tests.browser.chromium import NONE, find_or_install
from tests.machine import Machine

FOLDER = Path(__file__).parents[2] / "docs" / "images"
PATIENCE_MS = 120_000
BYTES_MAX = 300_000
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 380, "height": 800}
COLORS = 256
# A call that is about to be sent, but not yet sent when the picture is taken.
SOON = re.compile(r"0:[12]\d")
DEMO = ("--speed", "60", "--products", "500", "--port", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A section to show; `ready` must be visible first, `link` is followed."""

    name: str
    path: str
    ready: str
    link: str = ""
    scheme: Any = "light"
    is_narrow: bool = False


PICTURES = (
    Picture(name="dashboard", path="", ready="#countdown"),
    Picture(name="dashboard-dark", path="", ready="#countdown", scheme="dark"),
    Picture(name="dashboard-narrow", path="", ready="#countdown", is_narrow=True),
    Picture(name="freshness", path="freshness", ready=".chart canvas"),
    Picture(name="changes", path="changes", ready="table.held tbody tr"),
    Picture(name="part", path="changes", ready=".chart canvas", link="table.held a.sku"),
    Picture(name="accounts", path="accounts", ready="#live section"),
    Picture(name="timetable", path="timetable", ready="#live section"),
)


@contextmanager
def demo() -> Iterator[str]:
    """Run a demo in an empty home; yield the link that logs in."""
    with tempfile.TemporaryDirectory() as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")}
        start = "import sys; from headway.cli import main; sys.exit(main())"
        with subprocess.Popen(
            [sys.executable, "-c", start, "demo", *DEMO],
            stdout=subprocess.PIPE, text=True, cwd=home,
            env={**kept, "HOME": home, "PYTHONUNBUFFERED": "1"},
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                urls = (line.partition("The page: ")[2].strip() for line in process.stdout)
                yield next(filter(None, urls))
            finally:
                process.terminate()
                process.communicate()


def take(page: Page, home: str, picture: Picture) -> bytes:
    """Show a section, and return its picture."""
    page.goto(home + picture.path)
    if "#countdown" in picture.ready:
        expect(page.locator(picture.ready)).to_have_text(SOON)
    if picture.link:
        page.locator(picture.link).first.click()
    expect(page.locator(picture.ready).first).to_be_visible()
    expect(page.locator("#link")).to_have_attribute("data-state", "live")
    return small(Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB"))


def small(shot: Image.Image) -> bytes:
    """Return a picture unchanged, or with fewer colors if it is too large."""
    for image in (
        shot,
        shot.quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE),
    ):
        written = io.BytesIO()
        image.save(written, format="PNG", optimize=True)
        if written.tell() < BYTES_MAX:
            break
    return written.getvalue()


def main() -> int:
    """Take all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description="Retake the pictures of docs/images.")
    parser.add_argument("names", nargs="*", help=", ".join(picture.name for picture in PICTURES))
    names = parser.parse_args().names
    path = find_or_install(Machine())
    if path is None:
        sys.stderr.write(f"{NONE}\n")
        return 1
    with demo() as link, sync_playwright() as player:
        expect.set_options(timeout=PATIENCE_MS)
        browser = player.chromium.launch(executable_path=path, args=["--no-sandbox"])
        first = browser.new_context()
        first.new_page().goto(link, timeout=PATIENCE_MS)
        for picture in PICTURES:
            if names and picture.name not in names:
                continue
            context = browser.new_context(
                viewport=NARROW if picture.is_narrow else WIDE,
                device_scale_factor=2 if picture.is_narrow else 1.5,
                color_scheme=picture.scheme,
                storage_state=first.storage_state(),
            )
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            taken = take(page, link.partition("login/")[0], picture)
            assert len(taken) < BYTES_MAX, f"{picture.name} has {len(taken)} bytes"
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / f"{picture.name}.png").write_bytes(taken)
            context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
