"""What numba, NVVM or the linker says of a kernel that it refuses, with the line that it names."""

from __future__ import annotations

import os
import re
from typing import Any

from ..writer import blob
from .emit import MAX_LOG_CHARACTERS, write_kernel

_STEP = re.compile(r"Failed in [^\n]{1,200} \(step: [^\n]{1,200}\)\s*")
_LINKER = re.compile(r"error\s{0,9}: ([^\n]{1,2000})")
_SHARED = re.compile(r"too much shared data \((0x[0-9a-f]{1,16}) bytes, (0x[0-9a-f]{1,16}) max\)")
# Where numba says that it was: by a path, and else by one from the current folder.
_PLACES = (
    re.compile(r"^During: [^\n]{1,400} at (/[^\n]{1,4096}) \((\d{1,9})\)$", re.MULTILINE),
    re.compile(r'^File "([^"\n]{1,4096})", line (\d{1,9}):$', re.MULTILINE),
)


def refused(kernel_event: dict[str, Any], error: BaseException, stage: str) -> None:
    """A kernel that numba, NVVM or the linker would not compile."""
    if not isinstance(error, Exception):
        return  # the program was interrupted
    log = str(error).strip()
    tool = str(kernel_event["by"])
    message = _first(log) or type(error).__name__
    if stage == "sass" and (linker_match := _LINKER.search(log)) is not None:
        tool = "nvJitLink"
        message = linker_match[1].strip()
    event = {
        **kernel_event,
        "event": "made_failed",
        "stage": stage,
        "tool": tool,
        "kind": type(error).__name__,
        "message": message,
        "log": blob(log[:MAX_LOG_CHARACTERS]),
        "messages": [
            {"severity": "error", "message": message, "tool": tool, **_place(kernel_event, log)}
        ],
    }
    if (shared := _SHARED.search(log)) is not None:
        required = int(shared[1], 16)
        limit = int(shared[2], 16)
        event.update(required=required, limit=limit, resource="shared memory")
    write_kernel(event)


def _first(log: str) -> str:
    """What numba says first, but for the step that it was at: one line, with what it announces."""
    lines = [line.strip() for line in _STEP.sub("", log).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].removeprefix('>>> ')}"
    return lines[0] if lines else ""


def _place(kernel_event: dict[str, Any], log: str) -> dict[str, Any]:
    """The line that numba names, else the kernel's first; {} where neither is known."""
    if "lines" not in kernel_event:
        return {}
    for path, line in (place for named in _PLACES for place in named.findall(log)):
        if os.path.isfile(path):
            return {"file": os.path.abspath(path), "line": int(line)}
    return {"file": kernel_event["path"], "line": kernel_event["lines"][0]}
