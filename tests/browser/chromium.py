"""Find a Chromium for the browser tests, or install one.

A browser that is on the PATH serves; else root installs the distribution's package, and anybody
else has playwright download its own.
"""

from pathlib import Path

from tests.machine import INSTALL_S, Machine

NAMES = ("chromium", "chromium-browser", "google-chrome")
PRINT_PATH = """
from playwright.sync_api import sync_playwright
with sync_playwright() as own:
    print(own.chromium.executable_path)
"""
NONE = (
    "no Chromium was found, and none could be installed: the browser tests are skipped."
    " To run them: apt-get install chromium, or .venv/bin/python -m playwright install chromium"
)


def find(machine: Machine) -> str | None:
    """Return the path of a Chromium that starts, if there is any."""
    return machine.find(*NAMES) or _downloaded(machine)


def find_or_install(machine: Machine) -> str | None:
    """Return the path of a Chromium, installed if need be; None if nothing helps."""
    path = machine.find_or_install(find, "chromium")
    if path is None:
        machine.report("downloading Chromium for the browser tests (once) ...")
        machine.run(machine.python, "-m", "playwright", "install", "chromium", within_s=INSTALL_S)
        path = _downloaded(machine)
    return path


def _downloaded(machine: Machine) -> str | None:
    """Return the browser that playwright downloaded, if it did and it starts."""
    path = (machine.run(machine.python, "-c", PRINT_PATH) or "").strip()
    is_there = bool(path) and Path(path).is_file()
    return path if is_there and machine.run(path, "--version") is not None else None
