"""The words that the translation of each instruction knows, beside those of single integers.

An opcode with another word is refused by that word: to pass it over would give a wrong value.
Instructions that ``semantics`` computes have their words there. Those that change no value
(``fence``, ``prefetch``) and those that are refused as a whole have none here.
"""

import re
from collections.abc import Mapping

from inspector.base.names import words

_HALVES = "f16 f16x2 bf16 bf16x2"
_SINGLES = "f32 f64"
_ROUNDED = "rn rz rm rp"
_INTEGERS = "u16 s16 u32 s32 u64 s64"
_SCALARS = f"b8 b16 b32 b64 u8 s8 {_INTEGERS}"
_SPACES = "global shared local param const shared::cta shared::cluster param::entry param::func"
_ORDERS = "weak volatile relaxed acquire release acq_rel mmio sc cta cluster gpu sys"
_CACHED_LOADS = "ca cg cs lu cv"
_CACHED_STORES = "wb cg cs wt"
"""Levels of caches to use, which change no value."""
_ACCESSED = f"v2 v4 v8 {_SCALARS} f32 f64 f16 bf16 b128"
_COMPARISONS = (
    "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz b16 b32 b64 "
    f"{_INTEGERS} {_HALVES} {_SINGLES}"
)
_ATOMIC = (
    f"{_SPACES} {_ORDERS} add min max and or xor exch cas inc dec noftz v2 v4 v8 L2::cache_hint "
    f"b16 b32 b64 u32 s32 u64 s64 {_HALVES} {_SINGLES} b128 async mbarrier::complete_tx::bytes"
)
_MATRICES = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"
_APPROXIMATE = f"approx ftz {_HALVES} f32 f64"

