"""A tool's arguments as closed JSON Schema, checked and completed without the tool's code."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

from assent.errors import InvalidRequest
from assent.payload import canonical_json

Schema = dict[str, Any]


def close(schema: Schema) -> None:
    """Forbid properties that are not declared, at every level, and drop decorative titles."""
    for part in subschemas(schema):
        part.pop("title", None)
        if "properties" not in part:
            continue
        if part.setdefault("additionalProperties", False) is not False:
            raise ValueError("a model that allows extra fields cannot be shown in full; declare its fields")


def missing_defaults(schema: Schema) -> list[str]:
    """The optional properties whose default the schema does not carry."""
    return [
        name
        for part in subschemas(schema)
        for name, declared in part.get("properties", {}).items()
        if name not in part.get("required", ()) and "default" not in declared
    ]


def subschemas(schema: Schema) -> Iterator[Schema]:
    """The schema and every schema inside it."""
    yield schema
    for keyword in ("$defs", "properties", "patternProperties"):
        for part in schema.get(keyword, {}).values():
            yield from subschemas(part)
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(keyword, ()):
            yield from subschemas(part)
    for keyword in ("items", "additionalProperties", "contains", "not", "propertyNames"):
        if isinstance(part := schema.get(keyword), dict):
            yield from subschemas(part)


def complete(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with every default filled in, or InvalidRequest naming each thing that is wrong."""
    validator = _validator(canonical_json(schema).decode())
    errors = [f"{_path(error.instance_path)}: {error.message}" for error in validator.iter_errors(arguments)]
    if errors:
        raise InvalidRequest("invalid arguments: " + "; ".join(sorted(errors)[:10])[:2000])
    filled = _fill(schema, arguments, schema)
    assert isinstance(filled, dict)
    return filled


@lru_cache(maxsize=256)
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def _path(parts: list[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _fill(schema: Schema, value: Any, root: Schema) -> Any:
    if reference := schema.get("$ref"):
        return _fill(root["$defs"][reference.removeprefix("#/$defs/")], value, root)
    for keyword in ("anyOf", "oneOf"):
        for branch in schema.get(keyword, ()):
            if _validator(canonical_json({**branch, "$defs": root.get("$defs", {})}).decode()).is_valid(value):
                return _fill(branch, value, root)
    if isinstance(value, dict):
        return _fill_object(schema, value, root)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {})
        rest = rest if isinstance(rest, dict) else {}
        return [_fill(first[i] if i < len(first) else rest, item, root) for i, item in enumerate(value)]
    return value


def _fill_object(schema: Schema, value: dict[str, Any], root: Schema) -> dict[str, Any]:
    declared: dict[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    others = others if isinstance(others, dict) else {}
    filled = {name: _fill(declared.get(name, others), item, root) for name, item in value.items()}
    for name, part in declared.items():
        if name not in filled and "default" in part:
            filled[name] = _fill(part, copy.deepcopy(part["default"]), root)
    return filled
