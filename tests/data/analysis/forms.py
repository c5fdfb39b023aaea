"""One kernel of PTX for every form of an instruction, assembled for the newer architectures.

    python forms.py PTXAS NVDISASM [ARCHITECTURE …]

writes ``forms_ARCHITECTURE.sass.xz`` beside this file: what ``nvdisasm -c -plr`` prints of the
kernels that have a form of an instruction that no other has, with marks such as ``^R4 vUR4 :R2`` in
place of the columns. In a form, ``<o:b32*4>`` is a vector of four results of that type,
``<i:b32*4>`` one of values that are loaded, ``<u:b32>`` a value of the kernel's parameters, which
uniform registers hold, ``<s>`` an address in shared memory, ``<g>`` one in global memory.
"""

import itertools
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.plr import ADDRESS, read_marks

HERE = Path(__file__).parent
ARCHITECTURES = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
PLACE = re.compile(r"<(o|i|u|s|g|p)(?::(\w+))?(?:\*(\d+))?>")
SHAPE = re.compile(r"(?<=[RPB])(?:\d+|[ZT])\b|0x[0-9a-f]+|\.L_x_\d+")


def each(template: str, **choices: str) -> Iterator[str]:
    """``template`` with every combination of the words of ``choices``; ``-`` means nothing."""
    for words in itertools.product(*(value.split(" ") for value in choices.values())):
        named = dict(zip(choices, ("" if w == "-" else w for w in words), strict=True))
        yield re.sub(r"\{(\w+)\}", lambda m: named.get(m[1], m[0]), template)  # noqa: B023


def minmax() -> Iterator[str]:
    for kind, reg in (("s32", "b32"), ("u32", "b32"), ("s64", "b64"), ("u64", "b64")):
        yield from each("{op}.%s <o:%s>, <i:%s>, <i:%s>;" % (kind, reg, reg, reg), op="min max")
    yield from each("{op}.{t} <o:b16>, <i:b16>, <i:b16>;", op="min max", t="s16 u16 f16 bf16")
    yield from each("{op}{r}.s32 <o:b32>, <i:b32>, <i:b32>;", op="min max", r=".relu")
    yield from each("{op}.{t} <o:b32>, <i:b32>, <i:b32>;", op="min max", t="s16x2 u16x2 u8x4 s8x4")
    yield from each("{op}.relu.{t} <o:b32>, <i:b32>, <i:b32>;", op="min max", t="s16x2 s32")
    yield from each("{op}.{t} <o:b32>, <u:b32>, <u:b32>;", op="min max", t="s32 u32 s16x2")
    yield from each("{op}{q}.f32 <o:f32>, <i:f32>, <i:f32>;", op="min max",
                    q="- .ftz .NaN .NaN.xorsign.abs .xorsign.abs")  # fmt: skip
    yield from each("{op}{q}.f32 <o:f32>, <i:f32>, <i:f32>, <i:f32>;", op="min max",
                    q="- .ftz .NaN .abs .NaN.abs .ftz.abs")  # fmt: skip
    yield from each("{op}{q}.{t} <o:b32>, <i:b32>, <i:b32>;", op="min max",
                    q="- .NaN .NaN.xorsign.abs", t="f16x2 bf16x2")  # fmt: skip
    yield from each("{op}.f64 <o:f64>, <i:f64>, <i:f64>;", op="min max")
    for first, second in itertools.product(("min", "max"), repeat=2):
        for kind in ("s32", "u32", "s16x2", "u16x2"):
            yield (
                f"{{{{ .reg .b32 x; {first}.{kind} x, <i:b32>, <i:b32>;"
                f" {second}.{kind} <o:b32>, x, <i:b32>; }}}}"
            )
    for kind, added in (("s32", "s32"), ("u32", "u32"), ("s16x2", "s16x2"), ("u16x2", "u16x2")):
        yield from each("{{ .reg .b32 x; add.%s x, <i:b32>, <i:b32>; {op}.%s <o:b32>, x, <i:b32>; }}"
                        % (added, kind), op="min max min.relu max.relu")  # fmt: skip
    yield "{{ .reg .b32 x, y; min.s32 x, <i:b32>, <i:b32>; max.s32 y, <i:b32>, <i:b32>; .reg .pred q; setp.ne.s32 q, <i:b32>, 0; selp.b32 <o:b32>, x, y, q; }}"


def memory() -> Iterator[str]:
    wide = "b32*8 b64*4 f32*8"
    for vector in ("b32*2", "b32*4", "b32*8", "b64*2", "b64*4", "b128", "b64", "b16", "b16*4"):
        kind, _, count = vector.partition("*")
        v = f".v{count}" if count else ""
        for space in ("global", "shared", "local"):
            where = {"global": "<g>", "shared": "<s>", "local": "l"}[space]
            start = "{{ .local .align 32 .b8 l[64]; " if space == "local" else ""
            end = " }}" if start else ""
            store = f"st.{space}{v}.{kind} [{where}], <i:{vector}>;"
            load = f"ld.volatile.{space}{v}.{kind} <o:{vector}>, [{where}];"
            yield f"{start}{store} {load}{end}" if start else store
            if not start:
                yield load
        for q in ("", ".L1::no_allocate", ".L1::evict_first", ".L2::evict_last", ".L2::evict_first",
                  ".L1::no_allocate.L2::evict_last", ".L2::256B"):  # fmt: skip
            yield f"ld.global{q}{v}.{kind} <o:{vector}>, [<g>+64];"
            yield f"ld.global.nc{q}{v}.{kind} <o:{vector}>, [<g>+64];"
            yield f"st.global{q}{v}.{kind} [<g>+64], <i:{vector}>;"
        yield f"ld.global.L2::cache_hint{v}.{kind} <o:{vector}>, [<g>], <u:b64>;"
        yield f"st.global.L2::cache_hint{v}.{kind} [<g>], <i:{vector}>, <i:b64>;"
        yield f"@<p> ld.global{v}.{kind} <o:{vector}>, [<g>];"
        yield f"@<p> st.global{v}.{kind} [<g>], <i:{vector}>;"
        yield f"ld{v}.{kind} <o:{vector}>, [<g>];"
        yield f"st{v}.{kind} [<g>], <i:{vector}>;"
    yield from each("ld.{m}.global.b32 <o:b32>, [<g>];", m="relaxed.gpu relaxed.sys acquire.cta acquire.gpu acquire.sys acquire.cluster mmio.relaxed.sys")
    yield from each("st.{m}.global.b32 [<g>], <i:b32>;", m="relaxed.gpu relaxed.sys release.cta release.gpu release.sys release.cluster mmio.relaxed.sys")
    yield from each("ld.global.{t} <o:b32>, [<g>];", t="u8 s8 u16 s16")
    yield from each("ld.shared.{t} <o:b32>, [<s>];", t="u8 s8 u16 s16")
    yield from each("ld.shared::cluster{v} [<s>];", v=".b32\u00a0<o:b32>, .v4.b32\u00a0<o:b32*4>, .b64\u00a0<o:b64>,")
    yield from each("st.shared::cluster{v};", v=".b32\u00a0[<s>],\u00a0<i:b32> .v4.b32\u00a0[<s>],\u00a0<i:b32*4> .b64\u00a0[<s>],\u00a0<i:b64>")
    yield from each("cp.async.{c}.shared.global{q} [<s>], [<g>], {n};", c="ca", q="- .L2::64B .L2::128B .L2::256B", n="4 8 16")
    yield from each("cp.async.cg.shared.global [<s>], [<g>], 16{n};", n="- ,<i:b32>")
    yield from each("cp.async.ca.shared.global [<s>], [<g>], {n},<i:b32>;", n="4 8 16")
    yield "cp.async.cg.shared.global.L2::cache_hint [<s>], [<g>], 16, <i:b64>;"
    yield "cp.async.ca.shared.global [<s>], [<g>], 8, <p>;"
    yield "{{ cp.async.commit_group; cp.async.wait_group 1; cp.async.wait_all; }}"
    yield from each("cp.async.mbarrier.arrive{n}.shared::cta.b64 [<s>];", n="- .noinc")
    yield from each("prefetch.global.{l} [<g>];", l="L1 L2 L2::evict_last L2::evict_normal")
    yield "prefetch.tensormap [<g>];"
    yield "prefetchu.L1 [<g>];"
    yield "applypriority.global.L2::evict_normal [<g>], 128;"
    yield "discard.global.L2 [<g>], 128;"
    yield from each("createpolicy.fractional.{a}{f}.b64 <o:b64>{n};", a="L2::evict_last L2::evict_first L2::evict_unchanged", f="- .L2::evict_first", n="- ,0.5")
    yield "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 <o:b64>, [<g>], <i:b32>, <i:b32>;"
    yield "createpolicy.cvt.L2.b64 <o:b64>, <u:b64>;"
    yield from each("st.bulk.weak.shared::cta [<s>], {n}, 0;", n="<i:b64> 1024")
    yield from each("isspacep.{s} <o:pred>, <i:b64>;", s="global shared local const shared::cta shared::cluster param::entry")
    yield "{{ .reg .b64 x; cvta.shared.u64 x, <i:b64>; mov.b64 <o:b64>, x; }}"
    yield "cvta.to.shared.u64 <o:b64>, <i:b64>;"
    yield "mapa.shared::cluster.u32 <o:b32>, <s>, <i:b32>;"
    yield "mapa.u64 <o:b64>, <i:b64>, <i:b32>;"
    yield "getctarank.shared::cluster.u32 <o:b32>, <s>;"
    yield "getctarank.u64 <o:b32>, <i:b64>;"
    yield "alloca.u64 <o:b64>, <i:b64>;"
    yield "stacksave.u64 <o:b64>;"
    assert wide


