"""Temporal's own UI in real Chromium: frozen calls are listed, their page tells what is known, an update settles them.

`UPDATE_SCREENSHOTS=1` writes the pictures of `docs/temporal-ui/` anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Locator, Page, expect

from assent import names
from tests.conftest import ME, OPERATOR, Service, new_database, open_service
from tests.support import servers
from tests.support.chromium import chromium
from tests.support.tools import marks

PICTURES = Path(__file__).parents[2] / "docs" / "temporal-ui"
PATIENCE = 30_000


class Ui:
    """A Temporal server with its UI, a service on it, and a browser that looks at it."""

    def __init__(self, service: Service, page: Page, url: str, pictures: Path) -> None:
        self.service = service
        self.page = page
        self.url = url
        self._pictures = pictures

    async def look(self, path: str) -> None:
        await self.page.goto(f"{self.url}/namespaces/default/{path}")

    async def type_ruling(self, **ruling: str) -> None:
        """Fill in the update's form on the page of a review."""
        await self.page.get_by_role("button", name="More Actions").first.click()
        await self.page.get_by_role("menuitem", name="Send an Update").last.click()
        await self._dialog.get_by_test_id("update-select-button").click()
        await self._dialog.locator("[role=option]", has_text="settle").first.click()
        await self._dialog.locator(".cm-content:visible").last.click()
        await self.page.keyboard.insert_text(json.dumps({**ruling, "operator": {"open_id": OPERATOR.open_id}}))
        await self._dialog.get_by_test_id("update-select-button").focus()  # leaving the field makes it grow

    async def submit(self) -> None:
        await self._dialog.get_by_role("button", name="Submit").click()

    @property
    def _dialog(self) -> Locator:
        return self.page.locator("dialog:visible").last

    async def picture(self, name: str) -> None:
        file = self._pictures / f"{name}.png"
        await self.page.screenshot(path=file)
        assert file.stat().st_size > 20_000, "the picture is blank"
        assert (PICTURES / f"{name}.png").exists(), "UPDATE_SCREENSHOTS=1 makes the pictures of the documents"


@pytest.fixture(scope="module")
async def ui(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ui]:
    directory = tmp_path_factory.mktemp("ui")
    pictures = PICTURES if os.environ.get("UPDATE_SCREENSHOTS") else directory
    pictures.mkdir(exist_ok=True)
    server = servers.TemporalServer(with_ui=True)
    server.start()
    try:
        async with AsyncExitStack() as stack:
            client = await server.client()
            service = await open_service(stack, client, await new_database("sqlite", directory))
            browser = await stack.enter_async_context(chromium())
            page = await browser.new_page(viewport={"width": 1360, "height": 1000})
            page.set_default_timeout(PATIENCE)
            yield Ui(service, page, f"http://127.0.0.1:{server.ui_port}", pictures)
    finally:
        server.kill()


async def test_frozen_calls_are_listed_told_and_settled_in_temporals_ui(ui: Ui, tmp_path: Path) -> None:
    handle = await ui.service.gate.request("raises", {"path": str(tmp_path / "m")}, requester=ME, reason="to try it")
    outcome = await ui.service.decided(handle)
    assert outcome.status == "frozen"
    review = names.review_workflow(str(outcome.idempotency_key))

    query = quote('WorkflowType="FrozenReview" AND AssentStatus="frozen"')
    await ui.look(f"workflows?query={query}&savedQuery=Frozen")
    row = ui.page.get_by_role("link", name=review).first
    await expect(row).to_be_visible(timeout=PATIENCE)
    await ui.picture("frozen-list")

    await ui.look(f"workflows/{quote(review, safe='')}")
    await ui.page.get_by_text("User Metadata", exact=True).first.click()
    details = ui.page.locator("iframe").last.content_frame
    hash_ = str(outcome.payload_sha256)[:12]
    for told in ("whether it took effect is not known", handle.id, hash_, "open_id:ou_me", "What the ledger says"):
        await expect(details.get_by_text(told).first).to_be_visible(timeout=PATIENCE)
    await ui.picture("frozen-page")

    await ui.type_ruling(kind="executed", reason="the bank shows it")
    await ui.picture("settle-form")
    await ui.submit()

    settlement = await handle.settlement()
    assert (settlement.kind, settlement.surface, settlement.reason) == ("executed", "temporal", "the bank shows it")


async def test_the_other_ways_are_typed_into_the_same_form(ui: Ui, tmp_path: Path) -> None:
    for way, found, effects in (("not_executed", "not_executed", 1), ("retry", "executed", 2)):
        path = tmp_path / way
        handle = await ui.service.gate.request("once_more", {"path": str(path)}, requester=ME)
        outcome = await ui.service.decided(handle)
        await ui.look(f"workflows/{quote(names.review_workflow(str(outcome.idempotency_key)), safe='')}")
        typed = {"payload_hash": str(outcome.payload_sha256)[:12]} if way == "retry" else {}
        await ui.type_ruling(kind=way, reason="I looked", **typed)
        await ui.submit()
        settlement = await handle.settlement()
        assert (settlement.kind, settlement.retried, settlement.surface) == (found, way == "retry", "temporal")
        assert (settlement.settled_by, marks(path)) == (OPERATOR, effects)
