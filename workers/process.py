"""What every worker process does: read its settings, check that its parts are there, run, drain, leave."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import uvloop
from pydantic import ValidationError
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from assent.errors import AssentError
from assent.settings import Settings
from assent.temporal import search
from assent.temporal.connection import connect_temporal
from assent.tools.definition import Registry, registry

if TYPE_CHECKING:  # each process imports what it runs: the doors need neither a ledger nor a worker
    from temporalio.worker import Worker

    from cards import Wording
    from ledger import Ledger

_log = logging.getLogger(__name__)


class Misconfigured(AssentError):
    """The process cannot start as it is configured; the message says what to do."""


def run(main: Callable[[Settings], Coroutine[Any, Any, None]]) -> None:
    """Run a process to its end. An operator's mistake ends it with one sentence, not with a traceback."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    gc.freeze()  # what was imported stays: looking through it again and again held everybody up, 0.1 s at a time
    code = 0
    try:
        uvloop.run(main(read_settings()))
    except AssentError as error:
        print(error, file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    # Temporal's native runtime can crash while the interpreter tears itself down; everything is done by now.
    os._exit(code)


def read_settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"ASSENT_{'.'.join(map(str, e['loc'])).upper()}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise Misconfigured(f"{problems}. Correct the variable and start again.") from None


def load_wording(settings: Settings) -> Wording:
    """The texts that people read, with what the operator replaced in them."""
    from cards import Wording  # only the processes that speak to people need it

    try:
        return Wording.load(settings.texts)
    except ValueError as error:
        raise Misconfigured(f"ASSENT_TEXTS: {error}") from None


async def open_ledger(settings: Settings, *, must_be_set_up: bool = True) -> Ledger:
    """The ledger, reachable and of the version that this code expects."""
    from ledger import Ledger
    from ledger.schema import VERSION

    try:
        ledger = Ledger.open(settings.database_url)
    except Exception as error:
        raise Misconfigured(f"ASSENT_DATABASE_URL cannot be used: {error}") from None
    try:
        version = await ledger.version()
    except Exception as error:
        raise Misconfigured(
            f"The ledger at ASSENT_DATABASE_URL does not answer ({type(error).__name__}); "
            "start the database or correct the URL."
        ) from None
    if must_be_set_up and version != VERSION:
        raise Misconfigured(
            f"The ledger's schema is {version or 'absent'}, this version needs {VERSION}: "
            "run `python -m workers.setup`."
        )
    return ledger


async def missing_search_attributes(client: Client) -> list[str]:
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        raise Misconfigured(
            f"Temporal's namespace {client.namespace!r} does not answer ({error.message}); "
            "create it or set TEMPORAL_NAMESPACE."
        ) from None
    return [key.name for key in search.SEARCH_ATTRIBUTES if key.name not in known.custom_attributes]


async def open_temporal() -> Client:
    """A client, in a namespace that knows our search attributes: an unknown one would hold a workflow for good."""
    client = await connect_temporal()
    if missing := await missing_search_attributes(client):
        raise Misconfigured(
            f"Temporal's namespace {client.namespace!r} lacks the search attributes {', '.join(missing)}: "
            "run `python -m workers.setup`."
        )
    return client


def load_tools(settings: Settings) -> Registry:
    """Import the tool modules; each registers its tools as it is imported."""
    if not settings.tools:
        raise Misconfigured(
            "ASSENT_TOOLS names no module; set it to the modules that hold your tools, comma-separated."
        )
    sys.path.insert(0, os.getcwd())
    for module in settings.tools:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise Misconfigured(
                f"The tool module {module!r} in ASSENT_TOOLS cannot be imported "
                f"({type(error).__name__}: {error}); correct it and start again."
            ) from None
    if not registry.tools:
        raise Misconfigured(
            f"The modules {', '.join(settings.tools)} register no tool; decorate a function with @tool."
        )
    return registry


async def serve(workers: Sequence[Worker]) -> float:
    """Run until SIGTERM or SIGINT, then finish what was begun; a second signal leaves at once.

    Since when it has been leaving, by the loop's clock.
    """
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            _log.warning("leaving at once; what was begun is left to the ledger")
            os._exit(1)
        _log.info("draining: no new work is taken, what was begun is finished")
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    running = [asyncio.ensure_future(worker.run()) for worker in workers]
    stop_wanted = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([*running, stop_wanted], return_when=asyncio.FIRST_COMPLETED)
    leaving_since = loop.time()
    stop_wanted.cancel()
    await asyncio.gather(*(worker.shutdown() for worker in workers))
    await asyncio.gather(*running)
    return leaving_since
