"""Runs a compiler in a child process, and explains its messages and its death."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inspector.base.errors import PtxviewError, ToolMissing
from inspector.base.model import CompilerMessage
from inspector.recording.compilations import first_error, messages_of, renamed
from inspector.system import files
from inspector.system.process import Finished, run_tool

GoOn = Callable[[], bool]
NO_TRITON = 3
"""Exit status of a child whose interpreter lacks Triton."""
_CAUSE = re.compile(r"Assertion|LLVM ERROR|UNREACHABLE|Segmentation")
# Variables that would make the child print, or compile otherwise than the recording says.
_NOT_PASSED_ON = re.compile(
    r"PTXVIEW_|MLIR_|LLVM_IR_|DISABLE_LLVM_OPT|TRITON_(?:OVERRIDE_ARCH|KERNEL_|INTERPRET|ALWAYS_)"
    r"|USE_IR_LOC|DISABLE_PTXAS_OPT|NVPTX_ENABLE_DUMP|TRITON_(?:ENABLE_LLVM_DEBUG|REPRODUCER_PATH)"
)


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One start of a compiler.

    ``names`` are what the user calls its files and ``texts`` their contents, both by file name;
    messages without a file are of the first. ``reads_files``: whether lines of other files that the
    compiler names may be read, as of the user's own headers.
    """

    argv: Sequence[str]
    tool: str
    names: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] | None = None
    seconds: float = 600.0
    go_on: GoOn | None = None
    reads_files: bool = False

    def run(self) -> Finished:
        """Run it to its end, as ``run_tool``."""
        return run_tool(self.argv, env=self.env, seconds=self.seconds, go_on=self.go_on)

    def messages(self, printed: str) -> tuple[CompilerMessage, ...]:
        """The messages in what it printed, with the lines that they name."""
        rows = {name: text.splitlines() for name, text in self.texts.items()}

        def line_of(file: str, number: int) -> str | None:
            path = Path(file)
            if path.name not in rows:
                try:
                    data = files.read(path) if self.reads_files else b""
                except (PtxviewError, OSError, ValueError):
                    data = b""
                rows[path.name] = data.decode("utf-8", "replace").splitlines()
            lines = rows[path.name]
            return lines[number - 1] if 0 < number <= len(lines) else None

        return renamed(messages_of(printed, self.tool, line_of), dict(self.names))

    def death(self, printed: str, status: int) -> tuple[str, tuple[CompilerMessage, ...]]:
        """Explain why Triton's compiler ended its process: a sentence, and all messages."""
        messages = self.messages(printed)
        own = next(iter(self.names))
        bad = _bad_ir(printed, self.names[own], self.texts.get(own, "").splitlines())
        if bad is not None:
            messages = (bad, *(m for m in messages if m.severity != "error"))
        failed = first_error(messages)
        if failed is None:
            how = f"was ended by signal {-status}" if status < 0 else "ended before its time"
            cause = cause_of(printed)
            failed = f"Triton's compiler {how}{f': {cause}' if cause else ''}"
            messages = (CompilerMessage("error", failed, "triton", self.names[own]), *messages)
        return failed, messages


def triton_environment(folder: Path, as_recorded: bool = True) -> dict[str, str]:
    """The environment of a child that runs Triton: no GPU, and new caches in ``folder``.

    ``as_recorded`` leaves out the user's settings of Triton and LLVM.
    """
    ours = _NOT_PASSED_ON if as_recorded else re.compile("PTXVIEW_")
    for cache in ("triton", "inductor", "work"):
        (folder / cache).mkdir()
    return {k: v for k, v in os.environ.items() if not ours.match(k)} | {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TMPDIR": str(folder / "work"),  # Triton leaves PTX there that ptxas has refused
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def no_triton(python: str, name: str) -> ToolMissing:
    """The error of an interpreter without Triton."""
    return ToolMissing(
        f"{python} has no Triton, which compiles {name}",
        "Get it: pip install triton, or name another interpreter with --python.",
    )


def with_file(messages: Sequence[CompilerMessage], name: str) -> tuple[CompilerMessage, ...]:
    """Messages, of which those that name no file are of ``name``."""
    return tuple(m if m.file is not None else replace(m, file=name) for m in messages)


def cause_of(printed: str) -> str | None:
    """The line in which LLVM says why it ends its process, if it does."""
    row = next((r for r in printed.splitlines() if _CAUSE.search(r)), None)
    if row is None:
        return None
    # glibc's line of an assertion: the program, the folder and the signature say nothing to a user.
    before, mark, condition = row.strip().partition(": Assertion `")
    words = before.split(": ", 2)
    if mark and len(words) == 3:
        return f"{words[1].rpartition('/')[2]}{mark}{condition}"[:300]
    return row.strip()[:300]


def _bad_ir(printed: str, name: str, rows: Sequence[str]) -> CompilerMessage | None:
    """LLVM's complaint about a text that it cannot read: the line follows the sentence."""
    said, mark, number = printed.partition("failed to parse IR: ")[2].partition("lineno: ")
    digits = number.split("\n", 1)[0].strip()[:9]
    if not mark or not digits.isdecimal():
        return None
    n = int(digits)
    text = rows[n - 1] if 0 < n <= len(rows) else None
    return CompilerMessage("error", said.strip()[:500], "triton", name, n, text=text)
