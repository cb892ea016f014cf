"""What several modules of this room begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from tests.support import servers
from tests.support.feishu_service import FeishuService, open_feishu_service


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    """A service with a Feishu of its own, for all tests of a module that does not open another."""
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("feishu"))


@pytest.fixture
async def as_it_was(feishu: FeishuService) -> AsyncIterator[None]:
    """Whatever a test did to Feishu, the next one finds it well."""
    yield
    await feishu.chat.behave()
