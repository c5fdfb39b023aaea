"""Every reader of what others wrote: what it is given, what it promises, what it begins with.

A reader takes bytes and raises what it should not: an ``AssertionError`` where something was lost,
any other exception where a sentence was owed. What it may raise is ``PtxviewError``.

No vendor's tool is started: what they print has readers here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.escapes import harmless as draws_itself
from inspector.base.model import Recording, Stage, StageFile
from inspector.base.names import base_name
from inspector.commands.explain import meaning
from inspector.diff.listings import diff_listings
from inspector.diff.matching import rows
from inspector.measure.ncu import report
from inspector.measure.ncu.report import text_of
from inspector.measure.profile.read import profiles
from inspector.measure.profile.trace import Window, stacks, summarise
from inspector.measure.time import results
from inspector.parsers import parse
from inspector.parsers.cubin import debug_ptx, kernel_parameters, read_cubin
from inspector.parsers.line import Listing
from inspector.parsers.output_code import graph_lines, parse_code
from inspector.reader import query as selecting
from inspector.reader import tables as knowledge
from inspector.reader.reader import Reader as RecordingReader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import NCU_REPORTS, BytesContent, DerivedCache, stored_records
from inspector.recording.resources import from_ptxas, from_res_usage, max_threads
from inspector.render import jsons, kernel_list, tables
from inspector.render.recording_rows import recording_document
from inspector.render.words import as_json
from inspector.sources import traces
from inspector.sources.builds import architectures, harmless, lineinfo_command, parse_ninja
from inspector.sources.disassembly import plain_of
from inspector.sources.opening import open_path
from inspector.system import printing
from inspector.tui.main.settings import Memory, read_config
from tests.helpers.ptxview import refuse, saved

DATA = Path(__file__).resolve().parent.parent / "data"
SEEDS = DATA / "fuzz"
LECTURE = DATA / "core" / "lecture"
TRITON = LECTURE / "triton" / "QGNHRXZLHGC2YJ4RCQ27CD3XUW3TPV3OLG4XBHLEQZCPY2R2NZDA"
BETWEEN = b"\n=====\n"
"""Stands between the two halves of an input that is two."""


@dataclass(frozen=True)
class Reader:
    """``read`` takes an input and a new folder to put it into.

    ``words`` name lists of the format's words. It begins with its corpus, and with stretches of
    ``lines`` lines of ``files``, or whole files where that is 0. ``share``: how many inputs it gets
    beside others.
    """

    name: str
    read: Callable[[bytes, Path], None]
    words: str
    files: tuple[Path, ...] = ()
    lines: int = 24
    share: int = 4
    longest: int = 4096
    zipped: bool = False
    more: Callable[[], Iterable[bytes]] = tuple

    def seeds(self) -> Iterable[bytes]:
        """What it begins with."""
        folder = SEEDS / self.name
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            yield path.read_bytes()
        for file in self.files:
            yield from pieces(file, self.lines) if self.lines else [file.read_bytes()]
        yield from self.more()

    def known_words(self) -> list[bytes]:
        """The words of the format."""
        lists = (SEEDS / "words" / name for name in self.words.split())
        return [word for path in lists for word in path.read_bytes().split(b"\n") if word]


def pieces(file: Path, lines: int, most: int = 12) -> list[bytes]:
    """Stretches of a specimen, from all over it."""
    held = file.read_bytes().split(b"\n")
    step = max(lines, len(held) // most)
    return [b"\n".join(held[at : at + lines]) for at in range(0, len(held), step)]


def text_of_bytes(data: bytes) -> str:
    """Text as every reader of files makes it."""
    return data.decode("utf-8", "surrogateescape")


def _whole(listing: Listing, text: str) -> None:
    assert "\n".join(line.text for line in listing.lines) == text, "a line was lost"
    for function in listing.functions:
        assert 1 <= function.first <= function.last <= len(listing.lines), function


def _listing(stage: Stage, path: str | None = None) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        text = text_of_bytes(data)
        _whole(parse(stage, text, path=path), text)

    return read


PLAIN = "\t.section\t.text.k,\n        /*0000*/   MOV R1, R2 ;\n"


def _annotated(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    _whole(parse(Stage.SASS, PLAIN, annotated=text), PLAIN)
    _whole(parse(Stage.SASS, text, annotated=text), text)
    plain = plain_of(text)
    if plain is not None:
        _whole(parse(Stage.SASS, plain, annotated=text), plain)


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


def _assembled(*events: dict[str, Any]) -> Recording:
    held = Assembly(lambda value: value if isinstance(value, BytesContent) else None)
    return held.recording("x", list(events))


def _of_file(stage: Stage, data: bytes) -> Recording:
    text = text_of_bytes(data)
    symbols = [f.name for f in parse(stage, text).functions] or ["k"]
    path, blob = f"x.{stage.value}", BytesContent(data)
    event = {"event": "file", "stage": stage.value, "path": path, "blob": blob}
    return _assembled({**event, "symbols": symbols[:3]})


def _analyse(recording: Recording, stage: Stage, folder: Path, device: str | None = None) -> None:
    reader = RecordingReader(recording, DerivedCache(folder / "derived"), device)
    for _, variant in recording.variants():
        try:
            reader.facts.card(variant)
            for finding in reader.facts.findings(variant):
                assert finding.text
            annotations = reader.annotations.annotate(variant, stage, whole_file=True)
            for line in reader.stages.listing(variant, stage).lines:
                annotations.at(line.n)
                annotations.words(line.n)
                annotations.registers(line.n)
                if stage in (Stage.PTX, Stage.SASS):
                    reader.annotations.explain(variant, stage, line.n)
            reader.facts.lacking(variant)
        except PtxviewError:
            continue


def _machine_ptx(data: bytes, folder: Path) -> None:
    max_threads(text_of_bytes(data))
    _analyse(_of_file(Stage.PTX, data), Stage.PTX, folder, "sm_90")


def _machine_sass(data: bytes, folder: Path) -> None:
    recording = _of_file(Stage.PTX, b".visible .entry k()\n{\nret;\n}\n")
    kernel = recording.kernels[0]
    names = [f.name for f in parse(Stage.SASS, text_of_bytes(data)).functions][:2] or ["k"]
    stages = {Stage.SASS: StageFile(BytesContent(data), text_from="a report of ncu")}
    made = tuple(replace(kernel.variants[0], symbol=name, stages=stages) for name in names)
    recording = replace(recording, kernels=(replace(kernel, variants=made),))
    _analyse(recording, Stage.SASS, folder, "sm_90")


def _ir(stage: Stage) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        _analyse(_of_file(stage, data), stage, folder, "sm_90")

    return read


def _links(data: bytes, folder: Path) -> None:
    """Two stages of one kernel, each line of both linked with the other's."""
    upper, _, lower = data.partition(BETWEEN)
    files = {"ttgir": BytesContent(upper), "ptx": BytesContent(lower)}
    recording = _assembled({"event": "triton", "name": "k", "hash": "ab", "files": files})
    reader = RecordingReader(recording, DerivedCache(folder / "derived"))
    for _, variant in recording.variants():
        with contextlib.suppress(PtxviewError):
            down = reader.stages.links(variant, Stage.TTGIR, Stage.PTX)
            up = reader.stages.links(variant, Stage.PTX, Stage.TTGIR)
            pairs = {(a, b) for a, each in down.items() for b in each}
            assert pairs == {(a, b) for b, each in up.items() for a in each}
            reader.facts.card(variant)
            reader.facts.findings(variant)


