"""The vendor's tools' output for a cubin, cached by content: its SASS and its functions' figures.

As a rule one call of ``nvdisasm`` gives the text and its annotations:
``nvdisasm -c -gi -gp -hex`` prints what ``-c`` prints, with locations and PTX lines on lines of
their own (``//## …``) and the encoding at the ends of lines (``/* 0x… */``). The output of ``-c``
is derived from that if nothing else was added, which is checked; else nvdisasm is called again.
"""

from __future__ import annotations

import re
import tempfile
import threading

from inspector.errors import Unreadable
from inspector.listing.cubin import is_elf
from inspector.recording.layout import DerivedCache
from inspector.system.process import run_tool
from inspector.system.toolchain import Tool, every, need

PLAIN = ("-c",)
ANNOTATED = ("-c", "-gi", "-gp", "-hex")
ENCODED = ("-c", "-hex")
_ENCODING = re.compile(r"(?<![ \t])[ \t]*+/\* 0x[0-9a-f]{16} \*/\Z")
_CODE = re.compile(r"\s*/\*[0-9a-f]{4,16}\*/\s+(?!\.)\S[^;]*;")
# How a cached failure begins; no tool prints a zero byte.
_FAILED = b"\0nvdisasm: "
_locks: dict[str, threading.Lock] = {}


def disassemble(cubin: bytes, cache: DerivedCache) -> tuple[str, str | None, str]:
    """The plain text, the annotated one or None, and the version of nvdisasm.

    Raises ``Unreadable`` with the tool's complaint if no nvdisasm reads this cubin, ``ToolMissing``
    without a tool.
    """
    need("nvdisasm")
    complaint = ""
    for tool in every("nvdisasm"):
        version = tool.version or "?"
        for options in (ANNOTATED, ENCODED):
            printed = _run(tool, options, cubin, cache)
            if isinstance(printed, str):
                complaint = complaint or printed
                continue
            annotated = printed.decode("utf-8", "surrogateescape")
            plain = plain_of(annotated)
            if plain is None:
                plain_printed = _run(tool, PLAIN, cubin, cache)
                if isinstance(plain_printed, str):
                    continue
                plain = plain_printed.decode("utf-8", "surrogateescape")
            return plain, annotated, version
        plain_printed = _run(tool, PLAIN, cubin, cache)
        if not isinstance(plain_printed, str):
            return plain_printed.decode("utf-8", "surrogateescape"), None, version
    raise Unreadable(f"nvdisasm cannot read this cubin: {complaint}")


def plain_of(annotated: str) -> str | None:
    """The output of ``nvdisasm -c``; None if it cannot be derived from the annotated text."""
    out: list[str] = []
    half = False
    for line in annotated.split("\n"):
        if line.lstrip().startswith("//## "):
            continue
        match = _ENCODING.search(line)
        if match is None:
            # Every instruction has its encoding; without it a line has an unknown form.
            if half or _CODE.match(line):
                return None
            out.append(line)
            continue
        rest = line[: match.start()]
        if not rest:
            half = False
            continue
        if half or not rest.lstrip().startswith("/*"):
            # Without a second word the encoding has 64 bits (before sm_70), and -c may align such
            # lines in another way.
            return None
        half = True
        out.append(rest)
    return None if half else "\n".join(out)


def _run(tool: Tool, options: tuple[str, ...], cubin: bytes, cache: DerivedCache) -> bytes | str:
    """The tool's output as bytes, or its complaint as a str; both are cached."""
    key = cache.key("nvdisasm", tool.version or "?", *options, cubin)
    with _locks.setdefault(key, threading.Lock()):  # no two threads run a tool on one cubin
        output = cache.get(key)
        if output is None:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(cubin)
                file.flush()
                done = run_tool([tool.path, *options, file.name])
            if done.status != 0 or not done.out:
                output = _FAILED + (done.complaint or f"status {done.status}").encode()
            else:
                output = done.out
            if done.status >= 0:  # a tool that was killed may succeed the next time
                cache.put(key, output)
    if output.startswith(_FAILED):
        return output.removeprefix(_FAILED).decode("utf-8", "replace")
    return output


# -- figures of the functions ---------------------------------------------------------------------


def usage_text(cubin: bytes, cache: DerivedCache) -> str:
    """The output of ``cuobjdump -res-usage``: figures of every function; "" if it is no ELF file.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` if it does not finish.
    """
    if not is_elf(cubin):
        return ""
    tool = need("cuobjdump")
    key = cache.key("cuobjdump -res-usage", tool.version or "?", cubin)
    printed = cache.get(key)
    if printed is None:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            printed = run_tool([tool.path, "-res-usage", file.name]).out
        cache.put(key, printed)
    return printed.decode("utf-8", "surrogateescape")
