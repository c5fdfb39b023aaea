"""Loads the tables of ``inspector/reference``, and makes JSON Schemas of ``json.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.analyse.isa import (
    DIRECTIVE,
    INSTRUCTION,
    PTX,
    QUALIFIER,
    REGISTER,
    SASS,
    SPACE,
    TYPE,
    Isa,
)
from inspector.analyse.links import Operations
from inspector.analyse.occupancy import Device
from inspector.system import files

if TYPE_CHECKING:
    from inspector.analyse.sentences.wording import Templates

REFERENCE = Path(__file__).parent.parent / "reference"
WORDS = (
    (PTX, INSTRUCTION, "ptx_instructions_*.toml"),
    (PTX, DIRECTIVE, "ptx_directives.toml"),
    (PTX, REGISTER, "ptx_special_registers.toml"),
    (PTX, SPACE, "ptx_state_spaces.toml"),
    (PTX, TYPE, "ptx_types.toml"),
    (PTX, QUALIFIER, "ptx_qualifiers.toml"),
    (SASS, INSTRUCTION, "sass_instructions_*.toml"),
    (SASS, QUALIFIER, "sass_qualifiers.toml"),
)
"""Language and kind of the words in each file."""


@cache
def table(name: str) -> Mapping[str, Any]:
    """A table of reference/ by its name without ``.toml``; empty where there is no such file."""
    try:
        text = files.read(REFERENCE / f"{name}.toml").decode("utf-8")
    except files.Absent:
        return {}
    return tomllib.loads(text)


@cache
def isa() -> Isa:
    return Isa(
        (language, kind, table(path.stem))
        for language, kind, pattern in WORDS
        for path in sorted(REFERENCE.glob(pattern))
    )


@cache
def devices() -> Mapping[str, Device]:
    """Each architecture's limits and one representative device of it, by ``sm_90``."""
    return {arch: Device.of(arch, entry) for arch, entry in table("devices").items()}


@cache
def operations() -> Operations:
    return Operations(table("operations"))


@cache
def ptx_templates() -> Templates:
    from inspector.analyse.sentences.wording import Templates

    return Templates(table("ptx_sentences"))


Schema = dict[str, object]
SCALARS = frozenset(("string", "integer", "number", "boolean", "null"))
_TOKEN = re.compile(r"'[^']*'|\w+|[\[\]{};|]")


def names() -> list[str]:
    """The commands that print JSON."""
    return list(table("json")["commands"])


def schema(command: str) -> Schema | None:
    """The JSON Schema of a command's ``--json``; None where it prints none."""
    tables = table("json")
    if (root := tables["commands"].get(command)) is None:
        return None
    texts, definitions = [root], dict[str, Schema]()
    while texts:
        for name in _TOKEN.findall(texts.pop()):
            if name in tables and name not in definitions:
                definitions[name] = _definition(tables[name])
                texts += [text for text, _ in fields(tables[name]).values()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{command}.json",
        **expression(root),
        "$defs": definitions,
    }


def fields(members: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The type and the description of each field of a table."""
    return {
        name: (value, "") if isinstance(value, str) else tuple(value)
        for name, value in members.items()
        if name != "_"
    }


def _definition(members: Mapping[str, object]) -> Schema:
    properties = {
        name: expression(text) | ({"description": description} if description else {})
        for name, (text, description) in fields(members).items()
    }
    if "=" in properties:
        return properties["="]
    additional = properties.pop("*", False)
    return {
        **({"description": members["_"]} if "_" in members else {}),
        "type": "object",
        "properties": {name.removesuffix("?"): value for name, value in properties.items()},
        "required": [name for name in properties if not name.endswith("?")],
        "additionalProperties": additional,
    }


def expression(text: str) -> Schema:
    """The schema of a type as ``json.toml`` writes it, such as ``[Note; 2]|null``."""
    return _alternatives(iter([*_TOKEN.findall(text), ""]), "")


def _alternatives(tokens: Iterator[str], end: str) -> Schema:
    """One or several types up to the token ``end``."""
    schemas = []
    size: Schema = {}
    for token in tokens:
        if token == end:
            break
        if token == "[":
            schemas.append(_alternatives(tokens, "]"))
        elif token == "{":
            schemas.append({"type": "object", "additionalProperties": _alternatives(tokens, "}")})
        elif token == ";":
            count = int(next(tokens))
            size = {"minItems": count, "maxItems": count}
        elif token == "any":
            schemas.append({})
        elif token in SCALARS:
            schemas.append({"type": token})
        elif token.isdecimal() or token.startswith("'"):
            schemas.append({"const": int(token) if token.isdecimal() else token[1:-1]})
        elif token != "|":
            schemas.append({"$ref": f"#/$defs/{token}"})
    union: Schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    for key, several in (("type", "type"), ("const", "enum")):
        if len(schemas) > 1 and all(list(alternative) == [key] for alternative in schemas):
            union = {several: [alternative[key] for alternative in schemas]}
    return {"type": "array", "items": union, **size} if end == "]" else union
