"""Results of a reader: never of another recording, nor of another file's variant."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.model import Kernel, Origin, Recording, Stage, StageFile, Variant
from inspector.reader.reader import Reader
from inspector.recording.layout import BytesContent, DerivedCache

PTX = ".version 8.0\n.target sm_90\n.visible .entry k()\n{\n\tret;\n}\n"


def variant_of(path: str, ptx: str = PTX, threads: int = 32) -> Variant:
    source = StageFile(BytesContent(f"# {path}\n".encode()), path)
    stages = {Stage.SOURCE: source, Stage.PTX: StageFile(BytesContent(ptx.encode()))}
    return Variant("aa", "a" * 64, "k", target="sm_90", stages=stages, options={"warps": threads})


def reader_of(*variants: Variant) -> Reader:
    kernels = [
        Kernel(f"k{number}", "k", "k", Origin.TRITON, (variant,))
        for number, variant in enumerate(variants)
    ]
    return Reader(Recording("/r", tuple(kernels)), DerivedCache(Path("/dev/null/none")))


def test_variants_with_one_hash_from_two_files_are_not_mixed_up() -> None:
    first = variant_of("/a.py")
    second = variant_of("/b.py", PTX.replace("\tret;", "\tbar.sync 0;\n\tret;"))
    reader = reader_of(first, second)
    assert [reader.facts.kernel(variant).id for variant in (first, second)] == ["k0", "k1"]
    for stage, expected in ((Stage.SOURCE, "# /b.py"), (Stage.PTX, "\tbar.sync 0;")):
        assert expected not in reader.stages.listing(first, stage).texts(1, 7)
        assert expected in reader.stages.listing(second, stage).texts(1, 7)
    analyses = [reader.facts.kernel_analysis(variant, Stage.PTX) for variant in (first, second)]
    lengths = [0 if facts is None else facts.function.last for facts in analyses]
    assert lengths == [6, 7]


def test_variants_that_are_equal_belong_to_their_own_kernels() -> None:
    first, second = variant_of("/a.py"), variant_of("/a.py")
    reader = reader_of(first, second)
    assert [reader.facts.kernel(variant).id for variant in (first, second)] == ["k0", "k1"]


def test_a_variant_of_another_recording_has_no_facts() -> None:
    reader = reader_of(variant_of("/a.py"))
    with pytest.raises(LookupError, match="no variant aa of k"):
        reader.facts.context(variant_of("/a.py", threads=64))


def test_a_variant_that_shows_another_source_file_has_its_own_annotations() -> None:
    variant = variant_of("/a.py")
    reader = reader_of(variant)
    other = replace(variant, stages={**variant.stages, **variant_of("/b.py").stages})
    assert reader.facts.kernel(other).id == "k0"
    annotations = reader.annotations.annotate(variant, Stage.SOURCE)
    assert reader.annotations.annotate(other, Stage.SOURCE) is not annotations


def test_forgetting_drops_the_results_of_every_service_on_a_variant() -> None:
    forgotten, remaining = variant_of("/a.py"), replace(variant_of("/b.py"), hash="b" * 64)
    reader = reader_of(forgotten, remaining)

    def results(variant: Variant) -> tuple[object, ...]:
        return (
            reader.stages.listing(variant, Stage.PTX),
            reader.facts.context(variant),
            reader.annotations.annotate(variant, Stage.PTX),
        )

    old, kept = results(forgotten), results(remaining)
    assert len(old) == len(kept) == 3
    reader.facts.forget([forgotten])
    new, again = results(forgotten), results(remaining)
    assert [a is b for a, b in zip(old, new, strict=True)] == [False] * 3
    assert [a is b for a, b in zip(kept, again, strict=True)] == [True] * 3


def test_forgetting_the_analysis_keeps_the_listings() -> None:
    variant = variant_of("/a.py")
    reader = reader_of(variant)
    listing, context = reader.stages.listing(variant, Stage.PTX), reader.facts.context(variant)
    reader.facts.forget_analysis(variant)
    assert reader.stages.listing(variant, Stage.PTX) is listing
    assert reader.facts.context(variant) is not context
