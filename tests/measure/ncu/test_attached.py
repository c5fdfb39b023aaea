"""Launches of a report and variants of a recording: which belongs to which, where samples go."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.analysis.line_annotations import Samples, total
from inspector.base.model import Stage, Variant
from inspector.measure.ncu import report as files
from inspector.measure.ncu.attach import (
    Candidate,
    MatchedLaunch,
    ProfiledRecording,
    match_launches,
    place_samples,
)
from inspector.measure.ncu.report import MeasuredInstruction, NcuLaunch, Report, read
from inspector.parsers import parse
from inspector.parsers.line import Function
from inspector.reader.reader import Reader
from inspector.recording.layout import NCU_REPORTS, record_file, user_derived_cache
from inspector.sources.opening import open_path
from tests.helpers.ncu_data import PAGES, blocks, text, write
from tests.helpers.ptxview import SAMPLE

# The variants of the recording whose machine code launches 0, 1 and 3 have; 2 and 4 are not in it.
OURS = {0: "780c582c", 1: "a4fe74f3", 3: "f8f8a0a4"}


@pytest.fixture(scope="module")
def report() -> Report:
    return read("\n".join(map(text, PAGES)), "x.csv")


@pytest.fixture(scope="module")
def profiled(report: Report) -> ProfiledRecording:
    return ProfiledRecording(open_path(SAMPLE), user_derived_cache(), None, report)


@pytest.fixture(scope="module")
def reader(profiled: ProfiledRecording) -> Reader:
    return profiled.reader


def variant(reader: Reader, ident: str) -> Variant:
    return next(v for _, v in reader.recording.variants() if v.id == ident)


def found(profiled: ProfiledRecording) -> dict[int, str | None]:
    ids = {(v.hash, v.symbol): v.id for _, v in profiled.reader.recording.variants()}
    return {a.launch.number: a.key and ids[a.key] for a in profiled.matched_launches()}


def test_launches_find_the_variant_that_has_their_machine_code(profiled: ProfiledRecording) -> None:
    assert found(profiled) == {**dict.fromkeys(range(5)), **OURS}
    whys = {a.launch.number: a.why for a in profiled.matched_launches() if a.key is None}
    assert "16 registers" in whys[2] and "30 registers" in whys[4]


def test_without_machine_code_registers_block_and_grid_decide(report: Report) -> None:
    bare = Report(tuple(replace(one, code=()) for one in report.launches))
    profiled = ProfiledRecording(open_path(SAMPLE), user_derived_cache(), None, bare)
    assert found(profiled) == {**dict.fromkeys(range(5)), **OURS}
    measured = profiled.measured(variant(profiled.reader, OURS[1]))
    assert measured is not None and not measured.samples
    assert "no machine code" in measured.unplaced


def test_samples_are_at_their_instructions(reader: Reader) -> None:
    for number, ident in OURS.items():
        of = variant(reader, ident)
        listing, samples = (
            reader.stages.listing(of, Stage.SASS),
            reader.annotations.samples(of, Stage.SASS),
        )
        table = blocks()[number]
        base = int(table[0]["Address"], 16)
        by_address = {int(r["Address"], 16) - base: r for r in table}
        assert len(samples) == len(table)
        for n, held in samples.items():
            line = listing.lines[n - 1]
            assert line.address is not None and line.opcode is not None
            row = by_address[line.address]
            assert line.opcode in row["Source"]
            assert held.all == int(row["# Samples"])


@pytest.mark.parametrize("stage", [Stage.PTX, Stage.SOURCE])
def test_lines_above_have_the_samples_of_their_machine_code(reader: Reader, stage: Stage) -> None:
    of = variant(reader, OURS[3])
    below, links = (
        reader.annotations.samples(of, Stage.SASS),
        reader.stages.links(of, stage, Stage.SASS),
    )
    rolled = reader.annotations.samples(of, stage)
    assert rolled
    for n, held in rolled.items():
        assert held == total(below[m] for m in set(links[n]) if m in below)
    annotations = reader.annotations.annotate(of, stage)
    assert annotations.sampled == total(below.values()).all == 3704
    hot = max(rolled, key=lambda n: rolled[n].all)
    assert hot in annotations.hottest
    assert annotations.share(hot) == 100 * rolled[hot].all / 3704
    if stage is Stage.SOURCE:
        assert "tl.store" in reader.stages.listing(of, stage).lines[hot - 1].text


def test_rules_are_hints_and_figures_stand_on_the_card(reader: Reader) -> None:
    of = variant(reader, OURS[1])
    rules = [f for f in reader.facts.findings(of) if f.rule.startswith("ncu:")]
    assert rules[0].rule == "ncu:CPIStall" and "55.89 %" in rules[0].text
    assert "by ncu" in rules[0].text
    assert len(rules) == 15
    assert {f.severity for f in rules} == {"hint", "info", "warn"}
    (said,) = reader.facts.card(of).measured
    for part in ("4.83 µs", "10.7 % of compute", "44.1 % of memory", "52.1 of 100 %", "354 sam"):
        assert part in said
    unmeasured = variant(reader, "9c81a042")
    assert reader.facts.card(unmeasured).measured == ()
    assert not [f for f in reader.facts.findings(unmeasured) if f.rule.startswith("ncu:")]


def test_code_that_differs_has_no_samples_and_says_where(report: Report, reader: Reader) -> None:
    of = variant(reader, OURS[0])
    listing, function = (
        reader.stages.listing(of, Stage.SASS),
        reader.stages.function(of, Stage.SASS),
    )
    assert function is not None
    one = report.launches[0]
    assert isinstance(place_samples(one, listing, function), dict)
    for at, (old, new) in ((6, ("CS2R R6", "CS2R R5")), (44, ("7a2ac0", "7a2ab0"))):
        hit = [i for i, c in enumerate(one.code) if old in c.text]
        code = [
            replace(c, text=c.text.replace(old, new)) if i == hit[0] else c
            for i, c in enumerate(one.code)
        ]
        assert hit[0] == at
        said = place_samples(replace(one, code=tuple(code)), listing, function)
        assert isinstance(said, str) and f"at {at * 16:#x}" in said
    fewer = place_samples(replace(one, code=one.code[:20]), listing, function)
    assert isinstance(fewer, str) and "20 instructions" in fewer
    # The padding may be cut.
    assert isinstance(place_samples(replace(one, code=one.code[:45]), listing, function), dict)
    unsampled = replace(one, code=tuple(replace(c, samples=None) for c in one.code))
    assert place_samples(unsampled, listing, function) == "the report was made without sampling"


SASS = """\t\tFunction : f
        /*0000*/                   MOV R20, 32@lo((f + .L_x_1@srel)) ;
        /*0010*/                   CALL.REL.NOINC `($f$helper) ;
.L_x_1:
        /*0020*/                   EXIT ;
$f$helper:
        /*0030*/                   RET.REL.NODEC R20 `(f) ;
        /*0040*/                   NOP ;