_TEXTS: Mapping[str, str] = {
    # Floating point, and integers where they share the base
    "add": f"{_ROUNDED} ftz sat cc {_INTEGERS} u16x2 s16x2 {_HALVES} {_SINGLES} f32x2",
    "sub": f"{_ROUNDED} ftz sat cc {_INTEGERS} u16x2 s16x2 {_HALVES} {_SINGLES} f32x2",
    "mul": f"{_ROUNDED} ftz sat hi lo wide {_INTEGERS} {_HALVES} {_SINGLES} f32x2",
    "mad": f"{_ROUNDED} ftz sat hi lo wide cc {_INTEGERS} {_SINGLES}",
    "fma": f"{_ROUNDED} ftz sat relu {_HALVES} {_SINGLES} f32x2",
    "div": f"{_ROUNDED} ftz approx full {_INTEGERS} {_SINGLES}",
    "abs": f"ftz s16 s32 s64 {_HALVES} {_SINGLES}",
    "neg": f"ftz s16 s32 s64 {_HALVES} {_SINGLES}",
    "min": f"ftz NaN xorsign abs relu {_INTEGERS} u16x2 s16x2 {_HALVES} {_SINGLES}",
    "max": f"ftz NaN xorsign abs relu {_INTEGERS} u16x2 s16x2 {_HALVES} {_SINGLES}",
    "sqrt": f"{_ROUNDED} approx ftz {_SINGLES}",
    "rcp": f"{_ROUNDED} approx ftz {_SINGLES}",
    **dict.fromkeys(("rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), _APPROXIMATE),
    "copysign": _SINGLES,
    "testp": f"finite infinite number notanumber normal subnormal {_SINGLES}",
    # Comparisons, selections, moves, conversions
    "setp": _COMPARISONS,
    "set": _COMPARISONS,
    "selp": f"b16 b32 b64 {_INTEGERS} {_SINGLES} f16 bf16",
    "slct": f"b16 b32 b64 {_INTEGERS} {_SINGLES}",
    "lop3": "and or b32",
    "mov": f"pred {_SCALARS} {_HALVES} {_SINGLES} b128",
    "cvt": (
        f"{_ROUNDED} rna rni rzi rmi rpi ftz sat satfinite relu u8 s8 {_INTEGERS} tf32 {_HALVES} "
        f"{_SINGLES} e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 s2f6x2 "
        "scaled::n2::ue8m0 pack u2 s2 u4 s4 b32"
    ),
    "cvta": f"to {_SPACES} u32 u64",
    # Video
    **dict.fromkeys(words("vadd vsub vabsdiff vmin vmax"), "u32 s32 sat add min max"),
    **dict.fromkeys(("vshl", "vshr"), "u32 s32 sat clamp wrap add min max"),
    "vset": "eq ne lt le gt ge u32 s32 add min max",
    "vmad": "u32 s32 po sat shr7 shr15",
    **dict.fromkeys(words("vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2"), "u32 s32 sat add"),
    **dict.fromkeys(words("vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4"), "u32 s32 sat add"),
    **dict.fromkeys(("vset2", "vset4"), "eq ne lt le gt ge u32 s32 add"),
    # Memory
    "ld": f"{_SPACES} {_ORDERS} {_CACHED_LOADS} nc unified {_ACCESSED}",
    "ldu": f"global v2 v4 {_SCALARS} {_SINGLES} b128",
    "st": f"{_SPACES} {_ORDERS} {_CACHED_STORES} {_ACCESSED} async mbarrier::complete_tx::bytes",
    "mapa": "shared::cluster u32 u64",
    "getctarank": "shared::cluster u32 u64",
    "atom": _ATOMIC,
    "red": _ATOMIC,
    "ldmatrix": _MATRICES,
    "stmatrix": _MATRICES,
    # Matrices and warps
    "movmatrix": "sync aligned m8n8 trans b16",
    "mma": (
        "sync aligned row col satfinite f16 bf16 tf32 f32 f64 s8 u8 s32 e4m3 e5m2 e3m2 e2m3 e2m1 "
        "kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 block_scale scale_vec::1X "
        "scale_vec::2X scale_vec::4X ue8m0 ue4m3"
    ),
    "wgmma": (
        "fence commit_group wait_group mma_async sync aligned satfinite "
        "f16 bf16 tf32 f32 s8 u8 s32 e4m3 e5m2"
    ),
    "shfl": "sync up down bfly idx b32",
    "vote": "sync all any uni ballot pred b32",
    "match": "sync any all b32 b64",
    "redux": "sync add min max and or xor abs NaN u32 s32 b32 f32",
    "elect": "sync",
    "activemask": "b32",
    # Asynchronous copies and their barriers
    "cp": (
        "async bulk commit_group wait_group wait_all read bulk_group ca cg shared global "
        "shared::cta shared::cluster tensor 1d 2d 3d 4d 5d tile tile::gather4 tile::scatter4 "
        "im2col im2col_no_offs im2col::w im2col::w::128 multicast::cluster prefetch L2 "
        "cta_group::1 cta_group::2 mbarrier arrive noinc mbarrier::complete_tx::bytes "
        f"reduce add min max inc dec and or xor noftz b32 b64 u32 s32 u64 s64 f16 bf16 {_SINGLES}"
    ),
    "tcgen05": (
        "alloc dealloc relinquish_alloc_permit ld st wait::ld wait::st fence::before_thread_sync "
        "fence::after_thread_sync cp mma ws commit sync aligned b32 b64 shared::cta "
        "shared::cluster mbarrier::arrive::one multicast::cluster cta_group::1 cta_group::2 "
        "red min max abs NaN f32 u32 s32 "
        "32x32b 16x64b 16x128b 16x256b 16x32bx2 pack::16b unpack::16b "
        "128x256b 128x128b 64x128b 32x128b warpx2::02_13 warpx2::01_23 warpx4 "
        "b8x16 b4x16_p64 b6x16_p32 "
        "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 "
        "block_scale block16 block32 scale_vec::1X scale_vec::2X scale_vec::4X"
    ),
    "tensormap": (
        "replace tile global_address rank box_dim global_dim global_stride element_stride elemtype "
        "interleave_layout swizzle_mode fill_mode b1024 b32 b64 cp_fenceproxy global shared::cta "
        "tensormap::generic acquire release gpu cluster cta sys sync aligned"
    ),
    "clusterlaunchcontrol": (
        "try_cancel query_cancel async shared::cta mbarrier::complete_tx::bytes "
        "multicast::cluster::all is_canceled get_first_ctaid get_first_ctaid::x "
        "get_first_ctaid::y get_first_ctaid::z v4 pred b32 b128"
    ),
    "mbarrier": (
        "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait pending_count "
        "noComplete parity b64 shared shared::cta shared::cluster relaxed acquire release cta "
        "cluster"
    ),
}
KNOWN: Mapping[str, frozenset[str]] = {
    base: frozenset(text.split()) for base, text in _TEXTS.items()
}
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    # L1::evict_last, L2::cache_hint, L2::128B: hints, which change no value
    **dict.fromkeys(("ld", "ldu", "st", "cp"), re.compile(r"L[12]::\w+\Z")),
    # m16n8k16
    **dict.fromkeys(("mma", "wgmma"), re.compile(r"m\d+n\d+k\d+\Z")),
    # x32 of loads; collector::a::fill, which keeps a matrix where it is
    "tcgen05": re.compile(r"x\d+\Z|collector::\w+::\w+\Z"),
}


def unknown_word(parts: tuple[str, ...]) -> str | None:
    """The first word of an opcode, split at its dots, that its translation does not know."""
    known_words = KNOWN.get(parts[0])
    if known_words is None:
        return None
    pattern = _PATTERNS.get(parts[0])
    for word in parts[1:]:
        if word not in known_words and (pattern is None or not pattern.match(word)):
            return word
    return None
