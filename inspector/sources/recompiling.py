"""A whole recording through another compiler: a recording of the same program, with other products.

Kernels of Triton, Inductor's and tuners' candidates too, are compiled from their recorded Python by
the Triton of another interpreter, for their recorded target and with the options that were chosen;
or their recorded PTX is assembled by another ptxas. CUDA C++ is compiled by another nvcc. What
Triton made of a kernel is kept by content in the user's cache: an interrupted upgrade goes on.

The new recording has the events of the first: calls, graphs, tunings and origins. A variant of
Triton keeps its hash, by which these name it. What was measured with the old code is left out, and
so are kernels that would have to be compiled again and cannot, since their source is not known.
"""

import hashlib
import json
import os
import re
import secrets
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from inspector import __version__
from inspector.base.errors import PtxviewError, RunFailed, ToolMissing, Unreadable, UsageError
from inspector.base.model import Kernel, Origin, Recording, Stage, Variant
from inspector.recording.compiler_messages import message_event
from inspector.recording.contents import content_names
from inspector.recording.decoding import as_map
from inspector.recording.layout import (
    SUFFIX,
    DerivedCache,
    Events,
    Writer,
    content_digest,
    is_recording,
    pack,
    read_events,
    remove,
    user_derived_cache,
)
from inspector.recording.resources import from_ptxas
from inspector.sources.builds import code_flags, ptxas_event
from inspector.sources.compilers import (
    NO_TRITON,
    PLAIN,
    Compiled,
    CompilerInput,
    GoOn,
    Say,
    by_probes,
    compile_cuda,
    compile_ptx,
    death_of,
    no_triton,
    options_of,
    triton_environment,
)
from inspector.sources.compiling import torch_options
from inspector.sources.completing import measured_spills
from inspector.sources.disassembly import likeliest_options
from inspector.sources.kernel_source import KernelSources
from inspector.sources.opening import is_own, open_path
from inspector.sources.running import RunRequest, prepare
from inspector.system import files, toolchain
from inspector.system.process import cores, run_tool, side_by_side, stop_tools
from inspector.system.toolchain import Tool

TRITON = (Origin.TRITON, Origin.INDUCTOR)
BY_TARGET = ("triton_version", "ptx_version", "max_num_imprecise_acc_default")
"""Options that Triton sets by its version and the target where nobody does."""
NOT_OF_NEW_CODE = frozenset(("loaded", "not_loaded", "not_launched", "timeline", "tools", "ptxas"))
"""Events that say how the old code was loaded and measured."""
COMPILATIONS = frozenset(("triton", "triton_failed", "device_code"))
"""Events with products of a compiler."""
MEASURED = frozenset(("times_ms", "gpu_time"))
STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
_ARCH = re.compile(r"sm_(\d{2,3})[af]?")
Event = Mapping[str, object]


class Compilers(Struct, frozen=True):
    """What to compile with; None keeps what was recorded. ``python`` is an interpreter with
    Triton, the others are programs."""

    python: str | None = None
    ptxas: Tool | None = None
    nvcc: Tool | None = None


class RecompileRequest(Struct, frozen=True):
    """Which variants of a recording to compile again: those of ``recording``, which may be some.

    ``limit`` is the most seconds that one kernel may take, ``out`` where to write, as of a run.
    """

    recording: Recording
    compilers: Compilers
    out: Path | None = None
    limit: float = 600.0


class Product(Struct, frozen=True):
    """What a compiler made of one variant: the fields that replace those of its event, and the
    contents that they name by their SHA-256."""

    fields: dict[str, object]
    contents: dict[str, bytes] = field(default_factory=dict)
    figures: tuple[dict[str, object], ...] = ()
    """Events of what ptxas said of it."""

    @property
    def failed(self) -> bool:
        return self.fields.get("event") == "triton_failed" or bool(self.fields.get("why"))


class Recompiled(Struct, frozen=True):
    """The new recording, and how many variants were compiled, failed, and why others were not."""

    path: Path
    compiled: int
    failed: int
    left_out: Mapping[str, str]


