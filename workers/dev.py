"""`python -m workers.dev`: all of Assent on this machine, with a Feishu that is a page in the browser, until Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shlex
import shutil
import socket
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from workers.sample_requests import SAMPLE_QUESTIONS, SAMPLES, an_example
from workers.supervisor import Ended, Supervisor, near

_BIN = Path(sys.executable).parent
_SAMPLES = "workers.samples"
_POLICY = Path(__file__).with_name("sample_policy.toml")
_SERVED = "are served"
"""What a worker's log says once it takes work."""
_HOUSE = "127.0.0.1"
_ENDINGS = {
    "executed": {"zh": "未询问任何人，已执行。结果：", "en": "nobody was asked, and it ran:"},
    "failed": {"zh": "未询问任何人，执行失败：", "en": "nobody was asked, and it failed:"},
}
_PORTS = {"": 7233, "UI_": 8233, "CHAT_": 8400, "API_": 8500, "WEBHOOK_": 8501}
"""Temporal, its UI, the page that plays Feishu, the HTTP API, and the webhook."""


@dataclass(frozen=True)
class Installation:
    """Where it all lives: a directory that keeps what is remembered, and five ports."""

    directory: Path
    port: int
    ui_port: int
    chat_port: int
    api_port: int
    webhook_port: int
    token: str
    """What the page shows to the HTTP API when it files a request."""
    console: str
    """What the `assent` command shows it, for what only the ledger knows."""

    @classmethod
    def of_environment(cls) -> Installation:
        directory = Path(os.environ.get("ASSENT_DEV_DIR") or ".dev").absolute()
        port, ui, chat, api, webhook = (_port(f"ASSENT_DEV_{name}PORT", port) for name, port in _PORTS.items())
        return cls(directory, port, ui, chat, api, webhook, secrets.token_urlsafe(24), secrets.token_urlsafe(24))

    @property
    def ports(self) -> tuple[int, ...]:
        return self.port, self.ui_port, self.chat_port, self.api_port, self.webhook_port

    @property
    def address(self) -> str:
        return f"{_HOUSE}:{self.port}"

    @property
    def chat(self) -> str:
        return f"http://{_HOUSE}:{self.chat_port}"

    @property
    def api(self) -> str:
        return f"http://{_HOUSE}:{self.api_port}"

    def secret(self, name: str) -> str:
        """A secret of this installation: random, made once, for its owner's eyes."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = self.directory / "secrets" / name
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(24))
        return kept.read_text()

    @property
    def shell(self) -> Path:
        """What a shell is told, so that `assent` finds this installation."""
        return self.directory / "env"

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.toml"

    @property
    def policy(self) -> Path | None:
        """The sample rules, where the sample tools are offered and no other rules are named: a copy to play with."""
        is_ours = self.environment_tools == _SAMPLES and not os.environ.get("ASSENT_POLICY")
        return self.directory / "policy.toml" if is_ours else None

    @property
    def is_simulated(self) -> bool:
        """Whether Feishu is the page; an app of the user's own is used instead where one is set."""
        return not os.environ.get("ASSENT_FEISHU_APP_ID")

    @property
    def environment(self) -> dict[str, str]:
        """What the processes are told: of the user's own Temporal and ledger nothing, of the rest everything."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        return {
            "ASSENT_TOOLS": _SAMPLES,
            "ASSENT_HEARTBEAT_TIMEOUT": "5",
            "ASSENT_CALLBACK_SECRET": self.token,
            **inherited,
            **({"ASSENT_POLICY": str(self.policy)} if self.policy else {}),
            "ASSENT_DATABASE_URL": f"sqlite+aiosqlite:///{self.directory / 'ledger.db'}",
            "ASSENT_DEV_DIR": str(self.directory),
            "ASSENT_TOKENS": str(self.tokens),
            "ASSENT_HOST": _HOUSE,
            "ASSENT_HOSTS": f"{_HOUSE},localhost",
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PYTHONUNBUFFERED": "1",
            **(self._feishu if self.is_simulated else {}),
        }

    @property
    def _feishu(self) -> dict[str, str]:
        """One Feishu app, as both of its sides know it."""
        app = {
            "APP_ID": "cli_assent",
            "TENANT_KEY": "tenant_1",
            **{name: self.secret(name.lower()) for name in ("APP_SECRET", "ENCRYPT_KEY", "VERIFICATION_TOKEN")},
        }
        filing = {"url": f"{self.api}/v1/approvals", "headers": {"Authorization": f"Bearer {self.token}"}}
        body = {"requester": {"open_id": "{open_id}"}, "chat_id": "{chat_id}", "approval_id": "{uuid}"}
        buttons = [
            {
                "label": sample.label,
                "description": sample.description,
                **filing,
                "body": {**body, "tool": sample.tool, "arguments": sample.arguments, "reason": sample.reason},
                **({} if sample.asks else {"follow": f"{self.api}/v1/approvals/{{uuid}}?wait=10", "endings": _ENDINGS}),
                **({"look_up": self._newest_file} if sample.takes_newest_file else {}),
            }
            for sample in SAMPLES
        ]
        buttons += [
            {
                "label": sample.label,
                "description": sample.description,
                "url": f"{self.api}/v1/questions",
                "headers": {"Authorization": f"Bearer {self.token}"},
                "body": {
                    "questions": sample.questions,
                    "reason": sample.reason,
                    "requester": {"open_id": "{open_id}"},
                    "chat_id": "{chat_id}",
                    "question_id": "{uuid}",
                },
            }
            for sample in SAMPLE_QUESTIONS
        ]
        catalogue = {
            **filing,
            "list": f"{self.api}/v1/tools",
            "body": {**body, "tool": "{tool}", "arguments": "{arguments}"},
        }
        links = [
            {"label": "Temporal UI", "url": f"http://{_HOUSE}:{self.ui_port}"},
            {"label": "HTTP API", "url": f"{self.api}/docs"},
        ]
        return {
            **{f"ASSENT_FEISHU_{name}": value for name, value in app.items()},
            **{f"SIMULATOR_{name}": value for name, value in app.items()},
            "ASSENT_FEISHU_DOMAIN": self.chat,
            "ASSENT_OPERATORS": "open_id:ou_operator",
            "ASSENT_OPERATORS_CHAT": "oc_ops",
            "ASSENT_TEMPORAL_UI": f"http://{_HOUSE}:{self.ui_port}",
            "SIMULATOR_PORT": str(self.chat_port),
            "SIMULATOR_DATA": str(self.directory / "chat.db"),
            "SIMULATOR_CALLBACK_URL": f"http://{_HOUSE}:{self.webhook_port}/feishu/callback",
            "SIMULATOR_SHORTCUTS": json.dumps(buttons if self.environment_tools == _SAMPLES else []),
            "SIMULATOR_CATALOGUE": json.dumps(catalogue),
            "SIMULATOR_LINKS": json.dumps(links),
        }

    @property
    def _newest_file(self) -> dict[str, Any]:
        """How a button finds the newest file of whoever presses it."""
        return {
            "url": f"{self.api}/v1/files?requester=open_id:{{open_id}}&limit=1",
            "path": ["files", 0, "file_id"],
            "missing": "先把一个文件发给机器人 · Send the bot a file first",
        }

    @property
    def environment_tools(self) -> str:
        return os.environ.get("ASSENT_TOOLS") or _SAMPLES


def main() -> int:
    installation = Installation.of_environment()
    if not installation.is_simulated and not os.environ.get("ASSENT_FEISHU_TENANT_KEY"):
        return _complain("ASSENT_FEISHU_APP_ID needs ASSENT_FEISHU_TENANT_KEY, your company's; see docs/feishu.md.")
    for variable, port in zip(_PORTS, installation.ports, strict=True):
        if _is_busy(port):
            return _complain(
                f"Port {port} is in use; stop what uses it, or choose another with ASSENT_DEV_{variable}PORT=…."
            )
    installation.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (installation.directory / "lock").open("w") as lock:
        if not _is_ours(lock):
            return _complain(
                f"{near(installation.directory)} is in use by another `make dev`; choose another with ASSENT_DEV_DIR=…."
            )
        supervisor = Supervisor(installation.directory, installation.environment)
        why = ""
        try:
            live(installation, supervisor)
        except Ended as ended:
            why = str(ended)
        print(f"\n{why or 'Stopping: what was begun is finished first. Ctrl-C again leaves at once.'}", flush=True)
        supervisor.stop()
    return 1 if why else 0


def live(installation: Installation, supervisor: Supervisor) -> None:
    """Start everything, say where it is, and stay until it is over."""
    print("Starting …", flush=True)
    _write(installation.tokens, _tokens(installation))
    _write(installation.shell, _shell(installation))
    if installation.policy and not installation.policy.exists():
        shutil.copyfile(_POLICY, installation.policy)
    behind = _apart()
    supervisor.start("temporal", *_temporal(installation, behind))
    supervisor.start(
        "ui", sys.executable, "-m", "workers.ui_guard", str(installation.ui_port), f"{behind[0]}:{behind[1]}"
    )
    if installation.is_simulated:
        supervisor.start("simulator", sys.executable, "-m", "simulator")
    supervisor.wait(
        lambda: _is_busy(installation.port) and _is_busy(installation.ui_port) and _is_busy(behind[1], behind[0])
    )
    supervisor.run("setup", sys.executable, "-m", "workers.setup")
    approvals = supervisor.start("approvals", sys.executable, "-m", "workers.approvals")
    tools = supervisor.start("tools", sys.executable, "-m", "workers.tools", mortal=True)
    supervisor.start("api", sys.executable, "-m", "workers.api", ASSENT_PORT=str(installation.api_port))
    if installation.is_simulated:
        supervisor.start("webhook", sys.executable, "-m", "workers.webhook", ASSENT_PORT=str(installation.webhook_port))
    else:
        supervisor.start("longconn", sys.executable, "-m", "workers.longconn")
    supervisor.wait(lambda: approvals.says(_SERVED) is not None and tools.says(_SERVED) is not None)
    doors = (
        installation.api_port,
        *((installation.chat_port, installation.webhook_port) if installation.is_simulated else ()),
    )
    supervisor.wait(lambda: all(map(_is_busy, doors)))
    served = (tools.says(_SERVED) or "").lstrip(": ")
    print(welcome(installation, served, example(installation)), flush=True)
    supervisor.wait(lambda: False)


def example(installation: Installation) -> str:
    """A call to try: a sample's, or one of the user's first own tool, made of its schema."""
    if installation.environment_tools == _SAMPLES:
        return """send_invoice --arguments '{"to": "ada@example.com", "amount": "120.00"}'"""
    asked = urllib.request.Request(
        f"{installation.api}/v1/tools", headers={"Authorization": f"Bearer {installation.token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            tool = json.load(answer)["tools"][0]
    except (OSError, ValueError, LookupError):
        return "TOOL --arguments JSON"
    arguments = shlex.quote(json.dumps(an_example(tool["parameters"]), ensure_ascii=False))
    return f"{tool['name']} --arguments {arguments}"


def welcome(installation: Installation, tools: str, call: str) -> str:
    """Where everything is, and what to try.

    call: a call to ask for, as the command line takes it.
    """
    assent = near(_BIN / "assent")
    with_samples = installation.environment_tools == _SAMPLES
    approval = f"try-{secrets.token_hex(2)}"
    me = "open_id:ou_requester" if installation.is_simulated else "open_id:YOURS"
    files = (
        "buttons that file a sample request, and a form for any call" if with_samples else "a form that files any call"
    )
    chat = f"  Chat         {installation.chat}   ← start here: cards, and {files}"
    lines = [
        "",
        "Assent is running. Ctrl-C stops it; what it remembers is found again next time.",
        "",
        *([chat] if installation.is_simulated else ["  Feishu       your own app, through its long connection"]),
        f"  Temporal UI  http://{_HOUSE}:{installation.ui_port}",
        f"  HTTP API     {installation.api}/docs   (token: {installation.token})",
        f"  Temporal     {installation.address}",
        f"  Ledger       {near(installation.directory / 'ledger.db')}",
        f"  Logs         {near(installation.directory)}/*.log",
        f"  Tools        {tools}",
        *([f"  Policy       {near(installation.policy)}   (change it while it runs)"] if installation.policy else []),
        "",
        "Try it in another terminal: ask for a call, look at it, approve it, see what became of it.",
        "",
        f"  . {near(installation.shell)}",
        f"  {assent} request {call} --requester {me} --id {approval}",
        f"  {assent} list --status pending",
        f"  {assent} decide {approval} approve --as {me}",
        f"  {assent} show {approval}",
        "",
    ]
    if with_samples:
        lines += [f"The other tools end in other ways: see {near(Path(__file__).with_name('samples.py'))}.", ""]
    return "\n".join(lines)


def _shell(installation: Installation) -> str:
    told = {
        "TEMPORAL_ADDRESS": installation.address,
        "TEMPORAL_NAMESPACE": "default",
        "ASSENT_URL": installation.api,
        "ASSENT_TOKEN": installation.console,
    }
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in told.items())


def _tokens(installation: Installation) -> str:
    """The page, which asks for every tool on everyone's behalf and decides nothing; and the command line."""
    everything = 'tools = ["*"]\non_behalf_of = ["*"]\n'
    page, console = (hashlib.sha256(each.encode()).hexdigest() for each in (installation.token, installation.console))
    rights = "may_decide = true\nmay_settle = true\nmay_read_policy = true\nmay_list_files = true\n"
    return (
        f'[[token]]\nname = "dev"\nsha256 = "{page}"\n{everything}may_list_files = true\ncallbacks = ["http://127.0.0.1:9000/"]\n\n'
        f'[[token]]\nname = "console"\nsha256 = "{console}"\n{everything}{rights}'
    )


