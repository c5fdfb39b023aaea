"""The reference of PTX's instructions: complete for what it is asked, and as ptxas has it."""

import re
import subprocess
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inspector.analysis.isa import PTX
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.ptx_statement import KNOWN
from inspector.reader import tables
from inspector.system import toolchain

ROOT = Path(__file__).parents[2]
FORMS = ROOT / "tests/data/analysis/ptx_forms.toml"
FILES = sorted(tables.REFERENCE.glob("ptx_instructions_*.toml"))
# The shape of a tile is one of many: the entries have a few, ptx_qualifiers.toml the pattern.
SHAPE = re.compile(r"\.m\d+n\d+k\d+")
ASKED = tomllib.loads(FORMS.read_text("utf-8"))
VERSIONS: list[str] = ASKED["versions"]
TARGETS: list[str] = ASKED["targets"]


class Form(NamedTuple):
    """A statement, the version of the ISA and the architecture that its reference says."""

    word: str
    code: str
    since: str
    target: str
    until: str | None
    earlier: bool

    @property
    def opcode(self) -> str:
        return self.code.split()[0].rstrip(";")


@cache
def words() -> Mapping[str, Mapping[str, Any]]:
    out: dict[str, Mapping[str, Any]] = {}
    for path in FILES:
        out.update(tomllib.loads(path.read_text("utf-8")))
    return out


@cache
def forms() -> tuple[Form, ...]:
    return tuple(
        Form(
            f["word"],
            f["code"],
            f.get("since", words()[f["word"]]["since"]),
            f.get("target", words()[f["word"]]["target"]),
            f.get("until"),
            f.get("earlier", False),
        )
        for f in ASKED["form"]
    )


def test_what_the_parser_knows_is_what_the_reference_has() -> None:
    assert {word.partition(".")[0] for word in words()} == KNOWN


def recorded() -> Iterable[str]:
    for path in (ROOT / "tests/data").rglob("*.ptx"):
        yield path.read_text("utf-8")
    for path in (ROOT / "examples/recordings").glob("*.ptxview"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".ptx"):
                    yield archive.read(name).decode()


def test_every_recorded_opcode_is_explained() -> None:
    opcodes = {line.opcode for text in recorded() for line in parse(Stage.PTX, text).lines}
    opcodes.discard("")
    assert len(opcodes) > 60
    check_told(opcodes)