def recompile(request: RecompileRequest, say: Say, go_on: GoOn = lambda: True) -> Recompiled:
    """Compile a recording's variants again, and write the recording of them.

    Raises ``ToolMissing`` where a compiler is not there, ``UsageError`` where nothing of the
    recording can be compiled or the place of the new one cannot be written, ``Stopped`` where
    ``go_on`` says no; what was compiled by then is not compiled again the next time.
    """
    place = Path(request.recording.resolved_path or request.recording.path)
    if not is_recording(place):
        raise UsageError(
            f"{place.name} is no recording, of which kernels are compiled again",
            "Record the program that made them: ptxview run PROGRAM",
        )
    cache = user_derived_cache()
    recompiling = _Recompiling(request, read_events(place), cache, say, go_on)
    out = _place_of(request, place)
    try:
        folder, pack_to = prepare(RunRequest("script", (f"{place.stem}-upgraded",), out))
    except RunFailed as error:
        raise UsageError(error.message, error.hint) from None
    try:
        products = recompiling.products()
        if not products:
            reasons = "; ".join(dict.fromkeys(recompiling.left_out.values()))
            raise UsageError(
                f"nothing of {place.name} can be compiled again"
                + (f": {reasons}" if reasons else "")
            )
        with closing(Writer(folder)) as writer:
            for event in recompiling.events(products, writer):
                writer.event(**event)
            recording = open_path(folder)
            triton_folder = recompiling.versions.get("triton_folder")
            for event in measured_spills(recording, triton_folder, cache, go_on):
                writer.event(**event)
        if pack_to is not None:
            pack(folder, pack_to)
            remove(folder)
    except BaseException:
        stop_tools()
        remove(folder)
        raise
    failed = sum(product.failed for product in products.values())
    return Recompiled(pack_to or folder, len(products) - failed, failed, recompiling.left_out)


def _place_of(request: RecompileRequest, place: Path) -> Path | None:
    """Where to write; None is a new name among the user's own recordings.

    A stranger's code does not become the user's own by a compiler: what is made of another's
    recording is written into the current folder. Raises ``UsageError`` for the recording itself.
    """
    if request.out is None:
        if is_own(request.recording):
            return None
        return Path(f"{place.stem}-upgraded-{secrets.token_hex(2)}{SUFFIX}")
    if request.out.resolve() == place.resolve():
        raise UsageError(
            f"{request.out} is the recording that is compiled again", "Give another -o."
        )
    return request.out