"""


def test_labels_and_what_the_linker_fills_in_are_compared_by_address() -> None:
    listing = parse(Stage.SASS, SASS)
    function = Function("f", 1, len(listing.lines))
    base = 0x7F0000001000
    texts = ("MOV R20, 0x20", f"CALL.REL.NOINC {base + 0x30:#x}", "EXIT", "RET.REL.NODEC R20 `(f)")
    code = tuple(MeasuredInstruction(16 * n, t, Samples(1, 1)) for n, t in enumerate(texts))
    one = NcuLaunch(0, "f", "f", base=base, code=code)
    held = place_samples(one, listing, function)
    assert isinstance(held, dict) and sorted(held) == [2, 3, 5, 7]
    wrong = replace(code[1], text=f"CALL.REL.NOINC {base + 0x20:#x}")
    assert isinstance(
        place_samples(replace(one, code=(code[0], wrong, *code[2:])), listing, function), str
    )


NAMES = frozenset({"f", "f(int)"})


def launch(**more: object) -> NcuLaunch:
    return replace(
        NcuLaunch(0, "f", "f(int)", block=(128, 1, 1), grid=(4, 1, 1), registers=8),
        **more,
    )


def one(candidates: list[Candidate], **more: object) -> MatchedLaunch:
    return match_launches([launch(**more)], candidates)[0]


def test_what_fits_two_alike_is_of_neither() -> None:
    a, b = Candidate(("a", "f"), NAMES, 8), Candidate(("b", "f"), NAMES, 8)
    said = one([a, b])
    assert said.key is None and "2 variants" in said.why
    assert one([a, replace(b, registers=9)]).key == a.key
    assert one([a, replace(b, blocks=frozenset({(256, 1, 1)}))]).key == a.key
    assert one([a, replace(b, grids=frozenset({(4, 1, 1)}))]).key == b.key
    assert one([replace(a, registers=9), replace(b, registers=9)]).key is None
    assert one([replace(a, blocks=frozenset({(256, 1, 1)}))]).key is None
    assert one([replace(a, names=frozenset({"g"}))]).why == "no kernel here is called f"
    # What the report does not say rules nothing out.
    assert one([a], registers=None, block=None, grid=None).key == a.key
    assert one([replace(a, registers=None)]).key == a.key


def test_a_launch_has_sixteen_registers_where_the_code_needs_fewer() -> None:
    block, grid = frozenset({(128, 1, 1)}), frozenset({(4, 1, 1)})
    few = Candidate(("a", "f"), NAMES, 12, block, grid)
    many = Candidate(("b", "f"), NAMES, 22, block, grid)
    assert one([few, many], registers=16).key == few.key
    assert one([many], registers=16).key is None
    assert one([few], registers=15).key is None
    # Another's launch: nothing but the number speaks for it, and that is everybody's.
    assert one([few], registers=16, grid=(5, 1, 1)).key is None


def test_a_report_beside_a_recording_is_attached(recording: Path) -> None:
    assert files.of_recording(recording) == Report(())
    (details,) = write(recording.parent / "pages", "details")
    shutil.copy(details, recording.with_name("lecture.ptxview.ncu.csv"))
    assert len(files.of_recording(recording).launches) == 5


def test_kept_with_a_recording(recording: Path) -> None:
    files.store(recording, text("details"), ["python", "x.py"])
    files.store(recording, text("source"), ["python", "x.py"])
    assert record_file(recording, NCU_REPORTS).name == "lecture.ptxview.ncu.jsonl"
    assert len(files.of_recording(recording).launches) == 10
    (named,) = write(recording.parent / "pages", "raw")
    assert len(files.of_recording(recording, [named]).launches) == 5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.with_name(f"{p.name}.ncu.csv").write_text('"ID","Kernel'),
        lambda p: record_file(p, NCU_REPORTS).write_text('{"schema": 9, "csv": "x"}\n'),
    ],
)
def test_a_damaged_one_that_nobody_named_costs_itself_alone(
    recording: Path, spoil: Callable[[Path], int]
) -> None:
    spoil(recording)
    report = files.of_recording(recording)
    assert report.launches == () and len(report.problems) == 1
