"""Functions of somebody else's that a setting names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any


def named_function(name: str, group: str) -> Callable[..., Any]:
    """What an entry point of this group names, or `module:function`. Raises ValueError where that is no function."""
    function: object
    found = next(iter(entry_points(group=group, name=name)), None)
    try:
        if found is not None:
            function = found.load()
        else:
            module, _, attribute = name.partition(":")
            function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name} is neither an entry point of {group} nor module:function ({error})") from None
    if not callable(function):
        raise ValueError(f"{name} is no function")
    return function
