"""Device code inside objects, libraries and fat binaries, taken out with cuobjdump."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from inspector.capture.elf import has_device_code, is_cubin
from inspector.errors import Unreadable
from inspector.process import run_tool
from inspector.recording import DerivedCache
from inspector.toolchain import find, need

_NAMED = re.compile(r"\.(sm_\d+[af]?)\.(cubin|ptx)$")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}")
FATBIN_MAGIC = b"\x50\xed\x55\xba"


@dataclass(frozen=True, slots=True)
class Image:
    """One piece of device code: ``arch`` as cuobjdump names it (``sm_90a``), cubin or PTX."""

    arch: str
    data: bytes
    is_ptx: bool


def images(path: Path, cache: DerivedCache | None = None) -> tuple[Image, ...]:
    """Every cubin and PTX in a file, in its order; the file itself where it is a cubin.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` where the file cannot be read or
    holds no device code.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    if is_cubin(data):
        return (Image("", data, False),)
    if not has_device_code(data) and FATBIN_MAGIC not in data[:64]:
        raise Unreadable(
            f"{path} holds no CUDA device code",
            "ptxview reads what nvcc, ptxas or Triton made.",
        )
    tool = need("cuobjdump")
    found: list[Image] = []
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        # A link with a name of ours: an odd name or one that begins with a dash stays harmless.
        ending = path.suffix if _ENDING.fullmatch(path.suffix) else ""
        inside = Path(folder) / f"input{ending}"
        inside.symlink_to(path.resolve())
        for option in ("-xelf", "-xptx"):
            run_tool([tool.path, option, "all", inside], cwd=Path(folder), seconds=300)
        for file in sorted(Path(folder).iterdir(), key=_number):
            named = _NAMED.search(file.name)
            if named and not file.is_symlink():
                found.append(Image(named[1], file.read_bytes(), named[2] == "ptx"))
    if not found:
        raise Unreadable(f"cuobjdump found no device code in {path}")
    return tuple(found)


def arch_of(path: Path) -> str | None:
    """The architecture of a cubin as cuobjdump names it (``sm_90a``); None without cuobjdump."""
    tool = find("cuobjdump")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        inside = Path(folder) / "input.cubin"
        inside.symlink_to(path.resolve())
        found = _NAMED.search(run_tool([tool.path, "-lelf", inside], seconds=60).text.strip())
    return found[1] if found else None


def _number(path: Path) -> tuple[int, str]:
    parts = path.name.split(".")
    numbers = (int(p) for p in parts if p.isascii() and p.isdecimal() and len(p) < 10)
    return (next(numbers, 0), path.name)
