"""What a pass changed: its text before beside its text after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from inspector.analyse.passes import FX, LLVM, MACHINE, MLIR, PassRun
from inspector.base.model import Stage
from inspector.diff.beside import SideBySide, Sign
from inspector.diff.listings import ListingDiff, diff_listings
from inspector.diff.read_ir import without_locations
from inspector.listing import parse
from inspector.listing.line import Listing

# Machine code has no parser: its lines are compared as they are.
_AS = {MLIR: Stage.TTGIR, LLVM: Stage.LLIR, MACHINE: Stage.LLIR, FX: Stage.POST_GRAD}


@dataclass(frozen=True, slots=True)
class PassChange(SideBySide):
    """One pass's texts, compared."""

    run: PassRun
    listings: tuple[Listing, Listing]
    diff: ListingDiff

    @property
    def stage(self) -> Stage:
        """As what its texts are read."""
        return _AS[self.run.language]


_MLIR_LOCATION = re.compile(r"^#loc\d* = .*\n?", re.MULTILINE)
_LLVM_LOCATION = re.compile(
    r", !dbg !\d+|^!\d+ = (?:distinct )?!DI(?:Location|Subprogram|LexicalBlock)\(.*\n?",
    re.MULTILINE,
)
_MACHINE_LOCATION = re.compile(r",? debug-location .*$", re.MULTILINE)


def change_of(run: PassRun, bare: bool = True) -> PassChange:
    """What a pass changed; of one that changed nothing, nothing.

    ``bare``: texts without locations, unless these are all that changed.
    """
    texts = run.before or "", run.after or ""
    if bare:
        shown = tuple(_bare(text, run.language) for text in texts)
        texts = texts if shown[0] == shown[1] else (shown[0], shown[1])
    listings = _listing(texts[0], run.language), _listing(texts[1], run.language)
    return PassChange(run, listings, diff_listings(*listings, exact=run.language == MACHINE))


# What one pass leaves the next one finds: a list of passes has each text read once.
@lru_cache(maxsize=2)
def _listing(text: str, language: str) -> Listing:
    return parse(_AS[language], text)


@lru_cache(maxsize=2)
def _bare(text: str, language: str) -> str:
    """A text without the places that its operations are of."""
    if language == FX:
        return text  # locations are on lines of their own
    if language == MLIR:
        rows = _MLIR_LOCATION.sub("", text).split("\n")
        return "\n".join(without_locations(row).rstrip() if "loc(" in row else row for row in rows)
    return (_LLVM_LOCATION if language == LLVM else _MACHINE_LOCATION).sub("", text)


def lines_changed(run: PassRun) -> tuple[int, int]:
    """How many lines came and how many went: a line that became another did both."""
    came = went = 0
    for row in change_of(run).rows():
        came += row.sign in (Sign.CHANGED, Sign.UNLIKE, Sign.INSERTED)
        went += row.sign in (Sign.CHANGED, Sign.UNLIKE, Sign.DELETED)
    return came, went
