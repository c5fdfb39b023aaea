"""Takes one stage of a kernel of Triton's through the stages that follow it, in a child.

The text may be a stranger's: a separate process reads it, with bounds of time and memory,
in a new folder. One that dies (LLVM ends its process where it meets what it does not expect)
is a sentence, with the stages that it came to. Nothing is launched, and no GPU is needed.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inspector.base.errors import Unreadable
from inspector.base.model import CompilerMessage, Stage, Variant
from inspector.base.names import base_name
from inspector.recording.compilations import first_error, messages_from
from inspector.recording.facts import CONFIG
from inspector.sources.compile_job import (
    NO_TRITON,
    CompileJob,
    GoOn,
    cause_of,
    no_triton,
    triton_environment,
)
from inspector.sources.machine import PROBES
from inspector.system import files
from inspector.system.process import Finished

STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
BEGINNINGS = ("source", "ttir", "ttgir", "llir", "ptx")
LIMIT = 600.0
# The probes as a package of their own name, as a recorded program has them.
_BOOT = """
import sys, importlib, importlib.util as u
sys.path[:] = [p for p in sys.path if p]
folder = sys.argv[1]
spec = u.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                 submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = u.module_from_spec(spec)
main = importlib.import_module("ptxview_probes.ahead.remaining").main
raise SystemExit(main(sys.argv[2], sys.argv[3]))
"""
# ptxas takes names of files among its options: of a recording only those are believed that name
# none.
_PTXAS_OPTION = re.compile(
    r"(?:-O[0-4]|(?:--opt-level|-O|--maxrregcount|--regAllocOptLevel|--register-usage-level)[= ]\d+"
    r"|--(?:fmad|allow-expensive-optimizations|position-independent-code)[= ](?:true|false)"
    r"|--(?:disable-optimizer-constants|suppress-stack-size-warning|device-function-maxrregcount)"
    r"|-v|--verbose|-lineinfo|--generate-line-info)"
)
_SIGNAL = "A signal was caught while processing the MLIR module"
_WARPS = re.compile(r'"?(?:ttg|triton_gpu)\.num-(warps|ctas)"? = (\d{1,4})\b')


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage's text, and how it is to be compiled on.

    ``stage`` is one of ``BEGINNINGS``; ``source`` is Triton's own IR before its first pass.
    ``name`` is what messages call the text. ``target`` is like ``sm_90a``; Triton takes the number.
    ``options`` are Triton's by name, as ``variant_options`` gives them; ``until`` is the last stage
    to make. ``environment`` is added to the child's. ``watch``: whether every pass is reported;
    ``at_source``: whether errors are to be placed at the lines of the program, not of the text.
    """

    text: bytes
    stage: str
    name: str
    target: str
    options: Mapping[str, object] = field(default_factory=dict)
    until: str = "cubin"
    gluon: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    watch: bool = False
    at_source: bool = False

    @property
    def number(self) -> int:
        """90 of sm_90a. Raises ``Unreadable`` where it names no architecture."""
        match = re.fullmatch(r"(?:sm_|cuda:)?(\d{2,4})[af]?", self.target)
        if match is None:
            raise Unreadable(f"{self.target} is no target of Triton's for NVIDIA's GPUs")
        return int(match[1])


@dataclass(frozen=True, slots=True)
class PassesPrinted:
    """What compilers printed around their passes, for ``inspector/analyse/passes.py``.

    ``timed`` are their reports of time; ``arrivals`` say at which byte what was read of ``printed``
    at once ended, and when; ``mark`` is the word that marks begin with. ``cut`` says that there was
    more than the bound of one file.
    """

    printed: bytes
    timed: bytes
    arrivals: tuple[tuple[int, float], ...]
    mark: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class StagesMade:
    """What a child came to.

    ``texts`` are the stages that were made (``cubin`` is binary), ``seconds`` the compiler's own
    time of each. ``failed`` is the first error in a sentence and ``failed_at`` the stage that was
    being made (the given one where it could not be read); None where all were made. ``unknown``
    are options that this version of Triton does not have. ``printed`` is all that was printed.
    """

    triton: str
    texts: Mapping[str, bytes]
    seconds: Mapping[str, float]
    metadata: Mapping[str, object]
    failed: str | None = None
    failed_at: str | None = None
    messages: tuple[CompilerMessage, ...] = ()
    unknown: tuple[str, ...] = ()
    printed: bytes = b""
    passes: PassesPrinted | None = None


