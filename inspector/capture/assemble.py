"""Events into a recording's kernels, variants and graphs.

Probes and the readers of caches speak the same events, so that a recording and a folder of
Triton's become the same values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from inspector.capture import output_code
from inspector.capture.elf import read_cubin
from inspector.naming import base_name, shortest_ids
from inspector.errors import PtxviewError
from inspector.model import (
    Content,
    Graph,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.toolchain import demangle

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
_TARGET = re.compile(rb"^\s*\.target\s+([\w.]+)", re.M)
_LOC = re.compile(rb'loc\("([^"\n]{1,4096})":\d+:\d+\)')
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)")
# Inductor names files by a 51-letter base32 digest with a "c" before it.
_INDUCTOR_FILE = re.compile(r"c[a-z2-7]{51}\.py$")
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)


@dataclass
class _Kernel:
    origin: Origin
    name: str
    variants: dict[tuple[str, str], Variant] = field(default_factory=dict)


@dataclass
class _Graph:
    id: str
    text: StageFile
    parsed: output_code.OutputCode
    kernels: list[tuple[str, str, str]] = field(default_factory=list)


class Assembly:
    """Collects events in order and builds the values."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._kernels: dict[tuple[str, str, str], _Kernel] = {}
        self._graphs: dict[str, _Graph] = {}
        self._texts: set[str] = set()
        self._files: dict[str, tuple[_Graph, output_code.KernelText]] = {}
        self._sources: dict[str, Content] = {}
        self._loaded: dict[str, Resources] = {}
        self._facts: dict[str, object] = {}
        self.problems: list[str] = []

    def recording(self, path: str, events: Iterable[Event]) -> Recording:
        """All events of a recording, to its values."""
        ordered = list(events)
        ranks = {e.get("pid"): e.get("rank") for e in ordered if e.get("event") == "process"}
        graphs = [e for e in ordered if e.get("event") == "graph"]
        # The same text may lie in the cache and in a log: the one that knows its frame names it.
        for event in sorted(graphs, key=lambda e: e.get("frame_id") is None):
            self._graph(event)
        for event in ordered:
            kind = event.get("event")
            rank = ranks.get(event.get("pid"))
            if kind == "triton":
                self._triton(event, rank if isinstance(rank, int) else None)
            elif kind == "extension":
                self._extension(event)
        for event in ordered:
            match event.get("event"):
                case "device_code":
                    self._device_code(event)
                case "file":
                    self._file(event)
                case "loaded" | "ptxas":
                    self._figures(event)
                case "problem":
                    self.problems.append(f"{event.get('where')}: {event.get('text')}")
                case _:
                    self._fact(event)
        return self._finish(path)

    # -- one event each ---------------------------------------------------------------------

    def _graph(self, event: Event) -> None:
        content = self._blob(event.get("blob"))
        if content is None:
            return
        try:
            text = content.read().decode("utf-8", "surrogateescape")
        except PtxviewError as error:
            self.problems.append(error.message)
            return
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        if digest in self._texts:
            return
        self._texts.add(digest)
        parsed = output_code.parse(text)
        graph = _Graph(
            self._graph_id(event, parsed.aot_id),
            StageFile(content, _text(event.get("path")), "Inductor's output_code"),
            parsed,
        )
        self._graphs[graph.id] = graph
        for kernel in parsed.kernels:
            key = (kernel.origin, kernel.name, kernel.path or "")
            graph.kernels.append(key)
            self._kernels.setdefault(key, _Kernel(Origin(kernel.origin), kernel.name))
            if kernel.path:
                self._files.setdefault(PurePath(kernel.path).name, (graph, kernel))

    def _graph_id(self, event: Event, aot: str | None) -> str:
        frame, compiled = event.get("frame_id"), event.get("frame_compile_id")
        name = f"{frame}/{compiled}" if frame is not None else str(event.get("id") or aot or "")
        part = aot.partition("_")[2] if aot else ""
        if frame is not None and part not in ("", "inference"):
            name += f"_{part}"
        name = name or f"graph{len(self._graphs)}"
        base, n = name, 1
        while name in self._graphs:
            n += 1
            name = f"{base}#{n}"
        return name

    def _triton(self, event: Event, rank: int | None) -> None:
        metadata = _map(event.get("metadata"))
        name = str(event.get("name") or metadata.get("name") or "")
        files = _map(event.get("files"))
        paths = _map(event.get("paths"))
        ptx = self._blob(files.get("ptx"))
        cubin = self._blob(files.get("cubin"))
        digest = str(event.get("hash") or metadata.get("hash") or "") or _digest(cubin or ptx)
        if not name or not digest:
            return
        stages: dict[Stage, StageFile] = {}
        missing: dict[Stage, str] = {}
        for stage in STAGES:
            content = self._blob(files.get(stage.value))
            if content is not None:
                stages[stage] = StageFile(content, _text(paths.get(stage.value)), "Triton")
        if cubin is not None:
            stages[Stage.SASS] = StageFile(cubin, _text(paths.get("cubin")), "nvdisasm -c")
        source = _map(event.get("source"))
        file = _text(source.get("file")) or self._file_of(stages.get(Stage.TTIR))
        graph = self._files.get(PurePath(file).name) if file else None
        inductor = graph is not None or bool(file and _INDUCTOR_FILE.search(file))
        span = embedded = None
        if graph is not None:
            stages[Stage.OUTPUT_CODE] = graph[0].text
            if graph[1].body is not None:
                embedded = (graph[1].path or file or "", graph[1].body)
                span = (graph[1].body, graph[1].last or graph[1].body)
        elif (held := self._blob(source.get("blob"))) is not None and not inductor:
            stages[Stage.SOURCE] = StageFile(held, file, "the script's file")
            span = _span(source)
        elif inductor:
            missing[Stage.OUTPUT_CODE] = "the graph that this kernel belongs to was not recorded"
        else:
            missing[Stage.SOURCE] = "Triton's cache keeps no Python; only a recording does"
        for stage in STAGES:
            if stage not in stages:
                missing[stage] = f"Triton left no .{stage.value} file"
        origin = Origin.INDUCTOR if inductor else Origin.TRITON
        key = (origin.value, name, file or "")
        if graph is not None:
            key = (graph[1].origin, graph[1].name, graph[1].path or "")
        shared = metadata.get("shared")
        variant = Variant(
            id="",
            hash=digest,
            symbol=name,
            cache_key=_text(event.get("cache_key")),
            target=_target(ptx, metadata),
            config=_config(metadata, event),
            stages=stages,
            cubin=cubin,
            known=Resources(dynamic_shared_bytes=shared if isinstance(shared, int) else None),
            ranks=() if rank is None else (rank,),
            signature={k: str(v) for k, v in _map(event.get("signature")).items()},
            specialization=_specialization(event),
            span=span,
            embedded=embedded,
            missing=missing,
            cache_hit=_bool(event.get("cache_hit")),
        )
        kernel = self._kernels.setdefault(key, _Kernel(origin, name))
        self._add(kernel, variant)

    def _file_of(self, ttir: StageFile | None) -> str | None:
        """The Python file of a kernel, from the first location of its TTIR."""
        if ttir is None:
            return None
        try:
            found = _LOC.search(ttir.content.read())
        except PtxviewError:
            return None
        return found[1].decode("utf-8", "surrogateescape") if found else None

    def _extension(self, event: Event) -> None:
        directory = str(event.get("directory") or "")
        for name, digest in {
            **{f"{directory}/{n}": d for n, d in _map(event.get("files")).items()},
            **_map(event.get("sources")),
        }.items():
            if (content := self._blob(digest)) is not None:
                self._sources[name] = content
        if event.get("error"):
            said = str(event["error"]).strip().splitlines() or [""]
            # The compiler's own complaint stands somewhere in ninja's output.
            told = next((line for line in said if "error" in line[1:].lower()), said[0]).strip()
            name = PurePath(directory).name or str(event.get("name"))
            self.problems.append(f"the extension {name} did not build: {told[:300]}")

    def _device_code(self, event: Event) -> None:
        cubin = self._blob(event.get("cubin"))
        ptx = self._blob(event.get("ptx"))
        path = _text(event.get("source")) or ""
        held = self._blob(event.get("source_blob")) or self._sources.get(path)
        stages: dict[Stage, StageFile] = {}
        missing: dict[Stage, str] = {}
        if held is not None:
            stages[Stage.SOURCE] = StageFile(held, path, "the build's source")
        else:
            missing[Stage.SOURCE] = "the source was not recorded"
        if ptx is not None:
            said = _text(event.get("ptx_from")) or "the build's nvcc command with -ptx -lineinfo"
            stages[Stage.PTX] = StageFile(ptx, None, said, costly=event.get("costly") is True)
        else:
            missing[Stage.PTX] = str(event.get("why") or "no PTX was kept by the build")
        if cubin is not None:
            stages[Stage.SASS] = StageFile(cubin, _text(event.get("object")), "nvdisasm -c")
        else:
            missing[Stage.SASS] = str(event.get("why") or "no machine code was built")
        for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR):
            missing[stage] = "nvcc writes none"
        symbols = self._symbols(cubin, ptx)
        arch = _text(event.get("arch"))
        text = _read_text(held)
        flags = event.get("flags")
        origin = Origin(str(event.get("origin") or "nvcc"))
        for symbol in symbols:
            key = (origin.value, symbol, path or str(event.get("object") or ""))
            kernel = self._kernels.setdefault(key, _Kernel(origin, symbol))
            self._add(
                kernel,
                Variant(
                    id="",
                    hash=_digest(cubin or ptx),
                    symbol=symbol,
                    target=arch or _target(ptx, {}),
                    config={"flags": list(flags)} if isinstance(flags, list | tuple) else {},
                    stages=stages,
                    cubin=cubin,
                    locations_cubin=self._blob(event.get("lineinfo_cubin")),
                    span=_cuda_span(text, base_name(symbol)),
                    missing=missing,
                ),
            )

    def _symbols(self, cubin: Content | None, ptx: Content | None) -> tuple[str, ...]:
        if cubin is not None:
            try:
                known = read_cubin(cubin.read())
            except PtxviewError as error:
                self.problems.append(error.message)
                known = None
            if known is not None:
                return known.entries
            self.problems.append("a cubin is damaged: its kernels cannot be listed")
        return tuple(dict.fromkeys(_ENTRY.findall(_read_text(ptx))))

    def _file(self, event: Event) -> None:
        """A single file: one stage, one or several kernels in it."""
        content = self._blob(event.get("blob"))
        stage = Stage(str(event.get("stage")))
        if content is None:
            return
        path = _text(event.get("path"))
        names = event.get("symbols")
        symbols = [str(n) for n in names] if isinstance(names, list | tuple) else []
        for symbol in symbols or [PurePath(path or "kernel").stem]:
            kernel = self._kernels.setdefault(
                ("file", symbol, path or ""), _Kernel(Origin.FILE, symbol)
            )
            self._add(
                kernel,
                Variant(
                    id="",
                    hash=_digest(content),
                    symbol=symbol,
                    target=_target(content, {}) if stage is Stage.PTX else _text(event.get("arch")),
                    stages={stage: StageFile(content, path, f"the file {path}")},
                    missing={s: "only this one file was opened" for s in Stage if s is not stage},
                ),
            )

    def _figures(self, event: Event) -> None:
        digest = str(event.get("hash"))
        if event.get("event") == "ptxas":
            key = f"{digest}\0{event.get('symbol')}"
            known = Resources(
                spill_store_bytes=_int(event.get("spill_store_bytes")),
                spill_load_bytes=_int(event.get("spill_load_bytes")),
                barriers=_int(event.get("barriers")),
            )
        else:
            # The loaded binary counts words of local memory; none of it means that nothing was
            # spilled, some of it may be arrays as well as spills.
            key, words = digest, event.get("local_words")
            known = Resources(
                spill_store_bytes=0 if words == 0 else None,
                spill_load_bytes=0 if words == 0 else None,
            )
        self._loaded.setdefault(key, known)

    def _fact(self, event: Event) -> None:
        kind = event.get("event")
        if kind == "recording":
            self._facts.update({k: v for k, v in event.items() if k != "event"})
        elif kind == "end":
            self._facts.update(exit_status=event.get("exit_status"), complete=True)
        elif kind == "device" and not self._facts.get("device"):
            hidden = ("event", "time", "pid")
            self._facts["device"] = {k: v for k, v in event.items() if k not in hidden}
        elif kind == "process":
            self._tool("python", event.get("python"))
        elif kind == "torch":
            self._tool("torch", event.get("version"))
        elif kind == "tools":
            for name, version in _map(event.get("tools")).items():
                self._tool(name, version)

    def _tool(self, name: str, version: object) -> None:
        tools = self._facts.setdefault("tools", {})
        if isinstance(tools, dict) and version:
            tools.setdefault(name, str(version))

    # -- values -----------------------------------------------------------------------------

    def _add(self, kernel: _Kernel, variant: Variant) -> None:
        key = (variant.hash, variant.symbol)
        known = kernel.variants.get(key)
        if known is None:
            kernel.variants[key] = variant
            return
        kernel.variants[key] = replace(
            known,
            ranks=tuple(sorted({*known.ranks, *variant.ranks})),
            stages={**variant.stages, **known.stages},
            config={**variant.config, **known.config},
            signature=known.signature or variant.signature,
            specialization=known.specialization or variant.specialization,
            missing={s: w for s, w in known.missing.items() if s not in variant.stages},
        )

    def _finish(self, path: str) -> Recording:
        ids = shortest_ids(v.hash for k in self._kernels.values() for v in k.variants.values())
        readable = demangle([k.name for k in self._kernels.values()])
        kernels: dict[tuple[str, str, str], Kernel] = {}
        taken: dict[str, int] = {}
        for (key, kernel), demangled in zip(self._kernels.items(), readable, strict=True):
            taken[kernel.name] = taken.get(kernel.name, 0) + 1
            n = taken[kernel.name]
            variants = tuple(
                replace(v, id=ids[v.hash], known=self._known(v)) for v in kernel.variants.values()
            )
            kernels[key] = Kernel(
                id=kernel.name if n == 1 else f"{kernel.name}@{n}",
                name=kernel.name,
                demangled=demangled,
                origin=kernel.origin,
                variants=variants,
            )
        graphs = tuple(
            Graph(
                id=g.id,
                origin=Origin.INDUCTOR,
                kernels=tuple(kernels[k].id for k in g.kernels),
                stages={Stage.OUTPUT_CODE: g.text},
            )
            for g in self._graphs.values()
        )
        return self._with_facts(path, tuple(kernels.values()), graphs)

    def _known(self, variant: Variant) -> Resources:
        from inspector.analyse.resources import merge

        said = self._loaded.get(f"{variant.hash}\0{variant.symbol}", Resources())
        return merge(variant.known, said, self._loaded.get(variant.hash, Resources()))

    def _with_facts(
        self, path: str, kernels: tuple[Kernel, ...], graphs: tuple[Graph, ...]
    ) -> Recording:
        facts = self._facts
        command = facts.get("command")
        device = facts.get("device")
        return Recording(
            path=path,
            kernels=kernels,
            graphs=graphs,
            command=tuple(str(c) for c in command) if isinstance(command, list) else None,
            started=_text(facts.get("started")),
            exit_status=_int(facts.get("exit_status")),
            complete=facts.get("complete") is True or "command" not in facts,
            tools={k: str(v) for k, v in _map(facts.get("tools")).items()},
            device=_map(device) if device else None,
            mode=str(facts.get("mode") or "files"),
            target=_text(facts.get("target")),
            problems=tuple(dict.fromkeys(self.problems)),
        )


