"""Line annotations of ``show``, as JSON and as text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from inspector.base.model import Stage
from inspector.listing import parse
from inspector.system import toolchain
from tests.helpers.ptxview import DATA, REPOSITORY, SQUARE, Done, call, printed, tool

LISTINGS = DATA.parent / "listing"
CUBINS = sorted(LISTINGS.glob("*.cubin"))
CLASSES = {"gpr", "pred", "ugpr", "upred"}
SPELT = """.version 8.4
.target sm_90
.address_size 64
.visible .entry one(.param .u64 from)
{
\t.reg .pred %p<2>;
\t.reg .b32 %r<6>;
\t.reg .b64 %rd<2>;
\tld.param.b64 %rd1, [from];
\tsetp.eq.b64 %p1, %rd1, 0;
\t@%p1 ld.global.v4.b32 {%r2,%r3,%r4,%r5}, [%rd1];
\tret;
}
"""


@pytest.fixture(scope="module", params=CUBINS, ids=lambda p: p.stem)
def cubin(request: pytest.FixtureRequest) -> Path:
    """Each cubin of the tests' data."""
    path: Path = request.param
    return path


def shown(path: Path, stage: str) -> Any:
    """The JSON of the first kernel of a file."""
    name = call("list", path, "--json").json["kernels"][0]["name"]
    return call("show", path, name, "--stage", stage, "--json").json


def occupied(text: str) -> dict[tuple[str, int], dict[str, int]]:
    """What ``nvdisasm -plr`` counts, by section and address."""
    out: dict[tuple[str, int], dict[str, int]] = {}
    section, heads = "", list[str]()
    for line in text.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line):
            section = found[1]
        body, bar, cells = line.partition("// |")
        if not bar:
            continue
        columns = [cell.split() for cell in cells.split("|")]
        if "GPR" in cells:
            heads = [c[0].lower() for c in columns if c and c[0].lower() in CLASSES]
        elif found := re.match(r"\s*/\*([0-9a-f]{4,})\*/", body):
            counts = {
                h: int(c[0]) if c and c[0].isdigit() else 0
                for h, c in zip(heads, columns, strict=False)
            }
            out[section, int(found[1], 16)] = counts
    return out


# nvdisasm refuses -plr of matmul_sm90: its ELF ABI is CUDA 12's.
@pytest.mark.parametrize(
    "cubin", [c for c in CUBINS if c.stem != "matmul_sm90"], ids=lambda p: p.stem
)
def test_live_registers_of_sass_are_those_of_nvdisasm(cubin: Path) -> None:
    counted = occupied(printed(tool("nvdisasm"), "-c", "-plr", cubin).decode())
    section, compared = "", 0
    for line in shown(cubin, "sass")["lines"]:
        if found := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line["text"]):
            section = found[1]
        assert (line["live"] is None) == (line["kind"] != "instruction")
        at = re.match(r"\s*/\*([0-9a-f]{4,})\*/", line["text"])
        if line["live"] is None or at is None:
            continue
        assert line["live"].keys() == CLASSES
        expected = counted.get((section, int(at[1], 16)))
        if expected is None:
            assert "NOP" in line["text"], "nvdisasm leaves the padding out, and nothing else"
            continue
        assert line["live"] == {name: expected.get(name, 0) for name in line["live"]}, line["text"]
        compared += 1
    assert compared == len(counted)


def test_figures_of_the_card_are_those_of_cuobjdump(cubin: Path) -> None:
    text = printed(tool("cuobjdump"), "-res-usage", cubin).decode()
    usage = dict(re.findall(r"Function (\S+?):\s*\n\s*(REG:.*)", text))
    functions = [f for f in shown(cubin, "sass")["functions"] if f["card"] is not None]
    assert functions
    for function in functions:
        figures = {k: int(v) for k, v in re.findall(r"(\w+):(\d+)", usage[function["kernel"]])}
        held = function["card"]
        assert (held["registers"], held["stack_bytes"]) == (figures["REG"], figures["STACK"])
        assert function["resources"]["static_shared_bytes"] == figures["SHARED"]


