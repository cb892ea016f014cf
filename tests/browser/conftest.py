"""The page, as every module looks at it: a service of its own, and cameras in both languages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.chat_page import LANGUAGES, Album, Scene, opened
from tests.support.servers import connect


@pytest.fixture(scope="module")
async def scene(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Scene]:
    client = await connect(temporal_address, next(namespaces))
    async with opened(client, temporal_address, tmp_path_factory.mktemp("page")) as scene:
        yield scene


@pytest.fixture(scope="module")
async def album(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Album:
    cameras = {lang: await scene.seat(lang=lang, size=(1280, 1400)) for lang in LANGUAGES}
    return Album(tmp_path_factory.mktemp("pictures"), cameras)
