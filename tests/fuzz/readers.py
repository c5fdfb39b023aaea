"""Every reader of what others wrote: what it is given, what it promises, what it begins with.

A reader takes bytes and raises what it should not: an ``AssertionError`` where something was lost,
whatever else where a sentence was owed. What it may raise is ``PtxviewError``.

No vendor's tool is started: what they print has readers here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from inspector.base.errors import PtxviewError
from inspector.base.model import Recording, Stage, StageFile, Variant
from inspector.base.names import base_name
from inspector.base.text import harmless as draws_itself
from inspector.base.text import lines_shown
from inspector.commands.explain import meaning
from inspector.diff.hunks import rows
from inspector.diff.listings import diff_listings
from inspector.listing import parse
from inspector.listing.cubin import debug_ptx, kernel_parameters, read_cubin
from inspector.listing.lexers import MlirLexer, NvSassLexer
from inspector.listing.line import Listing
from inspector.listing.source_code import parse_cuda
from inspector.measure.ncu import report
from inspector.measure.ncu.report import text_of
from inspector.measure.profile.read import about, profiles
from inspector.measure.profile.trace import Window, stacks, summarise
from inspector.measure.time import results
from inspector.reader import selecting
from inspector.reader import tables as knowledge
from inspector.reader.reader import Reader as RecordingReader
from inspector.recording import output_code
from inspector.recording.assemble import Assembly
from inspector.recording.facts import from_ptxas, from_res_usage, max_threads
from inspector.recording.layout import REPORTS, BytesContent, DerivedCache, kept
from inspector.recording.output_code import graph_lines
from inspector.report import jsons, tables
from inspector.report.words import as_json
from inspector.sources import traces
from inspector.sources.builds import again, architectures, harmless, parse_ninja
from inspector.sources.disassembly import plain_of
from inspector.sources.opening import open_path
from inspector.system import printing
from inspector.tui.main.settings import Memory, read_config

DATA = Path(__file__).resolve().parent.parent / "data"
SEEDS = DATA / "fuzz"
LECTURE = DATA / "core" / "lecture"
TRITON = LECTURE / "triton" / "QGNHRXZLHGC2YJ4RCQ27CD3XUW3TPV3OLG4XBHLEQZCPY2R2NZDA"
BETWEEN = b"\n=====\n"
"""Stands between the two halves of an input that is two."""


@dataclass(frozen=True)
class Reader:
    """``read`` takes an input and a new folder to put it into.

    ``share``: how many inputs it gets beside others.
    """

    name: str
    read: Callable[[bytes, Path], None]
    seeds: Callable[[], Iterable[bytes]]
    words: Sequence[bytes] = ()
    share: int = 4
    longest: int = 4096
    zipped: bool = False


def text_of_bytes(data: bytes) -> str:
    """Text as every reader of files makes it."""
    return data.decode("utf-8", "surrogateescape")


# -- listings -----------------------------------------------------------------------------------


def _whole(listing: Listing, text: str) -> None:
    assert "\n".join(line.text for line in listing.lines) == text, "a line was lost"
    for function in listing.functions:
        assert 1 <= function.first <= function.last <= len(listing.lines), function


def _listing(stage: Stage, path: str | None = None) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        text = text_of_bytes(data)
        _whole(parse(stage, text, path=path), text)

    return read


def _cuda(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    _whole(parse_cuda(text, "x.cu"), text)


PLAIN = "\t.section\t.text.k,\n        /*0000*/   MOV R1, R2 ;\n"


def _annotated(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    _whole(parse(Stage.SASS, PLAIN, annotated=text), PLAIN)
    _whole(parse(Stage.SASS, text, annotated=text), text)
    plain = plain_of(text)
    if plain is not None:
        _whole(parse(Stage.SASS, plain, annotated=text), plain)


def _highlight(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    for lexer in (NvSassLexer, MlirLexer):
        pieces = "".join(
            piece for _, piece in lexer(stripnl=False, ensurenl=False).get_tokens(text)
        )
        assert len(pieces.split("\n")) == len(
            text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        )


def _diff(data: bytes, folder: Path) -> None:
    stages = tuple(Stage)
    stage = stages[data[0] % len(stages)] if data else Stage.PTX
    a, _, b = text_of_bytes(data[1:]).partition(text_of_bytes(BETWEEN))
    left, right = parse(stage, a, path="x.py"), parse(stage, b, path="x.py")
    diff = diff_listings(left, right)
    for side, listing in ((0, left), (1, right)):
        spans = sorted(s for s in ((h.a, h.b)[side] for h in diff.hunks) if s[0] < s[1])
        covered = [n for begin, end in spans for n in range(begin, end)]
        assert covered == list(range(1, len(listing.lines) + 1)), "a line is in no hunk"
        numbers = [row[side + 1] for row in rows(diff.hunks) if row[side + 1] is not None]
        assert sorted(map(int, map(str, numbers))) == covered, "a line is in no row"
    if a == b:
        assert diff.identical


# -- analyses -----------------------------------------------------------------------------------


def _of_file(stage: Stage, data: bytes) -> Recording:
    text = text_of_bytes(data)
    symbols = [f.name for f in parse(stage, text).functions] or ["k"]
    event = {
        "event": "file",
        "stage": stage.value,
        "path": f"x.{stage.value}",
        "blob": BytesContent(data),
        "symbols": symbols[:3],
    }
    return Assembly(lambda value: value if isinstance(value, BytesContent) else None).recording(
        "x", [event]
    )


def _analyse(recording: Recording, stage: Stage, folder: Path, device: str | None = None) -> None:
    reader = RecordingReader(recording, DerivedCache(folder / "derived"), device)
    for _, variant in recording.variants():
        try:
            reader.card(variant)
            for finding in reader.findings(variant):
                assert finding.text
            annotations = reader.line_annotations(variant, stage, whole=True)
            for line in reader.listing(variant, stage).lines:
                annotations.at(line.n)
                annotations.words(line.n)
                annotations.registers(line.n)
                if stage in (Stage.PTX, Stage.SASS):
                    reader.explain(variant, stage, line.n)
            reader.lacking(variant)
        except PtxviewError:
            continue


def _machine_ptx(data: bytes, folder: Path) -> None:
    max_threads(text_of_bytes(data))
    _analyse(_of_file(Stage.PTX, data), Stage.PTX, folder, "sm_90")


def _machine_sass(data: bytes, folder: Path) -> None:
    recording = _of_file(Stage.PTX, b".visible .entry k()\n{\nret;\n}\n")
    kernel = recording.kernels[0]
    names = [f.name for f in parse(Stage.SASS, text_of_bytes(data)).functions][:2] or ["k"]
    made: list[Variant] = [
        replace(
            kernel.variants[0],
            symbol=name,
            stages={Stage.SASS: StageFile(BytesContent(data), text_from="a report of ncu")},
        )
        for name in names
    ]
    recording = replace(recording, kernels=(replace(kernel, variants=tuple(made)),))
    _analyse(recording, Stage.SASS, folder, "sm_90")


def _ir(stage: Stage) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        _analyse(_of_file(stage, data), stage, folder, "sm_90")

    return read


def _links(data: bytes, folder: Path) -> None:
    """Two stages of one kernel, each line of both linked with the other's."""
    upper, _, lower = data.partition(BETWEEN)
    event = {
        "event": "triton",
        "name": "k",
        "hash": "ab",
        "metadata": {"name": "k"},
        "files": {"ttgir": BytesContent(upper), "ptx": BytesContent(lower)},
    }
    recording = Assembly(lambda v: v if isinstance(v, BytesContent) else None).recording(
        "x", [event]
    )
    reader = RecordingReader(recording, DerivedCache(folder / "derived"))
    for _, variant in recording.variants():
        with contextlib.suppress(PtxviewError):
            down = reader.links(variant, Stage.TTGIR, Stage.PTX)
            up = reader.links(variant, Stage.PTX, Stage.TTGIR)
            pairs = {(a, b) for a, each in down.items() for b in each}
            assert pairs == {(a, b) for b, each in up.items() for a in each}
            reader.card(variant)
            reader.findings(variant)


