"""The reference of SASS against NVIDIA's tables of opcodes and against every cubin at hand."""

import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.cubin import is_cubin
from inspector.parsers.line import Kind
from inspector.reader import tables
from inspector.sources.disassembly import ANNOTATED, plain_of
from inspector.system.toolchain import installed_copies
from tests.helpers.ptxview import SAMPLE
from tests.helpers.samples import said_of

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "tests" / "data"
TABLES = tomllib.loads((DATA / "analysis" / "sass_opcodes.toml").read_text())
NEWEST = "Blackwell"
ISA = tables.isa()


def _sm(name: str) -> int:
    return int(re.sub(r"\D", "", name))


def _cubins() -> Iterator[tuple[str, bytes]]:
    for path in sorted(DATA.rglob("*.cubin")):
        yield path.name, path.read_bytes()
    with zipfile.ZipFile(SAMPLE) as recording:
        for name in recording.namelist():
            if is_cubin(data := recording.read(name)):
                yield Path(name).name, data


def disassembled(data: bytes, path: Path) -> str:
    """The text of the first nvdisasm that reads this cubin; fails where none does.

    It is asked with what most tests ask, and answers once; what is more than ``-c`` says is left
    out (tests/sources/test_disassembly.py holds that against ``-c``).
    """
    path.write_bytes(data)
    tools = list(installed_copies("nvdisasm"))
    assert tools, "no nvdisasm: install nvidia-cuda-nvdisasm or triton"
    for tool in tools:
        with suppress(subprocess.CalledProcessError):
            plain = plain_of(said_of(path, tool.path, *ANNOTATED).decode())
            return said_of(path, tool.path, "-c").decode() if plain is None else plain
    pytest.fail(f"no nvdisasm reads {path.name}")


def occurring(folder: Path, step: int) -> dict[str, set[int]]:
    """Every opcode that occurs in a cubin or a saved listing, with the architectures it is of."""
    texts = [
        (name, disassembled(data, folder / name)) for name, data in islice(_cubins(), 0, None, step)
    ]
    texts += [(path.name, path.read_text()) for path in sorted(DATA.rglob("*.sass"))]
    out: dict[str, set[int]] = {}
    for name, text in texts:
        found = re.search(r"\.target\s+sm_(\d+)|EF_CUDA_SM(\d+)|sm_(\d+)", text)
        assert found, f"{name} names no architecture"
        sm = int(next(filter(None, found.groups())))
        for line in parse(Stage.SASS, text).lines:
            if line.kind is Kind.INSTRUCTION and line.opcode:
                out.setdefault(line.opcode, set()).add(sm)
    return out


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_opcode_that_occurs_is_known_with_its_qualifiers_and_architectures(
    tmp_path: Path, step: int
) -> None:
    opcodes = occurring(tmp_path, step)
    assert len(opcodes) > 150
    assert sorted(o for o in opcodes if ISA.sass(o) is None) == []
    assert {o: ISA.unknown(o) for o in opcodes if ISA.unknown(o)} == {}
    wrong: dict[str, str] = {}
    for opcode, architectures in opcodes.items():
        entry = ISA.sass(opcode)
        assert entry is not None and entry.since is not None
        last = _sm(entry.until) if entry.until else 999
        if min(architectures) < _sm(entry.since) or max(architectures) > last:
            wrong[opcode] = f"on {architectures}, known from {entry.since} to {entry.until}"
    assert wrong == {}


@pytest.mark.parametrize("architecture", TABLES)
def test_every_opcode_of_the_tables_is_there(architecture: str) -> None:
    sm = _sm(TABLES[architecture]["since"])
    names = TABLES[architecture]["opcodes"].split()
    assert len(names) > 130
    missing = []
    for name in names:
        entry = ISA.sass(name)
        if entry is None or entry.word != name:
            missing.append(name)
            continue
        assert entry.since is not None
        assert _sm(entry.since) <= sm, name
        assert entry.until is None or _sm(entry.until) >= sm, name
        assert architecture in entry.reference, name
    assert missing == []


def test_what_the_newest_table_lacks_is_gone() -> None:
    newest = set(TABLES[NEWEST]["opcodes"].split())
    older = {o for t in TABLES.values() for o in t["opcodes"].split()} - newest
    assert "HGMMA" in older
    for name in older:
        entry = ISA.sass(name)
        assert entry is not None and entry.until is not None, name
