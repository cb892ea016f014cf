"""Reaching Temporal: the connection, and what its failures mean to a client."""

from __future__ import annotations

import atexit
import functools
import logging
import time

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode

from assent.errors import InvalidRequest, Unavailable

NO_SERVER = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""What is heard when nobody answers."""


async def connect_temporal() -> Client:
    """A Temporal client as its own environment configuration says, with the converter that our models need."""
    atexit.unregister(_let_temporal_rest)
    atexit.register(_let_temporal_rest)
    try:
        config = ClientConfig.load_client_connect_config()
        config.setdefault("target_host", "localhost:7233")
    except (RuntimeError, ValueError, OSError) as error:
        raise InvalidRequest(f"Temporal's connection settings cannot be used: {error}") from error
    try:
        return await Client.connect(**config, data_converter=pydantic_data_converter, runtime=_runtime())
    except (RPCError, RuntimeError) as error:
        raise Unavailable(
            f"Temporal does not answer at {config['target_host']}; start it, or set TEMPORAL_ADDRESS."
        ) from error
    except ValueError as error:
        raise InvalidRequest(f"Temporal's connection settings cannot be used: {error}") from error


def ended_as(status: WorkflowExecutionStatus | None) -> str:
    """How a workflow was ended from outside, in a word."""
    return status.name.lower() if status else "ended"


def unavailable(error: RPCError) -> Unavailable:
    """What a client is told when Temporal did not do what it was asked."""
    if error.status in NO_SERVER:
        return no_answer()
    return Unavailable(f"Temporal refused: {error.message}")


def no_answer() -> Unavailable:
    return Unavailable("Temporal or its workers did not answer in time; what was sent before is not lost.")


def _let_temporal_rest() -> None:
    """A moment for Temporal's native threads before the interpreter goes: without it short scripts can crash."""
    time.sleep(0.1)


@functools.cache
def _runtime() -> Runtime:
    """Temporal's native part, whose warnings go where Python's go; by itself it writes them to standard output."""
    logger = logging.getLogger("temporalio.core")
    logger.addHandler(logging.NullHandler())  # a program that sets up no logging hears none of it
    forwarding = LogForwardingConfig(logger=logger)
    warnings = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=warnings, forwarding=forwarding)))
