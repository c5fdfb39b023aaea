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
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from . import build, limits

GCC_HEAP_KB = 500_000
"""Memory that GCC takes before it collects garbage: a tenth off the time of torch's headers."""


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


def _options(flags: list[str], *names: str) -> tuple[list[str], list[str]]:
    """The values of the options with these names (``-x v`` or ``-x=v``), and the other flags."""
    values: list[str] = []
    others: list[str] = []
    items = iter(flags)
    for item in items:
        name, equals, value = item.partition("=")
        if name in names:
            values.append(value if equals else next(items, ""))
        else:
            others.append(item)
    return values, others


def split(argv: list[str]) -> tuple[str | None, str | None, str | None, list[str]]:
    """Source, output and dependency file of an nvcc command, and its other flags."""
    outputs, rest = _options(argv, "-o")
    depends, rest = _options(rest, "-MF", "--dependency-output")
    _, rest = _options(rest, "-MT")
    modes = ("-MD", "--generate-dependencies-with-compile", "-c", "--compile", "-dc")
    sources = [flag for flag in rest if flag.endswith((".cu", ".cuh")) and flag[0] != "-"]
    flags = [flag for flag in rest if flag not in modes and flag not in sources]
    last = [each[-1] if each else None for each in (sources, outputs, depends)]
    return last[0], last[1], last[2], flags


ARCHITECTURE = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code")
RELOCATABLE = ("-rdc", "--relocatable-device-code")
"""Options that choose architectures or relocatable code: one target is compiled."""


def command(home: str, source: Path, flags: list[str], target: str, folder: Path) -> list[str]:
    """The command that leaves PTX with line information, a cubin, and an object in ``folder``.

    The object holds the PTX uncompressed, since the runtime's stand-in reads it from there.
    """
    compiler = os.environ.get("PTXVIEW_NVCC")
    return [
        *(shlex.split(compiler) if compiler else [f"{home}/bin/nvcc"]),
        *_options(flags, *ARCHITECTURE, *RELOCATABLE)[1],
        *f"-lineinfo -arch={architecture(flags, target)} -c -no-compress -Xcompiler=-w".split(),
        f"-Xcompiler=--param=ggc-min-heapsize={GCC_HEAP_KB}",
        *("--keep", "--keep-dir", str(folder), "-o", str(folder / "whole.o"), str(source)),
    ]


def compile_source(home: str, source: Path, flags: list[str], target: str) -> dict[str, Any]:
    """Compile one source, or take the cached result for the same content.

    Returns the record: paths of ``object``, ``ptx``, ``cubin`` and ``lines_cubin``, the command,
    the log, the exit status, and the digests of the headers that it depends on.
    """
    torch = build.torch_folder()
    digest = hashlib.sha256(json.dumps([flags, target, home, str(source)]).encode())
    digest.update(build.torch_version(torch).encode() if torch else b"")
    digest.update(source.read_bytes())
    place = build.cache_root() / "nvcc" / digest.hexdigest()[:24]
    record = _cached(place) or _compile(home, source, flags, target, place)
    if record["ptx"] and record["cubin"]:
        limits.note(Path(record["ptx"]), Path(record["cubin"]))
    return record