def compile_on(
    job: StageJob, python: str, *, seconds: float = LIMIT, go_on: GoOn | None = None
) -> StagesMade:
    """Make the stages that follow.

    Raises ``ToolMissing`` where the interpreter is not there or has no Triton, ``Unreadable`` where
    the target is unknown or it takes longer than ``seconds``, ``Stopped`` where ``go_on`` says no.
    What the compiler refuses raises nothing.
    """
    made, died = _compiled(job, python, seconds, go_on, only=False)
    if died and job.watch:
        # Once more, for what it prints until then.
        told, _ = _compiled(job, python, seconds, go_on, only=True)
        made = replace(made, passes=told.passes)
    return made


def _compiled(
    job: StageJob, python: str, seconds: float, go_on: GoOn | None, only: bool
) -> tuple[StagesMade, bool]:
    """What one child came to, and whether it died of it; ``only`` tells its passes alone."""
    number = job.number
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        path = folder / f"input.{'ttir' if job.stage == 'source' else job.stage}"
        path.write_bytes(job.text)
        mark = f"ptxview-{secrets.token_hex(16)}"
        asked, results, said = folder / "job.json", folder / "results.jsonl", folder / "said"
        watch = {**_watched(folder), "mark": mark, "only": only} if job.watch else None
        asked.write_text(
            json.dumps(
                {
                    "stage": job.stage,
                    "path": str(path),
                    "file": job.name,
                    "target": number,
                    "options": dict(job.options),
                    "gluon": job.gluon,
                    "until": job.until,
                    "folder": str(folder),
                    "said": str(said),
                    "most": files.limits().one,
                    "watch": watch,
                    "at_source": job.at_source,
                },
                default=str,
            ),
            "utf-8",
        )
        argv = [python, "-c", _BOOT, str(PROBES.parent), str(asked), str(results)]
        child = CompileJob(
            argv,
            "triton",
            {path.name: job.name},
            {path.name: job.text.decode("utf-8", "surrogateescape")},
            {**triton_environment(folder), **job.environment},
            seconds,
            go_on,
        )
        ended = child.run()
        if ended.status == NO_TRITON:
            raise no_triton(python, job.name)
        made = _made(job, child, results, said, ended)
        if job.watch:
            made = replace(made, passes=_printed(folder, mark))
        return made, ended.status < 0


def _watched(folder: Path) -> dict[str, str]:
    return {name: str(folder / f"passes.{name}") for name in ("printed", "timed", "arrivals")}


def _printed(folder: Path, mark: str) -> PassesPrinted:
    """The passes that a child has reported."""
    places = {name: Path(place) for name, place in _watched(folder).items()}
    printed, timed, listed = (
        files.read(place) if place.is_file() else b"" for place in places.values()
    )
    try:
        arrivals = tuple((int(at), float(when)) for at, when in json.loads(listed or b"[]"))
    except (ValueError, TypeError):
        arrivals = ()
    return PassesPrinted(printed, timed, arrivals, mark, len(printed) >= files.limits().one)


