"""Which stage a text without a name is of, told by its lines."""

import re
from itertools import islice

from inspector.base.stage import Stage

MAX_LINES = 20_000
MAX_LINE_CHARS = 400
"""Lines that are looked at, and characters of each."""

_OP = r"[A-Z][A-Z0-9]{1,20}(?:\.[A-Z0-9_]{1,20}){0,12}"
_LLVM = (
    "fadd fmul fsub add mul sub call extractvalue getelementptr load tail icmp zext sext and or "
    "shl lshr insertelement bitcast trunc select phi"
)
_PTX = (
    "version target address_size visible extern weak entry func reg param loc shared global const "
    "maxntid reqntid"
)
_GUARD = r"(?:\$?\w{1,60}:\s?)?(?:@!?%?\w{1,60}\s{1,9})?"
_MACHINE = re.compile(r"/\*[0-9a-f]{4,16}\*/\s|\.headerflags\b|\.elftype\b|Function : \S")
_GPU = re.compile(r"ttg\.|#ttg|triton_gpu\.")
# What a line of each language begins with, in this order; lines are without their margins.
_SIGNS = (
    (Stage.SASS, re.compile(rf"(?:@!?U?P\d\s)?{_OP}\s.{{0,300}};")),
    (Stage.TTGIR, re.compile(r"#(?:blocked|shared|mma|linear|smem|slice)\d{0,9}\s?=")),
    (Stage.LLIR, re.compile(r"(?:define|declare|target triple|target datalayout)\b|; ModuleID")),
    (Stage.TTIR, re.compile(r"tt\.func\b|module attributes|%?[\w:#, %]{0,99}\b(?:tt|arith)\.\w")),
    (Stage.LLIR, re.compile(rf"%[\w.]{{1,60}} = (?:{_LLVM.replace(' ', '|')})\b")),
    (Stage.PTX, re.compile(rf"\.(?:{_PTX.replace(' ', '|')})\b")),
    (
        Stage.PTX,
        re.compile(rf"{_GUARD}[a-z]\w{{1,30}}(?:(?:\.|::)\w{{1,30}}){{1,12}}\s.{{0,300}};"),
    ),
    (Stage.PTX, re.compile(rf"{_GUARD}(?:ret|exit|trap|bra\s.{{0,100}})\s?;")),
)


def language_of(text: str) -> Stage | None:
    """The stage that a text is of, by the first line that only one language has; None if no line
    tells. MLIR that names layouts of Triton's GPU dialect is TTGIR."""
    rows = [row.strip()[:MAX_LINE_CHARS] for row in islice(text.splitlines(), MAX_LINES)]
    if any(_MACHINE.match(row) for row in rows):  # its directives are like PTX's
        return Stage.SASS
    for row in rows:
        stage = next((stage for stage, sign in _SIGNS if sign.match(row)), None)
        if stage is Stage.TTIR and any(_GPU.search(other) for other in rows):
            return Stage.TTGIR
        if stage is not None:
            return stage
    return None
