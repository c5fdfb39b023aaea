"""The mix, accesses and tensor-core shapes of a kernel against its text."""

import re
from collections import Counter
from pathlib import Path

import pytest

from inspector import parsers as parsers
from inspector.analysis.accesses import OpcodeLines, accesses, mix, products
from inspector.base.model import Stage
from inspector.parsers.line import Function
from inspector.reader import tables
from inspector.recording.layout import DerivedCache
from inspector.sources.disassembly import disassemble
from inspector.system.process import run_tool
from inspector.system.toolchain import need
from tests.helpers.cards import MATMUL, SQUARE, ptx, stage

cost = tables.isa().cost


@pytest.mark.parametrize("ending", ["ptx", "cubin"])
@pytest.mark.parametrize("folder", [SQUARE, MATMUL], ids=["square", "matmul"])
def test_the_mix_has_every_instruction_once(folder: Path, ending: str, cache: DerivedCache) -> None:
    listing, function = stage(folder, ending, cache)
    language = listing.language
    found = mix(OpcodeLines(listing, function), lambda opcode: cost(language, opcode))
    inside = listing.text.split("\n")[function.first - 1 : function.last]
    if language == "ptx":
        statement = re.compile(r"\s+(?:@!?%\w+\s+)?([a-z]\w+)[.\w:]*(?:\s|;)")
        expected = Counter(m[1] for t in inside if (m := statement.match(t)) and ";" in t)
    else:
        statement = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)")
        expected = Counter(m[1] for t in inside if (m := statement.match(t)))
        # What follows the last EXIT: a branch to itself, and no-operations up to the boundary.
        expected["BRA"] -= 1
        del expected["NOP"]
    assert dict(found.by_opcode) == {k: v for k, v in expected.items() if v}
    assert found.total == sum(expected.values())
    assert found.total == found.unclassed + sum(count for _, count in found.by_cost)
    assert found.unclassed == 0


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ld.global.v4.b32 {%r2,%r3,%r4,%r5}, [%rd1];", ("load", "global", 16)),
        ("ld.global.L1::evict_last.L2::128B.b64 %rd2, [%rd1];", ("load", "global", 8)),
        ("ld.volatile.shared::cta.u8 %rs2, [%r1];", ("load", "shared", 1)),
        ("ld.local.v2.f64 {%fd1,%fd2}, [%rd1];", ("load", "local", 16)),
        ("atom.global.add.f32 %f1, [%rd1], %f2;", ("atomic", "global", 4)),
        ("red.global.add.noftz.v2.f16x2 [%rd1], {%r1,%r2};", ("reduction", "global", 8)),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];", ("load", "shared", 16)),
        ("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r1}, [%r2];", ("load", "shared", 16)),
        (
            "multimem.ld_reduce.weak.global.add.acc::f16.v4.e4m3x4 {%r1,%r2,%r3,%r4}, [%rd1];",
            ("load", "global", 16),
        ),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r3;", ("copy", "global", 16)),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r1], [%rd1, {%r2, %r3}], [%r4];",
            ("copy", "global", None),
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r4];",
            ("store", "global", None),
        ),
    ],
)
def test_width_and_space_of_an_access(
    statement: str, expected: tuple[str, str, int | None]
) -> None:
    (found,) = accesses(OpcodeLines(*ptx("\t" + statement)))
    assert (found.kind, found.space, found.width) == expected
    assert (found.count, found.guarded) == (1, 0)


@pytest.mark.parametrize(
    "statement",
    ["ld.param.b64 %rd1, [p];", "cp.async.commit_group;", "cp.async.wait_group 0;", "bar.sync 0;",
     "mov.b32 %r1, %r2;", "prefetch.global.L2 [%rd1];"],
)  # fmt: skip
def test_what_is_no_access(statement: str) -> None:
    assert accesses(OpcodeLines(*ptx("\t" + statement))) == ()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("LDG.E.128 R4, desc[UR8][R2.64]", ("load", "global", 16)),
        ("LDG.E.U8.CONSTANT R4, desc[UR8][R2.64]", ("load", "global", 1)),
        ("LDG.E.ENL2.256 R8, R4, desc[UR8][R2.64]", ("load", "global", 32)),
        ("STG.E.U16 desc[UR8][R2.64], R4", ("store", "global", 2)),
        ("LDS.U.128 R16, [R0]", ("load", "shared", 16)),
        ("LDSM.16.M88.4 R32, [R15]", ("load", "shared", 16)),
        ("LDGSTS.E.BYPASS.LTC128B.128 [R41], desc[UR14][R26.64], P1", ("copy", "global", 16)),
        ("ATOMG.E.ADD.F16x2.RN.STRONG.GPU PT, R3, desc[UR4][R2.64], R5", ("atomic", "global", 4)),
        ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", ("reduction", "global", 4)),
        ("LDG.E.96 R4, desc[UR8][R2.64]", ("load", "global", 12)),
        ("REDG.E.ADD.BF16x8.RN.STRONG.GPU desc[UR4][R2.64], R8", ("reduction", "global", 16)),
        ("LDSM.8.MT1616.2 R4, [UR4]", ("load", "shared", 16)),
        ("STTM.16dp256bit.x2 tmem[UR4], R4", ("store", "tensor", 32)),
        ("LDTM.STAT.x8.MIN R13, R4, tmem[UR4]", ("load", "tensor", 32)),
        ("UTMALDG.2D [UR8], [UR4]", ("load", "global", None)),
    ],
)
def test_width_and_space_of_a_machine_access(
    code: str, expected: tuple[str, str, int | None]
) -> None:
    listing = parsers.parse(Stage.SASS, f"        /*0000*/                   @!P0 {code} ;")
    (found,) = accesses(OpcodeLines(listing, Function("f", 1, 1)))
    assert (found.kind, found.space, found.width) == expected
    assert found.guarded == 1


