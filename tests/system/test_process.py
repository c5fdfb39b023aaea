"""What other programs are run with."""

from __future__ import annotations

import os
import subprocess
import sys

from inspector.system.process import cores

TOLD = "import os\nfrom inspector.system.process import cores\n"


def test_cores_are_those_that_the_process_may_use() -> None:
    """In a container there may be two of the machine's fifty."""
    assert cores() == len(os.sched_getaffinity(0))
    one = min(os.sched_getaffinity(0))
    code = f"{TOLD}os.sched_setaffinity(0, {{{one}}})\nprint(cores())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