class _Recompiling:
    """One recording under way."""

    def __init__(
        self,
        request: RecompileRequest,
        events: Events,
        cache: DerivedCache,
        say: Say,
        go_on: GoOn,
    ) -> None:
        self.request = request
        self._recorded = events
        self._cache = cache
        self._say = say
        self._go_on = go_on
        self.left_out: dict[str, str] = {}
        """Why a variant is not compiled again, by its hash: it is not known what is made of it."""
        self.versions: dict[str, str | None] = {}
        """Of the other interpreter, as ``toolchain.versions`` has them."""

    def products(self) -> dict[str, Product]:
        """The products of each variant, by its hash."""
        compilers = self.request.compilers
        products: dict[str, Product] = {}
        if compilers.python is not None:
            products |= self._by_triton(compilers.python, compilers.ptxas)
        elif compilers.ptxas is not None:
            products |= self._by_ptxas(compilers.ptxas)
        if compilers.nvcc is not None:
            products |= self._by_nvcc(compilers.nvcc)
        return products

    # -- Triton ------------------------------------------------------------------------------

    def _by_triton(self, python: str, ptxas: Tool | None) -> dict[str, Product]:
        self.versions = toolchain.versions(python)
        if not self.versions:
            raise ToolMissing(f"{python} is no Python that can be started")
        if self.versions.get("triton") is None:
            raise no_triton(python, "the recorded kernels")
        stamp = repr(ptxas) + _stamp(self.versions)
        jobs: dict[str, dict[str, object]] = {}
        keys: dict[str, str] = {}
        products: dict[str, Product] = {}
        sources = KernelSources(self._recorded)
        for kernel, variant in self.request.recording.variants():
            if kernel.origin not in TRITON:
                continue
            try:
                job = _job(kernel, variant, sources)
            except PtxviewError as error:
                self.left_out[variant.hash] = error.message
                continue
            key = self._cache.key("recompiled", stamp, json.dumps(job, default=str))
            cached = self._cache.get(key)
            if cached is None:
                jobs[variant.hash] = job
                keys[variant.hash] = key
            else:
                products[variant.hash] = msgspec.msgpack.decode(
                    zlib.decompress(cached), type=Product
                )
        if products and jobs:
            self._say(f"{len(products)} were compiled before; {len(jobs)} remain")

        def keep(digest: str, product: Product) -> None:
            if not product.failed:
                self._cache.store(keys[digest], zlib.compress(msgspec.msgpack.encode(product), 1))
            products[digest] = product

        if jobs:
            self._by_child(python, ptxas, jobs, keep)
        return products

    def _by_child(
        self,
        python: str,
        ptxas: Tool | None,
        jobs: Mapping[str, dict[str, object]],
        keep: Callable[[str, Product], None],
    ) -> None:
        """Have a child compile the jobs; ``keep`` gets each product while it compiles the next."""
        with tempfile.TemporaryDirectory(prefix="ptxview-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            remaining = dict(enumerate(jobs))
            folders = {digest: folder / f"{number}" for number, digest in remaining.items()}
            kernels = [{**job, "folder": str(folders[digest])} for digest, job in jobs.items()]
            job_file, results = folder / "job.json", folder / "results.jsonl"
            limits = {"workers": cores(), "seconds": self.request.limit}
            job_file.write_text(json.dumps({**limits, "kernels": kernels}, default=str), "utf-8")
            argv = by_probes(python, "cross_compile.recompile", job_file, results)
            # Events of the program itself go to a recording that nobody reads.
            env = triton_environment(folder) | {"PTXVIEW_RECORDING": str(folder / "own")}
            if ptxas is not None:
                names = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
                env |= dict.fromkeys(names, str(ptxas.path))

            def take(number: int, result: Mapping[str, object]) -> None:
                digest = remaining.pop(number)
                _, refusal, reason = str(result.get("printed")).rpartition("CannotCompile: ")
                if refusal:
                    self.left_out[digest] = reason.strip()
                else:
                    name = str(jobs[digest]["name"])
                    keep(digest, _recorded_product(folders[digest], name, result))

            began = time.monotonic()

            def go_on() -> bool:
                count = len(remaining)
                for result in files.records(results) if results.exists() else ():
                    number = as_map(result).get("kernel")
                    if isinstance(number, int) and number in remaining:
                        take(number, as_map(result))
                if len(remaining) != count:
                    done = len(jobs) - len(remaining)
                    seconds = (time.monotonic() - began) / done * len(remaining)
                    self._say(f"{done} of {len(jobs)} compiled, about {seconds:.0f} s remain")
                return self._go_on()

            seconds = self.request.limit * len(jobs) + 60
            ended = run_tool(argv, env=env, seconds=seconds, go_on=go_on, with_children=True)
            if ended.status == NO_TRITON:
                raise no_triton(python, "the recorded kernels")
            go_on()
            for number in list(remaining):
                take(number, {"status": ended.status, "printed": ended.complaint})

    # -- ptxas, nvcc -------------------------------------------------------------------------

    def _by_ptxas(self, ptxas: Tool) -> dict[str, Product]:
        """The recorded PTX of every variant, assembled with the options that Triton gives."""
        pairs = {v.hash: (k, v) for k, v in self.request.recording.variants()}
        jobs = []
        for kernel, variant in pairs.values():
            file = variant.stages.get(Stage.PTX)
            if kernel.origin not in (*TRITON, Origin.NVCC, Origin.FILE):
                continue
            if file is None or file.costly:
                self.left_out[variant.hash] = variant.missing.get(Stage.PTX, "it has no PTX")
            else:
                jobs.append((kernel, variant, file.content.read()))

        def run(job: tuple[Kernel, Variant, bytes]) -> Compiled:
            kernel, variant, text = job
            words = likeliest_options(variant)[0] if kernel.origin in TRITON else ()
            source = CompilerInput(Path(variant.symbol), variant.symbol, "ptx", text)
            options = [word for word in words if word != "-lineinfo"]
            target = variant.target or "sm_90"
            seconds = self.request.limit
            return compile_ptx(
                source, target, options, seconds=seconds, go_on=self._go_on, ptxas_tools=(ptxas,)
            )

        products = {}
        with closing(side_by_side(run, jobs)) as outcomes:
            for n, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True), 1):
                kernel, variant, _ = job
                self._say(f"{n} of {len(jobs)}: {kernel.display_name}")
                products[variant.hash] = _assembled(kernel, variant, outcome)
        return products

    def _by_nvcc(self, nvcc: Tool) -> dict[str, Product]:
        """The recorded CUDA C++ of every build, compiled with the options of its build."""
        events: dict[str, dict[str, object]] = {}
        for event in self._recorded.events:
            if event.get("event") == "device_code" and event.get("source_blob"):
                events[_identity(event)] = event
        products = {}
        with tempfile.TemporaryDirectory(prefix="ptxview-", ignore_cleanup_errors=True) as name:
            for n, (identity, event) in enumerate(events.items()):
                content = self._recorded.blob(event.get("source_blob"))
                if content is None:
                    continue
                arch = str(event.get("arch"))
                label = Path(str(event.get("source"))).name
                if not _ARCH.fullmatch(arch):
                    self.left_out[identity] = "its target was not recorded"
                    continue
                self._say(f"{n + 1} of {len(events)}: {label}")
                path = Path(name) / f"{n}" / (label if PLAIN.fullmatch(label) else "source.cu")
                path.parent.mkdir()
                data = content.read()
                path.write_bytes(_named_line(str(event.get("source"))) + data)
                source = CompilerInput(path, label, "cuda", data)
                flags = event.get("flags")
                options = code_flags([str(w) for w in flags] if isinstance(flags, list) else [])
                compiled = compile_cuda(
                    source,
                    arch,
                    options,
                    extra_options=torch_options(source, self.request.compilers.python, options),
                    seconds=self.request.limit,
                    go_on=self._go_on,
                    tool=nvcc,
                )
                products[identity] = _built(compiled)
        return products

    # -- the new recording -------------------------------------------------------------------

    def events(
        self, products: Mapping[str, Product], writer: Writer
    ) -> Iterator[dict[str, object]]:
        """The events of the new recording; the contents that they name are written before."""
        replaced: set[str] = set()
        with_source = {
            str(event.get("hash"))
            for event in self._recorded.events
            if event.get("source") is not None
        }
        for event in self._recorded.events:
            kind = str(event.get("event"))
            if kind in NOT_OF_NEW_CODE or kind.startswith("driver"):
                continue
            identity = _identity(event)
            if kind in COMPILATIONS and identity in self.left_out:
                continue
            product = products.get(identity) if kind in COMPILATIONS else None
            if product is not None:
                lacks_source = event.get("source") is None and identity in with_source
                if identity in replaced or lacks_source:
                    continue
                replaced.add(identity)
                for data in product.contents.values():
                    writer.blob(data)
                event = _exchanged(event, product.fields)
                yield from product.figures
            elif kind == "autotune":
                event = _unmeasured(event)
            self._copy_contents(event, writer)
            yield event
        yield {"event": "tools", "tools": self._tools()}

    def _copy_contents(self, event: Event, writer: Writer) -> None:
        """Write what an event names of the recording's contents."""
        for digest in content_names(event):
            content = self._recorded.blob(digest)
            # A hash looks like the name of a content; a damaged one stays behind.
            with suppress(PtxviewError):
                if content is not None and writer.stored(digest) is None:
                    writer.blob(content.read())

    def _tools(self) -> dict[str, str]:
        compilers = self.request.compilers
        tools = dict(self.request.recording.tools)
        tools |= {name: v for name, v in self.versions.items() if name == "triton" and v}
        for tool in (compilers.ptxas, compilers.nvcc):
            if tool is not None and tool.version:
                tools[tool.name] = tool.version
        return tools