@pytest.mark.parametrize("path", [*sorted(LISTINGS.glob("*.ptx")), *CUBINS], ids=lambda p: p.name)
def test_every_instruction_is_read_out(path: Path) -> None:
    lines = shown(path, "sass" if path.suffix == ".cubin" else "ptx")["lines"]
    mute = {ln["opcode"] for ln in lines if ln["kind"] == "instruction" and not ln["sentence"]}
    assert mute == set()
    for line in lines:
        if line["kind"] == "instruction":
            assert line["definitions"].keys() == set(line["uses"]), line["text"]


@pytest.mark.nightly
def test_every_opcode_of_the_examples_is_explained() -> None:
    path = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
    opcodes: dict[str, set[str]] = {"ptx": set(), "sass": set()}
    for kernel in call("list", path, "--json").json["kernels"]:
        for n, variant in enumerate(kernel["variants"], 1):
            for stage in opcodes.keys() & set(variant["stages"]):
                done = call("show", path, f"{kernel['name']}#{n}", "--stage", stage)
                lines = parse(Stage(stage), done.text).lines
                opcodes[stage] |= {line.opcode for line in lines if line.opcode}
    assert len(opcodes["ptx"]) > 60 and len(opcodes["sass"]) > 90
    told = call("explain", "--json", *sorted(opcodes["ptx"] | opcodes["sass"]))
    entries = [json.loads(line) for line in told.text.splitlines()]
    assert [e["word"] for e in entries if e["summary"] is None] == []
    assert told.status == 0


def test_the_guarded_load_reads_as_it_should(tmp_path: Path) -> None:
    path = tmp_path / "one.ptx"
    path.write_text(SPELT)
    (line,) = (ln for ln in shown(path, "ptx")["lines"] if "v4" in ln["text"])
    assert re.fullmatch(
        r"if %p1( \([^()]*\))?: load 4 × 32 bits \(16 bytes a thread\) from global memory at %rd1"
        r"( \(.*\))?",
        line["sentence"],
    ), line["sentence"]
    assert line["live"] == {"b32": 4, "b64": 1, "pred": 1}
    assert line["control"] is None and line["rolled_up"] is None
    (compared,) = (ln for ln in shown(path, "ptx")["lines"] if "setp" in ln["text"])
    assert compared["sentence"].startswith("%p1 = %rd1 == 0"), "not a row of equals signs"


def test_virtual_and_allocated_registers_are_distinguished(lecture: Path) -> None:
    name = "triton_poi_fused_pow_0#1"
    ptx = call("show", lecture, name, "--json").json
    sass = call("show", lecture, name, "--stage", "sass", "--json").json
    most = max(ln["live"]["gpr"] for ln in sass["lines"] if ln["live"])
    rolled = [ln["rolled_up"] for ln in ptx["lines"] if ln["rolled_up"]]
    assert rolled and max(r["live"]["gpr"] for r in rolled) == most
    for one in rolled:
        assert one["peak"] == (one["live"]["gpr"] == most)
    for line in ptx["lines"]:
        assert line["live"] is None or not line["live"].keys() & {"gpr", "ugpr", "upred"}
    allocated = sass["functions"][0]["card"]["registers"]
    said = f"{most} of {allocated} allocated registers live"
    assert f"its SASS holds the kernel's peak: {said}" in annotated(lecture, name, "ttgir")
    assert f" the kernel's peak: {said}" in annotated(lecture, name, "sass")
    assert "virtual registers" in annotated(lecture, name, "ptx")


def annotated(path: Path, name: str, stage: str, *more: str) -> str:
    """The text of ``show -a``."""
    done = call("show", path, name, "--stage", stage, "-a", *more)
    assert done.status == 0, done.said
    return done.text


