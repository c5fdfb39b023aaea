"""What changed between two listings, with what compilers merely name otherwise left out.

``diff_listings`` pairs functions, reads each into its canonical form, compares digests, and aligns
only what differs. Two listings are ``identical`` where one bijection of names a function makes the
one into the other: registers, labels, values, addresses, locations and digests in names.
"""

from __future__ import annotations

from inspector.diff.beside import intra_line
from inspector.diff.canonical import canonical, digest
from inspector.diff.hunks import Hunk, LinePair, Op, rows
from inspector.diff.listings import FunctionPair, ListingDiff, diff_listings, pair

__all__ = [
    "FunctionPair",
    "Hunk",
    "LinePair",
    "ListingDiff",
    "Op",
    "canonical",
    "diff_listings",
    "digest",
    "intra_line",
    "pair",
    "rows",
]
