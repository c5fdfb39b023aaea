"""What the vendor's tools print of a cubin, kept by content: its SASS, its functions' figures.

At most one call of ``nvdisasm`` gives the text and its annotations:
``nvdisasm -c -gi -gp -hex`` prints what ``-c`` prints, with locations and PTX lines on lines of
their own (``//## …``) and the encoding at the ends of lines (``/* 0x… */``). What ``-c`` would
have printed is read from it where nothing else was added, which is checked; else it is asked.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

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
# How a kept failure begins; no tool prints a zero byte.
_FAILED = b"\0nvdisasm: "
_locks: OrderedDict[str, threading.Lock] = OrderedDict()
_locks_lock = threading.Lock()


def disassemble(cubin: bytes, cache: DerivedCache) -> tuple[str, str | None, str]:
    """Plain text, the annotated one where there is one, and the version of the tool.

    Raises ``Unreadable`` with the tool's complaint where none reads this cubin, ``ToolMissing``
    where there is none.
    """
    need("nvdisasm")
    complaint = ""
    for tool in every("nvdisasm"):
        version = tool.version or "?"
        for options in (ANNOTATED, ENCODED):
            said = _run(tool, options, cubin, cache)
            if isinstance(said, str):
                complaint = complaint or said
                continue
            annotated = said.decode("utf-8", "surrogateescape")
            plain = plain_of(annotated)
            if plain is None:
                asked = _run(tool, PLAIN, cubin, cache)
                if isinstance(asked, str):
                    continue
                plain = asked.decode("utf-8", "surrogateescape")
            return plain, annotated, version
        asked = _run(tool, PLAIN, cubin, cache)
        if not isinstance(asked, str):
            return asked.decode("utf-8", "surrogateescape"), None, version
    raise Unreadable(f"nvdisasm cannot read this cubin: {complaint}")


def plain_of(annotated: str) -> str | None:
    """What ``nvdisasm -c`` prints, or None if that cannot be told from the annotated text."""
    out: list[str] = []
    half = False
    for line in annotated.split("\n"):
        if line.lstrip().startswith("//## "):
            continue
        match = _ENCODING.search(line)
        if match is None:
            # Every instruction has its encoding; one without is printed in a way not known here.
            if half or _CODE.match(line):
                return None
            out.append(line)
            continue
        rest = line[: match.start()]
        if not rest:
            half = False
            continue
        if half or not rest.lstrip().startswith("/*"):
            # Without a second word the encoding is of 64 bits (before sm_70), which -c may align
            # in another way.
            return None
        half = True
        out.append(rest)
    return None if half else "\n".join(out)


def _run(tool: Tool, options: tuple[str, ...], cubin: bytes, cache: DerivedCache) -> bytes | str:
    """What the tool prints, or its complaint; both are kept."""
    key = cache.key("nvdisasm", tool.version or "?", *options, cubin)
    with _lock(key):
        kept = cache.get(key)
        if kept is None:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(cubin)
                file.flush()
                done = run_tool([tool.path, *options, file.name])
            if done.status != 0 or not done.out:
                kept = _FAILED + (done.complaint or f"status {done.status}").encode()
            else:
                kept = done.out
            if done.status >= 0:  # one that was killed may do better the next time
                cache.put(key, kept)
    if kept.startswith(_FAILED):
        return kept.removeprefix(_FAILED).decode("utf-8", "replace")
    return kept


def _lock(key: str) -> threading.Lock:
    """One lock an entry, so that two threads do not ask the tool the same thing."""
    with _locks_lock:
        lock = _locks.setdefault(key, threading.Lock())
        while len(_locks) > 1024:
            _locks.popitem(last=False)
        return lock


# -- figures of the functions ---------------------------------------------------------------------


def usage_text(cubin: bytes, cache: DerivedCache) -> str:
    """Figures of every function; "" of what is no ELF file.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` where it does not finish.
    """
    if not is_elf(cubin):
        return ""
    tool = need("cuobjdump")
    key = cache.key("cuobjdump -res-usage", tool.version or "?", cubin)
    printed = cache.get(key)
    if printed is None:
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            file = Path(folder) / "kernel.cubin"
            file.write_bytes(cubin)
            printed = run_tool([tool.path, "-res-usage", file]).out
        cache.put(key, printed)
    return printed.decode("utf-8", "surrogateescape")
