"""The API's description: OpenAPI for programs, and one page for people that loads nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from assent.problems import Problem

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-cache"}

_REFERENCE = "#/components/schemas/"
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--key:#2b6cb0}
@media(prefers-color-scheme:dark){:root{--key:#90cdf4}}
body{font:16px/1.55 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:var(--soft);padding:.8rem;overflow:auto;border-radius:6px}
details{border:1px solid var(--line);border-radius:8px;margin:.6rem 0;padding:.5rem .9rem}
summary{cursor:pointer}summary b{color:var(--key);display:inline-block;min-width:3.2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;
border-bottom:1px solid var(--line)}small{opacity:.75}
"""


def describe(app: FastAPI) -> None:
    """Let the app's OpenAPI name the problems that every operation may answer with."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            problem = Problem.model_json_schema(mode="serialization", ref_template=_REFERENCE + "{model}")
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def page(openapi: Mapping[str, Any]) -> str:
    """All operations and models on one page."""
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    )
    models = "".join(_model(name, model) for name, model in openapi["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(openapi['info']['title'])}</title><style>{_STYLE}</style>"
        f"<h1>{escape(openapi['info']['title'])}</h1><p>{escape(openapi['info']['description'])}</p>"
        "<p>Agents send <code>Authorization: Bearer …</code>. For programs: "
        '<a href="/openapi.json">openapi.json</a>.</p>'
        f"<h2>Operations</h2>{operations}<h2>Models</h2>{models}</html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    summary = f"<b>{method.upper()}</b> <code>{escape(path)}</code>"
    rows = [(p["name"], _kind(p["schema"]), p.get("description", "")) for p in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        rows.append(("body", _kind(body["schema"]), ""))
    answers = [(status, _answer(found), found["description"]) for status, found in operation["responses"].items()]
    return (
        f"<details><summary>{summary}<br><small>{escape(operation.get('description', ''))}</small></summary>"
        f"{_table('Takes', rows)}{_table('Answers', answers)}</details>"
    )


def _model(name: str, model: Mapping[str, Any]) -> str:
    head = f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> '
    head += f"<small>{escape(model.get('description', ''))}</small></summary>"
    required = model.get("required", [])
    rows = [
        (f"{field}{'' if field in required else ' ?'}", _kind(found), found.get("description", ""))
        for field, found in model.get("properties", {}).items()
    ]
    values = f"<p><code>{escape(', '.join(map(str, model['enum'])))}</code></p>" if "enum" in model else ""
    examples = "".join(
        f"<pre>{escape(json.dumps(each, indent=2, ensure_ascii=False))}</pre>" for each in model.get("examples", [])
    )
    return f"{head}{_table('', rows)}{values}{examples}</details>"


def _table(title: str, rows: list[tuple[str, str, str]]) -> str:
    """Rows of a name, a kind that is HTML already, and a sentence."""
    if not rows:
        return ""
    lines = "".join(f"<tr><td><code>{escape(name)}</code><td>{kind}<td>{escape(said)}" for name, kind, said in rows)
    return f"<table>{f'<tr><th colspan=3>{escape(title)}' if title else ''}{lines}</table>"


def _answer(found: Mapping[str, Any]) -> str:
    return ", ".join(_kind(content.get("schema", {})) for content in found.get("content", {}).values())


def _kind(schema: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_kinds(schema))) or "any JSON"


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REFERENCE))
        yield f'<a href="#{name}">{name}</a>'
    for option in schema.get("anyOf", ()):
        yield from _kinds(option)
    if "items" in schema:
        yield f"list of {_kind(schema['items'])}"
    elif "type" in schema:
        yield escape(str(schema["type"]))
