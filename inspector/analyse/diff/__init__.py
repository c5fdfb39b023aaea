"""What changed between two listings, with what compilers merely name otherwise left out.

``diff_listings`` pairs functions, reads each into its canonical form, compares digests, and aligns
only what differs. Two listings are ``identical`` where one bijection of names a function makes the
one into the other: registers, labels, values, addresses, locations and digests in names.
"""

from __future__ import annotations

from inspector.analyse.diff.canonical import canonical, digest
from inspector.analyse.diff.comparing import FunctionPair, ListingDiff, diff_listings
from inspector.analyse.diff.hunks import Hunk, Op, Row, rows
from inspector.analyse.diff.intra import intra_line
from inspector.analyse.diff.pairing import pair

__all__ = [
    "FunctionPair",
    "Hunk",
    "ListingDiff",
    "Op",
    "Row",
    "canonical",
    "diff_listings",
    "digest",
    "intra_line",
    "pair",
    "rows",
]