def _write(path: Path, text: str) -> None:
    """Write a file that holds something only its owner is to know."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)


def _temporal(installation: Installation, behind: tuple[str, int]) -> list[str]:
    """The server's command.

    behind: where its UI listens, for the one that stands before it.
    """
    beside = _BIN / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise Ended("Temporal is missing; run `make setup`.")
    command = [found, "server", "start-dev", "--ip", _HOUSE, "--port", str(installation.port)]
    command += ["--ui-ip", behind[0], "--ui-port", str(behind[1])]
    command += ["--db-filename", str(installation.directory / "temporal.db")]
    # Its HTTP API takes requests from any page that a browser shows on this machine: so it answers to no name at all.
    command += ["--dynamic-config-value", 'frontend.httpAllowedHosts=["nobody.invalid"]']
    # This file may lose its last moment in a power cut: the ledger, which may not, is written more carefully.
    return [*command, "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]


def _port(variable: str, default: int) -> int:
    said = os.environ.get(variable) or str(default)
    if not said.isdecimal() or not 0 < int(said) < 65536:
        sys.exit(_complain(f"{variable}={said} is not a port; say a number between 1 and 65535."))
    return int(said)


def _apart() -> tuple[str, int]:
    """An address on this machine that nobody guesses: where the system allows it, one of sixteen million."""
    hosts = ["127." + ".".join(str(secrets.randbelow(254) + 1) for _ in range(3)), _HOUSE]
    for host in hosts:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, 0))
            return host, int(probe.getsockname()[1])
    raise Ended("No port is free for Temporal's UI.")


def _is_busy(port: int, host: str = _HOUSE) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _is_ours(lock: IO[str]) -> bool:
    """Whether nobody else uses the directory: two servers on one file would ruin it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _complain(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
