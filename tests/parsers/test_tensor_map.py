"""Tensor maps as ``cuTensorMapEncodeTiled`` of CUDA 13.0 wrote them on an H200."""

import json
import random

import pytest

from inspector.analysis.tensor_maps import encoded_maps
from inspector.parsers.tensor_map import L2_PROMOTION, SIZE, TensorMap
from tests.helpers.ptxview import DATA

ROWS = [
    json.loads(line)
    for line in (DATA.parent / "parsers" / "tensor_maps.jsonl").read_text("ascii").splitlines()
]
WRITTEN = [row for row in ROWS if not row["error"]]
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12)
"""PTX's numbers of the types, by those of the driver (``CUtensorMapDataType``)."""


@pytest.mark.parametrize("row", WRITTEN)
def test_a_map_of_the_driver_is_what_it_was_made_from(row: dict[str, object]) -> None:
    data = bytes.fromhex(str(row["map"]))
    found = TensorMap.decode(data)
    names = ("address", "dims", "strides", "box", "steps", "swizzle", "fill")
    assert {name: getattr(found, name) for name in names} == {
        name: tuple(value) if isinstance(value := row[name], list) else value for name in names
    }
    assert found.element == NUMBERS[int(str(row["type"]))]
    without_promotion = int.from_bytes(data, "little") & ~L2_PROMOTION.encoded([3])
    assert found.encode() == without_promotion.to_bytes(SIZE, "little")


def test_maps_are_found_in_a_structure_and_nothing_else_is() -> None:
    draw = random.Random(0)
    first, second = (bytes.fromhex(row["map"]) for row in WRITTEN[:2])
    noise = draw.randbytes(192)
    data = noise + first + draw.randbytes(64) + second + bytes(256)
    assert [place for place, _ in encoded_maps(data)] == [192, 384]
    assert not list(encoded_maps(draw.randbytes(100_032)))
