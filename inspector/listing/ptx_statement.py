"""One PTX statement: what it does, what it defines, what it uses.

Written from the PTX ISA, chapters "Syntax", "Instruction Operands" and "Instruction Set".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from inspector.base.text import commas, words

# -- names, labels, headers, comments -------------------------------------------------------------

_COMMENT_OR_STRING = re.compile(r'//|/\*|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NAME = re.compile(r"[\w$%]++")
WORD = re.compile(r"\s*+(\.?+[\w$@]++)")
_KIND = re.compile(r"\.(entry|func)\b")
LABEL = re.compile(r"\s*+([\w$%.]++)\s*+:(?!:)")
"""A label with its colon."""
SYMBOL = re.compile(r"[A-Za-z_$%][\w$]*+")
"""A name of the program's own: a register, a variable, a label, a function."""
REGISTER_RANGE = re.compile(r"([%\w$]++)\s*+(?:<\s*+(\d{1,9})\s*+>)?")
"""A register as ``.reg`` declares it, and how many: ``%r<33>`` are %r0 to %r32."""
DECLARED = re.compile(rf"(?<![%\w$]){REGISTER_RANGE.pattern}\s*+(?=[,;]|\Z)")
"""One register of a list that ``.reg`` declares."""
HEADER = re.compile(r"\s*+(?:\.[a-z]++\s++)*?\.(entry|func)\b")

AHEAD = 64
"""Most lines that are read for the rest of a statement."""


def strip(text: str, comment: bool) -> tuple[str, bool]:
    """The code of a line (comments cut out, strings emptied) and whether a comment is left open."""
    if not comment and "/" not in text and '"' not in text:
        return text, False
    parts: list[str] = []
    position = 0
    if comment:
        end = text.find("*/")
        if end < 0:
            return "", True
        position = end + 2
    while mark := _COMMENT_OR_STRING.search(text, position):
        parts.append(text[position : mark.start()])
        if mark[0] == "//":
            return "".join(parts), False
        if mark[0] == "/*":
            end = text.find("*/", mark.end())
            if end < 0:
                return "".join(parts), True
            parts.append(" ")
            position = end + 2
        else:
            parts.append('""')
            position = mark.end()
    parts.append(text[position:])
    return "".join(parts), False


def function_header(texts: Sequence[str], first: int, last: int) -> tuple[str, bool]:
    """Name and whether it is an entry, of the function whose header begins on line ``first``."""
    header = ""
    comment = False
    for text in texts[first - 1 : min(last, first + AHEAD)]:
        code, comment = strip(text[:4096], comment)
        header += code + " "
        if "{" in code or len(header) > 65536:
            break
    match = _KIND.search(header)
    position = match.end() if match else 0
    while position < len(header) and (header[position].isspace() or header[position] in ".("):
        if header[position] == "(":
            position = header.find(")", position) + 1 or len(header)
        elif header[position] == "." and (word := WORD.match(header, position)):
            position = word.end()
        else:
            position += 1
    name = _NAME.match(header, position)
    return name[0] if name else "", bool(match and match[1] == "entry")


NO_RESULT = words(
    "bra brx call ret exit trap brkpt nanosleep pmevent bar barrier membar fence setmaxnreg "
    "griddepcontrol stackrestore st red prefetch prefetchu discard applypriority wgmma "
    "cp stmatrix sust tensormap"
)
"""Instructions whose first operand is no destination (unless ``_HAS_RESULT`` says otherwise)."""

_HAS_RESULT = re.compile(r"(?:bar|barrier)\.(?:\w+\.)?red\b|wgmma\.mma_async|cp\.reduce\.never")
_NO_RESULT_FORM = re.compile(r"tcgen05\.(?!ld\b)|mbarrier\.(?:init|inval|expect_tx|complete_tx)\b")

BRANCHES = frozenset(("bra", "brx", "call"))

KNOWN = NO_RESULT | words(
    "abs add addc activemask alloca and atom bfe bfi bfind bmsk brev clz cnot copysign cos "
    "createpolicy cvt cvta div dp2a dp4a elect ex2 fma fns getctarank isspacep istypep ld ldmatrix "
    "ldu lg2 lop3 mad mad24 madc mapa match max mbarrier min mma mov movmatrix mul mul24 multimem "
    "neg not or popc prmt rcp redux rem rsqrt sad selp set setp shf shfl shl shr sin slct sqrt "
    "stacksave sub subc suld suq sured szext tanh tcgen05 testp tex tld4 txq vabsdiff vabsdiff2 "
    "vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset "
    "vset2 vset4 vshl vshr vsub vsub2 vsub4 wmma xor clusterlaunchcontrol"
)
"""Known instructions, needed only if a statement has no ``;`` on its first line; so newer ones are
parsed as well."""

