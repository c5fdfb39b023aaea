"""The table of kernels: no two rows look alike without the variant's id."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.text import Text

from inspector.base.model import Kernel, Origin, Recording, Stage, Variant
from inspector.render.kernel_list import INDENT, kernels
from inspector.sources.opening import open_path

ROOT = Path(__file__).parents[2]
RECORDINGS = (
    "examples/recordings/lecture-h200.ptxview",
    "examples/recordings/squares-h200.ptxview",
    "tests/data/gpu_times/loop.ptxview",
    "tests/data/numba/numba.ptxview",
)


def names_and_settings(rec: Recording, width: int) -> list[tuple[str, str, str]]:
    """The heading, kernel and configuration of each row of the table."""
    table = kernels(rec, lambda variant: variant.recorded_resources, width)
    head, *lines = [line.plain for line in table.renderables if isinstance(line, Text)]
    configuration = head.index("configuration")
    end = head.index("tuned") if "tuned" in head else head.index("regs")
    rows = []
    heading = ""
    name = ""
    for line in lines:
        if line.startswith(INDENT):
            name = line[: head.index("variant")].strip() or name
            rows.append((heading, name, line[configuration:end].strip()))
        else:
            heading = line
    return rows


@pytest.mark.parametrize("path", RECORDINGS)
def test_no_two_rows_of_a_recording_look_alike_at_120_columns(path: str) -> None:
    rows = names_and_settings(open_path(ROOT / path), 120)
    assert rows
    assert [row for row, count in Counter(rows).items() if count > 1] == []


def test_candidates_of_one_name_have_distinct_labels_across_kernels() -> None:
    traits = ({"dot": "dot 64·64·32"}, {"dot": "dot 32·32·16"})
    idents = ("3f2a91c0", "84d20b7e")
    base = Variant("", "", "triton_mm", config={"num_warps": 4, "num_stages": 2})
    candidates = tuple(
        Kernel(
            f"triton_mm@{ident}",
            "triton_mm",
            "triton_mm",
            Origin.INDUCTOR,
            (replace(base, id=ident, hash=ident, traits=texts),),
        )
        for ident, texts in zip(idents, traits, strict=True)
    )
    rows = names_and_settings(Recording(path="x", kernels=candidates), 120)
    assert [settings for _, _, settings in rows] == ["w4 s2 dot 64·64·32", "w4 s2 dot 32·32·16"]


def test_a_copy_of_a_variant_is_labelled_by_its_id() -> None:
    rec = open_path(ROOT / RECORDINGS[0])
    kernel = next(k for k in rec.kernels if k.variants and Stage.TTGIR in k.variants[0].stages)
    variant = kernel.variants[0]
    twins = (variant, replace(variant, id="ffff0000", hash="f" * 64))
    rows = names_and_settings(replace(rec, kernels=(replace(kernel, variants=twins),)), 120)
    assert [settings.split()[-1] for _, _, settings in rows] == [variant.id[:4], "ffff"]