def _named_line(path: str) -> bytes:
    """What has nvcc call a file by the path that was recorded of it: its lines are linked by it."""
    return f'#line 1 "{path}"\n'.encode() if PLAIN.fullmatch(path) else b""


def _identity(event: Event) -> str:
    """What a compilation is known by: Triton's hash, else the digest of a build's product."""
    if event.get("event") != "device_code":
        return str(event.get("hash"))
    names = [event.get(n) for n in ("cubin", "ptx", "source_blob")]
    return next((n for n in names if isinstance(n, str)), "")


def _stamp(versions: Mapping[str, str | None]) -> str:
    """What identifies a build of Triton: its version, the size and time of its library, and the
    user's settings of it."""
    library = Path(str(versions.get("triton_folder"))) / "_C" / "libtriton.so"
    status = library.stat() if library.is_file() else None
    built = None if status is None else (status.st_size, status.st_mtime_ns)
    settings = sorted((n, v) for n, v in os.environ.items() if n.startswith("TRITON_"))
    names = ("triton", "torch")
    return repr((__version__, *map(versions.get, names), str(library), built, settings))


def _job(kernel: Kernel, variant: Variant, sources: KernelSources) -> dict[str, object]:
    """How a variant is compiled again from its source. Raises ``PtxviewError`` where its source or
    its target is not known."""
    constants, attributes = _compiled_in(variant)

    def passed_functions(text: str) -> list[str]:
        names = [v for v in constants.values() if isinstance(v, str) and v.isidentifier()]
        return [name for name in names if f"def {name}(" in text]

    cut = sources.cut(variant.hash, variant.symbol, passed_functions)
    if cut is None:
        raise Unreadable("its Python source was not recorded")
    source, _ = cut
    target = _ARCH.fullmatch(variant.target or "")
    if target is None:
        raise Unreadable("its target was not recorded")
    statements = zip(source.places, source.statements, strict=True)
    return {
        "name": source.name,
        "imports": source.imports,
        "future": source.future,
        "statements": [(*place, text) for place, text in statements],
        "signature": dict(variant.signature),
        "constexprs": constants,
        "texts": _text_arguments(kernel),
        "attributes": attributes,
        "options": {n: v for n, v in options_of(variant).items() if n not in BY_TARGET},
        "target": int(target[1]),
    }