# -- files --------------------------------------------------------------------------------------


def _look_at(recording: Recording) -> None:
    """What every view does with a recording: JSON of it, tables of it, its contents."""
    text = jsons.dumps(jsons.recording(recording, lambda variant: variant.known))
    json.loads(text, parse_constant=_refuse)
    out, written = printing.page(80, colours=False)
    out.print(tables.kernels(recording, lambda variant: variant.known, 80))
    tables.graphs(recording, out)
    tables.problems(recording, out)
    printed = written()
    printed.encode("utf-8")
    assert all(c == "\n" or draws_itself(c) for c in printed), "a terminal would obey it"
    contents = [h for _, v in recording.variants() for h in v.stages.values() if not h.costly]
    for held in contents[:20]:
        with contextlib.suppress(PtxviewError):
            held.content.read()


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def _elf(data: bytes, _: Path) -> None:
    known = read_cubin(data)
    debug_ptx(data)
    for name in known.entries[:3] if known else ():
        kernel_parameters(data, name)


def _file(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        _look_at(open_path(path))

    return read


BLOBS = ("0" * 64, "1" * 64, "2" * 64)


def _events(data: bytes, folder: Path) -> None:
    blobs = folder / "blobs"
    blobs.mkdir()
    for name, file in zip(BLOBS, ("square_kernel.ptx", "square_kernel.ttir"), strict=False):
        (blobs / name).write_bytes((TRITON / file).read_bytes())
    (folder / "events.jsonl").write_bytes(data)
    recording = open_path(folder)
    _look_at(recording)
    with contextlib.suppress(PtxviewError):
        profiles(folder, recording, DerivedCache(folder / "derived"))


def _zip(data: bytes, folder: Path) -> None:
    path = folder / "x.ptxview"
    path.write_bytes(data)
    _look_at(open_path(path))
    for record in kept(path):
        results.read(record)
    report.of_recording(path)


def _empty_recording(folder: Path) -> Path:
    (folder / "events.jsonl").write_bytes(b'{"event":"recording","command":["x"]}\n')
    return folder


def _timings(data: bytes, folder: Path) -> None:
    (_empty_recording(folder) / "timings.jsonl").write_bytes(data)
    for record in kept(folder):
        session = results.read(record)
        if session is not None:
            again_read = results.read(json.loads(jsons.dumps(results.stored_session(session))))
            assert again_read is not None


def _ncu_kept(data: bytes, folder: Path) -> None:
    (_empty_recording(folder) / REPORTS).write_bytes(data)
    report.of_recording(folder)


def _ncu_csv(data: bytes, folder: Path) -> None:
    made = report.read(text_of_bytes(data), "x.csv")
    for launch in made.launches:
        text_of(launch, "k")
    _look_at(report.alone(folder / "x.csv", made))


def _ncu_said(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    report.complaints(text)
    report.status_of(text, 1)


def _log(data: bytes, folder: Path) -> None:
    text = text_of_bytes(data)
    traces.is_log(text)
    traces.is_torch_trace(text)
    (folder / "trace.log").write_bytes(data)
    found = [*traces.from_log(text), *traces.from_torch_trace(folder / "trace.log")]
    _look_at(Assembly(lambda v: v if hasattr(v, "read") else None).recording("x", found))


def _triton_cache(data: bytes, folder: Path) -> None:
    entry = folder / "OK4EUQE2MU5PWGVYT7FNFJ6JAOY4MHAHUVOPB6PJ2BFX3BWLZPFQ"
    entry.mkdir()
    (entry / "square_kernel.json").write_bytes(data)
    (entry / "square_kernel.ptx").write_bytes(b".version 8.4\n.visible .entry square_kernel()\n")
    (entry / "square_kernel.ttir").write_bytes(data[:200])
    _look_at(open_path(folder))


def _inductor_cache(data: bytes, folder: Path) -> None:
    entry = folder / "e5"
    entry.mkdir()
    name = "ce5ywx2kp7pouobdshojitsg73qyujl7ttne6u4uygtcrqk7p7iw.py"
    (entry / name).write_bytes(data)
    _look_at(open_path(folder))
    text = text_of_bytes(data)
    lines = len(text.split("\n"))
    for kernel in output_code.parse(text).kernels:
        assert kernel.line is None or 1 <= kernel.line <= lines


def _tuning(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        entry = folder / "m5"
        entry.mkdir()
        (entry / name).write_bytes(data)
        (entry / "square_kernel.json").write_bytes(b'{"name":"square_kernel","hash":"ab"}')
        (entry / "square_kernel.ptx").write_bytes(b".version 8.4\n.visible .entry square_kernel()")
        _look_at(open_path(folder))

    return read


def _ninja(data: bytes, folder: Path) -> None:
    for build in parse_ninja(text_of_bytes(data)):
        architectures(build.argv)
        source = Path("/nowhere/x.cu")
        harmless(build.argv, Path("/usr/bin/nvcc"), source)
        again(build.argv, str(source), "90", folder)


def _tools(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    for found in (from_res_usage(text), from_ptxas(text)):
        for figures in found.values():
            json.loads(jsons.dumps(figures.registers))
    base_name(text)
    architectures(text.split())


def _trace(data: bytes, _: Path) -> None:
    for gpu in (True, False):
        with contextlib.suppress(PtxviewError):
            summarise(data, Window(1, "ptxview", "", stacks=True, gpu=gpu))
        with contextlib.suppress(PtxviewError):
            stacks(data, gpu)


def _window(data: bytes, _: Path) -> None:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(said, dict):
        about(said)


def _config(data: bytes, folder: Path) -> None:
    path = folder / "config.toml"
    path.write_bytes(data)
    config = read_config(path)
    assert all(c == "\n" or draws_itself(c) for c in config.warning), "a terminal would obey it"


def _remembered(data: bytes, folder: Path) -> None:
    path = folder / "remembered.json"
    path.write_bytes(data)
    memory = Memory(path)
    view = memory.view("/x")
    memory.keep("/x", view)
    assert Memory(path).view("/x") == view, "what was remembered is another"


def _explain(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    jsons.dumps(as_json(meaning(knowledge.isa(), text)))


def _recording_to_select() -> Recording:
    files = {"ptx": BytesContent((TRITON / "square_kernel.ptx").read_bytes())}
    events: list[dict[str, Any]] = [
        {
            "event": "triton",
            "name": name,
            "hash": 32 * code,
            "files": files,
            "metadata": {"name": name, "num_warps": number},
        }
        for number, (name, code) in enumerate(
            (
                ("square_kernel", "ab"),
                ("square_kernel", "ac"),
                ("_Z3addPf", "ad"),
                ("[x]*?#1", "0e"),
            )
        )
    ]
    return Assembly(lambda v: v if isinstance(v, BytesContent) else None).recording("x", events)


RECORDING = _recording_to_select()


def _selectors(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    selecting.place(text, lambda word: word.endswith(".ptxview"))
    selecting.select_graph(RECORDING, text)
    selecting.select_calls(RECORDING, text)
    found = selecting.select(RECORDING, text)
    for one in found:
        selecting.choice(one, found)
    selecting.select_one(RECORDING, text)


def _graph_text(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    graph_lines(text)


def _shown(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    shown = lines_shown(text)
    assert all(c in "\t\n" or draws_itself(c) for c in shown), "a terminal would obey it"
    shown.encode("utf-8")


# -- what each begins with ----------------------------------------------------------------------


def _pieces(*files: Path, lines: int = 24, most: int = 12) -> list[bytes]:
    """Stretches of specimens, from all over each."""
    out = []
    for file in files:
        held = file.read_bytes().split(b"\n")
        step = max(lines, len(held) // most)
        out += [b"\n".join(held[at : at + lines]) for at in range(0, len(held), step)]
    return out


def _own(name: str) -> list[bytes]:
    folder = SEEDS / name
    return [p.read_bytes() for p in sorted(folder.iterdir())] if folder.is_dir() else []


def _from(name: str, *files: Path, lines: int = 24) -> Callable[[], Iterable[bytes]]:
    return lambda: [*_own(name), *_pieces(*files, lines=lines)]


def _all_of(name: str, *files: Path) -> Callable[[], Iterable[bytes]]:
    return lambda: [*_own(name), *(f.read_bytes() for f in files)]


def _functions(name: str, *files: Path) -> Callable[[], Iterable[bytes]]:
    """The first and the last lines of specimens: a whole function, if a short one."""

    def seeds() -> Iterable[bytes]:
        yield from _own(name)
        for file in files:
            lines = file.read_bytes().split(b"\n")
            yield b"\n".join([*lines[:60], *lines[-8:]])
            yield from _pieces(file, lines=40, most=4)

    return seeds


def _two(name: str, *files: tuple[int, Path]) -> Callable[[], Iterable[bytes]]:
    def seeds() -> Iterable[bytes]:
        yield from _own(name)
        for stage, file in files:
            for piece in _pieces(file, lines=20, most=3):
                lines = piece.split(b"\n")
                other = b"\n".join([*lines[1:9], *lines[:1], *lines[11:]])
                yield bytes([stage]) + piece + BETWEEN + other

    return seeds


def _linked() -> Iterable[bytes]:
    yield from _own("links")
    upper, lower = TRITON / "square_kernel.ttgir", TRITON / "square_kernel.ptx"
    for a in _pieces(upper, lines=20, most=3):
        for b in _pieces(lower, lines=40, most=3):
            yield a + BETWEEN + b


def _words(text: str) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in text.split())


PTX_WORDS = _words(
    ".version .target sm_90a .address_size .visible .entry .func .reg .b32 .f64 .pred .param .u64 "
    "%p<5> %r<3>; ld.global.v4.b32 {%r1,%r2,%r3,%r4} st.shared [%rd1+16] bra.uni $L__BB0_2: @!%p1 "
    "ret; call.uni (retval0), mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 cp.async.cg.shared "
    "bar.sync wgmma.mma_async .loc .file inlined_at function_name .pragma .shared .align .extern "
    ".maxntid .reqntid 0f3F800000 %tid.x setp.lt.s32 selp.b32 mov.b64 brx.idx .branchtargets "
    ".section .debug_str .const .local fma.rn.f32 cvt.rn.bf16x2.f32 %laneid shfl.sync.bfly.b32 "
    "atom.global.add.f32 mul.hi.u32 div.full.f32 rem.s32 { } .tex .surfref vabsdiff4 // /* */ ::"
)
SASS_WORDS = _words(
    "/*0000*/ MOV R1 R255 RZ UR4 P0 PT UP0 c[0x0][0x28] LDG.E.128 desc[UR4][R2.64+0x10] STS.64 "
    "[R3+UR5] BRA `(.L_x_1) .L_x_1: EXIT ; @!P0 HMMA.16816.F32 IMAD.WIDE.U32 "
    "LEA.HI.X.SX32 SHFL.BFLY "
    "BSSY B0 BSYNC CALL.REL.NOINC `(k) RET.REL.NODEC BRX R2 -0x10 BAR.SYNC.DEFER_BLOCKING 0x0 "
    '.section .text.k, "ax",@progbits .headerflags @"EF_CUDA_SM90 //## File line inlined at '
    "/* 0x00000a00ff017b82 */ /* 0x000fe20000000800 */ &wr=0x0 &req={0,1} ?trans1 ?WAIT5_END_GROUP "
    "S2R SR_TID.X R2.reuse |R3| -R4 ~R5 R6.H0_H0 .byte .function HGMMA.64x64x16.F32 "
    "gsb0 gdesc[UR8] "
    "ATOMG.E.ADD.F32 REDUX.SUM LDGSTS UTMALDG ISETP.GE.U32.AND PLOP3.LUT 0x80 0x8 R2UR WARPSYNC"
)
IR_WORDS = _words(
    "module tt.func public @k( attributes {noinline = false} %0 %arg0: !tt.ptr<f32> "
    "tensor<128xi32, "
    '#blocked> #loc1 = loc("x.py":1:2) loc(#loc) loc(unknown) callsite( at fused<[ ttg.num-warps '
    "tt.load tt.store tt.dot scf.for scf.if scf.yield -> ^bb0( arith.constant dense<0> : tt.reduce "
    '({ }) "tt.reduce" ttg.local_alloc ttg.async_copy_global_to_local #ttg.blocked<{ sizePerThread '
    "define void @k( ptx_kernel !dbg !1 = !DILocation(line: scope: inlinedAt: distinct "
    "!DISubprogram( name: !{} br label phi i32 getelementptr call asm sideeffect switch ; metadata"
)
SOURCE_WORDS = _words(
    "def class async_compile.triton(' ''' \"\"\" @triton.jit import lambda yield f'{x}' # \\ "
    '__global__ __launch_bounds__( template<typename T> #define #if R"( )" /* */ // << >> '
    "extern_kernels.mm( k.run( AOT ID: ['0_inference'] kernel path: def call(args): "
    "device_str='cuda') "
    "# Topologically Sorted Source Nodes: [x] Original ATen: [aten.pow] Graph fragment: => %pow_1"
)
EVENT_WORDS = _words(
    "recording triton graph extension device_code file loaded ptxas problem process "
    "end device torch "
    "tools library graph_text triton_failed triton_said graph_failed "
    "not_loaded message messages severity tool stage kind limit required resource command log "
    "autotune autotune_failed profile "
    "profile_facts calls note "
    "name hash metadata files paths source pid rank signature constexprs specialization cache_hit "
    "blob path frame_id frame_compile_id sources error cubin ptx ptx_from why object arch flags "
    "origin stage symbols spill_store_bytes where text exit_status command mode time schema first "
    "last file configurations config times_ms winner by kernels grid block tensors shape dtype "
    "strides trace steps schedule square_kernel sm_90 nvcc inductor _Z3addPf"
) + tuple(name.encode() for name in BLOBS)
NCU_WORDS = (
    b'"ID"',
    b'"Kernel Name"',
    b'"Process ID"',
    b'"Metric Name"',
    b'"Metric Value"',
    b'"Metric Unit"',
    b'"Section Name"',
    b'"Source"',
    b'"Address"',
    b'"# Samples"',
    b"==PROF== ",
    b"==ERROR== ",
    b"nsecond",
    b"%",
    b'"1,234.5"',
    b'"1.234,5"',
    b"Duration",
    b"(128, 1, 1)",
    b"gpu__time_duration.sum",
    b"launch__registers_per_thread",
    b'""',
    b'"',
    b"\n",
)
TOOL_WORDS = _words(
    "ptxas info : Compiling entry function 'k' for 'sm_90' Function properties for "
    "bytes stack frame "
    "spill stores loads Used registers barriers cmem[0] smem Resource usage: REG:32 "
    "STACK:0 SHARED: "
    "LOCAL:0 CONSTANT[0]: TEXTURE: Function k: Fatbin elf code: ==ERROR== ==WARNING== code=sm_90a "
    "The application returned an error code (1) -gencode=arch=compute_90,code=sm_90 "
    "-arch=native _Z1kv"
)
NINJA_WORDS = (
    b"build ",
    b"rule ",
    b"command = ",
    b"$in",
    b"$out",
    b"${cflags}",
    b"$\n",
    b": ",
    b"$$",
    b"$ ",
    b" | ",
    b" || ",
    b"depfile = ",
    b"nvcc",
    b"x.cu",
    b"x.cuda.o",
    b"-gencode=arch=compute_90,code=sm_90",
    b"'",
    b"-o",
    b"include ",
    b"  ",
)
LOG_WORDS = (
    b"V1121 05:33:36.844000 408 torch/_inductor/graph.py:2552] [0/0] ",
    b"[__output_code] ",
    b"Output code:",
    b"Output code written to: /x.py",
    b"[rank3]:",
    b'{"inductor_output_code": ',
    b'"frame_id": ',
    b'"frame_compile_id": ',
    b'"dynamo_output_graph": {}',
    b"\n\t",
    b"[1/2_3] ",
)
TRACE_WORDS = _words(
    '"ph":"X" "cat":"kernel" "cat":"cpu_op" "cat":"cuda_runtime" "cat":"user_annotation" "dur":1.5 '
    '"ts":3.25 "pid":1 "tid":2 "correlation":7 "stream":7 "grid":[1,1,1] "traceEvents":[ '
    '"deviceProperties":[ "name":"cudaLaunchKernel" "name":"ProfilerStep#3" python_function ]'
)

GRAPH_WORDS = (
    *SOURCE_WORDS,
    b"# File: /x.py:3 in f, code: y = x",
    b"%pow_1 : [num_users=1] = call",
)

_L = DATA / "listing"
_PTX = (_L / "gelu_sm90.ptx", _L / "nested.ptx", DATA / "analyse" / "plr" / "atomics_sm90.ptx")
_SASS = (DATA / "analyse" / "constructs_sm90a.sass", DATA / "analyse" / "constructs_sm75.sass")
_TTIR = (_L / "gelu_sm90.ttir", TRITON / "square_kernel.ttir")
_TTGIR = (_L / "gelu_sm90.ttgir", TRITON / "square_kernel.ttgir")
_LLIR = (_L / "gelu_sm90.llir", TRITON / "square_kernel.llir")
_CUDA = (_L / "nested.cu", _L / "extension.cu", _L / "zoo.cu")
_CODE = (_L / "output_code.py",)
_CUBINS = (
    DATA / "analyse" / "plr" / "atomics_sm90_abi7.cubin",
    DATA / "analyse" / "plr" / "clock_sm80_abi8.cubin",
)
_BEST = (
    LECTURE
    / "inductor"
    / "m5"
    / ("0ae94317535181a0268efc33f9e7a643858b10c372defb1ddbd130ee21f490b0.best_config")
)

READERS: tuple[Reader, ...] = (
    Reader("ptx", _listing(Stage.PTX), _from("ptx", *_PTX), PTX_WORDS),
    Reader("sass", _listing(Stage.SASS), _from("sass", *_SASS), SASS_WORDS),
    Reader("annotated", _annotated, _from("annotated", *_SASS[:1]), SASS_WORDS, share=6),
    Reader("ttir", _listing(Stage.TTIR), _from("ttir", *_TTIR), IR_WORDS),
    Reader("ttgir", _listing(Stage.TTGIR), _from("ttgir", *_TTGIR), IR_WORDS),
    Reader("llir", _listing(Stage.LLIR), _from("llir", *_LLIR), IR_WORDS, share=6),
    Reader("python", _listing(Stage.SOURCE, "x.py"), _from("python", *_CODE), SOURCE_WORDS),
    Reader("cuda", _cuda, _from("cuda", *_CUDA), SOURCE_WORDS, share=6),
    Reader(
        "output_code",
        _listing(Stage.OUTPUT_CODE, "x.py"),
        _from("output_code", *_CODE),
        SOURCE_WORDS,
    ),
    Reader(
        "highlight",
        _highlight,
        _from("highlight", *_SASS[:1], *_TTIR[:1]),
        SASS_WORDS + IR_WORDS,
        longest=1024,
        share=3,
    ),
    Reader(
        "diff",
        _diff,
        _two("diff", (5, _PTX[0]), (6, _SASS[0]), (2, _TTIR[0]), (4, _LLIR[0])),
        PTX_WORDS + SASS_WORDS,
        share=1,
        longest=3000,
    ),
    Reader(
        "ptx-analysis",
        _machine_ptx,
        _functions("ptx-analysis", *_PTX),
        PTX_WORDS,
        share=1,
        longest=3000,
    ),
    Reader(
        "sass-analysis",
        _machine_sass,
        _functions("sass-analysis", *_SASS),
        SASS_WORDS,
        share=1,
        longest=3000,
    ),
    Reader(
        "ttgir-analysis",
        _ir(Stage.TTGIR),
        _functions("ttgir-analysis", *_TTGIR),
        IR_WORDS,
        share=1,
        longest=3000,
    ),
    Reader(
        "llir-analysis",
        _ir(Stage.LLIR),
        _functions("llir-analysis", *_LLIR),
        IR_WORDS,
        share=1,
        longest=3000,
    ),
    Reader("links", _links, _linked, PTX_WORDS + IR_WORDS, share=1, longest=4000),
    Reader(
        "cubin",
        _elf,
        _all_of("cubin", *_CUBINS),
        (b".text.", b".nv.info.", b"\x7fELF"),
        share=4,
        longest=9000,
    ),
    Reader("cubin-file", _file("x.cubin"), _all_of("cubin", *_CUBINS), share=1, longest=9000),
    Reader(
        "library-file",
        _file("x.so"),
        _all_of("library-file", *_CUBINS[:1]),
        (b".nv_fatbin\0", b"__nv_relfatbin\0", b"\x50\xed\x55\xba"),
        share=1,
        longest=9000,
    ),
    Reader("ptx-file", _file("x.ptx"), _from("ptx", *_PTX), PTX_WORDS, share=1),
    Reader("llir-file", _file("x.ll"), _from("llir", *_LLIR), IR_WORDS, share=1),
    Reader("events", _events, lambda: _own("events"), EVENT_WORDS, share=3),
    Reader("zip", _zip, lambda: _own("zip"), EVENT_WORDS, share=2, longest=9000, zipped=True),
    Reader("timings", _timings, lambda: _own("timings"), EVENT_WORDS, share=12),
    Reader("ncu-kept", _ncu_kept, lambda: _own("ncu-kept"), NCU_WORDS, share=8),
    Reader("ncu-csv", _ncu_csv, lambda: _own("ncu-csv"), NCU_WORDS, share=10),
    Reader("ncu-said", _ncu_said, lambda: _own("tools"), TOOL_WORDS, share=8),
    Reader("torch-logs", _log, lambda: _own("torch-logs"), LOG_WORDS + SOURCE_WORDS),
    Reader("torch-file", _file("x.log"), lambda: _own("torch-logs"), LOG_WORDS, share=1),
    Reader(
        "triton-cache",
        _triton_cache,
        _all_of("triton-cache", TRITON / "square_kernel.json"),
        EVENT_WORDS,
        share=1,
    ),
    Reader("inductor-cache", _inductor_cache, _from("output_code", *_CODE), SOURCE_WORDS, share=1),
    Reader(
        "best-config", _tuning("x.best_config"), _all_of("best-config", _BEST), EVENT_WORDS, share=1
    ),
    Reader(
        "autotune-json",
        _tuning("square_kernel.autotune.json"),
        lambda: _own("autotune-json"),
        EVENT_WORDS,
        share=1,
    ),
    Reader(
        "ninja",
        _ninja,
        _all_of("ninja", LECTURE / "ext" / "square_gelu" / "build.ninja"),
        NINJA_WORDS,
        share=6,
    ),
    Reader("tools", _tools, lambda: _own("tools"), TOOL_WORDS, share=12),
    Reader("trace", _trace, lambda: _own("trace"), TRACE_WORDS, share=8),
    Reader("window", _window, lambda: _own("window"), EVENT_WORDS, share=8),
    Reader(
        "config",
        _config,
        lambda: _own("config"),
        _words(
            'theme = "dark" [keys] "stage.next" zoom ["z","f11"] ctrl+x [[keys]] {} """ 1979-05-27'
        ),
        share=10,
    ),
    Reader("remembered", _remembered, lambda: _own("remembered"), EVENT_WORDS, share=8),
    Reader(
        "explain", _explain, lambda: _own("explain"), PTX_WORDS + SASS_WORDS, longest=300, share=1
    ),
    Reader(
        "selectors",
        _selectors,
        lambda: _own("selectors"),
        _words("square_kernel abab acac #1 #2 * ? [a-z] [!x] :: x.ptxview _Z3addPf add"),
        share=14,
        longest=400,
    ),
    Reader(
        "graph-text",
        _graph_text,
        _all_of("graph-text", DATA / "analyse" / "dynamo.txt"),
        GRAPH_WORDS,
        share=10,
    ),
    Reader("shown", _shown, lambda: _own("config"), (), share=6),
)