@pytest.mark.parametrize("width", ["80", "120", "200"])
def test_no_line_of_the_listing_is_cut_at_any_width(
    lecture: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    name = "triton_poi_fused_pow_0#1"
    text = annotated(lecture, name, "ptx")
    value = call("show", lecture, name, "--json").json
    (own,) = value["functions"]
    for line in value["lines"][own["first"] - 1 : own["last"]]:
        assert line["text"].expandtabs(8).strip() in text.expandtabs(8), line["text"]
        if line["sentence"] and not line["text"].lstrip().startswith((".loc", "$L__")):
            assert line["sentence"] in text


def test_occupancy_that_is_not_known_says_why() -> None:
    text = annotated(LISTINGS / "nested.cubin", "*calls*", "sass")
    assert "threads of a block and dynamic shared memory (without a recorded" in text
    value = shown(LISTINGS / "nested.cubin", "sass")
    held = next(f["card"] for f in value["functions"] if f["card"])
    assert held["occupancy"] is None and "dynamic shared memory" in held["occupancy_unknown"]


def test_threads_of_a_block_are_known_from_the_ptx() -> None:
    held = shown(next(SQUARE.glob("*.ptx")), "ptx")["functions"][0]["card"]
    (said,) = re.findall(r"\.reqntid (\d+)", next(SQUARE.glob("*.ptx")).read_text())
    assert held["threads"] == int(said)


def test_another_device_takes_nothing_from_what_the_cubin_says(lecture: Path) -> None:
    """Since sm_90 a cubin counts the driver's own shared memory, on any device."""
    cards = [
        call("show", lecture, "matmul_kernel", "--device", arch, "--json").json["functions"][0][
            "card"
        ]
        for arch in ("sm_80", "sm_90")
    ]
    assert [c["static_shared_bytes"] for c in cards] == [0, 0]
    assert [c["device"]["arch"] for c in cards] == ["sm_80", "sm_90"]


def refused(done: Done) -> str:
    """What a usage error says."""
    assert done.status == 2 and not done.out
    return done.said


def test_what_cannot_be_annotated_is_refused(lecture: Path) -> None:
    said = refused(call("show", lecture, "matmul_kernel", "-a", "--device", "sm_81"))
    assert "sm_81" in said and "sm_80" in said and "sm_120" in said
    assert "--beside" in refused(call("show", lecture, "matmul_kernel", "-a", "--beside", "sass"))
    assert "triton_poi" in refused(call("show", lecture, "0/0", "-a"))


def test_without_the_vendors_tools_ptx_is_annotated_and_the_card_says_what_is_missing(
    lecture: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "places", lambda: iter(()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    toolchain.find.cache_clear()
    try:
        text = annotated(lecture, "matmul_kernel", "ptx")
        value = call("show", lecture, "matmul_kernel", "--json").json
        missing = call("show", lecture, "matmul_kernel", "--stage", "sass", "-a")
    finally:
        toolchain.find.cache_clear()
    assert "nvdisasm was not found" in text and "pip install" in text
    assert "from global memory at" in text
    assert value["functions"][0]["card"]["registers"] is None
    assert missing.status == 3


@pytest.mark.parametrize(
    "text",
    ["", "\n", "{", ".visible .entry f(", "\x00\xff" * 9, ".func f\n{\n@%p bra;\n", SPELT[:200]],
)
def test_damaged_listings_are_annotated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.ptx"
    path.write_bytes(text.encode("latin-1"))
    listed = call("list", path, "--json")
    if listed.status == 0 and listed.json["kernels"]:
        assert call("show", path, "-a").status == 0
        lines = call("show", path, "--json").json["lines"]
        assert "\n".join(ln["text"] for ln in lines).encode("utf-8", "surrogateescape") == (
            path.read_bytes()
        )
    else:
        assert listed.status in (0, 4)