def test_every_form_is_named_by_its_word() -> None:
    isa = tables.isa()
    assert [(f.opcode, f.word) for f in forms() if told_by(f.opcode) != f.word] == []
    check_told({f.opcode for f in forms()})
    assert isa.cost(PTX, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16") == "tensor"


def told_by(opcode: str) -> str | None:
    entry = tables.isa().ptx(opcode)
    return entry.word if entry else None


def check_told(opcodes: Iterable[str | None]) -> None:
    """Every opcode has an entry, which lists every qualifier of it."""
    isa = tables.isa()
    for opcode in filter(None, opcodes):
        entry = isa.ptx(opcode)
        assert entry is not None, opcode
        assert isa.unknown(opcode) == (), opcode
        unlisted = [
            q
            for q in isa.qualifiers(opcode)
            if q not in entry.qualifiers and not SHAPE.fullmatch(q)
        ]
        assert unlisted == [], opcode


def test_every_word_has_a_form() -> None:
    asked = {f.word for f in forms()}
    families = [w for w in words() if any(re.match(re.escape(w) + r"(\.|::)", v) for v in words())]
    assert [w for w in words() if w not in asked and w not in families] == []
    assert len(forms()) >= 250


def module(version: str, target: str, codes: list[str]) -> tuple[str, int]:
    """A module with one statement a line, and the number of the line before the first."""
    at, sm = VERSIONS.index(version), int(re.findall(r"\d+", target)[0])

    def has(since: str) -> bool:
        return at >= VERSIONS.index(since)

    head = [f".version {version}", f".target {target}"]
    head += [".address_size 64"] * has("2.3")
    head += [".global .texref image;", ".global .surfref surface;"] * has("1.5")
    head += [".func (.reg .b32 o) callee (.reg .b32 i) { ret; }", ".entry k ()", "{"]
    head += [".reg .pred %p<8>; .reg .b8 %b<4>; .reg .b16 %h<8>; .reg .b32 %r<16>;"]
    head += [".reg .b64 %rd<8>; .reg .f32 %f<8>;"]
    head += [".reg .f64 %d<8>;"] * (sm >= 13)
    head += [".reg .b128 %q<4>;"] * (has("8.3") and sm >= 70)
    head += ["TARGETS: .branchtargets END;"] * (has("6.0") and sm >= 30)
    return "\n".join([*head, *codes, "END:", "ret;", "}", ""]), len(head)


@cache
def newest() -> str:
    """The newest version of the ISA that both ptxas and the reference know."""
    printed = assemble(module("1.0", "sm_10", [])[0].replace(".version 1.0", ".version 99.0"), "75")
    found = re.search(r"current version is '(\d+\.\d+)'", printed)
    assert found, printed
    return min(found[1], VERSIONS[-1], key=lambda v: tuple(map(int, v.split("."))))


def assemble(text: str, sm: str) -> str:
    """What ptxas prints of a module; the virtual architecture has it parsed and checked only."""
    tool = toolchain.need("ptxas")
    command = [str(tool.path), f"-arch=compute_{sm}", "-o", "/dev/null", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def errors(version: str, target: str, codes: list[str]) -> list[list[str]]:
    """The errors of ptxas for each statement."""
    text, before = module(version, target, codes)
    sm = target.removeprefix("sm_")
    printed = assemble(text, sm if int(re.findall(r"\d+", sm)[0]) >= 75 else "75")
    out: list[list[str]] = [[] for _ in codes]
    assert "fatal" not in printed or "; error" in printed, printed  # it read the module
    for line, what in re.findall(r"line (\d+); error *: (.*)", printed):
        if 0 <= (n := int(line) - before - 1) < len(codes):
            out[n].append(what)
        else:  # only this may be wrong with the rest
            assert "does not support .target" in what, (version, target, what)
    return out


def grouped(key: Any) -> list[tuple[Any, list[Form]]]:
    """The forms that ptxas knows by a key; those without one are left out."""
    out: dict[Any, list[Form]] = defaultdict(list)
    for form in forms():
        known = VERSIONS.index(form.since) <= VERSIONS.index(newest())
        if known and (k := key(form)) is not None:
            out[k].append(form)
    return list(out.items())


@pytest.mark.parametrize("today", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_ptxas_takes_every_form_from_its_version_on(today: bool) -> None:
    groups = grouped(lambda f: (f.until or newest() if today else f.since, f.target))
    assert groups
    for (version, target), group in groups:
        found = errors(version, target, [f.code for f in group])
        assert not any(found), [(f.code, e) for f, e in zip(group, found, strict=True) if e]


@pytest.mark.nightly
def test_ptxas_refuses_every_form_before_its_version() -> None:
    named = 0
    before = dict(zip(VERSIONS[1:], VERSIONS, strict=False))
    for (version, target), group in grouped(
        lambda f: (before[f.since], f.target) if f.since in before and not f.earlier else None
    ):
        for form, found in zip(
            group, errors(version, target, [f.code for f in group]), strict=True
        ):
            assert found, f"{form.code} is taken in {version}, though it came with {form.since}"
            says = re.findall(r"requires PTX ISA \.version ([\d.]+)", " ".join(found))
            assert set(says) <= {form.since}, (form.code, found)
            named += bool(says)
    assert named >= 180


@pytest.mark.nightly
def test_ptxas_refuses_every_form_before_its_architecture() -> None:
    named = 0
    for target, group in grouped(lambda f: None if f.until else architecture_before(f.target)):
        found = errors(newest(), target, [f.code for f in group])
        for form, errors_of in zip(group, found, strict=True):
            assert errors_of, f"{form.code} is taken for {target}, though it asks for {form.target}"
            says = re.findall(r"requires \.target (?:sm_)?(\w+)", " ".join(errors_of))
            assert set(says) <= {form.target.removeprefix("sm_")}, (form.code, errors_of)
            named += bool(says)
    assert named >= 150


def architecture_before(target: str) -> str | None:
    """The one before, without the letter where it has one; None for the first."""
    base = target.rstrip("af")
    if base != target:
        return base if base in TARGETS else "sm_100"
    at = TARGETS.index(target)
    return TARGETS[at - 1] if at else None
