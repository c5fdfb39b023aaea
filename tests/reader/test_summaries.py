"""Figures of many variants at once: as of each alone, by few calls, and kept by content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inspector.capture.disassembly import disassemble_together
from inspector.capture.opening import open_path
from inspector.model import Recording, Stage, Variant
from inspector.reader import summaries
from inspector.reader.reader import Reader
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.system.toolchain import find
from tests.helpers.many import many
from tests.helpers.ptxview import call
from tests.helpers.samples import said_of

DATA = Path(__file__).parents[1] / "data"
CUBINS = sorted((DATA / "listing").glob("*.cubin"))


def test_a_damaged_cubin_costs_no_other_its_figures() -> None:
    good = (DATA / "listing" / "matmul_sm90.cubin").read_bytes()
    found = disassemble_together([good, good[:900], good + b"1"])
    assert sorted(found) == [0, 2]
    (tool,) = (found for found in [find("nvdisasm")] if found is not None)
    said = said_of(DATA / "listing" / "matmul_sm90.cubin", str(tool.path), "-c").decode()
    assert found[0][0] == said


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty kernels, so many that children of ours read them."""
    return many(tmp_path_factory.mktemp("many") / "recording", 24, 6)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DerivedCache]:
    """An empty cache, which children of ours share."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield DerivedCache(tmp_path / "cache" / "ptxview" / "derived")


def everything(reader: Reader) -> list[Variant]:
    """Every variant of a reader, whose figures are read."""
    variants = [variant for _, variant in reader.recording.variants()]
    told = list(reader.summaries.read(variants))
    assert told[-1] == (len(variants), len(variants))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    return variants


def test_children_say_what_list_and_cuobjdump_say(
    recorded: Path, cache: DerivedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    run = vars(summaries)["run_tool"]

    def counted(argv: list[str], **more: object) -> object:
        started.append(argv)
        return run(argv, **more)

    monkeypatch.setattr(summaries, "run_tool", counted)
    reader = Reader(open_path(recorded), cache)
    variants = everything(reader)
    assert started
    said = {
        one["hash"]: one
        for kernel in call("list", recorded, "--json").json["kernels"]
        for one in kernel["variants"]
    }
    for variant in variants:
        summary = reader.summaries.of(variant)
        assert summary is not None
        listed = said[variant.hash]
        assert summary.resources.registers == listed["resources"]["registers"]
        assert summary.resources.static_shared_bytes == listed["resources"]["static_shared_bytes"]
        assert listed["hints"] in (None, summary.hints)
    # The same of one that is read as it is shown: its listing has locations.
    for variant in variants[:: len(variants) // 4]:
        summary = reader.summaries.of(variant)
        assert summary is not None and summary.instructions is not None
        printed = re.findall(
            r"(?m)^\s+/\*[0-9a-f]{4}\*/ .*;", reader.text(variant, Stage.SASS).text
        )
        # What fills the last line of the cache, a branch to itself among it, is not counted.
        assert 0 <= len(printed) - summary.instructions < 32
        assert all("NOP" in one or "BRA" in one for one in printed[summary.instructions :])
        assert summary.hints == len(reader.findings(variant))
        own = reader.function(variant, Stage.SASS)
        assert own is not None
        facts = reader.facts(variant, Stage.SASS, own.first)
        assert facts is not None and summary.live == facts.live.peak["gpr"][0]


def test_what_was_derived_is_kept_and_only_of_the_same_content(
    recorded: Path, cache: DerivedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = open_path(recorded)
    few = replace(few, kernels=few.kernels[:3])
    variants = everything(Reader(few, cache))
    reads = []
    own = summaries._Reading._read

    def counted(self: object, variant: Variant) -> object:
        reads.append(variant.hash)
        return own(self, variant)  # type: ignore[arg-type]

    monkeypatch.setattr(summaries._Reading, "_read", counted)
    everything(Reader(few, cache))
    assert not reads
    # Another text under the same hash is another key.
    ptx = few.kernels[0].variants[0].stages[Stage.PTX]
    other = replace(ptx, content=BytesContent(ptx.content.read() + b"// more\n"))
    first = variants[0]
    changed = replace(first, stages={**first.stages, Stage.PTX: other})
    kernel = replace(few.kernels[0], variants=(changed,))
    everything(Reader(replace(few, kernels=(kernel, *few.kernels[1:])), cache))
    assert reads == [first.hash]


def test_a_damaged_entry_is_read_again(recorded: Path, cache: DerivedCache) -> None:
    few = open_path(recorded)
    few = replace(few, kernels=few.kernels[:2])
    before = figures(few, cache)
    for entry in (cache._folder).iterdir():
        if entry.read_bytes().startswith(b"{"):
            entry.write_bytes(b'{"resources": 7}')
    assert figures(few, cache) == before


def figures(recording: Recording, cache: DerivedCache) -> list[object]:
    """What is said of each variant."""
    reader = Reader(recording, cache)
    return [reader.summaries.of(variant) for variant in everything(reader)]
