"""The reference of PTX and SASS as values: what a word means, by the word in code.

Built from parsed tables, which ``inspector.reader.tables`` loads. Nothing here raises on a word
that is not known: the answer is None, or nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

PTX = "ptx"
SASS = "sass"
INSTRUCTION = "instruction"
DIRECTIVE = "directive"
REGISTER = "special register"
SPACE = "state space"
TYPE = "type"
QUALIFIER = "qualifier"
KINDS = (INSTRUCTION, DIRECTIVE, REGISTER, SPACE, TYPE, QUALIFIER)
COSTS = ("memory", "arithmetic", "tensor", "control", "conversion", "synchronisation")
DOCUMENTS = {PTX: "PTX ISA 9.0", SASS: "CUDA Binary Utilities"}

Table = Mapping[str, Mapping[str, Any]]
"""A parsed file of the reference: the entry of each word."""


class ReferenceEntry(Struct, frozen=True):
    """One word of the reference.

    ``language`` is ``ptx`` or ``sass``, ``kind`` one of ``KINDS``, ``cost`` one of ``COSTS`` or
    None if it is no instruction. ``operands`` read ``"[a]: address in global memory"``;
    ``qualifiers`` have the meaning of each that may follow, "" if the tables give none.
    ``since`` reads ``PTX ISA 1.0, sm_20`` or ``sm_70``; ``until`` is the last architecture that
    has it, None if it is not gone. ``reference`` is the document and its section.
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


def entry_of(word: str, language: str, kind: str, fields: Mapping[str, Any]) -> ReferenceEntry:
    isa = "PTX ISA " if language == PTX and fields.get("since") else ""
    document = fields.get("document") or DOCUMENTS.get(language)
    return ReferenceEntry(
        word=word,
        language=language,
        kind=kind,
        summary=fields.get("summary", ""),
        operands=tuple(fields.get("operands", ())),
        cost=fields.get("cost"),
        since=", ".join(filter(None, (isa + fields.get("since", ""), fields.get("target"))))
        or None,
        until=fields.get("until"),
        reference=", ".join(filter(None, (document, fields.get("section")))),
    )


# The parts of an opcode, and which of them are the instruction's word.

_PARTS = re.compile(r"\.|(?=::)")


def split(opcode: str) -> tuple[str, ...]:
    """``mma.sp::ordered_metadata.sync`` → ``mma``, ``sp``, ``::ordered_metadata``, ``sync``."""
    return tuple(_PARTS.split(opcode.strip()))


def joined(parts: Sequence[str]) -> str:
    return ".".join(parts).replace(".::", "::")


def qualifiers_of(word: str, opcode: str) -> list[str]:
    """The qualifiers of an opcode, each with its dot, without the parts that its word takes."""
    pending = list(split(word))
    out: list[str] = []
    for part in opcode.strip().split("."):
        words = list(split(part))
        matches = bool(pending) and words == pending[: len(words)]
        if part and not matches:
            out.append(f".{part}")
        if matches or words[:1] == pending[:1]:
            pending = pending[len(words) if matches else 1 :]
    return out


# The known words that are spelled most like one that is not known.


