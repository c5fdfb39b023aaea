"""Which calls of graphs and of extensions' functions are made again, and whose kernels they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from inspector import files
from inspector.errors import Unreadable
from inspector.measure.time.planning import Found, argument, inputs, most_frequent
from inspector.measure.time.results import KernelTime, Timing, median
from inspector.model import Call, Content, Origin, Recording, Stage
from inspector.names import base_name

Event = Mapping[str, object]
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Library:
    """The library that an extension's function was called in; None: not recorded."""

    path: str
    size: int | None = None
    sha256: str | None = None

    def changed(self) -> str | None:
        """A sentence where what lies there now is something else. Raises ``Unreadable``."""
        with files.opened(Path(self.path)) as file:
            same = self.size in (None, file.size)
            if self.sha256 is not None:
                same = files.digest(file) == self.sha256
        if same:
            return None
        return f"{self.path} was built anew since it was recorded: the time is of what it is now"


@dataclass(frozen=True, slots=True)
class Again:
    """A call to be made again; ``number`` is its place among the recording's calls.

    ``code`` is a graph's text, ``code_path`` where Inductor's cache had it, ``library`` where an
    extension's function lies. ``among`` are the variants that it may launch; ``asked`` those that
    the time is wanted of, empty for all.
    """

    call: Call
    number: int
    among: tuple[Found, ...]
    code: Content | None = None
    library: Library | None = None
    asked: frozenset[tuple[str, str]] = frozenset()
    code_path: str | None = None

    def timing(self, **known: object) -> Timing:
        """What is known of its timing before it is taken."""
        return Timing(
            kernel=self.call.name, variant="", call=self.number, stopwatch=None, cache=None,
            count=self.call.count, inputs=inputs(self.call.arguments), kind=self.call.kind,
            **known,  # type: ignore[arg-type]
        )  # fmt: skip


def libraries(events: Iterable[Event]) -> dict[str, Library]:
    """Where the library of each extension's module lay, by the module's name; the last one."""
    out: dict[str, Library] = {}
    for event in events:
        kind, name, path = event.get("event"), event.get("name"), event.get("path")
        said = event.get("library")
        if kind == "library" and isinstance(name, str) and isinstance(path, str):
            if out.get(name, Library("")).path != path:
                out[name] = Library(path)
        elif kind == "call" and isinstance(name, str) and isinstance(said, Mapping):
            size, digest = said.get("size"), said.get("sha256")
            out[name.rpartition(".")[0]] = Library(
                str(said.get("path")),
                size if isinstance(size, int) else None,
                digest if isinstance(digest, str) else None,
            )
    return out


def again(
    recording: Recording,
    events: Iterable[Event],
    variants: Sequence[Found],
    asked_calls: Sequence[Call],
) -> list[Again]:
    """The calls that are ``wanted``, and those that launch variants of ``found`` of which no
    launch of their own was recorded."""
    where = libraries(events)
    out: list[Again] = []
    for number, call in enumerate(recording.calls):
        graph = next((g for g in recording.graphs if g.id == call.name), None)
        if call.kind == "graph":
            among = _of_kernels(recording, graph.kernels if graph else ())
            asked = [f for f in variants if f in among and not _launched(f)]
            code = graph.stages[Stage.OUTPUT_CODE] if graph else None
            repeated = Again(
                call, number, among, code=code.content if code else None,
                code_path=code.origin_path if code else None,
            )  # fmt: skip
        elif call.kind == "extension":
            library = where.get(call.name.rpartition(".")[0])
            among = _beside(recording, library)
            asked = [f for f in variants if f in among]
            repeated = Again(call, number, among, library=library)
        else:
            continue
        if call in asked_calls:
            out.append(repeated)
        elif asked:
            ids = frozenset((k.id, v.id) for k, v in asked)
            out.append(replace(repeated, asked=ids))
    return out


def frequent(calls: Sequence[Again], most: int) -> tuple[list[Again], list[str]]:
    """The ``most`` frequent calls of each graph and function, and what that leaves out."""
    out: list[Again] = []
    left: list[str] = []
    for name in dict.fromkeys((a.call.kind, a.call.name) for a in calls):
        of = [a for a in calls if (a.call.kind, a.call.name) == name]
        often, rest = most_frequent(name[1], of, most)
        out += often
        left += rest
    return out, left


