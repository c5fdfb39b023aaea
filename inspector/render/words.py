"""What a word of PTX or SASS means, for people and as JSON."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.analysis.isa import INSTRUCTION, ReferenceEntry
from inspector.base.escapes import shown
from inspector.base.units import plural
from inspector.render.jsons import SCHEMA, pick_fields, to_builtins

NAMES = {"ptx": "PTX", "sass": "SASS"}


class GlossaryEntry(Struct, frozen=True):
    """The reference's entries for a word.

    ``typed_text`` is as the user typed it, ``word`` its opcode where it was a whole instruction.
    ``entry`` is what it means, ``also`` further meanings; ``qualifiers`` are those in
    it, ``members`` the instructions whose names begin with it. Where nothing was found,
    ``unknown`` are the qualifiers that an instruction does not have, ``nearest`` similar words.
    """

    typed_text: str
    word: str
    entry: ReferenceEntry | None = None
    also: tuple[ReferenceEntry, ...] = ()
    qualifiers: Mapping[str, str] = field(default_factory=dict)
    members: tuple[ReferenceEntry, ...] = ()
    nearest: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        return bool(self.entry or self.members)


def as_json(meaning: GlossaryEntry) -> dict[str, object]:
    entry = meaning.entry
    member = entry or next(iter(meaning.members), None)
    names = ("summary", "operands", "cost", "since", "until", "reference")
    fields = {name: to_builtins(getattr(entry, name, None)) for name in names}
    kind = "family" if member else None
    if entry:
        kind = entry.kind
    return {
        "schema": SCHEMA,
        "word": meaning.typed_text,
        "entry": entry.word if entry else None,
        "language": member.language if member else None,
        "kind": kind,
        **fields,
        "summary": fields["summary"] or (_family(meaning) if meaning.members else None),
        "operands": fields["operands"] or [],
        "qualifiers": dict(_qualifiers(meaning)),
        "also": [{"entry": e.word} | pick_fields(e, "language kind summary") for e in meaning.also],
        "members": [e.word for e in meaning.members],
        "nearest": list(meaning.nearest),
    }


def show(meaning: GlossaryEntry, out: Console) -> None:
    if meaning.entry:
        _print_entry(meaning, meaning.entry, out)
    elif meaning.members:
        out.print(Text.assemble((shown(meaning.word), "bold"), f"  {_family(meaning)}"))
    else:
        out.print(_unknown_word(meaning))
    if meaning.members:
        if meaning.entry:
            out.print(Text("Further forms:"))
        _print_pairs(((e.word, e.summary) for e in meaning.members), out)
    for other in meaning.also:
        description = f", {_kind_text(other)}"
        if other.summary:
            description += f": {shown(other.summary)}"
        out.print(Text.assemble("Also ", (other.word, "bold"), description))


def _unknown_word(meaning: GlossaryEntry) -> Text:
    """That a word is not in the reference, and similar ones."""
    lacking = " and no ".join(shown(qualifier) for qualifier in meaning.unknown)
    reason = f": no {lacking} is known there" if lacking else ""
    word = shown(meaning.word) or '""'
    sentence = Text.assemble((word, "bold"), f" is not in the reference{reason}.")
    *first_words, last = meaning.nearest or ("",)
    if not last:
        return sentence
    sentence.append(" Did you mean ")
    for n, near in enumerate(first_words):
        sentence.append(", " if n else "")
        sentence.append(near, "bold")
    sentence.append(" or " if first_words else "")
    return sentence.append(last, "bold").append("?")


def _print_entry(meaning: GlossaryEntry, entry: ReferenceEntry, out: Console) -> None:
    cost = f", {entry.cost}" if entry.cost else ""
    out.print(
        Text.assemble(
            (shown(meaning.word), "bold"),
            "" if meaning.word in (entry.word, "") else f"  {entry.word}",
            (f"  {_kind_text(entry)}{cost}", "cyan"),
        )
    )
    if entry.summary:
        out.print(Text(shown(entry.summary)))
    if entry.operands:
        _print_pairs(map(_name_and_text, entry.operands), out)
    qualifiers = _qualifiers(meaning)
    explained = [(qualifier, text) for qualifier, text in qualifiers.items() if text]
    if explained:
        out.print(Text("Qualifiers in it:" if meaning.qualifiers else "Qualifiers it may have:"))
        _print_pairs(explained, out)
    unexplained = [shown(qualifier) for qualifier, text in qualifiers.items() if not text]
    if unexplained:
        out.print(Text(f"Not told by the reference: {' '.join(unexplained)}"))
    versions = {"since": entry.since, "until": entry.until}
    sources = [f"{word} {version}" for word, version in versions.items() if version]
    if entry.reference:
        sources.append(entry.reference)
    if sources:
        out.print(Text(" · ".join(sources), style="dim"))


def _name_and_text(operand: str) -> tuple[str, str]:
    """The name of an operand and what it is; a text without a name stands alone."""
    name, colon, text = operand.partition(": ")
    return (name, text) if colon else ("", name)


def _family(meaning: GlossaryEntry) -> str:
    languages = dict.fromkeys(NAMES.get(e.language, e.language) for e in meaning.members)
    return plural(len(meaning.members), f"{' and '.join(languages)} instruction")


def _qualifiers(meaning: GlossaryEntry) -> Mapping[str, str]:
    entry = meaning.entry
    if entry is None or entry.kind != INSTRUCTION:
        return {}
    return meaning.qualifiers or entry.qualifiers


def _kind_text(entry: ReferenceEntry) -> str:
    return f"{NAMES.get(entry.language, entry.language)} {entry.kind}"


def _print_pairs(rows: Iterable[tuple[str, str]], out: Console) -> None:
    """Names and meanings, the meanings in a column of their own."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    pairs = list(rows)
    widest = max((len(name) for name, _ in pairs), default=0)
    table.add_column("", no_wrap=True, width=2)
    table.add_column(overflow="fold", width=min(widest, max(out.width * 2 // 5, 8)))
    table.add_column(overflow="fold")
    for name, meaning in pairs:
        table.add_row("", Text(shown(name), style="bold"), Text(shown(meaning)))
    out.print(table)
