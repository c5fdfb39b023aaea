"""Has Triton compile a program's kernels for other targets, in the user's interpreter.

The program is run once on the emulated device, and each kernel that it launches is compiled for
every target; where signatures are given its module is only imported. The child writes events into
the recording; one that dies of a compilation is started again without it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable, UsageError
from inspector.base.text import at_commas
from inspector.recording.compilations import message_event
from inspector.recording.layout import Writer, read_events
from inspector.sources.compile_job import (
    NO_TRITON,
    CompileJob,
    GoOn,
    no_triton,
    triton_environment,
)
from inspector.sources.compilers import CompilerInput
from inspector.sources.machine import PROBES
from inspector.system import files
from inspector.system.process import Finished

MAIN = "ptxview_probes.ahead.compile_job"
DOES_NOT_FIT = 2
MAX_DEATHS = 20
"""Times that a child is started again because a compilation has ended it."""

_TYPES = re.compile(
    r"\*?(?:k?\*)?(?:i1|u1|[iu](?:8|16|32|64)|fp?(?:16|32|64)|bf16|fp8e\w+|B|nvTmaDesc"
    r"|tensordesc<.+>|\(.*\))(?::(?:16|1))?"
)
_TORCH = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "int32": "i32",
    "int64": "i64",
    "int8": "i8",
    "bool": "i1",
    "float": "fp32",
    "int": "i32",
    "half": "fp16",
    "double": "fp64",
}
# The architectures that can be emulated are those whose limits are known (reference/devices.toml).
_EMULATED = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)


@dataclass(frozen=True, slots=True)
class GivenKernels:
    """How kernels are to be compiled where no call says so: types and constants by argument.

    ``signature`` is None where a program's own calls are to say it.
    """

    names: tuple[str, ...] = ()
    signature: Mapping[str, str] | None = None
    constexprs: Mapping[str, object] = field(default_factory=dict)


def signature_of(text: str) -> dict[str, str]:
    """``x: *fp32:16, n: i32`` by argument. Raises ``UsageError`` where a type is not Triton's."""
    out: dict[str, str] = {}
    for part in filter(None, at_commas(text, "<([", ">)]")):
        name, colon, kind = (word.strip() for word in part.partition(":"))
        kind = kind.replace(" ", "")
        if not colon or not name.isidentifier() or not kind:
            raise UsageError(
                f"{part!r} in --signature is not an argument",
                "Write --signature 'x: *fp32:16, n: i32': a name, a type, and :16 where it is "
                "divisible by 16.",
            )
        if not _TYPES.fullmatch(kind):
            bare = kind.lstrip("*").partition(":")[0].removeprefix("torch.")
            meant = _TORCH.get(bare)
            raise UsageError(
                f"{kind} is not a type of Triton's",
                f"Triton writes {kind.replace(bare, meant).replace('torch.', '')}."
                if meant
                else "Types are i1 i8 i16 i32 i64 u8 … fp16 bf16 fp32 fp64, and * of each.",
            )
        out[name] = kind
    return out


def constexprs_of(words: Sequence[str]) -> dict[str, object]:
    """``BLOCK=1024`` by name, the value as in Python, else as text. Raises ``UsageError``."""
    return dict(_setting(word, "--constexpr") for word in words)


def settings_of(options: Sequence[str]) -> dict[str, object]:
    """Options of Triton's, as ``num_warps=8``. Raises ``UsageError``."""
    return dict(_setting(word, "an option of Triton's") for word in options)


def _setting(word: str, what: str) -> tuple[str, object]:
    name, equals, text = word.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(
            f"{word} is not {what}" if what.startswith("an ") else f"{what} {word} has no value",
            "Triton's options are written like num_warps=8, constants like BLOCK=1024.",
        )
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text


@dataclass(frozen=True, slots=True)
class AheadJob:
    """A file that Triton compiles, for these columns: a target and options, as they are shown."""

    source: CompilerInput
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    given: GivenKernels
    python: str
    limit: float


def compile_by_triton(job: AheadJob, writer: Writer, go_on: GoOn) -> str | None:
    """Have everything of a file compiled; a sentence where the program itself ended badly.

    Raises ``ToolMissing`` where the interpreter has no Triton, ``Unreadable`` where nothing was
    compiled, ``UsageError`` where signatures do not fit the kernels.
    """
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        (folder / "done").touch()
        asked = folder / "job.json"
        path = _named(job.source, folder)
        asked.write_text(json.dumps(_asked(job, path, folder)), "utf-8")
        own_calls = job.source.language == "triton" and job.given.signature is None
        child = CompileJob(
            [job.python, *([str(path)] if own_calls else ["-m", MAIN])],
            "triton",
            {path.name: job.source.name},
            {path.name: job.source.text},
            _environment(job, writer.folder, asked, folder),
            job.limit,
            go_on,
        )
        before = _compiled(writer.folder)
        for _ in range(MAX_DEATHS):
            try:
                ended = child.run()
            except Unreadable:
                if _compiled(writer.folder) == before:
                    raise Unreadable(
                        f"{job.source.name} took longer than {job.limit:g} s, and launched nothing",
                        "Give it more with --limit, or say how to compile its kernels with "
                        "--signature.",
                    ) from None
                return f"it was ended after {job.limit:g} s (--limit)"
            if ended.status >= 0 or not (folder / "doing").exists():
                break
            _died(job, child, writer, folder, ended)
        return _ended(job, ended, writer.folder, before, own_calls)


