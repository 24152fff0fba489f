"""The files that run a home as services: systemd and YAML accept them, and every command in them runs."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from tapebook.api.processes import SERVICES_FOLDER, service_files
from tapebook.desk.roles import ROLES
from tapebook.surfaces import cli


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home made for production."""
    folder = tmp_path_factory.mktemp("production") / "home"
    assert cli.main(["init", "--production", "--home", str(folder)]) == 0
    return folder


def commands(home: Path) -> list[list[str]]:
    """Every command of every file, without the program's own name."""
    found = []
    for path in sorted((home / SERVICES_FOLDER).iterdir()):
        text = path.read_text("utf-8")
        found += [shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)]
        if path.suffix == ".yaml":
            services = yaml.safe_load(text)["services"].values()
            found += [each["command"][1:] for each in services if each["image"] == "tapebook"]
        if path.name == "Dockerfile":
            found += [
                [*map(str, yaml.safe_load(each))][1:] for each in re.findall(r"CMD (\[.*\])$", text, re.MULTILINE)
            ]
    return found


def test_every_command_is_one(home: Path) -> None:
    found = commands(home)
    assert {words[0] for words in found} == {"up", "ingest", "api", "doctor"}
    only = {words[words.index("--only") + 1] for words in found if "--only" in words}
    assert only == {*ROLES, "backup", "%i"}
    root = get_command(cli.root)
    for words in found:
        command = root.commands[words[0]]  # type: ignore[attr-defined]
        given = ["worker" if word == "%i" else word for word in words[1:]]
        # Parsed as the command itself would, without doing it.
        command.make_context(words[0], given)


def test_the_desk_of_the_unit_starts_and_stops(home: Path, tmp_path: Path) -> None:
    place = shutil.copytree(home, tmp_path / "home")
    line = next(
        each for each in service_files(place)["tapebook@.service"].splitlines() if each.startswith("ExecStart=")
    )
    command = [*shlex.split(line.removeprefix("ExecStart=").replace("%i", "librarian")), "--seconds", "0.2"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_accepts_the_units(home: Path, tmp_path: Path) -> None:
    for path in (home / SERVICES_FOLDER).glob("*.service"):
        # A template is looked at as one of those it makes.
        shutil.copy(path, tmp_path / path.name.replace("@", "@worker"))
    units = sorted(map(str, tmp_path.iterdir()))
    ran = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    said = [line for line in ran.stderr.splitlines() if "tapebook" in line]
    assert len(units) == 4 and said == [], said


def test_containers_name_files_that_are_there_and_what_they_depend_on(home: Path) -> None:
    folder = home / SERVICES_FOLDER
    for name in ("compose.yaml", "compose.many.yaml"):
        found = yaml.safe_load((folder / name).read_text())
        for service in found["services"].values():
            assert set(service.get("depends_on", {})) <= set(found["services"])
            assert all((folder / each).is_file() for each in service.get("env_file", []))
            assert all(each in found["secrets"] for each in service.get("secrets", []))
            # The home is for its owner alone, and so is what a container reads of it.
            owner = f"{home.stat().st_uid}:{home.stat().st_gid}" if service["image"] == "tapebook" else None
            assert service.get("user") == owner
            named = [each.partition(":")[0] for each in service.get("volumes", [])]
            assert all(each in found.get("volumes", {}) or (folder / each).exists() for each in named)
    words = {line.split()[0] for line in (folder / "Dockerfile").read_text().splitlines() if line and line[0] != "#"}
    known = {"FROM", "RUN", "COPY", "USER", "ENV", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "CMD"}
    assert words == known


def test_files_are_private_and_stay_as_their_owner_made_them(home: Path) -> None:
    folder = home / SERVICES_FOLDER
    assert not [path for path in [folder, *folder.iterdir()] if path.stat().st_mode & 0o077]
    (folder / "tapebook.env").write_text("OPENAI_API_KEY=mine\n")
    assert cli.main(["init", "--production", "--home", str(home)]) == 0
    assert (folder / "tapebook.env").read_text() == "OPENAI_API_KEY=mine\n"