def _look_at(recording: Recording) -> None:
    """What every view does with a recording: JSON of it, tables of it, its contents."""
    text = jsons.dumps(recording_document(recording, lambda variant: variant.recorded_resources))
    json.loads(text, parse_constant=refuse)
    out, written = printing.page(80, colours=False)
    out.print(kernel_list.kernels(recording, lambda variant: variant.recorded_resources, 80))
    tables.graphs(recording, out)
    tables.problems(recording, out)
    printed = written()
    printed.encode("utf-8")
    assert all(c == "\n" or draws_itself(c) for c in printed), "a terminal would obey it"
    contents = [h for _, v in recording.variants() for h in v.stages.values() if not h.costly]
    for held in contents[:20]:
        with contextlib.suppress(PtxviewError):
            held.content.read()


def _elf(data: bytes, _: Path) -> None:
    known = read_cubin(data)
    debug_ptx(data)
    for name in known.entries[:3] if known else ():
        kernel_parameters(data, name)


def _file(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = saved(folder / name, data)
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
    path = saved(folder / "x.ptxview", data)
    _look_at(open_path(path))
    for record in stored_records(path):
        results.read(record)
    report.of_recording(path)


def _empty_recording(folder: Path) -> Path:
    (folder / "events.jsonl").write_bytes(b'{"event":"recording","command":["x"]}\n')
    return folder


def _timings(data: bytes, folder: Path) -> None:
    (_empty_recording(folder) / "timings.jsonl").write_bytes(data)
    for record in stored_records(folder):
        session = results.read(record)
        if session is not None:
            again_read = results.read(json.loads(jsons.dumps(results.stored_session(session))))
            assert again_read is not None


def _ncu_kept(data: bytes, folder: Path) -> None:
    (_empty_recording(folder) / NCU_REPORTS).write_bytes(data)
    report.of_recording(folder)


def _ncu_csv(data: bytes, folder: Path) -> None:
    made = report.read(text_of_bytes(data), "x.csv")
    for launch in made.launches:
        text_of(launch, "k")
    _look_at(report.report_recording(folder / "x.csv", made))


def _log(data: bytes, folder: Path) -> None:
    text = text_of_bytes(data)
    traces.is_torch_trace(text)
    (folder / "trace.log").write_bytes(data)
    found = [*traces.from_log(text), *traces.from_torch_trace(folder / "trace.log")]
    _look_at(Assembly(lambda v: v if hasattr(v, "read") else None).recording("x", found))


def _triton_cache(data: bytes, folder: Path) -> None:
    entry = folder / "OK4EUQE2MU5PWGVYT7FNFJ6JAOY4MHAHUVOPB6PJ2BFX3BWLZPFQ"
    saved(entry / "square_kernel.json", data)
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
    for kernel in parse_code(text).kernels:
        assert kernel.line is None or 1 <= kernel.line <= lines


def _tuning(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        entry = folder / "m5"
        saved(entry / name, data)
        (entry / "square_kernel.json").write_bytes(b'{"name":"square_kernel","hash":"ab"}')
        (entry / "square_kernel.ptx").write_bytes(b".version 8.4\n.visible .entry square_kernel()")
        _look_at(open_path(folder))

    return read


def _ninja(data: bytes, folder: Path) -> None:
    for build in parse_ninja(text_of_bytes(data)):
        architectures(build.argv)
        source = Path("/nowhere/x.cu")
        harmless(build.argv, Path("/usr/bin/nvcc"), source)
        lineinfo_command(build.argv, str(source), "90", folder)


def _tools(data: bytes, _: Path) -> None:
    text = text_of_bytes(data)
    for found in (from_res_usage(text), from_ptxas(text)):
        for figures in found.values():
            json.loads(jsons.dumps(figures.registers))
    base_name(text)
    architectures(text.split())
    report.complaints(text)
    report.status_of(text, 1)


def _trace(data: bytes, _: Path) -> None:
    for gpu in (True, False):
        with contextlib.suppress(PtxviewError):
            summarise(data, Window(1, "ptxview", "", stacks=True, gpu=gpu))
        with contextlib.suppress(PtxviewError):
            stacks(data, gpu)


def _config(data: bytes, folder: Path) -> None:
    path = saved(folder / "config.toml", data)
    config = read_config(path)
    assert all(c == "\n" or draws_itself(c) for c in config.warning), "a terminal would obey it"


def _remembered(data: bytes, folder: Path) -> None:
    path = saved(folder / "remembered.json", data)
    memory = Memory(path)
    view = memory.view("/x")
    memory.keep("/x", view)
    assert Memory(path).view("/x") == view, "what was remembered is another"


def _explain(data: bytes, _: Path) -> None:
    jsons.dumps(as_json(meaning(knowledge.isa(), text_of_bytes(data))))


def _recording_to_select() -> Recording:
    files = {"ptx": BytesContent((TRITON / "square_kernel.ptx").read_bytes())}
    names = {"ab": "square_kernel", "ac": "square_kernel", "ad": "_Z3addPf", "0e": "[x]*?#1"}
    return _assembled(
        *(
            {"event": "triton", "name": name, "hash": 32 * code, "files": files}
            for code, name in names.items()
        )
    )


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
    graph_lines(text_of_bytes(data))


# -- what each begins with ----------------------------------------------------------------------


def _two() -> Iterable[bytes]:
    """A stage's number, a stretch of a specimen, and the same with its lines in another order."""
    for stage, file in ((5, _PTX[0]), (6, _SASS[0]), (2, _TTIR[0]), (4, _LLIR[0])):
        for piece in pieces(file, 20, most=3):
            lines = piece.split(b"\n")
            other = b"\n".join([*lines[1:9], *lines[:1], *lines[11:]])
            yield bytes([stage]) + piece + BETWEEN + other


def _linked() -> Iterable[bytes]:
    for a in pieces(TRITON / "square_kernel.ttgir", 20, most=3):
        for b in pieces(TRITON / "square_kernel.ptx", 40, most=3):
            yield a + BETWEEN + b


_L = DATA / "parsers"
_PTX = (_L / "gelu_sm90.ptx", _L / "nested.ptx", DATA / "analysis" / "plr" / "atomics_sm90.ptx")
_SASS = (DATA / "analysis" / "constructs_sm90a.sass", DATA / "analysis" / "constructs_sm75.sass")
_TTIR = (_L / "gelu_sm90.ttir", TRITON / "square_kernel.ttir")
_TTGIR = (_L / "gelu_sm90.ttgir", TRITON / "square_kernel.ttgir")
_LLIR = (_L / "gelu_sm90.llir", TRITON / "square_kernel.llir")
_CUDA = (_L / "nested.cu", _L / "extension.cu", _L / "zoo.cu")
_CODE = DATA / "analysis" / "forward.py"
_PLR = DATA / "analysis" / "plr"
_CUBINS = (_PLR / "atomics_sm90_abi7.cubin", _PLR / "clock_sm80_abi8.cubin")
_BEST = next((LECTURE / "inductor" / "m5").glob("*.best_config"))
_NINJA = LECTURE / "ext" / "square_gelu" / "build.ninja"
_DYNAMO = DATA / "analysis" / "dynamo.txt"
_META = TRITON / "square_kernel.json"


READERS: tuple[Reader, ...] = (
    Reader("ptx", _listing(Stage.PTX), "ptx", _PTX),
    Reader("sass", _listing(Stage.SASS), "sass", _SASS),
    Reader("ttgir", _listing(Stage.TTGIR), "ir", _TTIR + _TTGIR),
    Reader("llir", _listing(Stage.LLIR), "ir", _LLIR, share=6),
    Reader("output_code", _listing(Stage.OUTPUT_CODE, "x.py"), "source", (_CODE,)),
    Reader("annotated", _annotated, "sass", _SASS[:1], share=6),
    Reader("cuda", _listing(Stage.SOURCE, "x.cu"), "source", _CUDA, share=6),
    Reader("diff", _diff, "ptx sass", share=1, longest=3000, more=_two),
    Reader("links", _links, "ptx ir", share=1, more=_linked),
    Reader("ptx-analysis", _machine_ptx, "ptx", _PTX, 60, 1, 3000),
    Reader("sass-analysis", _machine_sass, "sass", _SASS, 60, 1, 3000),
    Reader("ttgir-analysis", _ir(Stage.TTGIR), "ir", _TTGIR, 60, 1, 3000),
    Reader("llir-analysis", _ir(Stage.LLIR), "ir", _LLIR, 60, 1, 3000),
    Reader("cubin", _elf, "elf", _CUBINS, 0, 4, 9000),
    Reader("cubin-file", _file("x.cubin"), "elf", _CUBINS, 0, 1, 9000),
    Reader("library-file", _file("x.so"), "elf", _CUBINS[:1], 0, 1, 9000),
    Reader("ptx-file", _file("x.ptx"), "ptx", _PTX[1:2], 0, 1),
    Reader("torch-file", _file("x.log"), "log", share=1),
    Reader("zip", _zip, "event", share=2, longest=9000, zipped=True),
    Reader("events", _events, "event", share=3),
    Reader("timings", _timings, "event", share=12),
    Reader("ncu-kept", _ncu_kept, "ncu", share=8),
    Reader("ncu-csv", _ncu_csv, "ncu", share=10),
    Reader("tools", _tools, "tool", share=12),
    Reader("torch-logs", _log, "log source"),
    Reader("triton-cache", _triton_cache, "event", (_META,), 0, 1),
    Reader("inductor-cache", _inductor_cache, "source", (_CODE,), share=1),
    Reader("best-config", _tuning("x.best_config"), "event", (_BEST,), 0, 1),
    Reader("autotune-json", _tuning("square_kernel.autotune.json"), "event", share=1),
    Reader("ninja", _ninja, "ninja", (_NINJA,), 0, 6),
    Reader("trace", _trace, "trace", share=8),
    Reader("config", _config, "config", share=10),
    Reader("remembered", _remembered, "event", share=8),
    Reader("explain", _explain, "ptx sass", share=1, longest=300),
    Reader("selectors", _selectors, "selectors", share=14, longest=400),
    Reader("graph-text", _graph_text, "graph source", (_DYNAMO,), 0, 10),
)
