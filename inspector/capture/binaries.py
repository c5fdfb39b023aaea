"""Device code inside objects, libraries and fat binaries, taken out with cuobjdump."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from inspector import files
from inspector.errors import Unreadable
from inspector.listing.cubin import FATBIN_SECTIONS, is_cubin, is_elf
from inspector.recording.layout import DerivedCache
from inspector.system.process import run_tool
from inspector.system.toolchain import find, need

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