def atomics() -> Iterator[str]:
    kinds = {
        "add": "u32 s32 u64 f32 f64 f16x2 bf16x2 f16 bf16", "min": "u32 s32 u64 s64 f16x2",
        "max": "u32 s32 u64 s64 bf16x2", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64",
        "inc": "u32", "dec": "u32", "exch": "b32 b64 b128", "cas": "b16 b32 b64 b128",
    }  # fmt: skip
    for op, types in kinds.items():
        for kind in types.split():
            reg = {"f64": "f64", "f32": "f32"}.get(kind) or "b" + re.sub(r"^\D+", "", kind).replace("16x2", "32")
            second = f", <i:{reg}>" if op == "cas" else ""
            noftz = ".noftz" if "f16" in kind else ""
            for space, where in ((".global", "<g>"), (".shared", "<s>"), ("", "<g>"), (".shared::cluster", "<s>")):
                for order in ("", ".acq_rel.gpu", ".relaxed.sys")[: 3 if space == ".global" else 1]:
                    yield f"atom{order}{space}.{op}{noftz}.{kind} <o:{reg}>, [{where}], <i:{reg}>{second};"
                if op not in ("exch", "cas"):
                    yield f"red{space}.{op}{noftz}.{kind} [{where}], <i:{reg}>;"
            yield f"@<p> atom.global.{op}{noftz}.{kind} <o:{reg}>, [<g>], <u:{reg}>{second};"
    for vector, reg in (("v2.f32", "f32*2"), ("v4.f32", "f32*4"), ("v2.f16", "b16*2"), ("v4.f16", "b16*4"), ("v8.f16", "b16*8"),
                        ("v2.bf16", "b16*2"), ("v4.bf16", "b16*4"), ("v8.bf16", "b16*8"), ("v2.f16x2", "b32*2"), ("v4.f16x2", "b32*4"),
                        ("v2.bf16x2", "b32*2"), ("v4.bf16x2", "b32*4")):  # fmt: skip
        noftz = "" if "f32" in vector else ".noftz"
        for op in ("add", "min", "max"):
            size, kind = vector.split(".")
            yield f"atom.global.{op}{noftz}.{size}.{kind} <o:{reg}>, [<g>], <i:{reg}>;"
            yield f"red.global.{op}{noftz}.{size}.{kind} [<g>], <i:{reg}>;"
        for op in ("ld_reduce",):
            for f in ("add", "min", "max"):
                yield f"multimem.ld_reduce.relaxed.sys.global.{f}.{size}.{kind} <o:{reg}>, [<g>];"
                yield f"multimem.ld_reduce.weak.global.{f}.acc::f32.{size}.{kind} <o:{reg}>, [<g>];"
        yield f"multimem.st.relaxed.sys.global.{size}.{kind} [<g>], <i:{reg}>;"
        yield f"multimem.red.relaxed.sys.global.add.{size}.{kind} [<g>], <i:{reg}>;"
    for kind, reg in (("u32", "b32"), ("s32", "b32"), ("u64", "b64"), ("s64", "b64"), ("f32", "f32"), ("f64", "f64"),
                      ("f16x2", "b32"), ("bf16x2", "b32"), ("e4m3x4", "b32"), ("e5m2x4", "b32"), ("b32", "b32"), ("b64", "b64")):  # fmt: skip
        for f in ("add", "min", "max", "and", "or", "xor"):
            yield f"multimem.ld_reduce.weak.global.{f}.{kind} <o:{reg}>, [<g>];"
            yield f"multimem.red.relaxed.gpu.global.{f}.{kind} [<g>], <i:{reg}>;"
        yield f"multimem.st.weak.global.{kind} [<g>], <i:{reg}>;"
    for kind in ("e4m3", "e5m2"):
        for size in ("v2", "v4", "v8"):
            for acc in ("", ".acc::f16"):
                yield f"multimem.ld_reduce.weak.global.add{acc}.{size}.{kind}x4 <o:b32*{size[1]}>, [<g>];"
    for kind, reg in (("u32", "b32"), ("s32", "b32"), ("u64", "b64"), ("b32", "b32"), ("s64", "b64")):
        for op in ("inc", "dec", "min", "max", "add", "and", "or", "xor"):
            yield f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind} [<s>], <i:{reg}>, [<s>];"
    yield from each("red.async.mmio.release.{s}.global.add.{t};", s="gpu sys", t="u32\u00a0[<g>],\u00a0<i:b32> u64\u00a0[<g>],\u00a0<i:b64>")
    for vector in ("b32", "b64", "b32*2", "b32*4", "b64*2", "f32", "f32*4"):
        kind, _, count = vector.partition("*")
        v = f".v{count}" if count else ""
        for weak in ("", ".weak"):
            yield f"st.async{weak}.shared::cluster.mbarrier::complete_tx::bytes{v}.{kind} [<s>], <i:{vector}>, [<s>];"
    yield from each("st.async.mmio.release.{s}.global.{t};", s="gpu sys", t="b32\u00a0[<g>],\u00a0<i:b32> b64\u00a0[<g>],\u00a0<i:b64> b16\u00a0[<g>],\u00a0<i:b16>")


def tensor_memory() -> Iterator[str]:
    counts = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}
    for shape, registers in counts.items():
        last = ", 16" if shape == "16x32bx2" else ""
        for times in (1, 2, 4, 8, 16, 32, 64, 128):
            n = registers * times
            if n > 128:
                continue
            for q in ("", ".pack::16b"):
                yield f"{{{{ tcgen05.ld.sync.aligned.{shape}.x{times}{q}.b32 <o:b32*{n}>, [<u:b32>]{last}; tcgen05.wait::ld.sync.aligned; }}}}"
            for q in ("", ".unpack::16b"):
                yield f"{{{{ tcgen05.st.sync.aligned.{shape}.x{times}{q}.b32 [<i:b32>]{last}, <i:b32*{n}>; tcgen05.wait::st.sync.aligned; }}}}"
        for times in (2, 8, 32):
            n = registers * times
            for op in ("min", "max", "min.abs", "max.NaN", "max.abs.NaN"):
                yield f"{{{{ tcgen05.ld.red.sync.aligned.{shape}.x{times}.{op}.f32 <o:f32*{n}>, <o:f32>, [<u:b32>]{last}; tcgen05.wait::ld.sync.aligned; }}}}"
            for op in ("min.u32", "max.s32"):
                yield f"{{{{ tcgen05.ld.red.sync.aligned.{shape}.x{times}.{op} <o:b32*{n}>, <o:b32>, [<u:b32>]{last}; tcgen05.wait::ld.sync.aligned; }}}}"
    for group in (1, 2):
        g = f"cta_group::{group}"
        yield f"tcgen05.alloc.{g}.sync.aligned.shared::cta.b32 [<s>], 64;"
        yield f"tcgen05.alloc.{g}.sync.aligned.shared::cta.b32 [<s>], <u:b32>;"
        yield f"tcgen05.dealloc.{g}.sync.aligned.b32 <u:b32>, 64;"
        yield f"tcgen05.dealloc.{g}.sync.aligned.b32 <u:b32>, <u:b32>;"
        yield f"tcgen05.relinquish_alloc_permit.{g}.sync.aligned;"
        yield f"tcgen05.shift.{g}.down [<u:b32>];"
        yield f"tcgen05.commit.{g}.mbarrier::arrive::one.shared::cluster.b64 [<s>];"
        yield f"tcgen05.commit.{g}.mbarrier::arrive::one.b64 [<i:b64>];"
        yield f"tcgen05.commit.{g}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [<s>], <i:b16>;"
        for shape in ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"):
            for q in ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"):
                yield f"tcgen05.cp.{g}.{shape}{q} [<u:b32>], <u:b64>;"
    yield "tcgen05.fence::before_thread_sync;"
    yield "tcgen05.fence::after_thread_sync;"


