"""Loads the tables of ``inspector/reference``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.analysis.isa import (
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
from inspector.analysis.links import Operations
from inspector.analysis.occupancy import Device
from inspector.system import files

if TYPE_CHECKING:
    from inspector.analysis.sentences.wording import Templates

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
    from inspector.analysis.sentences.wording import Templates

    return Templates(table("ptx_sentences"), table("ptx_descriptors"))
