"""Bytes and operations of a launch against figures computed by hand."""

import pytest
from msgspec.structs import replace

from inspector.analysis.accesses import Access, OpcodeLines, accesses
from inspector.analysis.card import accessed_bytes, operations, tensor_bytes
from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Argument, Call
from inspector.recording.layout import DerivedCache
from tests.helpers.cards import MATMUL, SQUARE, launch, ptx, stage, tensor, ttir


def test_bytes_of_tensors_are_their_storage_and_unknown_of_unknown_ones() -> None:
    square = launch(1823, 128, tensor(1823, 781), tensor(1823, 781), Argument("n", "i32", 781))
    found = tensor_bytes(square)
    assert found is not None
    assert found.value == 2 * 1823 * 781 * 4 == 11_390_104
    assert found.how == "each tensor read or written once"
    broadcast = tensor(4096, 1000, dtype="bfloat16", strides=(0, 1))
    found = tensor_bytes(launch(1, 128, broadcast))
    assert found is not None and found.value == 2000
    assert tensor_bytes(launch(1, 32, Argument("n", "i32", 5))) is None
    assert tensor_bytes(launch(1, 32, tensor(4), tensor(4, dtype="mystery"))) is None


def test_of_a_table_that_is_read_at_loaded_indices_the_rows_count() -> None:
    body = """
    %r = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %i = tt.load %x : !tt.ptr<i64>
    %p = tt.addptr %y, %i : !tt.ptr<f32>, i64
    %q = tt.splat %p : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %s = tt.addptr %q, %r : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    %v = tt.load %s : tensor<256x!tt.ptr<f32>>"""
    index = replace(tensor(128, dtype="int64"), name="x")
    table = replace(tensor(50_000, 256), name="y")
    call = launch(128, 32, index, table)
    found = tensor_bytes(call, ttir(body))
    assert found is not None and (found.value, found.at_most) == (128 * 8 + 128 * 256 * 4, True)
    everywhere = f"{body}\n    %w = tt.load %y : !tt.ptr<f32>"
    assert tensor_bytes(call, ttir(everywhere)) == tensor_bytes(call)


def test_bytes_that_a_straight_kernel_asks_for() -> None:
    listing, function = ptx(
        "\tld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1];\n\tst.global.b32 [%rd2], %r1;"
    )
    held = accesses(OpcodeLines(listing, function))
    flow = FunctionFacts(listing, function).flow
    found = accessed_bytes(launch(10, 256), held, flow, branches=False)
    assert found is not None
    assert (found.value, found.at_most) == (10 * 256 * (16 + 4), False)
    guarded = [replace(held[0], guarded=1), held[1]]
    found = accessed_bytes(launch(10, 256), guarded, flow, branches=False)
    assert found is not None and found.at_most
    found = accessed_bytes(launch(10, 256), held, flow, branches=True)
    assert found is not None and found.at_most
    unknown = [Access("load", "global", None, 1, 0, (1,))]
    assert accessed_bytes(launch(10, 256), unknown, flow, branches=False) is None
    assert accessed_bytes(Call("triton", "k"), held, flow, branches=False) is None


def test_operations_of_a_square(cache: DerivedCache) -> None:
    """1,024 lanes a program, one multiplication each, 1,823 programs."""
    listing, function = stage(SQUARE, "ttir", cache)
    found = operations(listing, function, launch(1823, 128))
    assert found is not None and found.value == 1823 * 1024


def test_operations_of_a_matmul(cache: DerivedCache) -> None:
    """Blocks of 64×64, 8 programs for 512×64…: 2·m·n·k in all, here 512×256 by 256×1024."""
    listing, function = stage(MATMUL, "ttir", cache)
    m, n, k = 512, 1024, 256
    call = Call(
        "triton",
        "matmul_kernel",
        None,
        (m // 64, n // 64, 1),
        (128, 1, 1),
        None,
        (Argument("M", "i32", m), Argument("N", "i32", n), Argument("K", "i32", k)),
    )
    found = operations(listing, function, call)
    assert found is not None and found.value == 2 * m * n * k
    # A last block that is not full is computed whole.
    odd = replace(call, arguments=(Argument("K", "i32", k - 1),))
    found = operations(listing, function, odd)
    assert found is not None and found.value == 2 * m * n * k
    assert operations(listing, function, replace(call, arguments=())) is None
    assert operations(listing, function, replace(call, grid=None)) is None


LOOP = """    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c31 = arith.constant 31 : i32
    %c32 = arith.constant 32 : i32
    %0 = arith.addi %n, %c31 : i32
    %1 = arith.divsi %0, %c32 : i32
    %acc = scf.for %i = %c0 to %1 step %c1 iter_args(%a = %z) -> (tensor<32xf32>)  : i32 {
      BODY
      scf.yield %b : tensor<32xf32>
    }
    tt.return"""


def test_a_loop_runs_as_often_as_its_arithmetic_says() -> None:
    body = LOOP.replace("BODY", "%b = math.fma %a, %a, %a : tensor<32xf32>")
    call = launch(7, 128, Argument("n", "i32", 100))
    found = operations(*ttir(body), call)
    assert found is not None and found.value == 7 * 4 * 2 * 32  # ceil(100 / 32) = 4
    assert operations(*ttir(body), launch(7, 128)) is None


CONVERTED = """    %a = arith.addi %p, %q : tensor<64xi32>
    %b = arith.sitofp %a : tensor<64xi32> to tensor<64xf32>
    %c = arith.cmpf ogt, %b, %b : tensor<64xf32>
    %d = arith.select %c, %b, %b : tensor<64xi1>, tensor<64xf32>
    %e = arith.divf %d, %b : tensor<64xf32>
    tt.return"""
REDUCED = """    %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<16x8xf32>) -> tensor<16xf32>
    tt.return"""


@pytest.mark.parametrize(("text", "each"), [(CONVERTED, 64), (REDUCED, 16 * 7)])
def test_floating_operations_alone_are_counted(text: str, each: int) -> None:
    found = operations(*ttir(text), launch(2, 128))
    assert found is not None and found.value == 2 * each


@pytest.mark.parametrize("opener", ["scf.if %c {", "%w = scf.while (%a = %z) : (f32) -> f32 {"])
def test_a_branch_leaves_operations_unknown(opener: str) -> None:
    text = f"    {opener}\n      %b = arith.addf %a, %a : tensor<8xf32>\n    }}\n    tt.return"
    assert operations(*ttir(text), launch(1, 128)) is None
    nothing = text.replace("arith.addf", "arith.addi").replace("f32>", "i32>")
    found = operations(*ttir(nothing), launch(1, 128))
    assert found is not None and found.value == 0