def _compiled_in(variant: Variant) -> tuple[dict[str, object], dict[str, object]]:
    """The values that were compiled in, and attributes such as alignments, by arguments' names."""
    constants = {
        name: value
        for name, value in variant.config.items()
        if name.partition("[")[0] in variant.signature  # an item of a tuple is name[0]
    }
    attributes: dict[str, object] = {}
    for name, value in variant.specialization.items():
        match value:
            case [["constant", constant], *_]:
                constants[name] = constant
            case _:
                attributes[name] = value
    return constants, attributes


def _text_arguments(kernel: Kernel) -> list[str]:
    """Names of arguments whose value is a text, not the name of a type or a function."""
    names: set[str] = set()
    for variant in kernel.variants:
        for call in variant.calls:
            names |= {a.name for a in call.arguments if a.python_type == "str"}
    return sorted(names)


def _recorded_product(folder: Path, name: str, result: Mapping[str, object]) -> Product:
    """What a process of the child recorded of a kernel; why it failed, where it died before."""
    recorded = Events(folder, (), ())
    with suppress(PtxviewError):  # it may have ended before it could write
        recorded = read_events(folder)
    event = next((e for e in recorded.events if e.get("event") in COMPILATIONS), None)
    # Of a process that dies, what it had begun is recorded, without a message.
    died = bool(result.get("status")) and not as_map(event).get("message")
    if event is None or died or event.get("unkept"):
        reason = _death(name, result)
        event = {"event": "triton_failed", "error": reason, "message": reason, "tool": "triton"}
    contents = {}
    for digest in (*as_map(event.get("files")).values(), event.get("log")):
        content = recorded.blob(digest)
        if content is not None:
            contents[str(digest)] = content.read()
    fields = {field: value for field, value in event.items() if field in EXCHANGED}
    return Product({**dict.fromkeys(FAILED), **fields}, contents)


