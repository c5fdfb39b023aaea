"""Renamings that change nothing and mutations that change one thing, of any listing's text.

Both work on the text alone, with expressions of their own: what they hold the diff against is not
what the diff reads with.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from inspector.base.model import Stage

COMMENTS = {Stage.PTX: "// {}", Stage.SASS: "// {}", Stage.LLIR: "; {}"}
_PTX_NAME = re.compile(r"%(rd|rs|r|p|f|fd)(\d+)\b")
_PTX_LABEL = re.compile(r"\$L__(BB|tmp)(\w+)")
_SASS_REGISTER = re.compile(r"(?<![\w.$])(R|UR)(\d+)(?!\w)")
_SASS_PREDICATE = re.compile(r"(?<![\w.$])(P|UP)([0-6])(?!\w)")
_SASS_LABEL = re.compile(r"\.L_x_(\d+)\b")
_MLIR_NAME = re.compile(r"%[A-Za-z0-9_]+")
_LLVM_NAME = re.compile(r"%(\d+)\b")
_LLVM_LABEL = re.compile(r"^(\d+):", re.MULTILINE)


def renamed(stage: Stage, text: str, rng: random.Random) -> str:
    """``text`` with every name a compiler chose called otherwise, and other comments."""
    return _noise(stage, _RENAME[stage](text, rng), rng)


def _ptx(text: str, rng: random.Random) -> str:
    names = {m[0] for m in _PTX_NAME.finditer(text)}
    out: dict[str, str] = {}
    for kind in {_PTX_NAME.match(n)[1] for n in names}:  # type: ignore[index]
        mine = sorted(n for n in names if _PTX_NAME.match(n)[1] == kind)  # type: ignore[index]
        numbers = rng.sample(range(1, 3 * len(mine) + 20), len(mine))
        out.update({n: f"%{kind}{k}" for n, k in zip(mine, numbers, strict=True)})
    labels = sorted({m[0] for m in _PTX_LABEL.finditer(text)})
    order = rng.sample(range(1000), len(labels))
    places = {
        n: f"$L__{_PTX_LABEL.match(n)[1]}{k}_{k}"  # type: ignore[index]
        for n, k in zip(labels, order, strict=True)
    }
    shift = rng.randrange(1, 50)
    text = _PTX_NAME.sub(lambda m: out[m[0]], text)
    text = _PTX_LABEL.sub(lambda m: places[m[0]], text)
    text = re.sub(r"\.reg (\.\w+) \t(%\w+)<(\d+)>", r".reg \1 \t\2<9\3>", text)
    return re.sub(r"\.loc\t(\d+) (\d+)", lambda m: f".loc\t{m[1]} {int(m[2]) + shift}", text)


def _sass(text: str, rng: random.Random) -> str:
    # whole groups of eight stay together, so that every pair and quad does; a warp group's tiles
    # are wider, so with those every register moves as far
    numbers = list(range(32))
    if "GMMA" in text:
        numbers = [n + 9 for n in numbers]
    else:
        rng.shuffle(numbers)
    predicates = {"P": rng.sample(range(7), 7), "UP": rng.sample(range(7), 7)}
    labels = rng.sample(range(2000), 1000)

    if numbers[0]:
        # R1 is the stack's pointer, under any name
        numbers[numbers.index(0) if 0 in numbers else 31], numbers[0] = numbers[0], 0

    def register(m: re.Match[str]) -> str:
        n = int(m[2])
        if m[1] == "R":
            return f"R{numbers[n // 8 % 32] * 8 + n % 8}"
        return f"UR{n ^ 16}" if n < 32 else m[0]

    def other(m: re.Match[str]) -> str:
        return f"{m[1]}{predicates[m[1]][int(m[2])]}"

    def label(m: re.Match[str]) -> str:
        return f".L_x_{labels[int(m[1]) % 1000] + int(m[1]) // 1000 * 2000}"

    shift = 16 * rng.randrange(1, 30)
    if "CALL" in text:
        numbers = list(range(32))  # registers hand over what is called with
        shift = 0
    out = []
    for line in text.split("\n"):
        if re.search(r"\bP2R\b|\bR2P\b|\bPR\b", line):
            return text  # whole predicate files: no renaming of predicates is one
        line = _SASS_REGISTER.sub(register, line) if "//" not in line else line
        line = _SASS_PREDICATE.sub(other, line) if "//" not in line else line
        line = _SASS_LABEL.sub(label, line)
        line = re.sub(r"/\*([0-9a-f]{4,5})\*/", lambda m: f"/*{int(m[1], 16) + shift:04x}*/", line)
        out.append(line)
    return "\n".join(out)


def _mlir(text: str, rng: random.Random) -> str:
    names = sorted({m[0] for m in _MLIR_NAME.finditer(text)})
    numbers = rng.sample(range(10_000), len(names))
    out = {n: f"%v{k}" for n, k in zip(names, numbers, strict=True)}
    text = _MLIR_NAME.sub(lambda m: out[m[0]], text)
    aliases = sorted(set(re.findall(r"^(#(?:blocked|mma|shared|linear)\d*) =", text, re.MULTILINE)))
    suffix = rng.randrange(10, 99)
    for alias in sorted(aliases, key=len, reverse=True):
        text = re.sub(rf"{alias}(?!\w)", f"{alias}_{suffix}", text)
    shift = rng.randrange(1, 50)
    return re.sub(
        r'(\.py"):(\d+):(\d+)', lambda m: f"{m[1]}:{int(m[2]) + shift}:{int(m[3]) + 1}", text
    )


def _llvm(text: str, rng: random.Random) -> str:
    numbers = rng.sample(range(100_000), 20_000)
    text = _LLVM_NAME.sub(lambda m: f"%v{numbers[int(m[1])]}", text)
    text = _LLVM_LABEL.sub(lambda m: f"v{numbers[int(m[1])]}:", text)
    shift = rng.randrange(100, 900)
    return re.sub(r"(?<![\w\"])!(\d+)\b", lambda m: f"!{int(m[1]) + shift}", text)


_RENAME: dict[Stage, Callable[[str, random.Random], str]] = {
    Stage.PTX: _ptx,
    Stage.SASS: _sass,
    Stage.TTIR: _mlir,
    Stage.TTGIR: _mlir,
    Stage.LLIR: _llvm,
}


def _noise(stage: Stage, text: str, rng: random.Random) -> str:
    mark = COMMENTS.get(stage, "// {}")
    out = []
    for line in text.split("\n"):
        bare = line.strip()
        if bare.startswith(mark[:2].strip()) and not bare.startswith("//--") and rng.random() < 0.3:
            continue
        if rng.random() < 0.02:
            out.append(rng.choice(["", "\t", "   " + mark.format(rng.random())]))
        out.append(line)
    return "\n".join(out)


def mutations(stage: Stage, text: str, first: int, last: int) -> list[tuple[str, int]]:
    """What ``mutate`` can do on which lines, of those between ``first`` and ``last``."""
    lines = text.split("\n")
    found = []
    often = Counter(m for line in lines[first - 1 : last] for m in _NAMES[stage].findall(line))
    for n in range(first, last + 1):
        line = lines[n - 1]
        if not _code(stage, line):
            continue
        found += [(k, n) for k in _CHANGES if _changed(stage, line, k) not in (None, line)]
        names = _names(stage, _body(stage, line)[0])
        if names and often[names[-1][0]] == sum(m[0] == names[-1][0] for m in names):
            # a name that nothing else has can be called anything
            found = [one for one in found if one != ("operand", n)]
        found += [("delete", n), ("duplicate", n)]
    return found


def mutate(stage: Stage, text: str, kind: str, n: int) -> str:
    lines = text.split("\n")
    if kind == "delete":
        del lines[n - 1]
    elif kind == "duplicate":
        lines.insert(n, lines[n - 1])
    else:
        lines[n - 1] = _changed(stage, lines[n - 1], kind) or ""
    return "\n".join(lines)


_CODE = {
    Stage.PTX: re.compile(r"\s+@?!?%?[\w%]*\s*[a-z][\w.]*\s.*;"),
    Stage.SASS: re.compile(r"\s*/\*[0-9a-f]+\*/\s.*;"),
    Stage.TTIR: re.compile(r"\s+(?:%[\w:]+ = )?[a-z]+\.[\w.]+ "),
    Stage.TTGIR: re.compile(r"\s+(?:%[\w:]+ = )?[a-z]+\.[\w.]+ "),
    Stage.LLIR: re.compile(r"  (?:%\w+ = )?[a-z]+ "),
}
_NAMES = {
    Stage.PTX: re.compile(r"%(?:rd|rs|r|p|f|fd)\d+\b"),
    Stage.SASS: re.compile(r"(?<![\w.$])(?:UR|UP|R|P)\d+(?!\w)"),
    Stage.TTIR: re.compile(r"%[A-Za-z0-9_]+"),
    Stage.TTGIR: re.compile(r"%[A-Za-z0-9_]+"),
    Stage.LLIR: re.compile(r"%\d+\b"),
}
_KIND_OF = re.compile(r"\d+\Z")


def _code(stage: Stage, line: str) -> bool:
    bare = line.strip()
    if bare.startswith((".", "//", ";", "#dbg")) or "llvm.dbg" in bare:
        return False
    return _CODE[stage].match(line) is not None


def _body(stage: Stage, line: str) -> tuple[str, str]:
    """What may be changed of a line, and what comes after it: comments and locations."""
    for mark in ("//", " loc(", ", !dbg"):
        if mark in line:
            at = line.index(mark)
            return line[:at], line[at:]
    return line, ""


def _changed(stage: Stage, line: str, kind: str) -> str | None:
    body, rest = _body(stage, line)
    changed = _CHANGES[kind](stage, body) if kind in _CHANGES else None
    return None if changed is None else changed + rest


def _other_operand(stage: Stage, body: str) -> str | None:
    """The last name becomes one that nothing else is called."""
    names = _names(stage, body)
    if not names:
        return None
    m = names[-1]
    new = {Stage.SASS: "R211", Stage.LLIR: "%19999"}.get(stage, _fresh(m[0]))
    if stage is Stage.SASS:
        new = {"P": "P6", "UP": "UP6", "UR": "UR61"}.get(_KIND_OF.sub("", m[0]), new)
    return body[: m.start()] + new + body[m.end() :]


def _other_immediate(stage: Stage, body: str) -> str | None:
    found = re.search(r"(?<=[ ,])(0x[0-9a-f]+|\d+)(?=[,;\s\]]|$)", body)
    if not found or "/*" in found[0]:
        return None
    value = "0x3e7" if found[0].startswith("0x") else "997"
    return body[: found.start()] + value + body[found.end() :]


def _other_qualifier(stage: Stage, body: str) -> str | None:
    if stage in (Stage.PTX, Stage.SASS):
        found = re.search(r"(?<=[A-Za-z0-9])\.([A-Za-z]\w+)(?=[\s.])", body)
        return body[: found.start()] + body[found.end() :] if found else None
    for old, new in (("f32", "f16"), ("i32", "i16"), (" nsw", ""), ("slt", "sgt")):
        if old in body:
            return body.replace(old, new, 1)
    return None


def _swapped(stage: Stage, body: str) -> str | None:
    for left, right in pairwise(_names(stage, body)[1:]):
        if left[0] != right[0]:
            between = body[left.end() : right.start()]
            return f"{body[: left.start()]}{right[0]}{between}{left[0]}{body[right.end() :]}"
    return None


_CHANGES: dict[str, Callable[[Stage, str], str | None]] = {
    "operand": _other_operand,
    "immediate": _other_immediate,
    "qualifier": _other_qualifier,
    "swap": _swapped,
}


def _names(stage: Stage, body: str) -> list[re.Match[str]]:
    return [m for m in _NAMES[stage].finditer(body) if m.start() > body.find("*/")]


def named(stage: Stage, line: str) -> set[str]:
    return {m[0] for m in _names(stage, _body(stage, line)[0])}


def _fresh(name: str) -> str:
    return _KIND_OF.sub("", name) + "19999" if name[-1].isdigit() else name + "_19999"
