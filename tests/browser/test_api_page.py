"""The HTTP API's page: a person reads it and tries it out with a token, in a real browser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.support.chat_page import PATIENCE, Surprises
from tests.support.chromium import chromium
from tests.support.documents import ROOT, rows
from tests.support.simulated_feishu import served
from tests.support.web import Web, web_of_its_own

VIEWER = ROOT / "workers" / "swagger"


class Reader:
    """A person who reads the page."""

    def __init__(self, web: Web, page: Page, surprises: Surprises) -> None:
        self.web, self.page, self.surprises = web, page, surprises

    def operation(self, method: str, path: str) -> Locator:
        return self.page.locator(f".opblock-{method}").filter(
            has=self.page.locator(f'.opblock-summary-path[data-path="{path}"]')
        )

    async def authorize(self, token: str) -> None:
        await self.page.get_by_role("button", name="Authorize").first.click()
        dialog = self.page.locator(".dialog-ux")
        await dialog.locator("input").fill(token)
        await dialog.get_by_role("button", name="Apply credentials").click()
        await dialog.get_by_role("button", name="Close").click()

    async def tries(self, operation: Locator) -> tuple[str, Any]:
        """The status and the body of the answer, as the page shows them."""
        live = operation.locator(".live-responses-table")
        if await live.count():
            await operation.get_by_role("button", name="Clear").click()
            await expect(live).to_have_count(0)
        await operation.get_by_role("button", name="Execute").click()
        status = await live.locator(".response-col_status").last.inner_text()
        return status.split()[0], json.loads(await live.locator(".highlight-code code").first.inner_text())


@pytest.fixture(scope="module")
async def reader(
    temporal_address: str, namespaces: Iterator[str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Reader]:
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(chromium())
        web = await stack.enter_async_context(
            web_of_its_own(temporal_address, next(namespaces), tmp_path_factory.mktemp("page"))
        )
        url = await stack.enter_async_context(served(web.app))
        context = await browser.new_context(viewport={"width": 1200, "height": 1000})
        context.set_default_timeout(PATIENCE)
        surprises = Surprises()
        surprises.watch(context)
        page = await context.new_page()
        await page.goto(f"{url}/docs")
        yield Reader(web, page, surprises)


async def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(reader: Reader) -> None:
    async with reader.web.http(None) as http:
        openapi = (await http.get("/openapi.json")).json()
    assert openapi["paths"]
    for path, methods in openapi["paths"].items():
        for method in methods:
            await expect(reader.operation(method, path)).to_be_visible()
    assert reader.surprises.taken() == ([], [], [])


async def test_a_person_tries_a_request_out_with_their_token(reader: Reader) -> None:
    tools = reader.operation("get", "/v1/tools")
    await tools.locator(".opblock-summary-control").click()
    status, refused = await reader.tries(tools)
    assert (status, refused["status"]) == ("401", 401)
    reader.surprises.taken()  # the browser notes the 401

    await reader.authorize("secret-agent")
    status, told = await reader.tries(tools)
    assert status == "200"
    assert "mark" in {tool["name"] for tool in told["tools"]}
    assert reader.surprises.taken() == ([], [], [])


async def test_the_token_is_gone_when_the_page_is(reader: Reader) -> None:
    await reader.page.reload()
    await expect(reader.page.get_by_role("button", name="Authorize").first).to_be_visible()
    kept = await reader.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert "secret-agent" not in kept
    assert kept == '[{},{},""]'


async def test_the_page_allows_no_script_but_its_own(reader: Reader) -> None:
    async with reader.web.http(None) as http:
        policy = (await http.get("/docs")).headers["Content-Security-Policy"]
        outside = await http.get("/docs/viewer/%2e%2e/docs.py")
        missing = await http.get("/docs/viewer/nothing.js")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (outside.status_code, missing.status_code) == (404, 404)
    assert missing.headers["Content-Type"] == "application/problem+json"


def test_the_viewer_is_as_its_makers_published_it() -> None:
    said = {name: cells[0].strip("`") for name, cells in rows(VIEWER / "README.md", "Swagger UI").items()}
    ours = {"README.md", "start.js"}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VIEWER.iterdir()}
    assert {name: digest for name, digest in there.items() if name not in ours} == said
    assert Path(VIEWER / "LICENSE").read_text().split()[:2] == ["Apache", "License"]
