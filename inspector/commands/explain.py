"""What a word of PTX or SASS means: an opcode, a directive, a special register, a qualifier.

A whole instruction may be given too, as one quoted word.
"""

import argparse
import re
from operator import itemgetter

from inspector.analysis.isa import KINDS, PTX, SASS, Isa
from inspector.base.errors import Exit, UsageError
from inspector.base.model import Stage
from inspector.commands.common import flag, option, print_json, takes
from inspector.parsers import parse
from inspector.reader import tables
from inspector.render import words as shown_words
from inspector.render.words import GlossaryEntry
from inspector.system import printing

# nvdisasm's address in a comment before an instruction of SASS.
_ADDRESS = re.compile(r"/\*[0-9a-fA-F]+\*/\s*+")
_SPACE = re.compile(r"\s")
_KINDS = {k.replace(" ", "-"): k for k in KINDS}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``explain``."""
    takes(
        parser,
        {
            "words": option("WORD", "word, or a whole instruction in quotes", nargs="*"),
            "--list": option(
                "WHICH",
                f"print all words of a language (ptx, sass) or a kind ({', '.join(_KINDS)})",
                nargs="?",
                const="all",
            ),
            "--json": flag("print JSON, one line for each word"),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print what each word means. 1 where one is not known."""
    args = parser.parse_args(argv)
    isa = tables.isa()
    if args.list is not None:
        return _list(isa, args.list, args.words, args.json)
    if not args.words:
        raise UsageError(
            "there is no word to explain",
            "Give one or several: ptxview explain ld.global.v4.b32 %ctaid.x HGMMA; "
            "--list prints all that there are.",
        )
    meanings = [meaning(isa, word) for word in args.words]
    out = printing.out()
    for n, word_meaning in enumerate(meanings):
        if args.json:
            print_json(shown_words.as_json(word_meaning))
            continue
        if n:
            out.print()
        shown_words.show(word_meaning, out)
    return Exit.OK if all(word_meaning.is_known for word_meaning in meanings) else Exit.DIFFERENT


def meaning(isa: Isa, text: str) -> GlossaryEntry:
    """All that is known of a word, or of the opcode of an instruction."""
    word = text.strip()
    # What has a space in it is an instruction: its operands are no part of a qualifier.
    entries = () if _SPACE.search(word) else isa.all(word)
    if not entries and (opcode := opcode_of(isa, word)) is not None:
        word = opcode
        entries = isa.all(opcode)
    elif not entries:
        entries = isa.all(word)
    family = isa.members(word)
    if family and entries and entries[0].word.casefold() == word != entries[0].word:
        # `bar` begins PTX's bar.sync: it is not SASS's BAR in the first place.
        return GlossaryEntry(text, word, also=entries, members=family)
    if entries:
        head, dot, suffix = word.partition(".")
        entry_head = entries[0].word.partition(".")[0]
        # As the reference spells it: `hgmma.f32` is HGMMA.F32.
        if head != entry_head and entries[0].word.isupper():
            suffix = suffix.upper()
        qualifiers = isa.qualifiers(entry_head + dot + suffix)
        return GlossaryEntry(text, word, entries[0], entries[1:], qualifiers, family)
    if family := family or isa.members(word.lower()):
        return GlossaryEntry(text, word, members=family)
    return GlossaryEntry(text, word, nearest=isa.nearest(word), unknown=isa.unknown(word))


def opcode_of(isa: Isa, text: str) -> str | None:
    """The opcode of one line of PTX or SASS; the first word of a directive."""
    if text.startswith("."):
        return text.split()[0]
    line = text.rstrip().removesuffix(";") + ";"
    without_address = _ADDRESS.sub("", line, count=1)
    read = []
    for stage, stage_text, lookup in (
        (Stage.PTX, line, isa.ptx),
        (Stage.SASS, f"        /*0000*/                   {without_address.lstrip()}", isa.sass),
    ):
        opcodes = [
            parsed_line.opcode
            for parsed_line in parse(stage, stage_text).lines
            if parsed_line.opcode
        ]
        read += [(lookup(opcode) is None, opcode) for opcode in opcodes[:1]]
    unknown, opcode = min(read, key=itemgetter(0), default=(True, None))
    return None if unknown and " " not in text else opcode


def _list(isa: Isa, first_word: str, other_words: list[str], as_json: bool) -> int:
    words = [first_word, *other_words]
    languages = {PTX, SASS} & set(words)
    kinds = {_KINDS[w] for w in words if w in _KINDS}
    wrong = [w for w in words if w not in (PTX, SASS, "all") and w not in _KINDS]
    if wrong:
        hint = f"Languages: ptx, sass. Kinds: {', '.join(_KINDS)}."
        raise UsageError(f"There is no language or kind {wrong[0]}.", hint)
    for entry in isa.entries():
        if (languages and entry.language not in languages) or (kinds and entry.kind not in kinds):
            continue
        if as_json:
            print_json(shown_words.as_json(GlossaryEntry(entry.word, entry.word, entry)))
        else:
            printing.lines([entry.word])
    return Exit.OK
