"""What a word of PTX or SASS means, for people and as JSON."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.analyse.isa import INSTRUCTION, ReferenceEntry
from inspector.base.text import plural, shown
from inspector.report.jsons import SCHEMA, members, plain

NAMES = {"ptx": "PTX", "sass": "SASS"}


class Meaning(Struct, frozen=True):
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
        return bool(self.entry or self.members)


def as_json(meaning: Meaning) -> dict[str, object]:
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
    if meaning.entry:
        _entry(meaning, meaning.entry, out)
    elif meaning.members:
        out.print(Text.assemble((shown(meaning.word), "bold"), f"  {_family(meaning)}"))
    else:
        lacking = " and no ".join(shown(q) for q in meaning.unknown)
        why = f": no {lacking} is known there" if lacking else ""
        word = shown(meaning.word) or '""'
        said = Text.assemble((word, "bold"), f" is not in the reference{why}.")
        for n, near in enumerate(meaning.nearest, 1):
            last = n == len(meaning.nearest)
            said.append(" Did you mean " if n == 1 else " or " if last else ", ")
            said.append(near, "bold").append("?" if last else "")
        out.print(said)
    if meaning.members:
        if meaning.entry:
            out.print(Text("Further forms:"))
        _rows(((e.word, e.summary) for e in meaning.members), out)
    for other in meaning.also:
        what = ": ".join(filter(None, (f", {_what(other)}", shown(other.summary))))
        out.print(Text.assemble("Also ", (other.word, "bold"), what))


def _entry(meaning: Meaning, entry: ReferenceEntry, out: Console) -> None:
    out.print(
        Text.assemble(
            (shown(meaning.word), "bold"),
            "" if meaning.word in (entry.word, "") else f"  {entry.word}",
            (f"  {_what(entry)}" + (f", {entry.cost}" if entry.cost else ""), "cyan"),
        )
    )
    if entry.summary:
        out.print(Text(shown(entry.summary)))
    if entry.operands:
        parts = (operand.partition(": ") for operand in entry.operands)
        _rows(((name, told) if colon else ("", name) for name, colon, told in parts), out)
    qualifiers = _qualifiers(meaning)
    if any(qualifiers.values()):
        out.print(Text("Qualifiers in it:" if meaning.qualifiers else "Qualifiers it may have:"))
        _rows(((q, m) for q, m in qualifiers.items() if m), out)
    if bare := [shown(q) for q, m in qualifiers.items() if not m]:
        out.print(Text(f"Not told by the reference: {' '.join(bare)}"))
    versions = {"since": entry.since, "until": entry.until}
    sources = [f"{word} {version}" for word, version in versions.items() if version]
    if sources or entry.reference:
        out.print(Text(" · ".join([*sources, *filter(None, [entry.reference])]), style="dim"))


def _family(meaning: Meaning) -> str:
    languages = dict.fromkeys(NAMES.get(e.language, e.language) for e in meaning.members)
    return plural(len(meaning.members), f"{' and '.join(languages)} instruction")


def _qualifiers(meaning: Meaning) -> Mapping[str, str]:
    entry = meaning.entry
    if entry is None or entry.kind != INSTRUCTION:
        return {}
    return meaning.qualifiers or entry.qualifiers


def _what(entry: ReferenceEntry) -> str:
    return f"{NAMES.get(entry.language, entry.language)} {entry.kind}"


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
