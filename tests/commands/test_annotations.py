"""Line annotations of ``show``, as JSON and as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nightly import first_by_day
from tests.helpers.ptxview import DATA, call, printed, tool

LISTINGS = DATA.parent / "parsers"
CUBINS = sorted(LISTINGS.glob("*.cubin"))
CLASSES = {"gpr", "pred", "ugpr", "upred"}


@pytest.fixture(scope="module", params=first_by_day(CUBINS, 2), ids=lambda p: p.stem)
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


# nvdisasm refuses -plr of matmul_sm90, of ABI 7. One file shows that the figures reach
# the output; tests/analysis/flow compares liveness itself.
@pytest.mark.parametrize(
    "cubin",
    [
        pytest.param(c, id=c.stem, marks=() if c.stem == "zoo_sm90" else pytest.mark.nightly)
        for c in CUBINS
        if c.stem != "matmul_sm90"
    ],
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


@pytest.mark.parametrize(
    "path",
    [*first_by_day(sorted(LISTINGS.glob("*.ptx")), 2), *first_by_day(CUBINS)],
    ids=lambda p: p.name,
)
def test_every_instruction_is_read_out(path: Path) -> None:
    lines = shown(path, "sass" if path.suffix == ".cubin" else "ptx")["lines"]
    mute = {ln["opcode"] for ln in lines if ln["kind"] == "instruction" and not ln["sentence"]}
    assert mute == set()
    for line in lines:
        if line["kind"] == "instruction":
            assert line["definitions"].keys() == set(line["uses"]), line["text"]