def _death(name: str, result: Mapping[str, object]) -> str:
    """Why a process of the child ended before it had compiled its kernel."""
    printed = str(result.get("printed") or "")
    status = result.get("status")
    seconds = result.get("overran")
    if seconds is not None:
        return f"Triton's compiler did not finish within {seconds} s"
    if isinstance(status, int) and status < 0:
        return death_of(printed, status, name, name, "")[0]
    last = next((row for row in reversed(printed.splitlines()) if row.strip()), "")
    return last.strip() or f"its process ended with status {status}"


FAILED = ("error", "stage", "kind", "message", "tool", "messages", "log", "command", "lacks")
"""Fields of a compilation that failed."""
EXCHANGED = frozenset((
    "event", "metadata", "files", "made_by", "seconds", "stage_seconds", "required", "limit",
    "resource", *FAILED,
))  # fmt: skip
"""Fields of an event of Triton's that are of its products."""


def _exchanged(event: Event, fields: Event) -> dict[str, object]:
    """A recorded event with the products of another compiler."""
    exchanged = {**event, "files": {}, "paths": {}, **fields}
    if event.get("event") != "device_code":
        recorded = as_map(event.get("metadata"))
        # Calls and tunings name a variant by the hash that it was recorded with.
        metadata = {**(as_map(fields.get("metadata")) or recorded), "hash": event.get("hash")}
        exchanged |= {"metadata": metadata, "cache_hit": None, "cache_key": None}
    return {name: value for name, value in exchanged.items() if value is not None}


def _unmeasured(event: dict[str, object]) -> dict[str, object]:
    """A tuning without the times of the old code."""
    rows = event.get("configurations")
    if not isinstance(rows, list):
        return event
    plain = [{n: v for n, v in as_map(row).items() if n not in MEASURED} for row in rows]
    return {**event, "configurations": plain, "seconds": None}


def _named(data: bytes | None, contents: dict[str, bytes]) -> str | None:
    """The digest of a content, which is added to ``contents``."""
    if data is None:
        return None
    digest = hashlib.sha256(data).hexdigest()
    contents[digest] = data
    return digest


def _assembled(kernel: Kernel, variant: Variant, compiled: Compiled) -> Product:
    """A variant whose recorded PTX was assembled: its other stages are the recorded ones."""
    if kernel.origin not in TRITON:
        return _built(compiled)
    contents: dict[str, bytes] = {}
    files: dict[str, str | None] = {
        stage.value: content_digest(variant.stages[stage].content)
        for stage in STAGES
        if stage in variant.stages
    }
    files["source"] = None if variant.initial_ir is None else content_digest(variant.initial_ir)
    files["cubin"] = _named(compiled.cubin, contents)
    fields: dict[str, object] = {"event": "triton", "files": files}
    if compiled.failed is not None:
        fields |= _failure(compiled)
    return Product(fields, contents, _figures(compiled, variant.hash))


def _built(compiled: Compiled) -> Product:
    """A build's kernels: their PTX and machine code, or why there are none."""
    contents: dict[str, bytes] = {}
    cubin = _named(compiled.cubin, contents)
    fields: dict[str, object] = {
        "ptx": _named(compiled.ptx, contents),
        "cubin": cubin,
        "lineinfo_cubin": cubin,
        "sha256": cubin,
        "why": compiled.failed,
    }
    return Product(fields, contents, _figures(compiled, cubin))


def _failure(compiled: Compiled) -> dict[str, object]:
    messages = [message_event(message) for message in compiled.messages]
    return {
        "event": "triton_failed",
        "stage": "sass",
        "tool": "ptxas",
        "error": compiled.failed,
        "message": compiled.failed,
        "messages": messages,
    }


def _figures(compiled: Compiled, digest: str | None) -> tuple[dict[str, object], ...]:
    if digest is None or compiled.cubin is None:
        return ()
    figures = from_ptxas(compiled.printed).items()
    return tuple(ptxas_event(digest, symbol, resources) for symbol, resources in figures)
