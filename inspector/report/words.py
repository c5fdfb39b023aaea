"""What a word of PTX or SASS means, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.analyse.isa import INSTRUCTION, ReferenceEntry
from inspector.base.text import plural, shown
from inspector.report.jsons import SCHEMA, members, plain

NAMES = {"ptx": "PTX", "sass": "SASS"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """The reference's entries for a word.

    ``given`` is as the user typed it, ``word`` the opcode of it where it was a whole instruction.
    ``entry`` is what it means, ``also`` what else it may; ``qualifiers`` are those in
    it, ``members`` the instructions whose names begin with it. Where nothing was found,
    ``unknown`` are the qualifiers that an instruction does not have and ``nearest`` what may be
    meant.
    """

    given: str
    word: str
    entry: ReferenceEntry | None = None
    also: tuple[ReferenceEntry, ...] = ()
    qualifiers: Mapping[str, str] = field(default_factory=dict)
    members: tuple[ReferenceEntry, ...] = ()
    nearest: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the reference has it, as a word or as the beginning of words."""
        return bool(self.entry or self.members)


def as_json(meaning: Meaning) -> dict[str, object]:
    """Return one word; ``qualifiers`` are the word's own, else those that it may have."""
    entry = meaning.entry
    member = entry or next(iter(meaning.members), None)
    names = ("summary", "operands", "cost", "since", "until", "reference")
    own = {name: plain(getattr(entry, name, None)) for name in names}
    return {
        "schema": SCHEMA,
        "word": meaning.given,
        "entry": entry.word if entry else None,
        "language": member.language if member else None,
        "kind": entry.kind if entry else "family" if member else None,
        **own,
        "summary": own["summary"] or (_family(meaning) if meaning.members else None),
        "operands": own["operands"] or [],
        "qualifiers": dict(_qualifiers(meaning)),
        "also": [{"entry": e.word} | members(e, "language kind summary") for e in meaning.also],
        "members": [e.word for e in meaning.members],
        "nearest": list(meaning.nearest),
    }


def show(meaning: Meaning, out: Console) -> None:
    """Print a word and its meaning."""
    if meaning.entry:
        _entry(meaning, meaning.entry, out)
    elif meaning.members:
        out.print(Text.assemble((shown(meaning.word), "bold"), f"  {_family(meaning)}"))
    else:
        _unknown(meaning, out)
    if meaning.members:
        if meaning.entry:
            out.print(Text("Further forms:"))
        _rows(((e.word, e.summary) for e in meaning.members), out)
    for other in meaning.also:
        text = Text.assemble("Also ", (other.word, "bold"), f", {_what(other)}: ")
        out.print(text.append(shown(other.summary)))


def _entry(meaning: Meaning, entry: ReferenceEntry, out: Console) -> None:
    out.print(
        Text.assemble(
            (shown(meaning.word), "bold"),
            "" if meaning.word in (entry.word, "") else f"  {entry.word}",
            (f"  {_what(entry)}" + (f", {entry.cost}" if entry.cost else ""), "cyan"),
        )
    )
    out.print(Text(shown(entry.summary)))
    if entry.operands:
        _rows(_parted(entry.operands), out)
    qualifiers = _qualifiers(meaning)
    if qualifiers:
        if any(qualifiers.values()):
            out.print(
                Text("Qualifiers in it:" if meaning.qualifiers else "Qualifiers it may have:")
            )
        _rows(((q, m) for q, m in qualifiers.items() if m), out)
        if bare := [shown(q) for q, m in qualifiers.items() if not m]:
            out.print(Text(f"Not told by the reference: {' '.join(bare)}"))
    until = f"until {entry.until}" if entry.until else ""
    since = f"since {entry.since}" if entry.since else ""
    sources = " · ".join(t for t in (since, until, entry.reference) if t)
    if sources:
        out.print(Text(sources, style="dim"))


def _family(meaning: Meaning) -> str:
    return plural(len(meaning.members), f"{_names(meaning)} instruction")


def _names(meaning: Meaning) -> str:
    return " and ".join(NAMES.get(n, n) for n in dict.fromkeys(e.language for e in meaning.members))


def _unknown(meaning: Meaning, out: Console) -> None:
    text = Text.assemble((shown(meaning.word) or '""', "bold"), " is not in the reference")
    if meaning.unknown:
        text.append(f": no {' and no '.join(shown(q) for q in meaning.unknown)} is known there")
    text.append(".")
    if meaning.nearest:
        text.append(" Did you mean ")
        for n, near in enumerate(meaning.nearest):
            text.append(", " if n and n < len(meaning.nearest) - 1 else " or " if n else "")
            text.append(near, "bold")
        text.append("?")
    out.print(text)


def _qualifiers(meaning: Meaning) -> Mapping[str, str]:
    entry = meaning.entry
    if entry is None or entry.kind != INSTRUCTION:
        return {}
    return meaning.qualifiers or entry.qualifiers


def _what(entry: ReferenceEntry) -> str:
    return f"{NAMES.get(entry.language, entry.language)} {entry.kind}"


def _parted(operands: Iterable[str]) -> Iterable[tuple[str, str]]:
    for operand in operands:
        name, colon, meaning = operand.partition(": ")
        yield (name, meaning) if colon else ("", operand)


def _rows(rows: Iterable[tuple[str, str]], out: Console) -> None:
    """Names and meanings, the meanings in a column of their own."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    known = list(rows)
    widest = max((len(name) for name, _ in known), default=0)
    table.add_column("", no_wrap=True, width=2)
    table.add_column(overflow="fold", width=min(widest, max(out.width * 2 // 5, 8)))
    table.add_column(overflow="fold")
    for name, meaning in known:
        table.add_row("", Text(shown(name), style="bold"), Text(shown(meaning)))
    out.print(table)
