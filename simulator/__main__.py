"""`python -m simulator`: the simulated platform and its page on 127.0.0.1, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from types import FrameType

import uvicorn

from simulator import BadSettings, Settings, Simulator, create_app

HOST = "127.0.0.1"
_KEPT_OPEN = 75
"""Seconds that a connection waits for the next request: longer than clients do, who would lose what is on its way."""


class _Server(uvicorn.Server):
    """A server that lets those who watch go before it waits for them to leave."""

    def __init__(self, config: uvicorn.Config, simulator: Simulator) -> None:
        super().__init__(config)
        self._simulator = simulator

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._simulator.dismiss_listeners()
        super().handle_exit(sig, frame)


def main() -> int:
    try:
        settings = Settings.from_environment(os.environ)
        listening = _listen(settings.port)
    except BadSettings as error:
        print(error, file=sys.stderr)
        return 1
    app = create_app(settings)
    config = uvicorn.Config(
        app, access_log=False, log_level="warning", timeout_keep_alive=_KEPT_OPEN, timeout_graceful_shutdown=3
    )
    print(f"The simulated Feishu is served at http://{HOST}:{listening.getsockname()[1]}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, app.state.simulator).run(sockets=[listening])
    return 0


def _listen(port: int) -> socket.socket:
    # Named as TCP, or asyncio leaves out TCP_NODELAY and every answer waits 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(1024)  # who reads where it is served may connect at once
    except OSError as error:
        listening.close()
        raise BadSettings(
            f"Port {port} is in use; stop what uses it, or choose another with SIMULATOR_PORT=…."
        ) from error
    return listening


if __name__ == "__main__":
    sys.exit(main())
