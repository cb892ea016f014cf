"""Asking a person at the terminal, without holding up anything else."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import click


async def ask(question: str) -> str:
    """What the person types, once it is not empty; Ctrl-C and the end of input leave the command.

    The loop itself reads the line. A blocking read would miss a Ctrl-C that comes just before it.
    """
    while True:
        click.echo(question, nl=False, err=True)
        if answer := (await _line()).strip():
            return answer


async def _line() -> str:
    loop = asyncio.get_running_loop()
    keyboard = sys.stdin.fileno()
    line: asyncio.Future[str] = loop.create_future()
    typed = bytearray()

    def read() -> None:
        chunk = os.read(keyboard, 4096)
        typed.extend(chunk)
        if line.done():
            return
        if not chunk:
            line.set_exception(click.Abort())
        elif typed.endswith(b"\n"):
            line.set_result(typed.decode(errors="replace"))

    def interrupted() -> None:
        if not line.done():
            line.set_exception(click.Abort())

    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_reader(keyboard, read)
    try:
        return await line
    finally:
        loop.remove_reader(keyboard)
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
