"""Summaries of many variants: equal to those of each alone, and cached by content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.model import Recording, Stage, Variant
from inspector.reader.reader import Reader
from inspector.reader.summaries import Summaries
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.sources.opening import open_path
from tests.helpers.many import many
from tests.helpers.ptxview import call


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight kernels."""
    return many(tmp_path_factory.mktemp("many") / "recording", 8)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DerivedCache]:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield DerivedCache(tmp_path / "cache" / "ptxview" / "derived")


def everything(reader: Reader) -> list[Variant]:
    """Every variant of a reader, whose figures are read."""
    variants = [variant for _, variant in reader.recording.variants()]
    told = list(reader.summaries.read(variants))
    assert told[-1] == (len(variants), len(variants))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    return variants


def test_summaries_equal_list_and_cuobjdump(recorded: Path, cache: DerivedCache) -> None:
    reader = Reader(open_path(recorded), cache)
    variants = everything(reader)
    said = {
        one["hash"]: one
        for kernel in call("list", recorded, "--json").json["kernels"]
        for one in kernel["variants"]
    }
    assert len(variants) == len(said) > 4
    for variant in variants:
        summary = reader.summaries.summary_of(variant)
        assert summary is not None
        listed = said[variant.hash]
        assert summary.resources.registers == listed["resources"]["registers"]
        assert summary.resources.static_shared_bytes == listed["resources"]["static_shared_bytes"]
        assert listed["hints"] in (None, summary.hints)
    for variant in variants[:: len(variants) // 4]:
        summary = reader.summaries.summary_of(variant)
        assert summary is not None and summary.instructions is not None
        printed = re.findall(
            r"(?m)^\s+/\*[0-9a-f]{4}\*/ .*;", reader.stages.text(variant, Stage.SASS).text
        )
        # What fills the last line of the cache, a branch to itself among it, is not counted.
        assert 0 <= len(printed) - summary.instructions < 32
        assert all("NOP" in one or "BRA" in one for one in printed[summary.instructions :])
        assert summary.hints == len(reader.facts.findings(variant))
        own = reader.stages.function(variant, Stage.SASS)
        assert own is not None
        facts = reader.facts.function_facts(variant, Stage.SASS, own.first)
        assert facts is not None and summary.live == facts.live.peak["gpr"][0]


def test_what_was_derived_is_kept_and_only_of_the_same_content(
    recorded: Path, cache: DerivedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = open_path(recorded)
    few = replace(few, kernels=few.kernels[:3])
    variants = everything(Reader(few, cache))
    reads = []
    own = Summaries._summary

    def counted(self: object, variant: Variant) -> object:
        reads.append(variant.hash)
        return own(self, variant)  # type: ignore[arg-type]

    monkeypatch.setattr(Summaries, "_summary", counted)
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


def figures(recording: Recording, cache: DerivedCache) -> list[object]:
    """The summary of each variant."""
    reader = Reader(recording, cache)
    return [reader.summaries.summary_of(variant) for variant in everything(reader)]
