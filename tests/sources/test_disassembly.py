"""One call of nvdisasm for a cubin; what -c prints is read from it, and proved equal."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from inspector.base.errors import Unreadable
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.cubin import read_sections
from inspector.recording.layout import DerivedCache
from inspector.sources import disassembly
from inspector.sources.disassembly import disassemble, plain_of
from inspector.system.process import Finished
from inspector.system.toolchain import installed_copies
from tests.helpers.ptxview import printed
from tests.helpers.samples import remembered

ROOT = Path(__file__).parent.parent / "data"
CUBINS = sorted(ROOT.rglob("*.cubin"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every call of the tool, by its options."""
    out: list[list[str]] = []

    def run(argv: Sequence[str | Path]) -> Finished:
        out.append([str(a) for a in argv[1:-1]])
        return remembered(argv)

    monkeypatch.setattr(disassembly, "run_tool", run)
    return out


@pytest.mark.parametrize(
    "cubin",
    [
        pytest.param(p, marks=() if n % 12 == 0 else pytest.mark.nightly, id=p.name)
        for n, p in enumerate(CUBINS)
    ],
)
def test_one_call_gives_both_texts(cubin: Path, tmp_path: Path, calls: list[list[str]]) -> None:
    cache = DerivedCache(tmp_path)
    plain, annotated, _ = disassemble(cubin.read_bytes(), cache)
    assert calls == [["-c", "-gi", "-gp", "-hex"]] and annotated is not None
    tool = next(installed_copies("nvdisasm"))
    assert plain == printed(tool.path, "-c", cubin).decode("utf-8", "surrogateescape")
    assert disassemble(cubin.read_bytes(), DerivedCache(tmp_path))[0] == plain
    assert len(calls) == 1


def test_what_no_tool_reads_is_said_and_not_asked_again(
    tmp_path: Path, calls: list[list[str]]
) -> None:
    cache = DerivedCache(tmp_path)
    damaged = CUBINS[0].read_bytes()[:2000]
    with pytest.raises(Unreadable, match="nvdisasm cannot read"):
        disassemble(damaged, cache)
    before = len(calls)
    with pytest.raises(Unreadable):
        disassemble(damaged, cache)
    assert len(calls) == before


def test_what_nvdisasm_refuses_is_printed_by_cuobjdump(tmp_path: Path) -> None:
    cubin = bytearray((ROOT / "parsers" / "gelu_sm90.cubin").read_bytes())
    whole = parse(Stage.SASS, disassemble(bytes(cubin), DerivedCache(tmp_path))[0])
    section = next(s for s in read_sections(bytes(cubin)) if s.name == ".nv.info")
    struct.pack_into("<I", cubin, section.header.offset + 4, 999)  # the symbol of the first entry
    plain, annotated, command = disassemble(bytes(cubin), DerivedCache(tmp_path))
    assert annotated is None
    assert re.fullmatch(r"cuobjdump [\d.]+ -sass", command)
    listing = parse(Stage.SASS, plain)
    opcodes = [line.opcode for line in listing.lines if line.opcode]
    assert opcodes == [line.opcode for line in whole.lines if line.opcode]
    assert [f.name for f in listing.functions] == [f.name for f in whole.functions]
    assert all(line.source is None and line.ptx_line is None for line in listing.lines)


def test_a_text_of_another_shape_is_not_guessed() -> None:
    assert plain_of("\t.section .text.k\n  /*0000*/  MOV R1, R2 ;\n") is None
    # 64-bit encodings, before sm_70: one word a line.
    assert plain_of("  /*0008*/  MOV R1, R2 ;  /* 0x4c98078000870001 */\n") is None
    good = (
        'k:\n\t//## File "a", line 3\n        /*0000*/  MOV R1, R2 ;  '
        "/* 0x00000a00ff017b82 */\n                       /* 0x000fe20000000800 */\n.L_x_1:\n"
    )
    assert plain_of(good) == "k:\n        /*0000*/  MOV R1, R2 ;\n.L_x_1:\n"