VECTORS = [
    ("v2.f32", 2, 8), ("v4.f32", 4, 16), ("noftz.v4.f16", 4, 8), ("noftz.v8.f16", 8, 16),
    ("noftz.v4.f16x2", 4, 16), ("noftz.v4.bf16", 4, 8), ("noftz.v8.bf16", 8, 16),
    ("noftz.v2.bf16x2", 2, 8), ("noftz.f16x2", 1, 4), ("noftz.bf16x2", 1, 4),
]  # fmt: skip


def updates(form: str, count: int) -> str:
    """A reduction and an atomic of a form, of values that are read and written volatile."""
    bits = 16 if form.endswith("16") else 32
    old, new = (", ".join(f"%{kind}{i}" for i in range(count)) for kind in ("old", "new"))
    many, back = (f"{{{names}}}" if count > 1 else names for names in (new, old))
    statements = [
        f".reg .b{bits} %old<{count}>, %new<{count}>;",
        ".reg .b64 %address;",
        "ld.param.b64 %address, [p];",
        *(f"ld.volatile.global.b{bits} %new{i}, [%address + {4 * i}];" for i in range(count)),
        f"red.relaxed.gpu.global.add.{form} [%address + 64], {many};",
        f"atom.relaxed.gpu.global.add.{form} {back}, [%address + 128], {many};",
        *(f"st.volatile.global.b{bits} [%address + {4 * i}], %old{i};" for i in range(count)),
    ]
    return "\n".join(f"\t{statement}" for statement in statements)


def test_width_of_a_vector_of_an_atomic(cache: DerivedCache, tmp_path: Path) -> None:
    """As many bytes as PTX's vector has, in what ptxas makes of it."""
    texts = [ptx(updates(form, count))[0].text for form, count, _ in VECTORS]
    head = texts[0].partition(".visible")[0]
    kernels = [
        text.removeprefix(head).replace("entry f(", f"entry f{n}(") for n, text in enumerate(texts)
    ]
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(head + "\n".join(kernels))
    run_tool([need("ptxas").path, "-arch=sm_90", "-o", cubin, source])
    plain, annotated, _ = disassemble(cubin.read_bytes(), cache)
    listings = (
        parsers.parse(Stage.PTX, source.read_text()),
        parsers.parse(Stage.SASS, plain, annotated=annotated),
    )
    for listing in listings:
        functions = {function.name: function for function in listing.functions}
        for n, (form, _, width) in enumerate(VECTORS):
            held = accesses(OpcodeLines(listing, functions[f"f{n}"]))
            widths = {(a.kind, a.width) for a in held if a.kind in ("atomic", "reduction")}
            assert widths == {("atomic", width), ("reduction", width)}, form


def test_ptx_and_sass_of_a_kernel_ask_for_the_same_bytes(cache: DerivedCache) -> None:
    """No access of these kernels was merged or dropped by ptxas."""
    for folder in (SQUARE, MATMUL):
        both = []
        for ending in ("ptx", "cubin"):
            asked: Counter[tuple[str, str]] = Counter()
            for a in accesses(OpcodeLines(*stage(folder, ending, cache))):
                assert a.width is not None
                asked[a.kind, a.space] += a.width * a.count
            both.append(asked)
        assert both[0] == both[1]


def test_shapes_by_stage_of_a_matmul(cache: DerivedCache) -> None:
    found = {
        ending: products(OpcodeLines(*stage(MATMUL, ending, cache)))
        for ending in ("ttir", "ttgir", "ptx", "cubin")
    }
    shapes = {k: [(p.opcode, p.shape, p.types, p.count) for p in v] for k, v in found.items()}
    assert shapes == {
        "ttir": [("tt.dot", (64, 64, 64), ("bf16", "bf16", "f32"), 1)],
        "ttgir": [("ttng.warp_group_dot", (64, 64, 64), ("bf16", "bf16", "f32"), 1)],
        "ptx": [("wgmma.mma_async", (64, 64, 16), ("f32", "bf16", "bf16"), 4)],
        "cubin": [("HGMMA", (64, 64, 16), ("f32", "bf16"), 4)],
    }


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};",
            ("mma", (16, 8, 16), ("f32", "f16", "f16", "f32")),
        ),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f2};",
            ("wmma.mma", (16, 16, 16), ("f32", "f32")),
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;",
            ("tcgen05.mma", None, ("f16",)),
        ),
    ],
)
def test_shape_of_a_product(statement: str, expected: tuple[object, ...]) -> None:
    (found,) = products(OpcodeLines(*ptx("\t" + statement)))
    assert (found.opcode, found.shape, found.types) == expected


def test_shapes_in_opcodes_of_sass() -> None:
    codes = ["HMMA.16816.F32 R4, R8, R12, R4", "IMMA.16832.S8.S8 R4, R8, R12, R4",
             "DMMA.8x8x4 R4, R8, R12, R4", "FFMA R1, R2, R3, R4"]  # fmt: skip
    text = "\n".join(f"        /*{16 * n:04x}*/          {c} ;" for n, c in enumerate(codes))
    found = products(OpcodeLines(parsers.parse(Stage.SASS, text), Function("f", 1, 4)))
    assert [(p.opcode, p.shape) for p in found] == [
        ("HMMA", (16, 8, 16)), ("IMMA", (16, 8, 32)), ("DMMA", (8, 8, 4)),
    ]  # fmt: skip