def _map(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _digest(content: Content | None) -> str:
    if content is None:
        return ""
    try:
        return hashlib.sha256(content.read()).hexdigest()
    except PtxviewError:
        return ""


def _read_text(content: Content | None) -> str:
    if content is None:
        return ""
    try:
        return content.read().decode("utf-8", "surrogateescape")
    except PtxviewError:
        return ""


def _span(source: Mapping[str, object]) -> tuple[int, int] | None:
    first, last = source.get("first"), source.get("last")
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def _cuda_span(text: str, name: str) -> tuple[int, int] | None:
    """Lines of a kernel in CUDA C++: from ``__global__`` to the brace that closes its body."""
    found = re.search(rf"\b{re.escape(name)}\s*\(", text)
    while found:
        start = text.rfind("__global__", 0, found.start())
        between = text[start : found.start()] if start >= 0 else ";"
        if ";" not in between and "}" not in between:
            depth, at = 0, text.find("{", found.end())
            end = at
            for end in range(max(at, 0), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            return text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
        found = re.compile(rf"\b{re.escape(name)}\s*\(").search(text, found.end())
    return None


def _target(ptx: Content | None, metadata: Mapping[str, object]) -> str | None:
    if ptx is not None:
        try:
            found = _TARGET.search(ptx.read()[:65536])
        except PtxviewError:
            found = None
        if found:
            return found[1].decode()
    arch = _map(metadata.get("target")).get("arch")
    return f"sm_{arch}" if isinstance(arch, int) else _text(arch)


def _config(metadata: Mapping[str, object], event: Event) -> dict[str, object]:
    out: dict[str, object] = {k: metadata[k] for k in CONFIG if k in metadata}
    declared = event.get("declared")
    for name, value in _map(event.get("constexprs")).items():
        # An integer argument that was 1 is compiled in as well; it is a specialisation.
        if not isinstance(declared, list) or name.partition("[")[0] in declared:
            out[name] = value
    return out


def _specialization(event: Event) -> dict[str, object]:
    out = _map(event.get("specialization"))
    declared = event.get("declared")
    if isinstance(declared, list):
        for name, value in _map(event.get("constexprs")).items():
            if name.partition("[")[0] not in declared:
                out[name] = [["constant", value]]
    return {k: v for k, v in out.items() if v}