def _named(source: CompilerInput, folder: Path) -> Path:
    """The path that the compiler opens: a program's own, IR under the name that Triton asks for."""
    if source.language == "triton":
        return source.path.absolute()
    path = folder / f"input.{source.language}"
    path.write_bytes(source.data)
    return path


def _asked(job: AheadJob, path: Path, folder: Path) -> dict[str, object]:
    columns = [
        {"target": target, "options": shlex.join(options), "settings": settings_of(options)}
        for target, options in job.columns
    ]
    signature = job.given.signature
    return {
        "file": job.source.name,
        "path": str(path),
        "language": job.source.language,
        "columns": columns,
        "kernels": list(job.given.names),
        "signature": None if signature is None else dict(signature),
        "constexprs": dict(job.given.constexprs),
        **{name: str(folder / name) for name in ("done", "doing", "said")},
    }


def _environment(job: AheadJob, recording: Path, asked: Path, folder: Path) -> dict[str, str]:
    """The environment of a child with probes awake."""
    env = triton_environment(folder, as_recorded=False)
    python_path = env.get("PYTHONPATH")
    first = [str(PROBES), *([python_path] if python_path else [])]
    return env | {
        "PYTHONPATH": os.pathsep.join(first),
        "PTXVIEW_RECORDING": str(recording),
        "PTXVIEW_COMPILE": str(asked),
        "PTXVIEW_TARGET": _emulated(job.columns[0][0]),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


def _emulated(target: str) -> str:
    """The device that the program sees: the target's, else the next one whose limits are known."""
    number = int(re.sub(r"\D", "", target))
    return f"sm_{max((n for n in _EMULATED if n <= number), default=_EMULATED[0])}"


def _died(job: AheadJob, child: CompileJob, writer: Writer, folder: Path, ended: Finished) -> None:
    """Record a compilation that ended its process; it is not tried again."""
    doing, said = folder / "doing", folder / "said"
    read = files.parsed(files.read(doing))
    fields = read if isinstance(read, dict) else {}
    parts = [str(p) for p in fields.get("parts", [])]
    doing.unlink()
    with (folder / "done").open("a") as file:
        file.write(f"{fields.get('key')}\n")
    printed = files.text(said) if said.is_file() else ended.err.decode("utf-8", "replace")
    failed, messages = child.death(printed, ended.status)
    writer.event(
        event="compiled",
        time=time.time(),
        file=job.source.name,
        language=job.source.language,
        kernel=parts[0] if parts else None,
        target=parts[-2] if len(parts) > 1 else "",
        options=parts[-1] if parts else "",
        signature=parts[2] if len(parts) > 4 else "",
        config=_config(parts),
        failed=failed,
        messages=[message_event(message) for message in messages],
    )


_EXCEPTION = re.compile(
    r"[\w.]*(?:Error|Exception|Failure|Interrupt|Exit|Refused)\w*(?:: .*|\(.*)?"
)


def _last_words(ended: Finished) -> str:
    """The line in which a program's end says what was wrong."""
    rows = [r.strip() for r in ended.err.decode("utf-8", "replace").splitlines() if r.strip()]
    errors = [row for row in rows[-50:] if _EXCEPTION.fullmatch(row)]
    return (errors or rows or [""])[-1][:500]


def _config(parts: Sequence[str]) -> dict[str, object]:
    """The configuration of a kernel as the child noted it."""
    try:
        return dict(ast.literal_eval(parts[1])) if len(parts) > 4 else {}
    except (ValueError, SyntaxError, TypeError):
        return {}


def _compiled(folder: Path) -> int:
    """How many compilations a recording holds by now."""
    try:
        return sum(e.get("event") == "compiled" for e in read_events(folder).events)
    except PtxviewError:
        return 0


def _ended(
    job: AheadJob, ended: Finished, folder: Path, before: int, own_calls: bool
) -> str | None:
    """What is to be said of a child that has ended, or raised."""
    last = _last_words(ended)
    name = job.source.name
    if not own_calls and ended.status == NO_TRITON:
        raise no_triton(job.python, name)
    if not own_calls and ended.status == DOES_NOT_FIT:
        said = [e for e in read_events(folder).events if e.get("event") == "refused"]
        raise UsageError(str(said[-1].get("text")) if said else last)
    if _compiled(folder) > before:
        return None if ended.status == 0 else f"{name} ended with status {ended.status}: {last}"
    if "No module named 'triton'" in last:
        raise ToolMissing(
            f"{job.python} has no Triton, which {name} imports",
            "Get it: pip install triton, or name another interpreter with --python.",
        )
    if ended.status != 0:
        raise Unreadable(
            f"{name} ended with status {ended.status} before it compiled anything: {last}",
            "Run it alone with ptxview run to see all that it says, or say how to compile its "
            "kernels with --signature.",
        )
    raise Unreadable(
        f"{name} launched no kernel of Triton's",
        "Say how to compile its kernels: --signature 'x: *fp32:16, n: i32' --constexpr BLOCK=1024",
    )
