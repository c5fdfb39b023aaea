"""Makes the PTX of an nvcc build by running the same command again, into another folder.

An ordinary build keeps neither PTX nor line information. ``-cubin -lineinfo --keep`` in one run
gives both: the PTX as ``-ptx -lineinfo`` would write it, and a cubin whose line table is valid for
the built object if, function by function, the machine code is the same.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.base.errors import PtxviewError
from inspector.listing.cubin import Cubin, read_cubin
from inspector.recording.layout import DerivedCache
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import path_folders

_ARCH = re.compile(r"(?:compute|sm)_(\d+[af]?)")
# Options with an argument that a second run, which compiles for one architecture, does not need.
_DROP_PAIR = {"-o", "--output-file", "-MF", "--dependency-output", "-gencode",
              "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code"}  # fmt: skip
_DROP_ONE = {"-c", "--compile", "-dc", "--device-c", "-dw", "-MD", "-MMD", "-M",
             "--generate-dependencies-with-compile", "-ptx", "-cubin", "-dlink"}  # fmt: skip
_DROP_PREFIX = ("-gencode=", "--generate-code=", "-arch=", "--gpu-architecture=", "-code=",
                "--gpu-code=", "-MF=", "--dependency-output=", "-o=")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The result of a second run; if ``ptx`` is None, ``why`` says what is missing.

    ``ptxas`` is the output of ``ptxas -v``. It holds for the built object if ``lines_cubin`` is
    not None, that is, if the machine code is the same.
    """

    ptx: bytes | None
    lines_cubin: bytes | None
    command: tuple[str, ...]
    why: str | None = None
    ptxas: str = ""


def again(argv: Sequence[str], source: str, arch: str, out: Path) -> list[str]:
    """The same command for one architecture (``90a``), with ``-cubin -lineinfo --keep``."""
    words: list[str] = []
    given = iter(argv)
    for word in given:
        if word in _DROP_PAIR:
            next(given, None)
        elif word not in _DROP_ONE and not word.startswith(_DROP_PREFIX) and word != source:
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
    """Run nvcc again for a source of a build, or take the cached result for the same content."""
    if not argv or not Path(argv[0]).is_file() or not Path(source).is_file():
        missing = argv[0] if not argv or not Path(argv[0]).is_file() else source
        return DeviceCode(
            None, None, (), f"PTX needs the build's own nvcc command, and {missing} is not here"
        )
    code = json.dumps(sorted((n, c.hex()) for n, c in built.code.items())) if built else ""
    key = cache.key("nvcc", "\0".join(argv), arch, source_bytes, code)
    cached = {name: cache.get(cache.key(key, name)) for name in ("ptx", "cubin", "said")}
    if cached["ptx"] is not None and cached["said"] is not None:
        messages = cached["said"].decode("utf-8", "replace")
        return DeviceCode(cached["ptx"], cached["cubin"] or None, tuple(argv), ptxas=messages)
    say(f"nvcc again for {Path(source).name}, for its PTX (sm_{arch})")
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        command = again(argv, source, arch, Path(folder))
        try:
            # It runs in the build's folder, and looks for the host's compiler on PATH.
            env = {**os.environ, "PATH": os.pathsep.join(path_folders())}
            build_folder = directory if directory.is_dir() else None
            done = run_tool(command, cwd=build_folder, env=env, seconds=900)
        except PtxviewError as error:
            return DeviceCode(None, None, tuple(command), error.message)
        ptx = next(iter(sorted(Path(folder).glob("*.ptx"))), None)
        if done.status != 0 or ptx is None:
            return DeviceCode(None, None, tuple(command), f"nvcc failed: {done.complaint}")
        text = files.read(ptx)
        cubin = files.read(Path(folder) / "again.cubin")
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
    names: list[str] = []
    for word in argv:
        if "code=" in word or word.startswith(("-arch", "--gpu-arch")):
            real = re.findall(r"sm_(\d+[af]?)", word) or _ARCH.findall(word)
            names += [r for r in real if r not in names]
    return names
