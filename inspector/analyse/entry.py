"""One word of the reference, as a parsed table has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PTX, SASS = "ptx", "sass"
INSTRUCTION, DIRECTIVE, REGISTER = "instruction", "directive", "special register"
SPACE, TYPE, QUALIFIER = "state space", "type", "qualifier"
KINDS = (INSTRUCTION, DIRECTIVE, REGISTER, SPACE, TYPE, QUALIFIER)
COSTS = ("memory", "arithmetic", "tensor", "control", "conversion", "synchronisation")
DOCUMENTS = {PTX: "PTX ISA 9.0", SASS: "CUDA Binary Utilities"}

Table = Mapping[str, Mapping[str, object]]
"""A parsed file of the reference: words to what is said of each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One word of the reference.

    ``language`` is ``ptx`` or ``sass``, ``kind`` one of ``KINDS``, ``cost`` one of ``COSTS`` or
    None where it is no instruction. ``operands`` read ``"[a]: address in global memory"``;
    ``qualifiers`` have the meaning of each that may follow, "" where the tables give none.
    ``since`` reads ``PTX ISA 1.0, sm_20`` or ``sm_70``; ``until`` is the last architecture that
    has it, None where it is not gone. ``reference`` is the document and its section.
    """

    word: str
    language: str
    kind: str
    summary: str
    operands: tuple[str, ...] = ()
    qualifiers: Mapping[str, str] = field(default_factory=dict)
    cost: str | None = None
    since: str | None = None
    until: str | None = None
    reference: str = ""


def entry_of(word: str, language: str, kind: str, said: Mapping[str, object]) -> Entry:
    """The entry of a word by what its table says, its qualifiers left out."""
    operands = said.get("operands")
    return Entry(
        word=word,
        language=language,
        kind=kind,
        summary=str(said.get("summary", "")),
        operands=tuple(map(str, operands)) if isinstance(operands, list | tuple) else (),
        cost=_string(said.get("cost")),
        since=_since(language, said),
        until=_string(said.get("until")),
        reference=", ".join(
            t for t in (_string(said.get("document")) or DOCUMENTS.get(language),
                        _string(said.get("section"))) if t
        ),
    )  # fmt: skip


def _since(language: str, said: Mapping[str, object]) -> str | None:
    since, target = _string(said.get("since")), _string(said.get("target"))
    if language == PTX and since:
        since = f"PTX ISA {since}"
    return ", ".join(t for t in (since, target) if t) or None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def strings(value: object) -> Mapping[str, str]:
    """A table of strings, whatever is there."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}
