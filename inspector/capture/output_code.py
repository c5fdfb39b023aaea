"""What Inductor's ``output_code`` says of its kernels: names, files, where they stand, the order.

The text is read line by line with plain string tests; it is never executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Patterns without nested repetition: linear on any input.
_DEFINED = re.compile(r"^(\w{1,400}) = async_compile\.(\w+)\(\s*(?:(['\"])(\w*)\3\s*,)?")
_LAUNCHED = re.compile(r"^\s+(\w{1,400})\.run\(")
_CALLED = re.compile(r"^\s+(?:\w+ = )?(?:(extern_kernels)\.(\w+)|(\w+))\(")
_AOT = re.compile(r"^# AOT ID: \['([^']{1,100})'\]")
_PATH = "# kernel path: "
_ORIGIN = {"triton": "inductor", "multi_kernel": "inductor", "cpp": "cpp", "cpp_pybinding": "cpp"}


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel that ``output_code`` defines or calls.

    ``origin`` is ``inductor``, ``cpp`` or ``extern``; ``path`` the file that Inductor wrote the
    kernel to; ``body`` the line of ``output_code`` that holds the first line of the kernel's own
    text, which that file repeats; ``last`` the last line of it.
    """

    name: str
    origin: str
    path: str | None = None
    line: int | None = None
    body: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class OutputCode:
    """Kernels in the order of the wrapper's calls, then those defined and never called."""

    aot_id: str | None
    kernels: tuple[KernelText, ...]


def is_output_code(text: str) -> bool:
    """Whether a text is a graph's wrapper (and not one kernel's own file)."""
    head = text[:20000]
    return "AsyncCompile" in head or head.lstrip().startswith("# AOT ID:")


def parse(text: str) -> OutputCode:
    """Read one graph's ``output_code``. Never raises."""
    lines = text.split("\n")
    defined: dict[str, KernelText] = {}
    calls: list[KernelText] = []
    aot: str | None = None
    path: str | None = None
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if aot is None and (found := _AOT.match(line)):
            aot = found[1]
        if line.startswith(_PATH):
            path = line[len(_PATH) :].strip()
        elif found := _DEFINED.match(line):
            quote = line.rfind("'''")
            end = _end(lines, n) if quote >= 0 else n
            kernel = KernelText(
                name=found[1],
                origin=_ORIGIN.get(found[2], "extern"),
                path=path,
                line=n,
                # The text begins right after the quotes: its first line is what stands there.
                body=n if quote >= 0 else None,
                last=end,
            )
            defined[found[1]] = kernel
            path, n = None, end
        elif found := _LAUNCHED.match(line):
            if found[1] in defined:
                calls.append(defined[found[1]])
        elif found := _CALLED.match(line):
            if found[1]:
                calls.append(KernelText(found[2], "extern", line=n))
            elif found[3] in defined:
                calls.append(defined[found[3]])
    ordered = dict.fromkeys(calls)
    for kernel in defined.values():
        ordered.setdefault(kernel)
    unique: dict[tuple[str, str], KernelText] = {}
    for kernel in ordered:
        unique.setdefault((kernel.origin, kernel.name), kernel)
    return OutputCode(aot, tuple(unique.values()))


def _end(lines: list[str], start: int) -> int:
    """The line (from 1) that closes the triple quotes opened before line index ``start``."""
    for n in range(start, len(lines)):
        if lines[n].startswith("'''"):
            return n + 1
    return len(lines)
