"""Holding what a command prints with ``--json`` against the schema that the package has of it."""

from __future__ import annotations

from functools import cache

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from inspector.reader.tables import table
from inspector.render.json_structs import json_reference


@cache
def validator(command: str) -> Draft202012Validator | None:
    """What knows a command's schema; None where it has none."""
    value = json_reference(table("json")).schema(command)
    if value is None:
        return None
    Draft202012Validator.check_schema(value)
    return Draft202012Validator(value)


def hold(command: str, value: object) -> None:
    """Fail where a document differs from its schema; one without a schema passes."""
    known = validator(command)
    error = None if known is None else best_match(known.iter_errors(value))
    while error is not None and error.context:  # of several forms, the one that fits the longest
        error = max(error.context, key=lambda one: len(one.absolute_path))
    if error is not None:
        where = "/".join(map(str, error.absolute_path))
        raise AssertionError(
            f"{command} --json is not as its schema says, at {where}: {error.message[:500]}"
        )
