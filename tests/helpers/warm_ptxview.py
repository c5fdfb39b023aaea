"""An interpreter that has imported ptxview's commands, and forks a child for each of its runs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # files beside this one are not libraries
from tests.helpers import samples, warm


def prepare(modules: Sequence[str]) -> None:
    for command in import_module("inspector.commands.cli").COMMANDS:
        import_module(command.module)
    for name in modules:
        import_module(name)
    if said := os.environ.pop("TESTS_SAID", None):
        # What NVIDIA's disassembler says of a content is asked once for all tests.
        samples.SAID = Path(said)
        disassembly: Any = import_module("inspector.sources.disassembly")
        disassembly.run_tool = samples.remembered
    # The table at the end of a run has no hints: of each kernel they take a disassembler a third of
    # a second. A new interpreter and `list` count them as ever.
    summaries: Any = import_module("inspector.reader.summaries")
    summaries.COUNTING_SECONDS = 0.0
    del sys.path[0]
    gc.collect()
    gc.freeze()  # what children never change stays shared with them


if __name__ == "__main__":
    prepare(sys.argv[1:-2])
    program = warm.serve(*warm.given(sys.argv))
    if program is not None:
        sys.argv = ["ptxview", *program["argv"]]
        ended: BaseException | None = None
        try:
            raise SystemExit(sys.modules["inspector.commands.cli"].main())
        except BaseException as error:
            ended = error
        warm.end(ended)
