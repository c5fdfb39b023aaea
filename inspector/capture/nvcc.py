"""PTX of an nvcc build: the very same command again, into a place of ours.

An ordinary build keeps neither PTX nor line information. ``-cubin -lineinfo --keep`` in one run
gives both: the PTX as ``-ptx -lineinfo`` would write it, and a cubin whose line table belongs to
the built object where, function by function, the machine code is the same.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector import files
from inspector.errors import PtxviewError
from inspector.listing.cubin import Cubin, read_cubin
from inspector.recording.layout import DerivedCache
from inspector.system.process import run_tool
from inspector.system.toolchain import path_folders

_ARCH = re.compile(r"(?:compute|sm)_(\d+[af]?)")
# With an argument of their own, and of no use to a second run that compiles for one architecture.
_DROP_PAIR = {"-o", "--output-file", "-MF", "--dependency-output", "-gencode",
              "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code"}  # fmt: skip
_DROP_ONE = {"-c", "--compile", "-dc", "--device-c", "-dw", "-MD", "-MMD", "-M",
             "--generate-dependencies-with-compile", "-ptx", "-cubin", "-dlink"}  # fmt: skip
_DROP_PREFIX = ("-gencode=", "--generate-code=", "-arch=", "--gpu-architecture=", "-code=",
                "--gpu-code=", "-MF=", "--dependency-output=", "-o=")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a second run gave. ``why`` says what is lacking where ``ptx`` is None.

    ``ptxas`` is what ``ptxas -v`` printed; it speaks of the built object where ``lines_cubin``
    does, that is where the machine code is the same.
    """

    ptx: bytes | None
    lines_cubin: bytes | None
    command: tuple[str, ...]
    why: str | None = None
    ptxas: str = ""


def again(argv: Sequence[str], source: str, arch: str, out: Path) -> list[str]:
    """The command for one architecture (``90a``): as it was, but ``-cubin -lineinfo --keep``."""
    words: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif word in _DROP_PAIR:
            skip = True
        elif word in _DROP_ONE or word.startswith(_DROP_PREFIX):
            continue
        elif word != source:
            words.append(word)
    return [
        *words,
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        *("-cubin", "-lineinfo", "-Xptxas", "-v", "--keep", "--keep-dir", str(out)),
        *(source, "-o", str(out / "again.cubin")),
    ]


def device_code(
    argv: Sequence[str],
    source: str,
    arch: str,
    built: Cubin | None,
    directory: Path,
    cache: DerivedCache,
    source_bytes: bytes,
    say: Callable[[str], None] = lambda text: None,
) -> DeviceCode:
    """Run nvcc again for a source of a build, or take what a run with the same content gave."""
    if not argv or not Path(argv[0]).is_file() or not Path(source).is_file():
        missing = argv[0] if not argv or not Path(argv[0]).is_file() else source
        return DeviceCode(
            None, None, (), f"PTX needs the build's own nvcc command, and {missing} is not here"
        )
    code = json.dumps(sorted((n, c.hex()) for n, c in built.code.items())) if built else ""
    key = cache.key("nvcc", "\0".join(argv), arch, source_bytes, code)
    kept = {name: cache.get(cache.key(key, name)) for name in ("ptx", "cubin", "said")}
    if kept["ptx"] is not None and kept["said"] is not None:
        said = kept["said"].decode("utf-8", "replace")
        return DeviceCode(kept["ptx"], kept["cubin"] or None, tuple(argv), ptxas=said)
    say(f"nvcc again for {Path(source).name}, for its PTX (sm_{arch})")
    with tempfile.TemporaryDirectory(prefix="ptxview-") as made:
        command = again(argv, source, arch, Path(made))
        try:
            # It runs in the build's folder, and looks for the host's compiler on PATH.
            env = {**os.environ, "PATH": os.pathsep.join(path_folders())}
            where = directory if directory.is_dir() else None
            done = run_tool(command, cwd=where, env=env, seconds=900)
        except PtxviewError as error:
            return DeviceCode(None, None, tuple(command), error.message)
        ptx = next(iter(sorted(Path(made).glob("*.ptx"))), None)
        if done.status != 0 or ptx is None:
            return DeviceCode(None, None, tuple(command), f"nvcc failed: {done.complaint}")
        text = files.read(ptx)
        cubin = files.read(Path(made) / "again.cubin")
    lines = cubin if same_code(built, read_cubin(cubin)) else None
    cache.put(cache.key(key, "ptx"), text)
    cache.put(cache.key(key, "cubin"), lines or b"")
    cache.put(cache.key(key, "said"), done.err)
    return DeviceCode(text, lines, tuple(command), ptxas=done.err.decode("utf-8", "replace"))


def same_code(built: Cubin | None, other: Cubin | None) -> bool:
    """Whether two cubins hold the same functions with the same encodings."""
    return built is not None and other is not None and built.code == other.code


def architectures(argv: Sequence[str]) -> list[str]:
    """The real architectures that a command compiles for (``90a``), in order."""
    found: list[str] = []
    for word in argv:
        if "code=" in word or word.startswith(("-arch", "--gpu-arch")):
            real = re.findall(r"sm_(\d+[af]?)", word) or _ARCH.findall(word)
            found += [r for r in real if r not in found]
    return found
