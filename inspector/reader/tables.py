"""The tables of reference/, parsed once, when they are first asked for."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from inspector import files
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
    Table,
)  # fmt: skip
from inspector.analyse.occupancy import Device
from inspector.analyse.operations import Operations

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
        return MappingProxyType({})
    return MappingProxyType(tomllib.loads(text))


def schema(command: str) -> dict[str, Any] | None:
    """The JSON Schema of what a command prints with ``--json``, whole in itself; None where it
    prints none.

    A file a command; what several say is in ``common.json``, of which each is given what it names.
    """
    own = _schema_file(command)
    if own is None or command == COMMON:
        return None
    shared: dict[str, Any] = (_schema_file(COMMON) or {})["$defs"]
    definitions: dict[str, Any] = own.setdefault("$defs", {})
    left = [own]
    while left:
        for name in dict.fromkeys(_named(left.pop())):
            if name not in definitions:
                definitions[name] = shared[name]
                left.append(shared[name])
    if not definitions:
        del own["$defs"]
    return own


COMMON = "common"
_SHARED = f"{COMMON}.json#/$defs/"


def _schema_file(name: str) -> dict[str, Any] | None:
    try:
        value = json.loads(files.read(REFERENCE / "schema" / f"{name}.json"))
    except files.Absent:
        return None
    return value if isinstance(value, dict) else None


def _named(value: object) -> Iterator[str]:
    """The definitions that a schema names; those of the common file are named as its own from
    now on."""
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix(_SHARED).removeprefix("#/$defs/")
            value["$ref"] = f"#/$defs/{name}"
            yield name
        for member in value.values():
            yield from _named(member)
    elif isinstance(value, list):
        for member in value:
            yield from _named(member)


@cache
def isa() -> Isa:
    """Every word of PTX and SASS that the tables have."""
    return Isa(_words())


@cache
def devices() -> Mapping[str, Device]:
    """Each architecture's limits and one representative device of it, by ``sm_90``."""
    known = {arch: Device.of(arch, entry) for arch, entry in table("devices").items()}
    return MappingProxyType(known)


@cache
def operations() -> Operations:
    """What opcodes do, in words that all stages share."""
    return Operations(table("operations"))


def _words() -> Iterator[tuple[str, str, Table]]:
    for language, kind, pattern in WORDS:
        for path in sorted(REFERENCE.glob(pattern)):
            yield language, kind, table(path.stem)
