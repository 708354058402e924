"""Find the generators of clients, a Python and a TypeScript one, or install them beside the venv.

They have an environment of their own, since their dependencies would bind ours. Node comes from a
wheel, so nothing but Python and the network is needed once.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.machine import INSTALL_S, Machine

HERE = Path(__file__).parent
LOCK = HERE.parents[1] / "requirements-clients.lock"
NPM_FILES = ("package.json", "package-lock.json")
NONE = (
    "the generators of clients were not found and could not be installed: their tests are skipped."
    " To run them, connect to the network and run: .venv/bin/python -m tests.programs"
)


@dataclass(frozen=True, slots=True)
class Generators:
    """The environment with both generators."""

    folder: Path

    @property
    def python(self) -> Path:
        """A Python that has what generated clients need."""
        return self.folder / "bin" / "python"

    @property
    def python_client(self) -> tuple[str, ...]:
        """The command that generates a Python client."""
        return (str(self.python), "-m", "openapi_python_client")

    @property
    def typescript_types(self) -> tuple[str, ...]:
        """The command that generates TypeScript types."""
        return self._node("openapi-typescript/bin/cli.js")

    @property
    def typescript_compiler(self) -> tuple[str, ...]:
        """The TypeScript compiler."""
        return self._node("typescript/bin/tsc")

    def _node(self, script: str) -> tuple[str, ...]:
        return str(self.folder / "bin" / "node"), str(self.folder / "node_modules" / script)


def _own(machine: Machine) -> Generators:
    """Return the environment beside that of the tests."""
    return Generators(Path(machine.python).parents[1] / "clients")


def find(machine: Machine) -> Generators | None:
    """Return the generators, if they are installed as the lock files say."""
    own = _own(machine)
    is_current = _done(own).is_file() and _done(own).read_bytes() == _locks()
    starts = is_current and machine.run(*own.typescript_types, "--version") is not None
    return own if starts else None


def find_or_install(machine: Machine) -> Generators | None:
    """Return the generators, installed if need be; None if nothing helps."""
    if (known := find(machine)) is not None:
        return known
    machine.report("installing generators of clients for the tests (once) ...")
    own = _own(machine)
    pip = (str(own.python), "-m", "pip", "install", "-q", "--disable-pip-version-check")
    machine.run(machine.python, "-m", "venv", str(own.folder), within_s=INSTALL_S)
    if machine.run(*pip, "--require-hashes", "-r", str(LOCK), within_s=INSTALL_S) is None:
        return None
    for name in NPM_FILES:
        shutil.copyfile(HERE / name, own.folder / name)
    npm = (str(own.folder / "bin" / "npm"), "ci", "--prefix", str(own.folder), "--ignore-scripts")
    if machine.run(*npm, "--no-audit", "--no-fund", within_s=INSTALL_S) is None:
        return None
    _done(own).write_bytes(_locks())
    return find(machine)


def _done(own: Generators) -> Path:
    return own.folder / ".done"


def _locks() -> bytes:
    return LOCK.read_bytes() + (HERE / "package-lock.json").read_bytes()
