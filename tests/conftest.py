"""What the machine's terminal is like must not decide what tests see."""

from __future__ import annotations

import os

# A worker of pytest-xdist has the width of its parent's terminal here (80 where there is none), and
# tables that are no terminal's are as wide as this says. Child processes inherit it.
for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(name, None)
