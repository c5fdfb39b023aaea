"""What all adapters share: the event of a kernel that a language's compiler has made."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from typing import Any

from ..hooks import per_recording
from ..writer import blob, emit, file_blob

MAX_KERNELS = 1000
MAX_NAME_CHARACTERS = 400
MAX_TEXT_BYTES = 16 << 20
MAX_LOG_CHARACTERS = 20_000
STAGES = ("source", "ir", "output_code", "ttir", "llir", "ptx", "cubin")
"""Texts of an event that are kept as blobs."""
ENTRY = re.compile(r"\.entry\s+([\w$.]{1,400})")
# A kernel of CUDA C++: little is between __global__ and its name.
_KERNEL = re.compile(r"__global__\b[^;{}()]{0,400}?\b(\w{1,400})\s*\(")
# Comments, and launch bounds, which are between __global__ and the name.
_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", re.DOTALL)
_MESSAGE = re.compile(
    r"^([^\n()]{1,400})\((\d{1,9})\): (?:catastrophic )?error: ([^\n]{1,2000})", re.MULTILINE
)
_written: set[str] = per_recording(set())


def record(language: str, names: Iterable[object], **fields: Any) -> None:
    """Record kernels that one compilation makes, each with all that it has."""
    for name in names:
        write_kernel({"by": language, "name": str(name)[:MAX_NAME_CHARACTERS], **fields})


def write_kernel(event: dict[str, Any]) -> None:
    """Write an event once; of its stages, those that are not blobs yet become some."""
    if not event["name"] or len(_written) >= MAX_KERNELS:
        return
    out: dict[str, Any] = {"event": "uncaptured", **event}
    for stage in STAGES:
        text = encoded(out.pop(stage, None))
        if text is not None and re.fullmatch(b"[0-9a-f]{64}", text):
            out[stage] = text.decode()  # it is the digest of one
        elif text and len(text) <= MAX_TEXT_BYTES:
            out[stage] = blob(text)
    if out.get("options") is not None:
        decoded = [
            o.decode(errors="replace") if isinstance(o, bytes) else o for o in out["options"]
        ]
        out["options"] = [str(option)[:MAX_NAME_CHARACTERS] for option in decoded][:100]
    key = repr(sorted((k, v) for k, v in out.items() if k not in ("began", "seconds")))
    if key not in _written:
        _written.add(key)
        emit(out)


def encoded(text: object) -> bytes | None:
    """A text or machine code as bytes; None of what is neither."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    return bytes(text) if isinstance(text, bytes | bytearray | memoryview) else None


def code(data: object) -> dict[str, bytes]:
    """Which stage a compiler's product is: PTX, or machine code."""
    raw = (encoded(data) or b"").rstrip(b"\0")
    if raw[:4] == b"\x7fELF":
        return {"cubin": encoded(data) or b""}
    return {"ptx": raw} if b".version" in raw else {}


def of_function(language: str, function: Any) -> dict[str, Any]:
    """A kernel that is a function of Python: its name, and its file with its lines."""
    function = inspect.unwrap(function) if callable(function) else function
    out: dict[str, Any] = {
        "by": language,
        "name": str(getattr(function, "__qualname__", "a kernel")),
    }
    code_object = getattr(function, "__code__", None)
    return (
        out
        if code_object is None
        else {**out, **source_place(code_object.co_filename, code_object.co_firstlineno)}
    )


def source_place(path: str | None, first: int | None, is_block: bool = True) -> dict[str, Any]:
    """A place in a file, with the statement that begins there unless it is one line alone."""
    if not path or not first or not os.path.isfile(path):
        return {}
    last = first
    if is_block:
        with open(path, encoding="utf-8") as file:
            last += len(inspect.getblock(file.readlines()[first - 1 :])) - 1
    return {"path": os.path.abspath(path), "source": file_blob(path), "lines": [first, last]}


def kernels(source: object) -> list[str]:
    """Names of the kernels that CUDA C++ (or PTX) defines; a placeholder if none is seen."""
    text = (encoded(source) or b"")[:MAX_TEXT_BYTES].decode("utf-8", "replace")
    names = _KERNEL.findall(_ASIDE.sub(" ", text)) or ENTRY.findall(text)
    return list(dict.fromkeys(names)) or ["(without a name)"]


def refused(language: str, tool: str, log: str, **fields: Any) -> None:
    """Record CUDA C++ that its compiler refuses, in the compiler's words."""
    match = _MESSAGE.search(log)
    message = match[3] if match is not None else log.strip().partition("\n")[0]
    summary: dict[str, Any] = {"message": message, "tool": tool}
    place = {"file": match[1], "line": int(match[2])} if match is not None else {}
    failure = {
        "event": "made_failed",
        "stage": "ptx",
        "log": blob(log[:MAX_LOG_CHARACTERS]),
        "messages": [{"severity": "error", **summary, **place}],
    }
    record(language, kernels(fields.get("source")), **summary, **failure, **fields)
