"""The API's description: OpenAPI for programs, and Swagger UI for people, which loads nothing from anywhere else."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from assent.api.problems import Problem

_VIEWER = Path(__file__).with_name("swagger")
_REFERENCE = "#/components/schemas/"
_HEADERS = {
    # React sets styles by script, which the policy allows; images in the style shared_calls are part of it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/viewer/swagger-ui.css">
<div id="swagger-ui"></div>
<script src="/docs/viewer/swagger-ui-bundle.js"></script>
<script src="/docs/viewer/start.js"></script>
</html>
"""


def install(app: FastAPI) -> None:
    """Describe the app, at `/openapi.json` for programs and at `/docs` for people."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    async def page() -> HTMLResponse:
        return HTMLResponse(_PAGE.format(title=escape(app.title)), headers=_HEADERS)

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_api_route("/docs", page, methods=["GET"], include_in_schema=False)
    app.mount("/docs/viewer", StaticFiles(directory=_VIEWER))


def _described(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI: every operation says what it does in one line, and knows the problems it may answer with."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    problem = Problem.model_json_schema(mode="serialization", ref_template=_REFERENCE + "{model}")
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    for operation in (each for methods in found["paths"].values() for each in methods.values()):
        operation["summary"] = " ".join(operation["description"].split()).partition(". ")[0].rstrip(".")
    return found
