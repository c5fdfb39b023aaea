"""Stand-ins for the CUDA libraries that a wheel of torch links with: 900 MB instead of 4 GB a pair.

torch's wheel names cuBLAS, cuDNN, NCCL and others as libraries that it cannot be loaded without,
and nothing of them is called where there is no GPU. So only torch itself and the CUDA runtime are
installed, and for what the loader then misses a library is compiled that has the functions by name
and version. A function of one that is called says so and ends the program: no row of the table
rests on it.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

RUNTIME = re.compile(r"nvidia-cuda-runtime\b")
TOOLKIT = re.compile(r"cuda-toolkit\[[^]]*\]")
"""From torch 2.10 on, wheels may name NVIDIA's packages as extras of this one."""
CUDA = re.compile(r"(nvidia|cuda)-")
MISSING = re.compile(r"\s*(?P<name>\S+) => not found")
UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>[\w.$]+)(?:, version (?P<version>\S+))?")
NEEDED = re.compile(r"File: (?P<library>\S+)|Name: (?P<version>\S+) +Flags")
PYTHONS = re.compile(r"_?Py")
"""The interpreter's own, which are there when it loads torch."""
FUNCTION = """
void {name}(void) {{
    fputs("a stand-in was called: {name}\\n", stderr);
    abort();
}}
"""


def requirements(asked: Iterable[str]) -> Iterator[str]:
    """Of what a wheel requires (PEP 508), what is installed: of CUDA's libraries the runtime."""
    for line in asked:
        requirement, _, marker = line.partition(";")
        if "extra ==" in marker:
            continue
        if TOOLKIT.match(requirement):
            yield TOOLKIT.sub("cuda-toolkit[cudart]", line)
        elif RUNTIME.match(requirement) or not CUDA.match(requirement):
            yield line


def make(libraries: Path, place: Path) -> list[str]:
    """Compile what the loader misses for torch's libraries, beside them; the names, in order."""
    lines = [
        line
        for name in ("libtorch_python.so", "libtorch_cuda_linalg.so")
        for line in _said("ldd", "-r", libraries / name)
    ]
    names = sorted({m["name"] for m in map(MISSING.match, lines) if m})
    versions = dict(_versions(libraries))
    versioned: dict[str, set[tuple[str, str]]] = defaultdict(set)
    plain = set()
    for match in map(UNDEFINED.match, lines):
        if match is None or PYTHONS.match(match["symbol"]):
            continue
        if match["version"] is None:
            plain.add(match["symbol"])
        else:
            versioned[versions[match["version"]]].add((match["symbol"], match["version"]))
    for name in names:
        # Functions without a version may lie in any library that is loaded.
        _compile(libraries / name, versioned[name], plain if name == names[0] else (), place)
    return names


def _versions(libraries: Path) -> Iterator[tuple[str, str]]:
    """Versions of symbols that torch's libraries need, and the library of each."""
    library = ""
    for path in libraries.glob("*.so"):
        for line in _said("readelf", "-V", "-W", path):
            if match := NEEDED.search(line):
                library = match["library"] or library
                if match["version"]:
                    yield match["version"], library


def _said(*argv: object) -> list[str]:
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def _compile(
    library: Path, versioned: Iterable[tuple[str, str]], plain: Iterable[str], place: Path
) -> None:
    source, script = place / "stand_in.c", place / "stand_in.map"
    functions = sorted({*plain, *(name for name, _ in versioned)})
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        + "".join(FUNCTION.format(name=name) for name in functions)
    )
    exported: dict[str, list[str]] = defaultdict(list)
    for name, version in versioned:
        exported[version].append(name)
    script.write_text(
        "".join(f"{v} {{ global: {' '.join(f'{n};' for n in ns)} }};\n"
                for v, ns in exported.items())
    )  # fmt: skip
    argv = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library.name}", "-o", str(library),
            str(source)]  # fmt: skip
    if exported:
        argv.append(f"-Wl,--version-script={script}")
    subprocess.run(argv, check=True, capture_output=True)
