"""The card of a variant as a value, as text and as JSON."""

import pytest

from inspector.analysis.card import GRID, Card, card
from inspector.analysis.occupancy import Device
from inspector.base.model import Argument, Call, Resources, Stage
from inspector.reader import tables
from inspector.recording.layout import DerivedCache
from inspector.render.card import lines
from tests.helpers.cards import MATMUL, SQUARE, stage, tensor

H200: Device = tables.devices()["sm_90"]
cost = tables.isa().cost


@pytest.fixture(scope="session")
def matmul(cache: DerivedCache) -> Card:
    """The lecture's matmul of bf16 on 512×256 by 256×1024."""
    m, n, k = 512, 1024, 256
    call = Call(
        "triton",
        "matmul_kernel",
        None,
        (m // 64, n // 64, 1),
        (128, 1, 1),
        49152,
        (
            tensor(m, k, dtype="bfloat16"),
            tensor(k, n, dtype="bfloat16"),
            tensor(m, n, dtype="bfloat16"),
            Argument("K", "i32", k),
        ),
    )
    held = Resources(72, 0, 0, 0, 1024, 49152, 1, 128)
    stages = {Stage.TTIR: "ttir", Stage.TTGIR: "ttgir", Stage.PTX: "ptx", Stage.SASS: "cubin"}
    listings = {s: stage(MATMUL, ending, cache) for s, ending in stages.items()}
    return card(held, H200, listings, cost, call)


def test_the_card_of_a_matmul(matmul: Card) -> None:
    assert (matmul.static_shared_bytes, matmul.dynamic_shared_bytes) == (0, 49152)
    assert matmul.occupancy is not None
    assert (matmul.occupancy.blocks, matmul.occupancy.limiters) == (4, (GRID,))
    assert matmul.blocks == 8 * 16
    assert matmul.waves == 128 / (4 * 132)
    assert matmul.operations is not None and matmul.tensor_bytes is not None
    assert matmul.operations.value == 2 * 512 * 1024 * 256
    assert matmul.tensor_bytes.value == 2 * (512 * 256 + 256 * 1024 + 512 * 1024)
    sass = matmul.stage_content(Stage.SASS)
    assert sass is not None and (sass.branches, sass.loops, sass.deepest) == (2, 1, 1)


def test_the_card_in_lines(matmul: Card) -> None:
    text = lines(matmul)
    assert max(map(len, text)) <= 80
    assert "registers       72 a thread, spills 0, stack 0, barriers 1" in text
    assert f"  limited by    {GRID}" in text
    assert "  tensor cores  HGMMA m64n64k16 f32 bf16 × 4" in text
    assert "  control       2 branches, 1 loop" in text
    # The cubin's own figure has the driver's part in it, and so have the tables.
    assert "and 1024 of the driver's, which tables count" in " ".join(" ".join(text).split())
    joined = " ".join(" ".join(text).split())
    assert "instead of 49152 bytes" not in joined, "more blocks an SM would stay empty"
    assert "128 of 132 SMs" in joined
    assert "268,435,456 floating-point operations a launch (estimate: counted in TTIR" in joined
    assert "1,835,008 bytes a launch (estimate: each tensor read or written once)" in joined


def test_without_a_launch_the_compilation_says_the_block(cache: DerivedCache) -> None:
    held = Resources(18, 0, 0, 0, 0, 0, 0, 128)
    told = card(held, H200, {Stage.SASS: stage(SQUARE, "cubin", cache)}, cost, threads=128)
    assert told.occupancy is not None and told.occupancy.percent == 100
    assert (told.blocks, told.waves, told.accessed_bytes) == (None, None, None)