def _made(
    job: StageJob, child: CompileJob, results: Path, said: Path, ended: Finished
) -> StagesMade:
    """What the child has told, and where it died, of what."""
    records = [r for r in files.records(results) if isinstance(r, dict)] if results.exists() else []
    told: dict[str, object] = {}
    texts: dict[str, bytes] = {}
    seconds: dict[str, float] = {}
    for record in records:
        told |= {k: v for k, v in record.items() if k != "stage"}
        stage = str(record.get("stage"))
        if "failed" in record:
            told["failed_at"] = stage
        elif stage in STAGES and isinstance(took := record.get("seconds"), int | float):
            texts[stage] = files.read(results.with_name(f"made.{stage}"))
            seconds[stage] = float(took)
    printed = files.read(said) if said.is_file() else ended.err
    metadata, unknown = told.get("metadata"), told.get("unknown")
    failed = str(told["failed"]) if "failed" in told else None
    failed_at = str(told["failed_at"]) if failed else None
    messages = messages_from(told.get("messages"))
    if failed is None and (ended.status != 0 or "metadata" not in told):
        failed_at = str(told.get("begin") or job.stage)
        text = (printed + b"\n" + ended.err).decode("utf-8", "replace")
        failed, messages = child.death(text, ended.status)
    elif failed is not None and (caught := _caught(messages, printed)) != messages:
        failed, messages = first_error(caught), caught
    return StagesMade(
        str(told.get("triton") or ""),
        texts,
        seconds,
        metadata if isinstance(metadata, dict) else {},
        failed,
        failed_at,
        messages,
        tuple(str(o) for o in unknown) if isinstance(unknown, list) else (),
        printed,
    )


def _caught(messages: Sequence[CompilerMessage], printed: bytes) -> tuple[CompilerMessage, ...]:
    """The messages with LLVM's own words where MLIR says only that it has caught their signal.

    A pass that aborts inside a pipeline with a reproducer does not end its process (Triton
    3.7): MLIR goes on, and why it aborted stands nowhere but in what was printed.
    """
    cause = cause_of(printed.decode("utf-8", "replace"))
    return tuple(
        replace(m, message=cause) if cause and m.message.startswith(_SIGNAL) else m
        for m in messages
    )


def believed(options: Mapping[str, object]) -> dict[str, object]:
    """Options that a recording names, without those of ptxas that would name files."""
    out = dict(options)
    words = str(out.get("ptx_options") or "").split()
    if words:
        kept = [word for word in words if _PTXAS_OPTION.fullmatch(word)]
        out["ptx_options"] = " ".join(kept) or None
    return out


def job_of(variant: Variant, stage: str, until: str = "cubin") -> StageJob:
    """A variant's own stage, for its own target and with its own options.

    Raises ``Unreadable`` where the variant is not Triton's, or lacks the stage.
    """
    why = not_tritons(variant)
    if why is not None:
        raise Unreadable(why)
    if stage == "source":
        content = variant.unpassed
        why = "its recording does not hold Triton's IR as it was before the first pass"
    else:
        file = variant.stages.get(Stage(stage))
        content = None if file is None else file.content
        why = variant.missing.get(Stage(stage), "it was not recorded")
    if content is None:
        raise Unreadable(f"{variant.symbol} has no {stage}: {why}")
    gluon = Stage.TTIR not in variant.stages and Stage.TTGIR in variant.stages
    return StageJob(
        content.read(),
        stage,
        f"{variant.symbol}.{stage}",
        variant.target or "",
        options_of(variant),
        until,
        gluon,
    )


def not_tritons(variant: Variant) -> str | None:
    """Why Triton cannot compile a variant again, in a sentence; None where it can."""
    if any(stage in variant.stages for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR)):
        return None
    return f"{base_name(variant.symbol)} is not Triton's: it has no TTIR, TTGIR or LLVM IR"


def options_of(variant: Variant) -> dict[str, object]:
    """Triton's options of a variant, if recorded.

    Warps are those that the program asked for: Triton's metadata count those too that it has added
    to specialize them, which TTGIR tells apart.
    """
    config = {name: variant.config[name] for name in CONFIG if name in variant.config}
    out = believed({**variant.options, **config})
    file = variant.stages.get(Stage.TTGIR)
    if file is not None:
        head = file.content.read()[: 1 << 16].decode("utf-8", "replace")
        out |= {f"num_{what}": int(n) for what, n in _WARPS.findall(head)}
    return out
