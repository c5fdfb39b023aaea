"""What ncu on an H200 counted of the launches in :mod:`tests.execute.judged`."""

from __future__ import annotations

COLUMNS = (
    "Source",
    "Instructions Executed",
    "Thread Instructions Executed",
    "Predicated-On Thread Instructions Executed",
    "L1 Tag Requests Global",
    "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal",
    "L1 Conflicts Shared N-Way",
    "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal",
)
"""Columns of the source page; a report of launches that use no shared memory lacks some."""