def _of_kernels(recording: Recording, ids: Sequence[str]) -> tuple[Found, ...]:
    return tuple((k, v) for k, v in recording.variants() if k.id in ids)


def _launched(found: Found) -> bool:
    return any(c.kind == "triton" for c in found[1].calls)


def _beside(recording: Recording, library: Library | None) -> tuple[Found, ...]:
    """Kernels of CUDA C++ whose object lay in the library's folder; all where none did."""
    every = tuple((k, v) for k, v in recording.variants() if k.origin is Origin.NVCC)
    if library is None:
        return every
    folder = PurePath(library.path).parent
    here = tuple(
        f
        for f in every
        if (held := f[1].stages.get(Stage.SASS)) is not None
        and PurePath(held.origin_path or "").parent == folder
    )
    return here or every


def job_of_call(one: Again, mode: str) -> tuple[dict[str, object], bytes, str | None] | str:
    """What the child process is told, the code that it needs, and a warning; or why it cannot be.

    Raises ``PtxviewError`` where a graph's code cannot be read.
    """
    call = one.call
    said: dict[str, object] = {
        "kind": call.kind, "name": call.name, "arguments": [argument(a) for a in call.arguments]
    }  # fmt: skip
    if call.kind == "graph":
        if one.code is None:
            return "the code of this graph was not recorded"
        where = Path(one.code_path or "/nowhere")
        # A graph lies two folders deep in Inductor's cache.
        if where.is_file():
            said["cache"] = str(where.parent.parent)
        return said, one.code.read(), None
    if mode == "target":
        return "an extension for the emulated device runs on the CPU"
    if one.library is None:
        return "it was not recorded where the library of this function lies"
    module, _, function = call.name.rpartition(".")
    said.update(module=module, function=function, library=one.library.path)
    try:
        warning = one.library.changed()
    except Unreadable as error:
        return f"its code is gone: {error.message}"
    return said, b"", warning


# -- whose time it was ----------------------------------------------------------------------------


def kernel_times(
    said: object, one: Again, everyone: Sequence[Found], arch: str | None
) -> tuple[KernelTime, ...]:
    """What a child process said of a call's kernels, put to those of the recording."""
    out = []
    for each in said if isinstance(said, list) else []:
        if not isinstance(each, Mapping):
            continue
        samples, many = each.get("samples"), each.get("per_call")
        durations = samples if isinstance(samples, list) else []
        middle = median([float(s) for s in durations if isinstance(s, int | float)])
        if middle is None or not isinstance(many, int):
            continue
        seen = str(each.get("name"))
        whose = owner(seen, one.among, arch) or owner(seen, everyone, arch)
        name, variant = whose or (seen, None)
        out.append(
            KernelTime(name, variant, middle.value, many, middle.low, middle.high, middle.samples)
        )
    return tuple(out)


def owner(seen: str, among: Sequence[Found], arch: str | None) -> tuple[str, str | None] | None:
    """The kernel that a name of CUPTI's is of, with the id of its variant where that is clear.

    CUPTI has the function's name, of C++ demangled: whole names are compared first, then those
    without arguments. None if no kernel fits, or more than one.
    """
    plain, base = _pieces(seen), _base(seen)
    fits = [f for f in among if f[1].symbol == seen]
    fits = fits or [f for f in among if _pieces(f[0].demangled) == plain]
    fits = fits or [f for f in among if base_name(f[1].symbol) == base]
    kernels = {k.id: k for k, _ in fits}
    if len(kernels) != 1:
        return None
    # Of several compilations, the one that the program launched, and that is for this device.
    fits = [f for f in fits if f[1].launches] or fits
    if arch is not None:
        fits = [f for f in fits if (f[1].target or "").rstrip("af") == arch] or fits
    (kernel,) = kernels.values()
    return kernel.name, fits[0][1].id if len(fits) == 1 else None


def _pieces(name: str) -> list[list[str]]:
    """A demangled name so that ``float const*`` and ``const float *`` are alike."""
    return [sorted(_TOKEN.findall(piece)) for piece in name.removeprefix("void ").split(",")]


def _base(name: str) -> str:
    """``square`` of ``void (anonymous namespace)::square<4>(float const*)``."""
    start = name.replace("(anonymous namespace)", "")
    words = re.findall(r"\w+", re.split(r"[<(]", start, maxsplit=1)[0])
    return words[-1] if words else name
