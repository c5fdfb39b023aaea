"""Which passes made a kernel what it is: its recorded IR is compiled again, with every pass told.

The result is kept in the user's own cache by the digest of the text, its target and options,
and the version of Triton.
"""

import json
import re
import zlib
from collections.abc import Callable

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from inspector.analysis.passes import FX, PassRun, passes_of
from inspector.base.errors import ToolMissing, Unreadable
from inspector.base.model import Graph, Stage, Variant
from inspector.reader.stages import decode
from inspector.recording.layout import DerivedCache
from inspector.sources.compilers import (
    BEGINNINGS,
    StageJob,
    StagesMade,
    compile_on,
    job_of,
    not_tritons,
)
from inspector.system import toolchain

FORMAT = "passes 4"
DEFAULT_TARGET = "sm_90"
STAGES = ("ttir", "ttgir", "llir", "ptx")  # the stages that passes make

# torch writes it beneath a graph: a number that differs where the passes made another object.
_GRAPH_ID = re.compile(r"\n # graph id: [0-9]{1,40}\s*$")
Count = Callable[[PassRun], tuple[int, int]]  # how many lines came and went with a pass


class PassList(Struct, frozen=True):
    """Every pass from a recorded text to PTX.

    ``triton`` is the version that ran them, ``recorded`` the one that had compiled the kernel, None
    where that is not known. ``begins`` is what was compiled: ``source`` is Triton's own IR before
    its first pass. ``failed`` says why there are no more. ``remarks`` are sentences on how this
    differs from what was recorded.
    """

    target: str
    triton: str
    recorded: str | None
    begins: str
    passes: tuple[PassRun, ...]
    failed: str | None = None
    remarks: tuple[str, ...] = ()

    def find(self, word: str) -> tuple[PassRun, ...]:
        """The passes that a number, a name or an argument means; if any, those that changed it."""
        if word.isascii() and word.isdecimal():
            return tuple(p for p in self.passes if p.number == int(word[:9]))
        low = word.lower()
        exact = [p for p in self.passes if low in (p.name.lower(), p.argument.lower())]
        candidates = exact or [p for p in self.passes if low in f"{p.name} {p.argument}".lower()]
        return tuple([p for p in candidates if p.changed] or candidates)


def graph_passes(graph: Graph, count: Count) -> PassList:
    """Inductor's own passes on a graph, by torch's trace. Raises ``Unreadable`` without one."""
    runs: list[PassRun] = []
    for number, (name, *contents) in enumerate(graph.passes, 1):
        texts = [_GRAPH_ID.sub("", decode(content.read())).strip("\n") for content in contents]
        run = PassRun(number, FX, FX, name, lines=(0, 0))
        if texts[0] != texts[1]:
            run = replace(run, before=texts[0], after=texts[1])
            run = replace(run, lines=count(run))
        runs.append(run)
    if not runs:
        raise Unreadable(
            f"nothing is known of Inductor's passes on graph {graph.id}",
            "They are recorded while a graph is compiled: not of one that comes out of Inductor's "
            "cache, nor by a saved log.",
        )
    return PassList("", "", None, runs[0].name, tuple(runs))


def variant_passes(
    variant: Variant,
    cache: DerivedCache,
    count: Count,
    *,
    python: str | None = None,
    seconds: float = 600.0,
    go_on: Callable[[], bool] | None = None,
    say: Callable[[str], None] | None = None,
) -> PassList:
    """The passes of a variant, of the cache where they are kept.

    ``say`` is called when a compiler starts. Raises ``Unreadable`` where it is not Triton's, or
    takes longer than ``seconds``; ``ToolMissing`` where the interpreter has no Triton; ``Stopped``
    where ``go_on`` says no.
    """
    job, remarks = _job(variant)
    interpreter = toolchain.interpreter(python)
    if (version := toolchain.versions(interpreter).get("triton")) is None:
        raise ToolMissing(
            f"{interpreter} has no Triton, whose passes these are",
            "Get it: pip install triton, or name another interpreter with --python.",
        )
    key = _cache_key(cache, version, job)
    if (pass_list := _read(cache.get(key))) is None:
        if say is not None:
            say(f"Triton {version} compiles {job.name} for {job.target}, for its passes")
        stages = compile_on(job, interpreter, seconds=seconds, go_on=go_on)
        pass_list = _list(variant, job, stages, count)
        if stages.failed is None:
            # Not by msgspec: names may hold what was no UTF-8.
            cache.store(key, zlib.compress(json.dumps(to_builtins(pass_list)).encode(), 1))
    return replace(pass_list, remarks=(*remarks, *pass_list.remarks))