def tensor_memory_products() -> Iterator[str]:
    """tcgen05.mma: each kind, with the forms of A, scale, mask and collector."""
    for group in (1, 2):
        mask = f"<u:b32*{4 * group}>"
        for kind in ("f16", "tf32", "f8f6f4", "i8"):
            head = f"cta_group::{group}.kind::{kind}"
            for a in ("<u:b64>", "[<u:b32>]"):
                yield f"tcgen05.mma.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, <p>;"
                yield f"tcgen05.mma.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, {mask}, <p>;"
                yield f"tcgen05.mma.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, <p>, 3;"
                yield f"tcgen05.mma.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, {mask}, <p>, 5;"
                yield f"tcgen05.mma.sp.{head} [<u:b32>], {a}, <u:b64>, [<u:b32>], <u:b32>, <p>;"
                yield f"tcgen05.mma.sp.{head} [<u:b32>], {a}, <u:b64>, [<u:b32>], <u:b32>, {mask}, <p>;"
                yield f"tcgen05.mma.sp.{head} [<u:b32>], {a}, <u:b64>, [<u:b32>], <u:b32>, <p>, 7;"
                for use in ("fill", "use", "lastuse", "discard"):
                    yield f"tcgen05.mma.{head}.collector::a::{use} [<u:b32>], {a}, <u:b64>, <u:b32>, <p>;"
            yield f"tcgen05.mma.{head}.ashift.collector::a::discard [<u:b32>], [<u:b32>], <u:b64>, <u:b32>, <p>;"
            if group == 1:
                for a, zero in itertools.product(("<u:b64>", "[<u:b32>]"), ("", ", <u:b64>")):
                    yield f"tcgen05.mma.ws.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, <p>{zero};"
                    yield f"tcgen05.mma.ws.sp.{head} [<u:b32>], {a}, <u:b64>, [<u:b32>], <u:b32>, <p>{zero};"
                for buffer, use in itertools.product(("b0", "b1", "b3"), ("fill", "use", "lastuse", "discard")):
                    yield f"tcgen05.mma.ws.{head}.collector::{buffer}::{use} [<u:b32>], <u:b64>, <u:b64>, <u:b32>, <p>;"
            yield f"tcgen05.mma.{head} [<u:b32>], <u:b64>, <u:b64>, <u:b32>, 0;"
            yield f"tcgen05.mma.{head} [<u:b32>], <u:b64>, <u:b64>, <u:b32>, 1;"
        for kind, scales in (("mxf8f6f4", ("", ".scale_vec::1X", ".block32")), ("mxf4", ("", ".scale_vec::2X", ".block32")),
                             ("mxf4nvf4", (".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"))):  # fmt: skip
            for scale, a in itertools.product(scales, ("<u:b64>", "[<u:b32>]")):
                head = f"cta_group::{group}.kind::{kind}.block_scale{scale}"
                yield f"tcgen05.mma.{head} [<u:b32>], {a}, <u:b64>, <u:b32>, [<u:b32>], [<u:b32>], <p>;"
                yield f"tcgen05.mma.sp.{head} [<u:b32>], {a}, <u:b64>, [<u:b32>], <u:b32>, [<u:b32>], [<u:b32>], <p>;"
                yield f"tcgen05.mma.{head}.collector::a::fill [<u:b32>], {a}, <u:b64>, <u:b32>, [<u:b32>], [<u:b32>], <p>;"


def matrices() -> Iterator[str]:
    for n, q in itertools.product((1, 2, 4), ("", ".trans")):
        yield f"ldmatrix.sync.aligned.m8n8.x{n}{q}.shared.b16 <o:b32*{n}>, [<s>];"
        yield f"stmatrix.sync.aligned.m8n8.x{n}{q}.shared.b16 [<s>], <i:b32*{n}>;"
        yield f"stmatrix.sync.aligned.m16n8.x{n}.trans.shared.b8 [<s>], <i:b32*{n}>;" if q else ""
        for kind in ("b8x16.b6x16_p32", "b8x16.b4x16_p64", "b8"):
            yield f"ldmatrix.sync.aligned.m8n16.x{n}{q}.shared.{kind} <o:b32*{n}>, [<s>];"
            yield f"ldmatrix.sync.aligned.m16n16.x{n}{q}.shared.{kind} <o:b32*{2 * n}>, [<s>];"
    yield "movmatrix.sync.aligned.m8n8.trans.b16 <o:b32>, <i:b32>;"