def _cached(place: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((place / "record.json").read_text())
        current = all(_digest(Path(p)) == known for p, known in record["depends"].items())
        return record if current and Path(record["object"]).exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _compile(home: str, source: Path, flags: list[str], target: str, place: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ptxview-nvcc-") as name:
        folder = Path(name)
        argv = command(home, source, flags, target, folder)
        # In nvcc's form, and the same for each build: it is part of names in the PTX.
        digest = hashlib.sha256(json.dumps([flags, target, str(source)]).encode()).hexdigest()
        file = re.sub(r"\W", "_", source.name)
        module = f"_{digest[:8]}_{len(file)}_{file}_{digest[8:16]}"
        status, log = _run(argv, module)
        record: dict[str, Any] = {
            "status": status,
            "log": log,
            "ptx_command": argv,
            "arch": architecture(flags, target),
            "depends": {},
            **dict.fromkeys(("ptx", "cubin", "lines_cubin", "object")),
        }
        if status:
            return record
        place = build.writable(place)
        record["object"] = str(shutil.copy(folder / "whole.o", place / "whole.o"))
        for ptx in folder.glob("*.ptx"):
            record["ptx"] = str(shutil.copy(ptx, place / "kernel.ptx"))
            if _assemble(home, flags, target, ptx, place / "kernel.cubin"):
                record["cubin"] = str(place / "kernel.cubin")
        for lines in folder.glob("*.cubin"):
            record["lines_cubin"] = str(shutil.copy(lines, place / "lines.cubin"))
            record["cubin"] = record["cubin"] or record["lines_cubin"]
        record["depends"] = _depends(folder, home)
        _write(place / "record.json", record)
        return record


def _write(file: Path, record: dict[str, Any]) -> None:
    """Write a record, whole or not at all."""
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(record), encoding="utf-8")
    os.replace(part, file)


def _run(argv: list[str], module: str) -> tuple[int, str]:
    """Run nvcc: exit status and log.

    nvcc compiles host and device code one after the other, because cudafe++ chooses the module's
    name, which cicc needs. With the name ``module`` given to both, they run side by side, which
    takes a third off the time. A command line that nvcc splits differently is left to nvcc.
    """
    asked = subprocess.run([*argv, "--dryrun"], capture_output=True, text=True, errors="replace")
    variables: dict[str, str] = {}
    commands: list[str] = []
    log = ""
    for line in asked.stderr.splitlines(keepends=True):
        if not line.startswith("#$ "):
            log += line  # a warning about options
            continue
        command = line.removeprefix("#$ ").strip()
        name, equals, value = command.partition("=")
        if equals and name.isidentifier():
            variables[name] = value
        else:
            commands.append(command)
    front = [i for i, command in enumerate(commands) if command.startswith("cudafe++")]
    name_file = re.search(
        r'--gen_module_id_file --module_id_file_name "(.*?)"', "\n".join(commands)
    )
    if asked.returncode or len(front) != 1 or name_file is None:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode(errors="replace")
    Path(name_file[1]).write_text(module)
    commands[front[0]] = commands[front[0]].replace("--gen_module_id_file", "")
    host, device = commands[: front[0] + 1], commands[front[0] + 1 : -1]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda part: _shell(part, variables), (host, device)))
    if not any(status for status, _ in results):
        results.append(_shell(commands[-1:], variables))
    return max(status for status, _ in results), log + "".join(text for _, text in results)


def _shell(commands: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Run commands of nvcc until one fails: exit status and log."""
    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stdout.decode(errors="replace")


def _assemble(home: str, flags: list[str], target: str, ptx: Path, cubin: Path) -> bool:
    """Make the machine code of an ordinary build, which asks for no line information."""
    given, _ = _options(flags, "-Xptxas", "--ptxas-options")
    registers, _ = _options(flags, "-maxrregcount", "--maxrregcount")
    options = [option for value in given for option in value.split(",")]
    options += [f"-maxrregcount={value}" for value in registers]
    argv = [f"{home}/bin/ptxas", *options, f"-arch={architecture(flags, target)}"]
    done = subprocess.run(
        [*argv, str(ptx), "-o", str(cubin)], capture_output=True, text=True, errors="replace"
    )
    return done.returncode == 0


def _depends(folder: Path, home: str) -> dict[str, str]:
    """Digests of the user's own headers; torch's and CUDA's are known by their versions."""
    paths = {
        os.path.abspath(path)
        for file in folder.glob("*.ii")
        for path in re.findall(r'^# \d+ "([^"<]+)"', file.read_text(errors="replace"), re.MULTILINE)
    }
    others = (str(build.torch_folder()), home, os.path.realpath(home), "/usr/")
    own = sorted(path for path in paths if not path.startswith(others))
    return {path: digest for path in own if (digest := _digest(Path(path)))}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


# -- records of objects: a build that is found already made is captured all the same -------------


def _record_file(item: Path) -> Path:
    digest = hashlib.sha256(str(item.absolute()).encode()).hexdigest()[:24]
    return build.cache_root() / "objects" / f"{digest}.json"


def write_record(item: Path, record: dict[str, Any]) -> None:
    """Keep an object's record; a cache that cannot be written costs the record alone."""
    place = _record_file(item)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(place, record)
    except OSError:
        return


def read_record(item: Path) -> dict[str, Any]:
    """An object's record; empty if it is missing."""
    try:
        record: dict[str, Any] = json.loads(_record_file(item).read_text(encoding="utf-8"))
        return record
    except (OSError, ValueError):
        return {}