def closest(word: str, words: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Up to ``n`` known words, the closest first; none where nothing is near.

    Case counts less than any letter. Near is at most a third of the letters changed, and one where
    the word has fewer than three.
    """
    from rapidfuzz import process  # for unknown words alone
    from rapidfuzz.distance import OSA

    folded = word.casefold()
    max_distance = max(1, (len(folded.strip(".%@")) + 1) // 3)
    folded_names = {name: name.casefold() for name in words}
    near = process.extract(
        folded, folded_names, scorer=OSA.distance, score_cutoff=max_distance, limit=None
    )

    def rank(scored: tuple[str, float, str]) -> tuple[float, float]:
        other, far, name = scored
        # Of two that are as far: letters swapped, then more of the letters in their order.
        similarity = SequenceMatcher(None, folded, other, autojunk=False).ratio()
        similarity += sorted(folded) == sorted(other)
        return far + (0.5 if word.isupper() != name.isupper() else 0), -similarity

    return tuple(name for *_, name in sorted(near, key=rank)[:n])


# One name may be of several kinds: which is meant in an opcode, and which where it stands alone.
_IN_OPCODE = (QUALIFIER, SPACE, TYPE)
_ALONE = (INSTRUCTION, REGISTER, DIRECTIVE, SPACE, TYPE, QUALIFIER)
# "%envreg<32>" represents %envreg0 to %envreg31, ".m<m>n<n>k<k>" for .m16n8k16 and its like.
_PLACE = re.compile(r"<(\w++)>")
_VERSION = re.compile(r"PTX ISA (\d+\.\d+)")
_COMPONENT = re.compile(r"(%\w++)\.[xyzw]")


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _is_subsequence(word: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a word's parts are in an opcode's in their order: ``mad.cc`` in ``mad.lo.cc``."""
    remaining = iter(parts)
    return all(part in remaining for part in word)


def _longest_word(words: Iterable[tuple[str, ...]], parts: tuple[str, ...]) -> tuple[str, ...]:
    """The longest word in an opcode; of two that are as long, the one that it begins with."""

    def length(word: tuple[str, ...]) -> tuple[int, bool]:
        return len(word), parts[: len(word)] == word

    return max((word for word in words if _is_subsequence(word, parts)), key=length, default=())


def _in_family(names: Sequence[str], match: re.Match[str]) -> bool:
    """Whether places that are named by a number have one below it."""
    for digits, name in zip(match.groups(), names, strict=True):
        if name.isdecimal() and int(digits) >= int(name):
            return False
    return True


class Isa:
    """Every word that the reference has. Pure; safe to use from several threads. ``tables`` are
    language, kind and the parsed file, later files after earlier ones."""

    def __init__(self, tables: Iterable[tuple[str, str, Table]]) -> None:
        self._entries: dict[tuple[str, str], dict[str, ReferenceEntry]] = {}
        self._own: dict[tuple[str, str], Mapping[str, str]] = {}
        self._families: list[tuple[re.Pattern[str], tuple[str, ...], ReferenceEntry]] = []
        self._heads: dict[tuple[str, str], list[tuple[str, ...]]] = {}
        self._folded: dict[str, list[str]] = {}
        self._words: dict[str, ReferenceEntry | None] = {}
        read = [
            (lang, kind, word, fields)
            for lang, kind, table in tables
            for word, fields in table.items()
        ]
        for language, kind, word, fields in read:
            self._add(entry_of(word, language, kind, fields))
            self._own[language, word] = fields.get("own_qualifiers", {})
        for language, kind, word, fields in read:
            if kind == INSTRUCTION:
                names = dict.fromkeys([*fields.get("qualifiers", ()), *self._own[language, word]])
                meanings = {n: self._meaning(language, word, n) or "" for n in names}
                entries = self._entries[language, INSTRUCTION]
                entries[word] = replace(entries[word], qualifiers=MappingProxyType(meanings))

    @cached_property
    def newest_ptx(self) -> str:
        """The newest version of the PTX ISA that any entry comes from: ``9.5``."""
        versions = [_VERSION.findall(entry.since or "") for entry in self.entries(PTX)]
        return max((numbers[0] for numbers in versions if numbers), key=_ordered, default="")

    # -- looking up -------------------------------------------------------------------------

    def ptx(self, opcode: str) -> ReferenceEntry | None:
        """The instruction of an opcode of PTX: that of ``ld.global.v4.b32`` is ``ld``."""
        return self._instruction(PTX, opcode)

    def sass(self, base: str) -> ReferenceEntry | None:
        """The instruction of an opcode of SASS: that of ``LDG.E.128`` is ``LDG``."""
        return self._instruction(SASS, base)

    def word(self, word: str) -> ReferenceEntry | None:
        """Any word as a user types it: what ``all`` gives first."""
        return next(iter(self.all(word)), None)

    def all(self, word: str) -> tuple[ReferenceEntry, ...]:
        """Everything that a word may mean, the likeliest first: as it is written, then in any case.

        An opcode of PTX with a qualifier that PTX does not have is no word: ``unknown`` names it.
        """
        word = word.strip()
        entries: dict[tuple[str, str, str], ReferenceEntry] = {}
        for entry in self._as_written(word):
            entries.setdefault((entry.language, entry.kind, entry.word), entry)
        if word.isidentifier() or (not entries and self._read(word)[1] is None):
            for name in self._in_any_case(word):
                for entry in self._as_written(name):
                    entries.setdefault((entry.language, entry.kind, entry.word), entry)
        return tuple(entries.values())

    def entries(
        self, language: str | None = None, kind: str | None = None
    ) -> tuple[ReferenceEntry, ...]:
        return tuple(
            entry
            for (lang, table_kind), entries in self._entries.items()
            if language in (None, lang) and kind in (None, table_kind)
            for entry in entries.values()
        )

    def members(self, prefix: str) -> tuple[ReferenceEntry, ...]:
        """Instructions whose words continue ``prefix`` at a dot: ``mbarrier.init``, …"""
        start = prefix.strip() + "."
        return tuple(e for e in self.entries(kind=INSTRUCTION) if e.word.startswith(start))

    def qualifiers(self, opcode: str) -> Mapping[str, str]:
        """The qualifiers that are in an opcode, in order, with what each means ("" untold)."""
        language, entry = self._read(opcode)
        if entry is None:
            return {}
        parts = qualifiers_of(entry.word, opcode)
        return {part: self._meaning(language, entry.word, part) or "" for part in parts}

    def unknown(self, opcode: str) -> tuple[str, ...]:
        """The qualifiers of an opcode that neither its instruction nor the tables have."""
        language, entry = self._read(opcode)
        parts = () if entry is None else qualifiers_of(entry.word, opcode)
        word = "" if entry is None else entry.word
        return tuple(q for q in parts if self._meaning(language, word, q) is None)

    def qualifier(self, part: str, language: str = PTX) -> ReferenceEntry | None:
        return next(iter(self._get(language, _IN_OPCODE, part)), None)

    def cost(self, language: str, opcode: str) -> str | None:
        entry = self._instruction(language, opcode)
        return entry.cost if entry else None

    def nearest(self, word: str, n: int = 3) -> tuple[str, ...]:
        """Up to ``n`` known words that are spelled most like this one, whole opcodes mended."""
        word = word.strip()
        if word[:1] in (".", "%", "@"):
            return closest(word, (e.word for e in self.entries() if e.word[0] == word[0]), n)
        language, entry = self._read(word)
        if entry is not None:
            return self._mended(language, entry, word, n)
        heads = [split(entry.word) for entry in self.entries(kind=INSTRUCTION)]
        families = [joined(head[:parts]) for head in heads for parts in (1, 2)]
        names = [e.word for e in self.entries() if not e.word.startswith((".", "%", "@"))]
        nearest = [*self._respelled(word, n), *closest(word, [*names, *families], n)]
        return tuple(dict.fromkeys(nearest))[:n]

    def _respelled(self, opcode: str, n: int) -> Iterator[str]:
        """Opcodes of qualifiers whose instruction is spelled most like this one's."""
        head, *qualifiers = split(opcode)
        if not qualifiers:
            return
        heads = (e.word for e in self.entries(kind=INSTRUCTION) if "." not in e.word)
        for name in closest(head, heads, n):
            respelled = ".".join([name, *opcode.split(".")[1:]])
            language, entry = self._read(respelled)
            if entry is not None:
                yield from self._mended(language, entry, respelled, 1) or (respelled,)

    # -- how it is found --------------------------------------------------------------------

    def _as_written(self, word: str) -> Iterator[ReferenceEntry]:
        for language in (PTX, SASS):
            yield from self._get(language, _ALONE, word)
        if component := _COMPONENT.fullmatch(word):
            yield from self._as_written(component[1])
        if word[:1] not in (".", "%", "@", ""):
            language, entry = self._read(word)
            if entry is not None and (language == SASS or not self.unknown(word)):
                yield entry

    def _in_any_case(self, word: str) -> list[str]:
        head = split(word)[0] if word[:1] not in (".", "%", "@", "") else word
        component = _COMPONENT.fullmatch(word.casefold())
        names = self._folded.get(component[1] if component else head.casefold(), [])
        tail = word[len(head) :]
        return [
            name + (tail.upper() if name.isupper() else tail.casefold())
            for name in names
            if name != head
        ]

    def _read(self, opcode: str) -> tuple[str, ReferenceEntry | None]:
        order = (SASS, PTX) if split(opcode)[0].isupper() else (PTX, SASS)
        for language in order:
            if entry := self._instruction(language, opcode):
                return language, entry
        return order[0], None

    def _instruction(self, language: str, opcode: str) -> ReferenceEntry | None:
        heads = self._heads.get((language, split(opcode)[0]))
        if heads is None:
            return None
        key = f"{language} {opcode}"
        if key not in self._words:
            word = _longest_word(heads, split(opcode))
            self._words[key] = self._entries[language, INSTRUCTION].get(joined(word))
        return self._words[key]

    def _get(self, language: str, kinds: Sequence[str], word: str) -> list[ReferenceEntry]:
        """The entries of exactly this word, or of the family that has it."""
        tables = (self._entries.get((language, kind), {}) for kind in kinds)
        if entries := [table[word] for table in tables if word in table]:
            return entries
        for pattern, names, family in self._families:
            if family.language == language and family.kind in kinds:
                match = pattern.fullmatch(word)
                if match and _in_family(names, match):
                    return [_member(family, word, names, match)]
        return []

    def _meaning(self, language: str, word: str, part: str) -> str | None:
        qualifier_texts = self._own.get((language, word), {})
        name = part.removeprefix(".")
        entry = self.qualifier(part, language) or self.qualifier(name, language)
        return (
            qualifier_texts.get(part)
            or qualifier_texts.get(name)
            or (entry.summary if entry else None)
        )

    def _mended(self, language: str, entry: ReferenceEntry, opcode: str, n: int) -> tuple[str, ...]:
        """An opcode with each qualifier that is not known replaced by those that are near."""
        wrong = self.unknown(opcode)
        common = [e.word for k in _IN_OPCODE for e in self.entries(language, k)]
        out = [opcode] if wrong else []
        for part in wrong:
            near = closest(part, [*entry.qualifiers, *common], n)
            out = [text.replace(part, other, 1) for text in out for other in near]
        return tuple(dict.fromkeys(out))[:n]

    # -- how it is built --------------------------------------------------------------------

    def _add(self, entry: ReferenceEntry) -> None:
        self._entries.setdefault((entry.language, entry.kind), {})[entry.word] = entry
        folded = self._folded.setdefault(entry.word.casefold(), [])
        if entry.word not in folded:
            folded.append(entry.word)
        if entry.kind == INSTRUCTION:
            parts = split(entry.word)
            self._heads.setdefault((entry.language, parts[0]), []).append(parts)
        elif names := _PLACE.findall(entry.word):
            # A number below ten is a digit, so that two places may touch.
            pattern = re.escape(entry.word)
            for name in names:
                digits = "([0-9])" if len(name) == 1 and name.isdecimal() else "([0-9]{1,4})"
                pattern = pattern.replace(re.escape(f"<{name}>"), digits, 1)
            self._families.append((re.compile(pattern), tuple(names), entry))


def _member(
    family: ReferenceEntry, word: str, names: Sequence[str], match: re.Match[str]
) -> ReferenceEntry:
    summary = family.summary
    for n, name in enumerate(names, 1):
        summary = summary.replace(f"<{name}>", match[n])
    return replace(family, word=word, summary=summary)