def warp_products() -> Iterator[str]:
    def one(op: str, shape: str, types: str, d: str, a: str, b: str, c: str = "", rest: str = "") -> str:
        return f"{op}.sync.aligned.{shape}.row.col{types} <o:{d}>, <i:{a}>, <i:{b}>, <i:{c or d}>{rest};"

    for kind in ("f16", "bf16"):
        yield one("mma", "m16n8k8", f".f32.{kind}.{kind}.f32", "f32*4", "b32*2", "b32*1")
        yield one("mma", "m16n8k16", f".f32.{kind}.{kind}.f32", "f32*4", "b32*4", "b32*2")
    yield one("mma", "m16n8k8", ".f16.f16.f16.f16", "b32*2", "b32*2", "b32*1")
    yield one("mma", "m16n8k16", ".f16.f16.f16.f16", "b32*2", "b32*4", "b32*2")
    yield one("mma", "m16n8k4", ".f32.tf32.tf32.f32", "f32*4", "b32*2", "b32*1")
    yield one("mma", "m16n8k8", ".f32.tf32.tf32.f32", "f32*4", "b32*4", "b32*2")
    yield one("mma", "m8n8k4", ".f32.f16.f16.f32", "f32*8", "b32*2", "b32*2")
    yield one("mma", "m8n8k4", ".f16.f16.f16.f16", "b32*4", "b32*2", "b32*2")
    yield one("mma", "m8n8k4", ".f64.f64.f64.f64", "f64*2", "f64*1", "f64*1")
    for k, a, b in ((4, 2, 1), (8, 4, 2), (16, 8, 4)):
        yield one("mma", f"m16n8k{k}", ".f64.f64.f64.f64", "f64*4", f"f64*{a}", f"f64*{b}")
    for x, y in itertools.product(("s8", "u8"), repeat=2):
        for sat in ("", ".satfinite"):
            yield one("mma", "m8n8k16", f"{sat}.s32.{x}.{y}.s32", "b32*2", "b32*1", "b32*1")
            yield one("mma", "m16n8k16", f"{sat}.s32.{x}.{y}.s32", "b32*4", "b32*2", "b32*1")
            yield one("mma", "m16n8k32", f"{sat}.s32.{x}.{y}.s32", "b32*4", "b32*4", "b32*2")
    for x, y in itertools.product(("s4", "u4"), repeat=2):
        yield one("mma", "m8n8k32", f".s32.{x}.{y}.s32", "b32*2", "b32*1", "b32*1")
        yield one("mma", "m16n8k32", f".s32.{x}.{y}.s32", "b32*4", "b32*2", "b32*1")
        yield one("mma", "m16n8k64", f".s32.{x}.{y}.s32", "b32*4", "b32*4", "b32*2")
    for op in ("xor", "and"):
        yield one("mma", "m8n8k128", f".s32.b1.b1.s32.{op}.popc", "b32*2", "b32*1", "b32*1")
        yield one("mma", "m16n8k128", f".s32.b1.b1.s32.{op}.popc", "b32*4", "b32*2", "b32*1")
        yield one("mma", "m16n8k256", f".s32.b1.b1.s32.{op}.popc", "b32*4", "b32*4", "b32*2")
    for x, y in itertools.product(("e4m3", "e5m2"), repeat=2):
        for k, a, b in ((16, 2, 1), (32, 4, 2)):
            yield one("mma", f"m16n8k{k}", f".f32.{x}.{y}.f32", "f32*4", f"b32*{a}", f"b32*{b}")
            yield one("mma", f"m16n8k{k}", f".f16.{x}.{y}.f16", "b32*2", f"b32*{a}", f"b32*{b}")
    small = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    scale = ", <i:b32>, {<i:b16>, <i:b16>}, <i:b32>, {<i:b16>, <i:b16>}"
    fixed = ", <i:b32>, {1, 2}, <i:b32>, {0, 3}"
    zero = ", <i:b32>, {0, 0}, <i:b32>, {0, 0}"
    for x, y in itertools.product(small, repeat=2):
        yield one("mma", "m16n8k32", f".kind::f8f6f4.f32.{x}.{y}.f32", "f32*4", "b32*4", "b32*2")
        yield one("mma", "m16n8k32", f".kind::f8f6f4.f16.{x}.{y}.f16", "b32*2", "b32*4", "b32*2")
        yield one("mma", "m16n8k32", f".kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{x}.{y}.f32.ue8m0", "f32*4", "b32*4", "b32*2", rest=zero)
        sparse = f"::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.{x}.{y}.f32"
        yield f"mma.sp{sparse} <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0;"
        sparse = f"::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{x}.{y}.f32.ue8m0"
        yield f"mma.sp{sparse} <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0{zero};"
    yield one("mma", "m16n8k32", ".kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0", "f32*4", "b32*4", "b32*2", rest=fixed)
    for kind, vec, types in (("mxf4", "2X", "ue8m0"), ("mxf4nvf4", "2X", "ue8m0"), ("mxf4nvf4", "4X", "ue4m3"), ("mxf4nvf4", "4X", "ue8m0")):
        for selectors in (zero, ", <i:b32>, {2, 1}, <i:b32>, {0, 3}", ", <i:b32>, {0, 1}, <i:b32>, {0, 2}", scale):
            yield one("mma", "m16n8k64", f".kind::{kind}.block_scale.scale_vec::{vec}.f32.e2m1.e2m1.f32.{types}", "f32*4", "b32*4", "b32*2", rest=selectors)
        yield (f"mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::{kind}.block_scale.scale_vec::{vec}.f32.e2m1.e2m1.f32.{types}"
               f" <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0{zero};")  # fmt: skip
    for word in ("mma.sp", "mma.sp::ordered_metadata"):
        for kind in ("f16", "bf16"):
            yield f"{word}.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 <o:f32*4>, <i:b32*2>, <i:b32*2>, <i:f32*4>, <i:b32>, 1;"
            yield f"{word}.sync.aligned.m16n8k32.row.col.f32.{kind}.{kind}.f32 <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0;"
        yield f"{word}.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 <o:b32*2>, <i:b32*4>, <i:b32*4>, <i:b32*2>, <i:b32>, 0;"
        yield f"{word}.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 <o:f32*4>, <i:b32*2>, <i:b32*2>, <i:f32*4>, <i:b32>, 0;"
        yield f"{word}.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0;"
        for x, y in (("s8", "s8"), ("u8", "s8"), ("u8", "u8")):
            yield f"{word}.sync.aligned.m16n8k32.row.col.s32.{x}.{y}.s32 <o:b32*4>, <i:b32*2>, <i:b32*2>, <i:b32*4>, <i:b32>, 1;"
            yield f"{word}.sync.aligned.m16n8k64.row.col.satfinite.s32.{x}.{y}.s32 <o:b32*4>, <i:b32*4>, <i:b32*4>, <i:b32*4>, <i:b32>, 0;"
        for x in ("s4", "u4"):
            yield f"{word}.sync.aligned.m16n8k64.row.col.s32.{x}.{x}.s32 <o:b32*4>, <i:b32*2>, <i:b32*2>, <i:b32*4>, <i:b32>, 1;"
            yield f"{word}.sync.aligned.m16n8k128.row.col.s32.{x}.{x}.s32 <o:b32*4>, <i:b32*4>, <i:b32*4>, <i:b32*4>, <i:b32>, 0;"
        yield f"{word}.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32 <o:f32*4>, <i:b32*4>, <i:b32*4>, <i:f32*4>, <i:b32>, 0;"
        yield f"{word}.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16 <o:b32*2>, <i:b32*4>, <i:b32*4>, <i:b32*2>, <i:b32>, 0;"


