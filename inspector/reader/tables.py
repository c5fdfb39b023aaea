"""The tables of reference/, parsed once, when they are first asked for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
)
from inspector.analyse.occupancy import Device
from inspector.analyse.operations import Operations
from inspector.analyse.sentences.wording import Templates
from inspector.system import files

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


@cache
def ptx_templates() -> Templates:
    """Sentences of PTX instructions."""
    return Templates(table("ptx_sentences"))


def _words() -> Iterator[tuple[str, str, Table]]:
    for language, kind, pattern in WORDS:
        for path in sorted(REFERENCE.glob(pattern)):
            yield language, kind, table(path.stem)
