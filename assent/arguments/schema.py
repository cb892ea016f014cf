"""A tool's arguments as closed JSON Schema, checked and completed without the tool's code."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from assent.errors import InvalidRequest
from assent.extras import needs
from assent.payload import canonical_json

if TYPE_CHECKING:  # an agent needs it only where it declares tools itself
    import jsonschema_rs

Schema = dict[str, Any]

FILE_FORMAT = "assent-shared-file"
"""The format of an argument that names a shared file."""


def close(schema: Schema) -> None:
    """Forbid properties that are not declared, at every level, and drop decorative titles."""
    for part in subschemas(schema):
        part.pop("title", None)
        if "properties" not in part and "patternProperties" not in part:
            continue
        if part.setdefault("additionalProperties", False) is not False:
            raise ValueError("a model that allows extra fields cannot be shown in full; declare its fields")


def check(schema: Schema) -> None:
    """Raise ValueError if arguments could not be checked against the schema."""
    _validator(canonical_json(schema).decode())


def lost_defaults(schema: Schema) -> list[str]:
    """What may be left out, though the schema carries no default for it, or one that it does not allow itself."""
    filling = _Filling(schema)
    return [
        name
        for part in subschemas(schema)
        for name, declared in _optional(part)
        if "default" not in declared or not filling.accepts(declared, declared["default"])
    ]


def _optional(part: Schema) -> Iterator[tuple[str, Schema]]:
    for name, declared in part.get("properties", {}).items():
        if name not in part.get("required", ()):
            yield name, declared
    for index, declared in enumerate(part.get("prefixItems", ())):
        if index >= part.get("minItems", 0):
            yield f"item {index}", declared


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
    filled = _Filling(schema).fill(schema, arguments)
    assert isinstance(filled, dict)
    return filled


def file_ids(schema: Schema, value: Any) -> list[str]:
    """The ids of shared files among arguments that the schema allows, in their order, each once."""
    return list(dict.fromkeys(_Filling(schema).files(schema, value)))


def takes_files(schema: Schema) -> bool:
    """Whether arguments can name shared files."""
    return any(part.get("format") == FILE_FORMAT for part in subschemas(schema))


@lru_cache(maxsize=256)
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    with needs("tools", "checking a tool's arguments"):
        import jsonschema_rs
    # Arguments may be secret: what is wrong with a value is said without the value.
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, mask="the value")


def _path(parts: list[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


class _Filling:
    """Filling in the defaults of one schema; each of its branches is compiled once, however many values meet it."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._branches: dict[int, jsonschema_rs.Draft202012Validator] = {}

    def accepts(self, part: Schema, value: Any) -> bool:
        """Whether a part of the schema allows the value."""
        if id(part) not in self._branches:
            whole = canonical_json({**part, "$defs": self._root.get("$defs", {})})
            self._branches[id(part)] = _validator(whole.decode())
        return self._branches[id(part)].is_valid(value)

    def files(self, schema: Schema, value: Any) -> Iterator[str]:
        """The ids of shared files within a value."""
        if reference := schema.get("$ref"):
            yield from self.files(self._root["$defs"][reference.removeprefix("#/$defs/")], value)
        for keyword in ("anyOf", "oneOf"):
            for branch in schema.get(keyword, ()):
                if self.accepts(branch, value):
                    yield from self.files(branch, value)
        if isinstance(value, str) and schema.get("format") == FILE_FORMAT:
            yield value
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from self.files(_property(schema, name), item)
        elif isinstance(value, list):
            first, rest = schema.get("prefixItems", []), schema.get("items")
            parts = chain(first, repeat(rest if isinstance(rest, dict) else {}))
            for part, item in zip(parts, value, strict=False):
                yield from self.files(part, item)

    def fill(self, schema: Schema, value: Any) -> Any:
        if reference := schema.get("$ref"):
            return self.fill(self._root["$defs"][reference.removeprefix("#/$defs/")], value)
        for keyword in ("anyOf", "oneOf"):
            for branch in schema.get(keyword, ()):
                if self.accepts(branch, value):
                    return self.fill(branch, value)
        if isinstance(value, dict):
            return self._fill_object(schema, value)
        if isinstance(value, list):
            return self._fill_list(schema, value)
        return value

    def _fill_object(self, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
        filled = {name: self.fill(_property(schema, name), item) for name, item in value.items()}
        for name, part in schema.get("properties", {}).items():
            if name not in filled and "default" in part:
                filled[name] = self.fill(part, copy.deepcopy(part["default"]))
        return filled

    def _fill_list(self, schema: Schema, value: list[Any]) -> list[Any]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items")
        left_out = [copy.deepcopy(part["default"]) for part in first[len(value) :]]
        parts = chain(first, repeat(rest if isinstance(rest, dict) else {}))
        return [self.fill(part, item) for part, item in zip(parts, value + left_out, strict=False)]


def _property(schema: Schema, name: str) -> Schema:
    """What the schema says of a property: by its name, by a pattern, or of all others."""
    declared: dict[str, Schema] = schema.get("properties", {})
    if name in declared:
        return declared[name]
    patterns: dict[str, Schema] = schema.get("patternProperties", {})
    for pattern, part in patterns.items():
        if _validator(canonical_json({"pattern": pattern}).decode()).is_valid(name):
            return part
    others = schema.get("additionalProperties")
    return others if isinstance(others, dict) else {}
