"""The client, through either door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from assent import Assent
from tests.support.web import Web, web_of_its_own


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    async with web_of_its_own(temporal_address, next(namespaces), tmp_path_factory.mktemp("remote")) as web:
        yield web


@pytest.fixture(params=["temporal", "http"])
async def gate(request: pytest.FixtureRequest, web: Web) -> AsyncIterator[Assent]:
    if request.param == "temporal":
        yield web.service.gate
    else:
        async with web.gate() as remote:
            yield remote
