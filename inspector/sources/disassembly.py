"""Disassembles cubins by nvdisasm and cuobjdump, and finds device code in other files.

As a rule one call of ``nvdisasm`` gives the text and its annotations:
``nvdisasm -c -gi -gp -hex`` prints what ``-c`` prints, with locations and PTX lines on lines of
their own (``//## …``) and the encoding at the ends of lines (``/* 0x… */``). The output of ``-c``
is derived from that if nothing else was added, which is checked; else nvdisasm is called again.
"""

from __future__ import annotations

import re
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from inspector.base.errors import Unreadable
from inspector.listing.cubin import FATBIN_SECTIONS, is_cubin, is_elf
from inspector.recording.layout import DerivedCache
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import Tool, every, find, need

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


# -- files-with-device-code ------------------------------------------------------------------------

_NAMED = re.compile(r"\.(sm_\d+[af]?)\.(cubin|ptx)$")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}")
FATBIN_MAGIC = b"\x50\xed\x55\xba"


@dataclass(frozen=True, slots=True)
class Image:
    """One piece of device code: ``arch`` as cuobjdump names it (``sm_90a``), cubin or PTX."""

    arch: str
    data: bytes
    is_ptx: bool


def carries_device_code(file: files.File) -> bool:
    """Whether an opened file is a host object or library with a fat binary.

    The file is not read into memory as a whole.
    """
    file.seek(0)
    if not is_elf(file.take(4)):
        return False
    return files.contains(file, FATBIN_SECTIONS)


def images(path: Path, cache: DerivedCache | None = None) -> tuple[Image, ...]:
    """Every cubin and PTX in a file, in its order; the file itself if it is a cubin.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` if the file cannot be read or
    holds no device code.
    """
    with files.opened(path) as file:
        head = file.take(64)
        if is_cubin(head):
            file.seek(0)
            return (Image("", file.whole(), False),)
        if not carries_device_code(file) and FATBIN_MAGIC not in head:
            raise Unreadable(
                f"{path} holds no CUDA device code",
                "ptxview reads what nvcc, ptxas or Triton made.",
            )
        return tuple(_taken_out(file))


def images_of(data: bytes, name: str) -> tuple[Image, ...]:
    """The same of a fat binary inside another file; ``name`` is what it is called."""
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        path = Path(folder) / "embedded.fatbin"
        path.write_bytes(data)
        try:
            return images(path)
        except Unreadable:
            raise Unreadable(f"cuobjdump found no device code in {name}") from None


def _taken_out(binary: files.File) -> list[Image]:
    tool = need("cuobjdump")
    images: list[Image] = []
    allowance = files.Allowance()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        # A link with a plain name: odd names, or one that begins with a dash, do no harm.
        ending = binary.path.suffix if _ENDING.fullmatch(binary.path.suffix) else ""
        inside = Path(folder) / f"input{ending}"
        inside.symlink_to(binary.again())
        for option in ("-xelf", "-xptx"):
            run_tool([tool.path, option, "all", inside], cwd=Path(folder), seconds=300)
        for file in sorted(files.files_in(Path(folder)), key=_number):
            match = _NAMED.search(file.name)
            if match:
                data = files.read(file, follow=False)
                allowance.take(len(data), f"{file.name} of {binary.path}")
                images.append(Image(match[1], data, match[2] == "ptx"))
    if not images:
        raise Unreadable(f"cuobjdump found no device code in {binary.path}")
    return images


def arch_of(cubin: files.File) -> str | None:
    """The architecture of a cubin as cuobjdump names it (``sm_90a``); None without cuobjdump."""
    tool = find("cuobjdump")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        inside = Path(folder) / "input.cubin"
        inside.symlink_to(cubin.again())
        match = _NAMED.search(run_tool([tool.path, "-lelf", inside], seconds=60).text.strip())
    return match[1] if match else None


def _number(path: Path) -> tuple[int, str]:
    parts = path.name.split(".")
    numbers = (int(p) for p in parts if p.isascii() and p.isdecimal() and len(p) < 10)
    return (next(numbers, 0), path.name)
