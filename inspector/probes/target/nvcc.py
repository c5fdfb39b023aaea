"""nvcc: finding it, and compiling one source's device code to PTX and machine code."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from . import build, refusals


@cache
def homes() -> tuple[str, ...]:
    """Toolkits at hand, best first: each has bin/nvcc and the runtime's headers."""
    variables = ("CUDA_HOME", "CUDA_PATH")
    homes = [Path(os.environ[name]) for name in variables if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    if on_path:
        homes.append(Path(on_path).resolve().parents[1])
    homes.append(Path("/usr/local/cuda"))
    for folder in sys.path:
        wheels = Path(folder) / "nvidia"
        if wheels.is_dir():
            homes.extend(sorted(wheels.glob("cu[0-9]*"), reverse=True))
            homes.append(wheels / "cuda_nvcc")
    whole = [
        str(home)
        for home in dict.fromkeys(homes)
        if (home / "bin" / "nvcc").exists() and (home / "include" / "cuda_runtime.h").exists()
    ]
    return tuple(whole)


def lacking() -> str:
    """One line that says what is missing for CUDA C++, and where to get it."""
    return (
        "no CUDA toolkit was found (nvcc with its headers): CUDA C++ is captured as source only; "
        "pip install 'ptxview[cuda]', or set CUDA_HOME"
    )


def architecture(argv: list[str], target: str) -> str:
    """The flavour of the target that the build asks for: sm_90a where it names sm_90a."""
    number = re.sub(r"\D", "", target)
    asked = re.findall(r"(?:sm|compute)_(\d+[af]?)", " ".join(argv))
    exact = [a for a in asked if a.rstrip("af") == number]
    return f"sm_{max(exact, key=len)}" if exact else f"sm_{number}"


def split(argv: list[str]) -> tuple[str | None, str | None, str | None, list[str]]:
    """Source, output and dependency file of an nvcc command, and its other flags."""
    source = output = depends = None
    flags: list[str] = []
    items = iter(argv)
    for item in items:
        if item == "-o":
            output = next(items, None)
        elif item == "-MF":
            depends = next(items, None)
        elif item in ("-MD", "--generate-dependencies-with-compile", "-c", "--compile", "-dc"):
            continue
        elif item in ("-MT", "--dependency-output"):
            value = next(items, None)
            depends = value if item == "--dependency-output" else depends
        elif item.endswith((".cu", ".cuh")) and not item.startswith("-"):
            source = item
        else:
            flags.append(item)
    return source, output, depends, flags


def _device_flags(flags: list[str]) -> list[str]:
    """Without what chooses architectures or relocatable code: one target is compiled."""
    kept: list[str] = []
    items = iter(flags)
    for item in items:
        if item in ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code"):
            next(items, None)
        elif not item.startswith(
            (
                "-gencode",
                "--generate-code",
                "-arch",
                "--gpu-arch",
                "-code=",
                "-rdc",
                "--relocatable",
            )
        ):
            kept.append(item)
    return kept


def command(
    home: str, source: Path, flags: list[str], target: str, folder: Path, whole: bool = False
) -> list[str]:
    """The command that leaves PTX with line information and a cubin in ``folder``.

    ``whole``: and an object of host and device code, which holds the PTX as it is.
    """
    compiler = os.environ.get("PTXVIEW_NVCC")
    made = ["-c", "-no-compress", "-Xcompiler", "-O1,-w"] if whole else ["-cubin"]
    return [
        *(shlex.split(compiler) if compiler else [f"{home}/bin/nvcc"]),
        *_device_flags(flags),
        "-lineinfo", f"-arch={architecture(flags, target)}", *made, "--keep",
        "--keep-dir", str(folder), "-o", str(folder / ("whole.o" if whole else "lines.cubin")),
        str(source),
    ]  # fmt: skip


class Device:
    """One source's device compilation: started, then waited for; results cached by content.

    ``whole``: nvcc compiles the host's code as well, to one object.
    """

    def __init__(
        self, home: str, source: Path, flags: list[str], target: str, whole: bool = False
    ) -> None:
        self.home, self.source, self.flags, self.target = home, source, flags, target
        self.whole = whole
        torch = build.torch_folder()
        parts = [flags, target, home, str(source), *(["whole"] if whole else [])]
        digest = hashlib.sha256(json.dumps(parts).encode())
        digest.update(build.torch_version(torch).encode() if torch else b"")
        digest.update(source.read_bytes())
        self.place = build.cache_root() / "nvcc" / digest.hexdigest()[:24]
        self.process: subprocess.Popen[str] | None = None
        self.folder: Path | None = None
        if self._cached() is None:
            self.folder = Path(tempfile.mkdtemp(prefix="ptxview-nvcc-"))
            self.argv = command(home, source, flags, target, self.folder, whole)
            self.process = subprocess.Popen(
                [*self.argv, "-MD", "-MF", str(self.folder / "depends")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip

    def _cached(self) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads((self.place / "record.json").read_text())
            for path, digest in record["depends"].items():
                if _digest(Path(path)) != digest:
                    return None
            return record
        except (OSError, ValueError, KeyError):
            return None

    def finish(self) -> dict[str, Any]:
        """The record: paths of ptx, cubin and lines_cubin, the command, the log, the status."""
        record = self._cached()
        if record is not None or self.process is None or self.folder is None:
            return _noted(record or {"status": 1, "log": "nvcc did not run"})
        log, _ = self.process.communicate()
        status = self.process.returncode
        place = build.writable(self.place)
        record = {
            "status": status,
            "log": log,
            "arch": architecture(self.flags, self.target),
            "ptx_command": self.argv,
            "ptx": None,
            "cubin": None,
            "lines_cubin": None,
            "object": None,
            "depends": {},
        }
        if status == 0:
            ptx = next(iter(sorted(self.folder.glob("*.ptx"))), None)
            if ptx is not None:
                record["ptx"] = str(shutil.copy(ptx, place / "kernel.ptx"))
                plain = place / "kernel.cubin"
                if self._assemble(ptx, plain):
                    record["cubin"] = str(plain)
            if self.whole:
                record["object"] = str(shutil.copy(self.folder / "whole.o", place / "whole.o"))
            lines = next(iter(sorted(self.folder.glob("*.cubin"))), None)
            if lines is not None:
                record["lines_cubin"] = str(shutil.copy(lines, place / "lines.cubin"))
                record["cubin"] = record["cubin"] or record["lines_cubin"]
            record["depends"] = self._depends()
            part = place / f".record.{os.getpid()}"
            part.write_text(json.dumps(record), encoding="utf-8")
            os.replace(part, place / "record.json")
        shutil.rmtree(self.folder, ignore_errors=True)
        return _noted(record)

    def _assemble(self, ptx: Path, cubin: Path) -> bool:
        """The machine code of an ordinary build, which asks for no line information."""
        ptxas = f"{self.home}/bin/ptxas"
        flags: list[str] = []
        items = iter(self.flags)
        for item in items:
            if item in ("-Xptxas", "--ptxas-options"):
                flags += next(items, "").split(",")
            elif item.startswith(("-Xptxas=", "--ptxas-options=")):
                flags += item.split("=", 1)[1].split(",")
            elif item.startswith(("-maxrregcount", "--maxrregcount")):
                flags += [item] if "=" in item else [item, next(items, "")]
        argv = [ptxas, *flags, f"-arch={architecture(self.flags, self.target)}"]
        done = subprocess.run(
            [*argv, str(ptx), "-o", str(cubin)], capture_output=True, text=True, errors="replace"
        )
        return done.returncode == 0

    def _depends(self) -> dict[str, str]:
        """The user's own headers with their digests; torch's and CUDA's go with their versions."""
        try:
            text = (self.folder / "depends").read_text(errors="replace") if self.folder else ""
        except OSError:
            return {}
        digests = {}
        others = (str(build.torch_folder()), self.home, os.path.realpath(self.home), "/usr/")
        for path in text.replace("\\\n", " ").split()[1:]:
            if not path.startswith(others) and os.path.isabs(path):
                digest = _digest(Path(path))
                if digest:
                    digests[path] = digest
        return digests


def _noted(record: dict[str, Any]) -> dict[str, Any]:
    """The record; which machine code is of which PTX is remembered for launches."""
    if record.get("ptx") and record.get("cubin"):
        refusals.note(Path(str(record["ptx"])), Path(str(record["cubin"])))
    return record


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