def group_products() -> Iterator[str]:
    """wgmma, of sm_90a."""
    start = "{{ wgmma.fence.sync.aligned; wgmma.mma_async"
    end = " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }}"
    for n in (8, 24, 64, 256):
        for kind, k in (("f16", 16), ("bf16", 16), ("tf32", 8), ("e4m3", 32), ("e5m2", 32)):
            if n > 64 and kind != "f16":
                continue
            turned = ", 0, 1" if kind in ("f16", "bf16") else ""
            for a in ("<u:b64>", "<i:b32*4>"):
                t = turned if a[1] == "u" else turned[:3]
                for d, regs in (("f32", n // 2), ("f16", n // 4)):
                    reg = "f32" if d == "f32" else "b32"
                    yield f"{start}.sync.aligned.m64n{n}k{k}.{d}.{kind}.{kind} <o:{reg}*{regs}>, {a}, <u:b64>, <p>, 1, -1{t};{end}"
                    yield f"{start}.sync.aligned.m64n{n}k{k}.{d}.{kind}.{kind} <o:{reg}*{regs}>, {a}, <u:b64>, 0, 1, 1{t};{end}"
                    yield f"{start}.sp.sync.aligned.m64n{n}k{2 * k}.{d}.{kind}.{kind} <o:{reg}*{regs}>, {a}, <u:b64>, <i:b32>, 0, 1, 1, 1{t};{end}"
        for x, y in (("s8", "s8"), ("u8", "s8"), ("s8", "u8")):
            for a in ("<u:b64>", "<i:b32*4>"):
                yield f"{start}.sync.aligned.m64n{n}k32.s32.{x}.{y} <o:b32*{n // 2}>, {a}, <u:b64>, 1;{end}"
                yield f"{start}.sp.sync.aligned.m64n{n}k64.satfinite.s32.{x}.{y} <o:b32*{n // 2}>, {a}, <u:b64>, <i:b32>, 0, 0;{end}"
        yield f"{start}.sync.aligned.m64n{n}k256.s32.b1.b1.and.popc <o:b32*{n // 2}>, <u:b64>, <u:b64>, 1;{end}"
        yield f"{start}.sync.aligned.m64n{n}k256.s32.b1.b1.and.popc <o:b32*{n // 2}>, <i:b32*4>, <u:b64>, 1;{end}"


def barriers() -> Iterator[str]:
    yield "mbarrier.init.shared.b64 [<s>], 8;"
    yield "mbarrier.init.shared.b64 [<s>], <i:b32>;"
    yield "mbarrier.inval.shared.b64 [<s>];"
    for op, space in itertools.product(("arrive", "arrive_drop"), ("shared::cta", "shared::cluster")):
        for q, rest in (("", ""), ("", ", <i:b32>"), ("", ", 3"), (".noComplete", ", <i:b32>"), (".expect_tx", ", <i:b32>"), (".expect_tx", ", 1024"),
                        (".release.cluster", ""), (".relaxed.cluster", ", 2"), (".expect_tx.relaxed.cta", ", <i:b32>")):  # fmt: skip
            yield f"mbarrier.{op}{q}.{space}.b64 <o:b64>, [<s>]{rest};"
            yield f"mbarrier.{op}{q}.{space}.b64 _, [<s>]{rest};"
    for op in ("expect_tx", "complete_tx"):
        for space in ("shared::cta", "shared::cluster"):
            yield f"mbarrier.{op}.relaxed.cluster.{space}.b64 [<s>], <i:b32>;"
    for op in ("test_wait", "try_wait"):
        for q in ("", ".acquire.cluster", ".relaxed.cta", ".relaxed.cluster"):
            for hint in ("", ", <i:b32>", ", 100")[: 1 if op == "test_wait" else 3]:
                yield f"mbarrier.{op}{q}.shared::cta.b64 <o:pred>, [<s>], <i:b64>{hint};"
                yield f"mbarrier.{op}.parity{q}.shared::cta.b64 <o:pred>, [<s>], <i:b32>{hint};"
                yield f"mbarrier.{op}.parity{q}.shared::cta.b64 <o:pred>, [<s>], 1{hint};"
    yield "mbarrier.pending_count.b64 <o:b32>, <i:b64>;"
    yield "{{ .reg .pred q; L%=: mbarrier.try_wait.parity.shared::cta.b64 q, [<s>], <i:b32>; @!q bra L%=; }}"
    yield from each("barrier.cluster.{q}.aligned;", q="arrive arrive.relaxed arrive.release wait wait.acquire")
    yield from each("barrier.cluster.{q};", q="arrive wait")
    yield from each("{b}.sync{r};", b="bar barrier", r="\u00a00 \u00a0<i:b32> \u00a03,64 \u00a0<i:b32>,<i:b32> \u00a02,<i:b32>")
    yield from each("{b}.arrive{r};", b="bar barrier", r="\u00a03,64 \u00a0<i:b32>,<i:b32>")
    yield from each("barrier.cta.red{q};", q=".and.aligned.pred\u00a0<o:pred>,\u00a00,\u00a0<p> .or.pred\u00a0<o:pred>,\u00a00,\u00a064,\u00a0<p> .popc.u32\u00a0<o:b32>,\u00a00,\u00a0<p>")
    yield from each("fence.{q};", q="acq_rel.cta sc.gpu sc.sys acq_rel.cluster acquire.cluster release.gpu mbarrier_init.release.cluster proxy.alias proxy.async proxy.async.global proxy.async.shared::cta proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster proxy.async::generic.release.sync_restrict::shared::cta.cluster proxy.tensormap::generic.release.gpu")
    yield "fence.proxy.tensormap::generic.acquire.gpu [<g>], 128;"
    yield from each("membar.{q};", q="cta gl sys")
    yield "griddepcontrol.wait;"
    yield "griddepcontrol.launch_dependents;"
    yield "nanosleep.u32 <i:b32>;"
    yield "nanosleep.u32 100;"
    yield from each("setmaxnreg.{q}.sync.aligned.u32 {n};", q="inc dec", n="232 40")
    yield "elect.sync <o:b32>|<o:pred>, -1;"
    yield "elect.sync _|<o:pred>, <i:b32>;"
    yield from each("vote.sync.{q}.pred <o:pred>, <p>, {m};", q="all any uni", m="-1 <i:b32>")
    yield "vote.sync.ballot.b32 <o:b32>, <p>, -1;"
    yield "activemask.b32 <o:b32>;"
    yield from each("match.any.sync.{t};", t="b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0-1 b64\u00a0<o:b32>,\u00a0<i:b64>,\u00a0-1")
    yield from each("match.all.sync.{t};", t="b32\u00a0<o:b32>|<o:pred>,\u00a0<i:b32>,\u00a0-1 b64\u00a0<o:b32>|<o:pred>,\u00a0<i:b64>,\u00a0-1")
    yield from each("shfl.sync.{q}.b32 <o:b32>|<o:pred>, <i:b32>, {n}, {c}, -1;", q="up down bfly idx", n="1 <i:b32>", c="0x1f 0x181f 0")
    yield "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [<s>], [<s>];"
    yield "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [<s>], [<s>];"
    yield "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 <o:pred>, <i:b128>;"
    yield "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 <o:b32*4>, <i:b128>;"
    yield from each("redux.sync.{q} <o:b32>, <i:b32>, -1;", q="add.s32 add.u32 min.s32 min.u32 max.s32 max.u32 and.b32 or.b32 xor.b32")
    yield from each("redux.sync.{q}.f32 <o:f32>, <i:f32>, {m};", q="min max min.abs max.abs min.NaN max.NaN min.abs.NaN max.abs.NaN", m="-1 <i:b32>")
    yield from each("mov.u32 <o:b32>, %{s};", s="tid.x ctaid.y ntid.z nctaid.x laneid warpid smid nsmid gridid clock lanemask_lt clusterid.x nclusterid.y cluster_ctaid.x cluster_nctaid.z cluster_ctarank cluster_nctarank dynamic_smem_size total_smem_size aggr_smem_size globaltimer_lo")
    yield from each("mov.u64 <o:b64>, %{s};", s="clock64 globaltimer current_graph_exec")
    yield "mov.pred <o:pred>, %is_explicit_cluster;"


def bulk() -> Iterator[str]:
    done = "mbarrier::complete_tx::bytes"
    for n in ("<u:b32>", "64", "<i:b32>"):
        yield f"cp.async.bulk.shared::cluster.global.{done} [<s>], [<g>], {n}, [<s>];"
        yield f"cp.async.bulk.shared::cta.global.{done} [<s>], [<g>], {n}, [<s>];"
        yield f"cp.async.bulk.shared::cta.global.{done}.L2::cache_hint [<s>], [<g>], {n}, [<s>], <u:b64>;"
        yield f"cp.async.bulk.shared::cluster.global.{done}.multicast::cluster.L2::cache_hint [<s>], [<g>], {n}, [<s>], <u:b16>, <u:b64>;"
        yield f"cp.async.bulk.shared::cluster.global.{done}.multicast::cluster [<s>], [<g>], {n}, [<s>], <u:b16>;"
        yield f"cp.async.bulk.shared::cluster.shared::cta.{done} [<s>], [<s>], {n}, [<s>];"
        yield f"cp.async.bulk.global.shared::cta.bulk_group [<g>], [<s>], {n};"
        yield f"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [<g>], [<s>], {n}, <u:b64>;"
        yield f"cp.async.bulk.global.shared::cta.bulk_group.cp_mask [<g>], [<s>], {n}, <u:b16>;"
        yield f"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask [<g>], [<s>], {n}, <u:b64>, <u:b16>;"
        yield f"cp.async.bulk.prefetch.L2.global [<g>], {n};"
        yield f"cp.async.bulk.prefetch.L2.global.L2::cache_hint [<g>], {n}, <u:b64>;"
    for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
        for kind in ("s32", "u32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64"):
            noftz = ".noftz" if kind in ("f16", "bf16") and op == "add" else ""
            yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{noftz}.{kind} [<g>], [<s>], <u:b32>;"
            yield f"cp.reduce.async.bulk.shared::cluster.shared::cta.{done}.{op}.{kind} [<s>], [<s>], <u:b32>, [<s>];"
    yield "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [<g>], [<s>], <u:b32>, <u:b64>;"
    yield "multimem.cp.async.bulk.global.shared::cta.bulk_group [<g>], [<s>], <u:b32>;"
    yield "multimem.cp.async.bulk.global.shared::cta.bulk_group.cp_mask [<g>], [<s>], <u:b32>, <u:b16>;"
    yield from each("multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.{o} [<g>], [<s>], <u:b32>;", o="add.u32 add.f32 min.s32 add.noftz.f16 max.bf16 xor.b32")
    yield "{{ cp.async.bulk.commit_group; cp.async.bulk.wait_group 1; }}"
    yield "cp.async.bulk.wait_group.read 0;"


def tensor_copies() -> Iterator[str]:
    done = "mbarrier::complete_tx::bytes"
    for rank in range(1, 6):
        at = "{" + ", ".join(["<u:b32>"] * rank) + "}"
        spread = "{" + ", ".join(["<i:b32>"] * rank) + "}"
        t = f"cp.async.bulk.tensor.{rank}d"
        yield f"{t}.shared::cluster.global.tile.{done} [<s>], [<g>, {at}], [<s>];"
        yield f"{t}.shared::cta.global.tile.{done} [<s>], [<g>, {spread}], [<s>];"
        yield f"{t}.shared::cluster.global.tile.{done}.multicast::cluster [<s>], [<g>, {at}], [<s>], <u:b16>;"
        yield f"{t}.shared::cluster.global.tile.{done}.L2::cache_hint [<s>], [<g>, {at}], [<s>], <u:b64>;"
        yield f"{t}.shared::cluster.global.tile.{done}.multicast::cluster.L2::cache_hint [<s>], [<g>, {at}], [<s>], <u:b16>, <u:b64>;"
        yield f"{t}.shared::cluster.global.tile.{done}.cta_group::2 [<s>], [<g>, {at}], [<s>];"
        yield f"{t}.shared::cluster.global.tile.{done}.multicast::cluster.cta_group::2.L2::cache_hint [<s>], [<g>, {at}], [<s>], <u:b16>, <u:b64>;"
        yield f"{t}.global.shared::cta.tile.bulk_group [<g>, {at}], [<s>];"
        yield f"{t}.global.shared::cta.tile.bulk_group.L2::cache_hint [<g>, {at}], [<s>], <u:b64>;"
        yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [<g>, {at}];"
        yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile.L2::cache_hint [<g>, {at}], <u:b64>;"
        for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
            yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile.bulk_group [<g>, {at}], [<s>];"
        yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group.L2::cache_hint [<g>, {at}], [<s>], <u:b64>;"
        if rank > 2:
            offsets = "{" + ", ".join(["<u:b16>"] * (rank - 2)) + "}"
            yield f"{t}.shared::cluster.global.im2col.{done} [<s>], [<g>, {at}], [<s>], {offsets};"
            yield f"{t}.shared::cluster.global.im2col.{done}.multicast::cluster.L2::cache_hint [<s>], [<g>, {at}], [<s>], {offsets}, <u:b16>, <u:b64>;"
            yield f"{t}.global.shared::cta.im2col_no_offs.bulk_group [<g>, {at}], [<s>];"
            yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col [<g>, {at}], {offsets};"
            yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.im2col_no_offs.bulk_group [<g>, {at}], [<s>];"
            for w in ("im2col::w", "im2col::w::128"):
                yield f"{t}.shared::cluster.global.{w}.{done} [<s>], [<g>, {at}], [<s>], {{<u:b16>, <u:b16>}};"
                yield f"{t}.shared::cluster.global.{w}.{done}.multicast::cluster.cta_group::1 [<s>], [<g>, {at}], [<s>], {{<u:b16>, <u:b16>}}, <u:b16>;"
                yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.{w} [<g>, {at}], {{<u:b16>, <u:b16>}};"
    five = "{<u:b32>, <u:b32>, <u:b32>, <u:b32>, <u:b32>}"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.{done} [<s>], [<g>, {five}], [<s>];"
    yield f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{done} [<s>], [<g>, {five}], [<s>];"
    yield f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{done}.cta_group::2.L2::cache_hint [<s>], [<g>, {five}], [<s>], <u:b64>;"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.{done}.multicast::cluster [<s>], [<g>, {five}], [<s>], <u:b16>;"
    yield f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [<g>, {five}], [<s>];"
    yield f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group.L2::cache_hint [<g>, {five}], [<s>], <u:b64>;"
    yield f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [<g>, {five}];"
    yield "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [<g>], [<s>], 128;"
    for field, kind in (("global_address", "b64"), ("rank", "b32"), ("box_dim", "b32"), ("global_dim", "b32"), ("global_stride", "b64"), ("element_stride", "b32"), ("elemtype", "b32"), ("swizzle_mode", "b32"), ("fill_mode", "b32"), ("interleave_layout", "b32"), ("swizzle_atomicity", "b32")):
        ordinal = "1, " if field[-4:] in ("_dim", "ride") else ""
        value = f"<i:{kind}>" if field not in ("elemtype", "swizzle_mode", "fill_mode", "interleave_layout", "swizzle_atomicity") else "1"
        yield f"tensormap.replace.tile.{field}.global.b1024.{kind} [<g>], {ordinal}{value};"
        yield f"tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [<s>], {ordinal}{value};"


def conversions() -> Iterator[str]:
    pairs = "e4m3x2 e5m2x2"
    for r in ("", ".relu"):
        for kind in pairs.split():
            yield f"cvt.rn.satfinite{r}.{kind}.f32 <o:b16>, <i:f32>, <i:f32>;"
            yield f"cvt.rn.satfinite{r}.{kind}.f16x2 <o:b16>, <i:b32>;"
            yield f"cvt.rn.satfinite{r}.{kind}.bf16x2 <o:b16>, <i:b32>;"
            yield f"cvt.rn{r}.f16x2.{kind} <o:b32>, <i:b16>;"
            yield f"cvt.rn{r}.bf16x2.{kind} <o:b32>, <i:b16>;"
        for kind in ("e2m3x2", "e3m2x2"):
            yield f"cvt.rn.satfinite{r}.{kind}.f32 <o:b16>, <i:f32>, <i:f32>;"
            yield f"cvt.rn.satfinite{r}.{kind}.f16x2 <o:b16>, <i:b32>;"
            yield f"cvt.rn.satfinite{r}.{kind}.bf16x2 <o:b16>, <i:b32>;"
            yield f"cvt.rn{r}.f16x2.{kind} <o:b32>, <i:b16>;"
            yield f"cvt.rn{r}.bf16x2.{kind} <o:b32>, <i:b16>;"
        for source, regs in (("f32", "<i:f32>, <i:f32>"), ("f16x2", "<i:b32>"), ("bf16x2", "<i:b32>")):
            yield f"{{{{ .reg .b8 x; cvt.rn.satfinite{r}.e2m1x2.{source} x, {regs}; cvt.u16.u8 <o:b16>, x; }}}}"
        for to in ("f16x2", "bf16x2"):
            yield f"{{{{ .reg .b8 x; cvt.u8.u16 x, <i:b16>; cvt.rn{r}.{to}.e2m1x2 <o:b32>, x; }}}}"
        yield f"cvt.rn.satfinite{r}.s2f6x2.f32 <o:b16>, <i:f32>, <i:f32>;"
        yield f"cvt.rn.satfinite{r}.scaled::n2::ue8m0.s2f6x2.f32 <o:b16>, <i:f32>, <i:f32>, <i:b16>;"
        for kind in ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"):
            yield f"cvt.rs{r}.satfinite.{kind}.f32 <o:b32>, {{<i:f32>, <i:f32>, <i:f32>, <i:f32>}}, <i:b32>;"
        yield f"cvt.rs{r}.satfinite.e2m1x4.f32 <o:b16>, {{<i:f32>, <i:f32>, <i:f32>, <i:f32>}}, <i:b32>;"
        for kind in ("f16x2", "bf16x2"):
            for way in ("rn", "rz"):
                yield f"cvt.{way}{r}.{kind}.f32 <o:b32>, <i:f32>, <i:f32>;"
                yield f"cvt.{way}.satfinite{r}.{kind}.f32 <o:b32>, <i:f32>, <i:f32>;"
            yield f"cvt.rs{r}.{kind}.f32 <o:b32>, <i:f32>, <i:f32>, <i:b32>;"
            yield f"cvt.rs{r}.satfinite.{kind}.f32 <o:b32>, <i:f32>, <i:f32>, <i:b32>;"
        for kind in ("f16", "bf16"):
            for way in ("rn", "rz"):
                yield f"cvt.{way}{r}.{kind}.f32 <o:b16>, <i:f32>;"
        for way in ("rna", "rn", "rz"):
            for s in ("", ".satfinite"):
                yield f"cvt.{way}{s}{r}.tf32.f32 <o:b32>, <i:f32>;"
    for way in ("rz", "rp"):
        yield f"cvt.{way}.ue8m0x2.f32 <o:b16>, <i:f32>, <i:f32>;"
        yield f"cvt.{way}.satfinite.ue8m0x2.f32 <o:b16>, <i:f32>, <i:f32>;"
        yield f"cvt.{way}.satfinite.ue8m0x2.bf16x2 <o:b16>, <i:b32>;"
    yield "cvt.rn.bf16x2.ue8m0x2 <o:b32>, <i:b16>;"
    ints = {"s8": "b32", "u8": "b32", "s16": "b16", "u16": "b16", "s32": "b32", "u32": "b32", "s64": "b64", "u64": "b64"}
    floats = {"f16": "b16", "bf16": "b16", "f32": "f32", "f64": "f64"}
    for (i, ri), (f, rf) in itertools.product(ints.items(), floats.items()):
        for way in ("rni", "rzi", "rmi", "rpi"):
            yield f"cvt.{way}.{i}.{f} <o:{ri}>, <i:{rf}>;"
        for way in ("rn", "rz"):
            yield f"cvt.{way}.{f}.{i} <o:{rf}>, <i:{ri}>;"
    for (a, ra), (b, rb) in itertools.product(floats.items(), repeat=2):
        for way in ("", ".rn", ".rz", ".rm", ".rni", ".rpi"):
            yield f"cvt{way}.{a}.{b} <o:{ra}>, <i:{rb}>;"
    yield from each("cvt.pack.sat.{q};", q="s16.s32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32> u16.s32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32> s8.s32.b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32> u8.s32.b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32> s4.s32.b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32> u2.s32.b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32>")


def floats() -> Iterator[str]:
    for op, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        args = ", ".join(["<i:b64>"] * n)
        yield from each(f"{op}.{{r}}{{f}}.f32x2 <o:b64>, {args};", r="rn rz rm rp", f="- .ftz")
        args32 = ", ".join(["<i:f32>"] * n)
        yield from each(f"{op}.{{r}}{{f}}.f32 <o:f32>, {args32};", r="rn rz rm rp", f="- .ftz .sat .ftz.sat")
        yield from each(f"{op}.{{r}}.f32 <o:f32>, {', '.join(['<u:f32>'] * n)};", r="rn rz")
        args64 = ", ".join(["<i:f64>"] * n)
        yield from each(f"{op}.{{r}}.f64 <o:f64>, {args64};", r="rn rz rm rp")
        for kind in ("f16x2", "bf16x2"):
            args = ", ".join(["<i:b32>"] * n)
            yield from each(f"{op}{{q}}.{kind} <o:b32>, {args};", q="- .rn .rn.sat .rn.ftz .rn.relu .rn.oob .rn.oob.relu")
        for kind in ("f16", "bf16"):
            args = ", ".join(["<i:b16>"] * n)
            yield from each(f"{op}{{q}}.{kind} <o:b16>, {args};", q=".rn .rn.relu .rn.sat")
            mixed = "<i:b16>, <i:b16>, <i:f32>" if n == 3 else "<i:b16>, <i:f32>"
            yield from each(f"{op}{{q}}.f32.{kind} <o:f32>, {mixed};", q=".rn .rz .rn.sat .rm")
    yield from each("{op}{q}.{t} <o:b32>, <i:b32>;", op="abs neg", q="- .ftz", t="f16x2 bf16x2")
    yield from each("{op}.approx{f}.f32 <o:f32>, <i:f32>;", op="rcp rsqrt sqrt sin cos lg2 ex2 tanh", f="- .ftz")
    yield from each("tanh.approx.{t};", t="f16x2\u00a0<o:b32>,\u00a0<i:b32> bf16x2\u00a0<o:b32>,\u00a0<i:b32> f16\u00a0<o:b16>,\u00a0<i:b16> bf16\u00a0<o:b16>,\u00a0<i:b16>")
    yield from each("ex2.approx{t};", t=".f16x2\u00a0<o:b32>,\u00a0<i:b32> .ftz.bf16x2\u00a0<o:b32>,\u00a0<i:b32> .f16\u00a0<o:b16>,\u00a0<i:b16> .ftz.bf16\u00a0<o:b16>,\u00a0<i:b16>")
    yield from each("{op}.approx.ftz.f64 <o:f64>, <i:f64>;", op="rcp rsqrt")
    yield from each("set.{c}.{t}.f32 <o:b32>, <i:f32>, <i:f32>;", c="lt geu nan", t="u32 s32")
    yield from each("setp.{c}{f}.f32 <o:pred>, <i:f32>, <i:f32>;", c="eq ne lt ge ltu num nan", f="- .ftz")
    yield from each("setp.{c}.f16x2 <o:pred>|<o:pred>, <i:b32>, <i:b32>;", c="eq lt geu")
    yield from each("setp.{c}.and.f64 <o:pred>|<o:pred>, <i:f64>, <i:f64>, <p>;", c="eq lt geu")
    yield from each("copysign.{t};", t="f32\u00a0<o:f32>,\u00a0<i:f32>,\u00a0<i:f32> f64\u00a0<o:f64>,\u00a0<i:f64>,\u00a0<i:f64>")
    yield from each("testp.{q}.f32 <o:pred>, <i:f32>;", q="finite infinite number notanumber normal subnormal")
    yield from each("div.{q}.f32 <o:f32>, <i:f32>, <i:f32>;", q="full approx")
    yield "slct.f32.s32 <o:f32>, <i:f32>, <i:f32>, <i:b32>;"


def integers() -> Iterator[str]:
    yield from each("bfind{q}.{t} <o:b32>, <i:b32>;", q="- .shiftamt", t="u32 s32")
    yield from each("bfind{q}.{t} <o:b32>, <i:b64>;", q="- .shiftamt", t="u64 s64")
    yield from each("bfind{q}.{t} <o:b32>, <u:b32>;", q="- .shiftamt", t="u32 s32")
    yield from each("{op}.b32 <o:b32>, <i:b32>;", op="clz popc brev not cnot")
    yield from each("{op}.b64 <o:b32>, <i:b64>;", op="clz popc")
    yield "brev.b64 <o:b64>, <i:b64>;"
    yield from each("bfe.{t} <o:b32>, <i:b32>, {n}, {m};", t="u32 s32", n="3 <i:b32>", m="8 <i:b32>")
    yield from each("bfe.{t} <o:b64>, <i:b64>, <i:b32>, <i:b32>;", t="u64 s64")
    yield from each("bfi.{t};", t="b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<i:b32> b64\u00a0<o:b64>,\u00a0<i:b64>,\u00a0<i:b64>,\u00a0<i:b32>,\u00a0<i:b32>")
    yield from each("szext.{m}.{t} <o:b32>, <i:b32>, <i:b32>;", m="clamp wrap", t="u32 s32")
    yield from each("bmsk.{m}.b32 <o:b32>, <i:b32>, <i:b32>;", m="clamp wrap")
    yield "fns.b32 <o:b32>, <i:b32>, <i:b32>, <i:b32>;"
    yield from each("lop3.b32 <o:b32>, <i:b32>, <i:b32>, <i:b32>, {n};", n="0x1 0x40 0x80 0x96 0xe8 0xca 0xfe")
    yield from each("lop3.{o}.b32 <o:b32>|<o:pred>, <i:b32>, <i:b32>, <i:b32>, 0x96, <p>;", o="or and")
    yield from each("prmt.b32{m} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", m="- .f4e .b4e .rc8 .ecl .ecr .rc16")
    yield from each("prmt.b32 <o:b32>, <i:b32>, <i:b32>, {n};", n="0x5410 0x7632 0x1032 0x9991 0x3210")
    yield from each("shf.{d}.{m}.b32 <o:b32>, <i:b32>, <i:b32>, {n};", d="l r", m="clamp wrap", n="5 <i:b32>")
    yield from each("{op}.{t} <o:b32>, <i:b32>, <i:b32>;", op="shl shr", t="b32 u32 s32")
    yield from each("{op}.{t} <o:b64>, <i:b64>, <i:b32>;", op="shl shr", t="b64 u64 s64")
    yield from each("dp4a.{a}.{b} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", a="u32 s32", b="u32 s32")
    yield from each("dp2a.{h}.{a}.{b} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", h="lo hi", a="u32 s32", b="u32 s32")
    yield from each("{op}{s}.s32 <o:b32>, <i:b32>, <i:b32>;", op="add sub", s="- .sat")
    yield from each("{op}.s64 <o:b64>, <i:b64>, <i:b64>;", op="add sub mul.lo mul.hi div rem")
    yield from each("{op}.{t} <o:b32>, <i:b32>, <i:b32>;", op="mul.lo mul.hi mul24.lo mul24.hi div rem", t="u32 s32")
    yield from each("mul.wide.{t} <o:b64>, <i:b32>, <i:b32>;", t="u32 s32")
    yield from each("mad.{m}.{t} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", m="lo hi hi.sat", t="u32 s32")
    yield from each("mad24.{m}.{t} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", m="lo hi hi.sat", t="u32 s32")
    yield from each("mad.wide.{t} <o:b64>, <i:b32>, <i:b32>, <i:b64>;", t="u32 s32")
    yield from each("mul.lo.u64 <o:b64>, <i:b64>, <i:b64>;")
    yield from each("{{ mad.{m}.cc.u32 <o:b32>, <i:b32>, <i:b32>, <i:b32>; madc.hi.u32 <o:b32>, <i:b32>, <i:b32>, <i:b32>; }}", m="lo hi")
    yield from each("{{ {op}.cc.u32 <o:b32>, <i:b32>, <i:b32>; {op}c.u32 <o:b32>, <i:b32>, <i:b32>; }}", op="add sub")
    yield from each("{op}.s32 <o:b32>, <i:b32>;", op="abs neg")
    yield from each("{op}.s64 <o:b64>, <i:b64>;", op="abs neg")
    yield from each("sad.{t} <o:b32>, <i:b32>, <i:b32>, <i:b32>;", t="u32 s32")
    yield from each("{op}{s}.{t} <o:b32>, <i:b32>, <i:b32>;", op="add sub", s="- .sat", t="s16x2 u16x2 u8x4 s8x4")
    yield from each("clmad.{m}.u64 <o:b64>, <i:b64>, <i:b64>, <i:b64>;", m="lo hi")
    yield from each("setp.{c}.{t} <o:pred>, <i:b32>, <i:b32>;", c="eq lt ge", t="u32 s32")
    yield from each("setp.{c}.{t} <o:pred>, <i:b64>, <i:b64>;", c="eq lt ge", t="u64 s64")
    yield from each("setp.{c}.{j}.s32 <o:pred>|<o:pred>, <i:b32>, <i:b32>, {n}<p>;", c="lt", j="and or xor", n="- !")
    yield from each("selp.{t};", t="b32\u00a0<o:b32>,\u00a0<i:b32>,\u00a0<i:b32>,\u00a0<p> b64\u00a0<o:b64>,\u00a0<i:b64>,\u00a0<i:b64>,\u00a0<p>")
    yield from each("{op}.pred <o:pred>, <p>, <p>;", op="and or xor")
    yield from each("{op}.{t} <o:b32>, <i:b32>, <i:b32>;", op="and or xor", t="b32")
    yield from each("{op}.{t} <o:b32>, <u:b32>, <u:b32>;", op="add.u32 mul.lo.u32 and.b32 shl.b32 shr.s32 min.s32 max.u32", t="-")
    for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        yield from each(f"{op}.{{t}}.s32.u32{{s}} <o:b32>, <i:b32>.b1, <i:b32>.h1;", t="s32 u32", s="- .sat")
        yield f"{op}.s32.s32.s32.add <o:b32>, <i:b32>, <i:b32>, <i:b32>;"
        yield f"{op}.s32.s32.s32.max <o:b32>, <i:b32>, <i:b32>, <i:b32>;"
        for n in (2, 4):
            yield f"{op}{n}.s32.s32.s32 <o:b32>, <i:b32>, <i:b32>, <i:b32>;"
            yield f"{op}{n}.u32.u32.u32.add <o:b32>, <i:b32>, <i:b32>, <i:b32>;"
    yield from each("vavrg{n}.u32.u32.u32 <o:b32>, <i:b32>, <i:b32>, <i:b32>;", n="2 4")
    yield from each("vset{n}.s32.u32.ge <o:b32>, <i:b32>, <i:b32>, <i:b32>;", n="2 4")
    yield from each("vset.s32.u32.lt <o:b32>, <i:b32>, <i:b32>;")
    yield from each("vmad.s32.s32.u32{q} <o:b32>, <i:b32>.b0, <i:b32>.h1, <i:b32>;", q="- .sat .shr7 .po")
    yield from each("{op}.u32.u32.u32.clamp <o:b32>, <i:b32>, <i:b32>;", op="vshl vshr")


FAMILIES = (
    minmax, memory, atomics, tensor_memory, tensor_memory_products, matrices, warp_products,
    group_products, barriers, bulk, tensor_copies, conversions, floats, integers,
)  # fmt: skip


def kernel(name: str, form: str) -> str:
    """An entry function around one form."""
    declared: list[str] = []
    first: list[str] = []
    last: list[str] = []
    places = iter(range(1, 1000))
    parameters = iter(range(8, 4000, 16))

    def one(role: str, kind: str) -> str:
        number = next(places)
        name = f"%v{number}"
        if role in "ui" and kind == "b128":
            declared.append(f".reg .b128 {name}; .reg .b64 {name}l, {name}h;")
        else:
            declared.append(f".reg .{kind} {name};")
        offset = number * 16
        if role == "o" and kind == "pred":
            declared.append(f".reg .b32 {name}w;")
            last.append(f"selp.b32 {name}w, 1, 0, {name}; st.global.b32 [%out+{offset}], {name}w;")
        elif role == "o":
            last.append(f"st.global.{kind} [%out+{offset}], {name};")
        elif kind == "pred":
            declared.append(f".reg .b32 {name}w;")
            first.append(f"ld.global.b32 {name}w, [%in+{offset}]; setp.ne.s32 {name}, {name}w, 0;")
        elif kind == "b128":
            first.append(f"ld.global.v2.b64 {{{name}l, {name}h}}, [%in+{offset}]; mov.b128 {name}, {{{name}l, {name}h}};")
        elif role == "u":
            first.append(f"ld.param.{kind} {name}, [P+{next(parameters)}];")
        else:
            first.append(f"ld.global.{kind} {name}, [%in+{offset}];")
        return name

    def place(match: re.Match[str]) -> str:
        role, kind, count = match.groups()
        if role == "p":
            return one("i", "pred")
        if role == "s":
            number = next(places)
            declared.append(f".reg .b32 %v{number};")
            first.append(f"ld.param.b32 %v{number}, [P+{next(parameters)}];")
            return f"%v{number}"
        if role == "g":
            number = next(places)
            declared.append(f".reg .b64 %v{number};")
            first.append(f"ld.param.b64 %v{number}, [P+{next(parameters)}]; cvta.to.global.u64 %v{number}, %v{number};")
            return f"%v{number}"
        names = [one(role, kind) for _ in range(int(count or 1))]
        return "{" + ", ".join(names) + "}" if count else names[0]

    body = PLACE.sub(place, form.replace("\u00a0", " ").replace("{{", "{").replace("}}", "}").replace("%=", name))
    return "\n".join(
        (
            f".visible .entry {name}(.param .align 16 .b8 P[4096]) {{",
            ".reg .b64 %in, %out; ld.param.b64 %in, [P]; cvta.to.global.u64 %in, %in; mov.b64 %out, %in;",
            *declared, *first, body, *last, "ret; }",
        )
    )  # fmt: skip


def forms() -> list[tuple[str, str]]:
    """Each form with its kernel's name."""
    out: dict[str, str] = {}
    for family in FAMILIES:
        for number, form in enumerate(dict.fromkeys(filter(None, family()))):
            out[f"{family.__name__}_{number}"] = form
    return list(out.items())


def assembled(ptxas: str, nvdisasm: str, target: str, version: str) -> tuple[str, list[str]]:
    """What nvdisasm prints of all forms that ``target`` has, and what ptxas said of the others."""
    kept = [(name, form, kernel(name, form)) for name, form in forms()]
    refused: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "forms.ptx")
        cubin = Path(folder, "forms.cubin")
        while True:
            lines = [f".version {version}", f".target {target}", ".address_size 64"]
            starts = []
            for _, _, text in kept:
                starts.append(len(lines) + 1)
                lines += text.split("\n")
            source.write_text("\n".join(lines) + "\n")
            done = subprocess.run([ptxas, f"-arch={target}", str(source), "-o", str(cubin)], capture_output=True, text=True, check=False)
            if not done.returncode:
                break
            wrong: dict[int, str] = {}
            for number, message in re.findall(r"line (\d+); (?:error|fatal)\s*:\s*(.*)", done.stderr):
                wrong.setdefault(sum(start <= int(number) for start in starts) - 1, message)
            for name, message in re.findall(r"error\s*:.*(?:function|entry) '?(\w+)'?(.*)", done.stderr):
                number = next((i for i, (n, _, _) in enumerate(kept) if n == name), -1)
                if number >= 0:
                    wrong.setdefault(number, message)
            wrong.pop(-1, None)
            if not wrong:
                raise SystemExit(done.stderr[:2000])
            refused += [f"{kept[i][1]}\t{message}" for i, message in sorted(wrong.items())]
            kept = [each for i, each in enumerate(kept) if i not in wrong]
        done = subprocess.run([nvdisasm, "-c", "-plr", str(cubin)], capture_output=True, text=True, check=True)
    return done.stdout, refused


def reduced(text: str) -> str:
    """The kernels that show a new form of an instruction, with their marks."""
    marks = read_marks(text)
    head, *sections = re.split(r"^(?=\t\.section\t\.text\.)", text, flags=re.MULTILINE)
    out = [line for line in head.split("\n") if line.startswith("\t.")]
    seen: set[str] = set()
    for section in sections:
        name = section.partition(",")[0].rpartition(".")[2]
        lines = [line.partition("// ")[0].rstrip() for line in section.split("\n")]
        shapes = {SHAPE.sub("#", line.partition("*/")[2]) for line in lines if "/*" in line}
        if shapes <= seen:
            continue
        seen |= shapes
        for line in lines:
            address = ADDRESS.match(line)
            found = marks.get((name, int(address[1], 16))) if address else None
            if found is not None:
                line += "\t//" + " ".join(
                    ("x" if r in found.defs & found.uses else "^" if r in found.defs else "v" if r in found.uses else ":") + r
                    for r in sorted(found.live)
                )  # fmt: skip
            if line and not line.startswith("//--"):
                out.append(line)
    return "\n".join(out) + "\n"


def main() -> None:
    ptxas, nvdisasm, *targets = sys.argv[1:]
    for target in targets or ARCHITECTURES:
        text, refused = assembled(ptxas, nvdisasm, target, "9.3")
        print(f"{target}: {len(forms()) - len(refused)} of {len(forms())} forms", file=sys.stderr)
        (HERE / f"forms_{target}.sass.xz").write_bytes(lzma.compress(reduced(text).encode(), preset=9))


if __name__ == "__main__":
    main()
