"""Inputs of the same kind as recorded ones, on this machine's memory."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert, to_builtins

from inspector.analysis.argument_memory import memory_blocks
from inspector.base.model import Argument, Share
from inspector.probes.replay.inputs import Memory, NotRebuilt, scalar, tensor

ALIGNED = 64  # what this machine's allocator begins blocks at


def encoded(address: int, argument: dict[str, Any]) -> bytes:
    """A stand-in for a tensor map: its address and the type in its layout."""
    return address.to_bytes(127, "little") + bytes([argument["layout"]["elem_type"]])


def said(**known: Any) -> dict[str, Any]:
    bare: dict[str, Any] = dict.fromkeys(
        ("name", "type", "value", "dtype", "shape", "strides", "alignment", "low", "high")
    )
    return {**bare, "name": "x", **known}


def made(**known: Any) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    one = said(**{"dtype": "float32", "alignment": ALIGNED, **known})
    return tensor(torch, one, "cpu", ALIGNED, warnings)[0], warnings


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=0, max_size=4).flatmap(
        lambda shape: st.tuples(
            st.just(shape), st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape))
        )
    ),
    st.sampled_from(["float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"]),
)
def test_shape_strides_and_dtype_are_the_recorded_ones(
    layout: tuple[list[int], list[int]], dtype: str
) -> None:
    shape, strides = layout
    found, _ = made(shape=shape, strides=strides, dtype=dtype)
    assert list(found.shape) == shape
    assert list(found.stride()) == strides
    assert found.dtype == getattr(torch, dtype)
    elements = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    assert found.untyped_storage().nbytes() == elements * found.element_size()


@pytest.mark.parametrize("alignment", [2, 4, 8, 16, 32])
def test_alignment_is_the_recorded_one_and_no_better(alignment: int) -> None:
    found, _ = made(shape=[5, 7], strides=[7, 1], dtype="float16", alignment=alignment)
    assert found.data_ptr() % alignment == 0
    assert found.data_ptr() % (2 * alignment) == alignment


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int32", 3, 9),
        ("int64", -5, -5),
        ("uint8", 250, 255),
        ("int8", -128, -120),
        ("int32", 2**31 - 3, 2**31 - 1),
        ("int64", 2**63 - 2, 2**63 - 1),
        ("int64", 0, 2**40),
    ],
)
def test_integers_stay_in_their_range(dtype: str, low: int, high: int) -> None:
    found, warnings = made(shape=[4000], strides=[1], dtype=dtype, low=low, high=high)
    assert low <= int(found.min()) and int(found.max()) <= high
    assert not warnings
    if high - low < 10:  # of a small range every value comes up
        assert set(found.tolist()) == set(range(low, high + 1))


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"dtype": "float13"}, "this torch has no dtype float13"),
        ({"dtype": "nn"}, "this torch has no dtype nn"),
        ({"strides": None}, "its strides were not recorded"),
        ({"strides": [1, 1]}, "its strides were not recorded"),
        ({"strides": [-1]}, "negative strides"),
    ],
)
def test_what_cannot_be_rebuilt_says_why(known: dict[str, Any], why: str) -> None:
    with pytest.raises(NotRebuilt, match=why):
        made(**{"shape": [4], "strides": [1], **known})


@pytest.mark.parametrize(
    ("kind", "value", "size", "expected"),
    [
        ("i32", 781, 4, struct.pack("<i", 781)),
        ("i32", -1, 4, b"\xff\xff\xff\xff"),
        ("i64", 2**40, 8, struct.pack("<q", 2**40)),
        ("u64", 2**64 - 1, 8, b"\xff" * 8),
        ("i1", True, 1, b"\x01"),
        ("fp32", 0.5, 4, struct.pack("<f", 0.5)),
        ("fp32", 3, 4, struct.pack("<f", 3.0)),
        ("fp64", 0.1, 8, struct.pack("<d", 0.1)),
        ("fp16", 0.5, 2, struct.pack("<e", 0.5)),
        ("fp32", 1e300, 4, struct.pack("<f", float("inf"))),
        ("bf16", -2.0, 2, b"\x00\xc0"),
    ],
)
def test_scalars_are_the_bytes_that_a_kernel_gets(
    kind: str, value: float, size: int, expected: bytes
) -> None:
    assert scalar(said(type=kind, value=value), size) == expected


def launch(
    arguments: list[dict[str, Any]], sizes: list[int], scratch: Any = (0, 0)
) -> tuple[Memory, list[bytes]]:
    told = {"arguments": arguments, "sizes": sizes, "scratch": list(scratch)}
    held = Memory(torch, "cpu", ALIGNED)
    return held, held.parameters(told, encoded)


X = said(type="*fp32", dtype="float32", shape=[8], strides=[1], alignment=64)
N = said(name="n", type="i32", value=8)
BLOCK = said(name="BLOCK", type="constexpr", value=1024)


def test_parameters_are_passed_in_order_without_constexprs() -> None:
    held, values = launch([X, BLOCK, N], [8, 4])
    address = int.from_bytes(values[0], "little")
    assert address == held.named[0][1].data_ptr()
    assert values[1] == struct.pack("<i", 8)


def test_a_bare_address_and_a_descriptor_are_refused_and_a_null_is_passed() -> None:
    with pytest.raises(NotRebuilt, match="p: it was a bare address"):
        launch([said(name="p", type="*fp32", alignment=512)], [8])
    with pytest.raises(NotRebuilt, match="x: a tensor descriptor"):
        launch([X], [128])
    assert launch([said(name="p", type="*fp32")], [8])[1] == [bytes(8)]


def test_a_descriptor_with_a_layout_is_a_tensor_map_its_shape_and_its_strides() -> None:
    tile = {**X, "shape": [4, 2], "strides": [2, 1], "layout": {"elem_type": 7}}
    held, values = launch([tile, N], [128, 4, 4, 8, 8, 4])
    address = held.named[0][1].data_ptr()
    assert values == [
        address.to_bytes(127, "little") + b"\7",
        struct.pack("<i", 4),
        struct.pack("<i", 2),
        struct.pack("<q", 2),
        struct.pack("<q", 1),
        struct.pack("<i", 8),
    ]


def test_integers_that_a_launch_changes_are_given_back() -> None:
    index = said(
        name="i", type="*i32", dtype="int32", shape=[8], strides=[1], alignment=64, low=1, high=5
    )
    still = {**index, "name": "j"}
    held, _ = launch([X, index, still], [8, 8, 8])
    tensors = dict(held.named)
    before = tensors["i"].clone()
    held.changed_by(lambda: tensors["i"].add_(1))
    assert held.changes
    held.restore()
    assert torch.equal(tensors["i"], before)


def test_what_overflowed_is_named() -> None:
    held, _ = launch([X, {**X, "name": "y"}], [8, 8])
    assert held.overflowed() == []
    dict(held.named)["y"][3] = float("inf")
    assert held.overflowed() == ["y"]


def planned(*arguments: dict[str, Any], shares: list[Share]) -> dict[str, Any]:
    """The job of a launch, as ``time`` plans it."""
    recorded = convert(arguments, tuple[Argument, ...])
    blocks = [to_builtins(block) for block in memory_blocks(recorded, shares)]
    told = {"arguments": list(arguments), "sizes": [8] * len(arguments), "scratch": []}
    return {**told, "memory": blocks}


def addresses(job: dict[str, Any]) -> tuple[Memory, list[int]]:
    held = Memory(torch, "cpu", 512)
    held.share(job)
    return held, [int.from_bytes(value, "little") for value in held.parameters(job, encoded)]


LONG = {**X, "shape": [100], "alignment": 32}


@pytest.mark.parametrize("apart", [0, 64, -96, 396])
def test_tensors_that_shared_memory_share_it_at_their_distance(apart: int) -> None:
    other = {**LONG, "name": "y", "alignment": (32 + apart) & -(32 + apart) or 512}
    _, (x, y) = addresses(planned(LONG, other, shares=[Share("x", "y", apart)]))
    assert y - x == apart
    assert x % 64 == 32 and y % other["alignment"] == 0


def test_tensors_of_one_chain_share_one_block_and_others_have_their_own() -> None:
    middle, last, alone = ({**LONG, "name": name} for name in ("y", "z", "w"))
    shares = [Share("x", "y", 320), Share("z", "y", -320)]
    _, (x, w, y, z) = addresses(planned(LONG, alone, middle, last, shares=shares))
    assert (y - x, z - y) == (320, 320) and abs(w - x) >= 400


def test_indices_keep_their_range_when_they_share_memory() -> None:
    index = said(
        name="i", type="*i32", dtype="int32", shape=[8], strides=[1], alignment=64, low=3, high=5
    )
    for arguments in ((X, index), (index, X)):
        held, _ = addresses(planned(*arguments, shares=[Share("x", "i")]))
        assert {3, 4, 5} >= set(dict(held.named)["i"].tolist())


def test_pairs_that_do_not_overlap_by_their_layouts_have_their_own_memory() -> None:
    far = planned(X, {**X, "name": "y"}, shares=[Share("x", "y", 1 << 40)])
    assert far["memory"] == []


@pytest.mark.parametrize("strides", [[3, 1], [1, 5], [0, 1]])
def test_kept_values_are_those_of_the_program(strides: list[int], tmp_path: Path) -> None:
    """They are in the order of the indices; an expanded tensor has each value once."""
    values = torch.randn(20, dtype=torch.bfloat16).as_strided([5, 3], strides)
    raw = values.contiguous().view(torch.uint8).numpy().tobytes()
    file = tmp_path / "kept"
    file.write_bytes(zlib.compress(raw))
    x = said(dtype="bfloat16", shape=[5, 3], strides=strides, alignment=ALIGNED, content=str(file))
    memory = Memory(torch, "cpu", ALIGNED)
    (rebuilt,) = memory.flat([x])
    assert torch.equal(rebuilt, values) and rebuilt.stride() == tuple(strides)
    assert memory.kept_names == ["x"] and not memory.warnings


@pytest.mark.parametrize(
    "damaged",
    [b"", zlib.compress(bytes(31)), zlib.compress(bytes(33)), zlib.compress(bytes(32))[:-9]],
)
def test_damaged_kept_values_are_made_up_and_reported(damaged: bytes, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_bytes(damaged)
    memory = Memory(torch, "cpu", ALIGNED)
    (rebuilt,) = memory.flat([{**X, "content": str(file)}])
    assert rebuilt.abs().sum() > 0
    assert memory.kept_names == []
    assert memory.warnings == ["x: its kept values are damaged"]