SPECIAL = words(
    "%tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid "
    "%is_explicit_cluster %clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank "
    "%cluster_nctarank %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt %clock "
    "%clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi %total_smem_size "
    "%aggr_smem_size %dynamic_smem_size %current_graph_exec %reserved_smem_offset_begin "
    "%reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 "
    "%reserved_smem_offset_1"
) | frozenset([f"%pm{i}" for i in range(8)] + [f"%envreg{i}" for i in range(32)])
"""Special registers, read-only values of the hardware: they are neither defined nor used."""

_REGISTER = re.compile(r"%[\w$]+")
GUARD = re.compile(r"@(!?)\s*+([%\w$]++)\s*+")
"""The guard of an instruction: whether it is inverted, and its predicate."""
OPCODE = re.compile(r"[a-z_][\w.]*+(?:::[\w.]++)*+")


PLAIN = re.compile(
    r"[ \t]*+(?:@!?+[ \t]*+(%[\w$]++)[ \t]++)?([a-z][\w.]*+(?:::[\w.]++)*+)"
    r"(?:[ \t]++([%\w$.,{}\[\]+\-|! \t]*+))?;[ \t]*+(?://.*+)?\r?\Z",
    re.DOTALL,
)
"""One instruction on its own line: guard, opcode, operands."""


class PtxStatement(NamedTuple):
    """One instruction. ``guarded``: a guard may keep it from writing."""

    base: str
    opcode: str
    defs: tuple[str, ...]
    uses: tuple[str, ...]
    targets: tuple[str, ...]
    guarded: bool = False


def has_result(base: str, opcode: str) -> bool:
    """Whether the first operand of ``opcode``, unless it is an address, is a destination."""
    if base in NO_RESULT:
        return _HAS_RESULT.match(opcode) is not None
    return _NO_RESULT_FORM.match(opcode) is None


def registers(text: str, names: frozenset[str]) -> list[str]:
    """The registers in ``text``; ``names`` are those declared without a ``%``."""
    if names:
        matches = [r for r in _NAME.findall(text) if r[0] == "%" or r in names]
    else:
        matches = _REGISTER.findall(text)
    if not SPECIAL.isdisjoint(matches):
        matches = [r for r in matches if r not in SPECIAL]
    return matches


def first_operand(text: str) -> int:
    """Where the first operand ends: at a comma outside every bracket."""
    return next(commas(text, "{[(", "}])"), len(text))


def parse_statement(code: str, names: frozenset[str] = frozenset()) -> PtxStatement | None:
    """The instruction in ``code`` (no comment, no label, no ``;``), or None if it is not one."""
    uses: list[str] = []
    start = 0
    guard = GUARD.match(code)
    if guard:
        if guard[2][0] == "%" or guard[2] in names:
            uses.append(guard[2])
        start = guard.end()
    match = OPCODE.match(code, start)
    if match is None:
        return None
    opcode = match[0]
    rest = code[match.end() :].strip()
    if rest and not code[match.end()].isspace() and rest[0] not in "{[(":
        return None
    base = opcode.partition(".")[0]
    defs: list[str] = []
    targets: tuple[str, ...] = ()
    if base == "call":
        defs, used, targets = _call(rest, names)
        uses += used
    elif base in BRANCHES:
        label = SYMBOL.findall(rest)
        targets = (label[-1],) if label else ()
        if base == "brx":
            uses += registers(rest, names)
    elif rest[:1] == "[" or not has_result(base, opcode):
        uses += registers(rest, names)
    else:
        end = first_operand(rest)
        defs = registers(rest[:end], names)
        if base == "wgmma":  # the accumulators are read as well
            uses += defs
        uses += registers(rest[end:], names)
        if base in ("mov", "ld", "selp") and not defs and rest[:1] not in "_{%":
            # a destination with a name of the program's, declared in code that was not seen
            name = _NAME.match(rest)
            defs = [name[0]] if name and not name[0][0].isdigit() and names else []
    return PtxStatement(
        base, opcode, tuple(dict.fromkeys(defs)), tuple(dict.fromkeys(uses)), targets, bool(guard)
    )


def _call(rest: str, names: frozenset[str]) -> tuple[list[str], list[str], tuple[str, ...]]:
    """``(result), function, (arguments), prototype``: defs, uses, the function called."""
    defs: list[str] = []
    if rest[:1] == "(":
        end = rest.find(")")
        end = len(rest) if end < 0 else end
        defs = registers(rest[:end], names)
        rest = rest[end + 1 :].lstrip(" \t\r\n,")
    callee = SYMBOL.match(rest)
    targets = (callee[0],) if callee and callee[0][0] != "%" else ()
    return defs, registers(rest, names), targets