def cached_passes(variant: Variant, cache: DerivedCache) -> PassList | None:
    """The passes of a variant, where the Triton that compiled it has told them before."""
    version = variant.options.get("triton_version")
    if not isinstance(version, str) or not_tritons(variant) is not None:
        return None
    job, _ = _job(variant)
    return _read(cache.get(_cache_key(cache, version, job)))


def _cache_key(cache: DerivedCache, version: str, job: StageJob) -> str:
    return cache.key(
        FORMAT,
        version,
        job.stage,
        job.target,
        str(job.gluon),
        json.dumps(dict(job.options), sort_keys=True, default=str),
        job.text,
    )


def _job(variant: Variant) -> tuple[StageJob, tuple[str, ...]]:
    """What to compile: the earliest text that there is."""
    if (reason := not_tritons(variant)) is not None:
        raise Unreadable(reason)
    begins = next(
        s
        for s in BEGINNINGS
        if (variant.initial_ir is not None if s == "source" else Stage(s) in variant.stages)
    )
    job = replace(job_of(variant, begins, "ptx"), watch=True)
    remarks: list[str] = []
    if begins != "source":
        later = STAGES[STAGES.index(begins) + 1 :]
        remarks.append(
            "Triton's IR before its first pass was not recorded: passes are known from "
            f"{begins} on, those that make {' and '.join(later)}"
        )
    if not job.target:
        match = re.search(rb'ttg\.target\s*=\s*"cuda:(\d+)"', job.text)
        job = replace(job, target=f"sm_{match[1].decode()}" if match else DEFAULT_TARGET)
        if not match:
            remarks.append(f"no target is known of it: it is compiled for {DEFAULT_TARGET}")
    return job, tuple(remarks)


def _list(variant: Variant, job: StageJob, stages: StagesMade, count: Count) -> PassList:
    version = variant.options.get("triton_version")
    recorded = version if isinstance(version, str) else None
    remarks: list[str] = []
    if recorded not in (None, stages.triton):
        remarks.append(
            f"it was compiled by Triton {recorded}, and is compiled again by {stages.triton}: "
            "passes may be others"
        )
    if stages.unknown:
        remarks.append(f"Triton {stages.triton} knows no option {', '.join(stages.unknown)}")
    if (recorded_ptx := variant.stages.get(Stage.PTX)) is not None and stages.failed is None:
        same = recorded_ptx.content.read() == stages.texts.get("ptx")
        remarks.append(
            "the PTX of this compilation is the recorded one, byte for byte"
            if same
            else "the PTX of this compilation is not the recorded one"
        )
    runs: tuple[PassRun, ...] = ()
    if (printed := stages.passes) is not None:
        runs = passes_of(printed.printed, printed.mark, printed.timed, printed.arrivals)
        if printed.cut:
            remarks.append(
                f"passes print more than {len(printed.printed):,} bytes: the last are left out "
                "(PTXVIEW_MAX_BYTES)"
            )
    passes = tuple(replace(p, lines=count(p)) if p.changed else p for p in runs)
    return PassList(
        job.target, stages.triton, recorded, job.stage, passes, stages.failed, tuple(remarks)
    )


def _read(data: bytes | None) -> PassList | None:
    try:
        return msgspec.convert(json.loads(zlib.decompress(data or b"")), PassList)
    except (ValueError, zlib.error, msgspec.ValidationError):
        return None
