"""Device code of extension builds: objects, the commands that made them, and their PTX.

An ordinary build keeps neither PTX nor line information. The same nvcc command, run again with
``-cubin -lineinfo --keep``, gives both: the PTX as ``-ptx -lineinfo`` would write it, and a cubin
whose line table is valid for the built object if, function by function, the code is the same.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content, Resources
from inspector.listing.cubin import Cubin, read_cubin
from inspector.recording.facts import from_ptxas
from inspector.recording.layout import BytesContent, DerivedCache, FileContent
from inspector.sources.caches import objects
from inspector.sources.disassembly import carries_device_code, images, same_code
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import find, path_folders

_ARCH = re.compile(r"(?:compute|sm)_(\d+[af]?)")
# Options with an argument that a second run, which compiles for one architecture, does not need.
_DROP_PAIR = {"-o", "--output-file", "-MF", "--dependency-output", "-gencode",
              "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code"}  # fmt: skip
_DROP_ONE = {"-c", "--compile", "-dc", "--device-c", "-dw", "-MD", "-MMD", "-M",
             "--generate-dependencies-with-compile", "-ptx", "-cubin", "-dlink"}  # fmt: skip
_DROP_PREFIX = ("-gencode=", "--generate-code=", "-arch=", "--gpu-architecture=", "-code=",
                "--gpu-code=", "-MF=", "--dependency-output=", "-o=")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The result of a second run; if ``ptx`` is None, ``why`` says what is missing.

    ``ptxas`` is the output of ``ptxas -v``. It holds for the built object if ``lines_cubin`` is
    not None, that is, if the machine code is the same.
    """

    ptx: bytes | None
    lines_cubin: bytes | None
    command: tuple[str, ...]
    why: str | None = None
    ptxas: str = ""


def again(argv: Sequence[str], source: str, arch: str, out: Path) -> list[str]:
    """The same command for one architecture (``90a``), with ``-cubin -lineinfo --keep``."""
    words: list[str] = []
    given = iter(argv)
    for word in given:
        if word in _DROP_PAIR:
            next(given, None)
        elif word not in _DROP_ONE and not word.startswith(_DROP_PREFIX) and word != source:
            words.append(word)
    return [
        *words,
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        *("-cubin", "-lineinfo", "-Xptxas", "-v", "--keep", "--keep-dir", str(out)),
        *(source, "-o", str(out / "again.cubin")),
    ]


def device_code(
    argv: Sequence[str],
    source: str,
    arch: str,
    built: Cubin | None,
    directory: Path,
    cache: DerivedCache,
    source_bytes: bytes,
    say: Callable[[str], None] = lambda text: None,
) -> DeviceCode:
    """Run nvcc again for a source of a build, or take the cached result for the same content."""
    if not argv or not Path(argv[0]).is_file() or not Path(source).is_file():
        missing = argv[0] if not argv or not Path(argv[0]).is_file() else source
        return DeviceCode(
            None, None, (), f"PTX needs the build's own nvcc command, and {missing} is not here"
        )
    code = json.dumps(sorted((n, c.hex()) for n, c in built.code.items())) if built else ""
    key = cache.key("nvcc", "\0".join(argv), arch, source_bytes, code)
    cached = {name: cache.get(cache.key(key, name)) for name in ("ptx", "cubin", "said")}
    if cached["ptx"] is not None and cached["said"] is not None:
        messages = cached["said"].decode("utf-8", "replace")
        return DeviceCode(cached["ptx"], cached["cubin"] or None, tuple(argv), ptxas=messages)
    say(f"nvcc again for {Path(source).name}, for its PTX (sm_{arch})")
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        command = again(argv, source, arch, Path(folder))
        try:
            # It runs in the build's folder, and looks for the host's compiler on PATH.
            env = {**os.environ, "PATH": os.pathsep.join(path_folders())}
            build_folder = directory if directory.is_dir() else None
            done = run_tool(command, cwd=build_folder, env=env, seconds=900)
        except PtxviewError as error:
            return DeviceCode(None, None, tuple(command), error.message)
        ptx = next(iter(sorted(Path(folder).glob("*.ptx"))), None)
        if done.status != 0 or ptx is None:
            return DeviceCode(None, None, tuple(command), f"nvcc failed: {done.complaint}")
        text = files.read(ptx)
        cubin = files.read(Path(folder) / "again.cubin")
    lines = cubin if same_code(built, read_cubin(cubin)) else None
    cache.put(cache.key(key, "ptx"), text)
    cache.put(cache.key(key, "cubin"), lines or b"")
    cache.put(cache.key(key, "said"), done.err)
    return DeviceCode(text, lines, tuple(command), ptxas=done.err.decode("utf-8", "replace"))


def architectures(argv: Sequence[str]) -> list[str]:
    """The real architectures that a command compiles for (``90a``), in order."""
    named = [w for w in argv if "code=" in w or w.startswith(("-arch", "--gpu-arch"))]
    real = (re.findall(r"sm_(\d+[af]?)", word) or _ARCH.findall(word) for word in named)
    return list(dict.fromkeys(itertools.chain.from_iterable(real)))


# -- build.ninja ----------------------------------------------------------------------------------
# Reads the ``build.ninja`` that torch writes: which commands make which files.
#
# What torch's generator uses and a little more: variables, rules, builds with variables of their
# own, ``$`` escapes, implicit inputs and outputs; no ``include`` and no ``subninja``.

_REFERENCE = re.compile(r"\$(?:([$ :])|\{([^{}]*)\}|([A-Za-z0-9_-]+)|)")
_WORD = re.compile(r"(?:[^ $]|\$(?s:.)|\$$)+")
_COLON = re.compile(r"((?:[^$:]|\$(?s:.))*+):(.*)", re.DOTALL)
# Marks a joined line; the next line's indentation is not part of it.
_JOINED = "\0"
MAX_COMMAND_CHARS = 1 << 20
# The expanded text may be TIMES as long as the file, or LEAST characters if that is more. A hundred
# commands with one long list of flags are 20 times as long as the file.
TIMES, LEAST = 64, 1 << 16


@dataclass(frozen=True, slots=True)
class Build:
    """One edge: ``argv`` makes ``output`` from ``inputs``."""

    output: str
    inputs: tuple[str, ...]
    rule: str
    argv: tuple[str, ...]


def parse_ninja(text: str) -> tuple[Build, ...]:
    """The builds of a file, with their commands expanded. What cannot be read is left out."""
    room = _Room(LEAST + TIMES * len(text))
    variables: dict[str, str] = {}
    rules: dict[str, dict[str, str]] = {}
    edges: list[_Edge] = []
    # The block to which indented lines belong, and the variables that their values may name.
    block: dict[str, str] | None = None
    scope: dict[str, str] | None = None
    for line in text.replace("$\r\n", _JOINED).replace("$\n", _JOINED).split("\n"):
        line = re.sub(_JOINED + " *", "", line.rstrip("\r"))
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if line.startswith((" ", "\t")):
            if block is not None and equals:
                value = value.lstrip()
                block[name.strip()] = value if scope is None else room.expand(value, scope.get)
            continue
        block, scope = None, None
        if line.startswith("rule "):
            block = rules.setdefault(line[5:].strip(), {})
        elif line.startswith("build "):
            edge = _edge(line[6:], variables, room)
            if edge is not None:
                edges.append(edge)
                block, scope = edge.variables, variables
        elif equals:
            variables[name.strip()] = room.expand(value.lstrip(), variables.get)
    return tuple(_build(edge, rules.get(edge.rule, {}), variables, room) for edge in edges)


@dataclass(frozen=True, slots=True)
class _Edge:
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    rule: str
    variables: dict[str, str]


def _edge(text: str, variables: dict[str, str], room: _Room) -> _Edge | None:
    found = _COLON.match(text)
    if found is None:
        return None

    def explicit(words: list[str]) -> tuple[str, ...]:
        # Names after a bar are implicit: they order the build and are not part of the command.
        own = itertools.takewhile(lambda word: word not in ("|", "||", "|@"), words)
        return tuple(room.expand(word, variables.get) for word in own)

    rule, *inputs = _WORD.findall(found[2]) or [""]
    return _Edge(explicit(_WORD.findall(found[1])), explicit(inputs), rule, {}) if rule else None


def _build(edge: _Edge, rule: dict[str, str], variables: dict[str, str], room: _Room) -> Build:
    def outside(name: str) -> str | None:
        if name in ("in", "out"):
            return " ".join(map(shlex.quote, edge.inputs if name == "in" else edge.outputs))
        return edge.variables.get(name, variables.get(name))

    def value(name: str) -> str | None:
        # As ninja looks it up: the rule's variables come before the file's if the edge has some.
        first = edge.variables or variables
        if name in ("command", "in", "out") or name not in rule or name in first:
            return outside(name)
        # A rule's variables are expanded at each use; for torch's rules one level is enough.
        return room.expand(rule[name], outside)

    command = room.expand(edge.variables.get("command", rule.get("command", "")), value)
    try:
        argv = tuple(shlex.split(command))
    except ValueError:
        argv = ()
    return Build(edge.outputs[0] if edge.outputs else "", edge.inputs, edge.rule, argv)


class _Room:
    """The characters that may still be expanded for a whole file; each value draws on them."""

    def __init__(self, left: int) -> None:
        self.left = left

    def expand(self, text: str, value: Callable[[str], str | None]) -> str:
        """Text with its variables expanded; empty if it becomes too long to be a command."""
        parts: list[str] = []
        position = size = 0
        for reference in _REFERENCE.finditer(text):
            parts += (
                text[position : reference.start()],
                reference[1] or value(reference[2] or reference[3] or "") or "",
            )
            position = reference.end()
            size += len(parts[-1]) + len(parts[-2])
            if size > min(MAX_COMMAND_CHARS, self.left):
                break
        size += len(text) - position
        if size > MAX_COMMAND_CHARS or size > self.left:
            self.left = max(0, self.left - min(size, MAX_COMMAND_CHARS))
            return ""
        self.left -= size
        return "".join(parts) + text[position:]


Event = dict[str, object]
SOURCES = (".cu",)


@dataclass(frozen=True, slots=True)
class Found:
    """One cubin of a build, with its source and the command that made it, if they are known."""

    object: Path
    arch: str
    cubin: bytes
    embedded_ptx: bytes | None
    source: Path | None
    argv: tuple[str, ...]
    directory: Path


@dataclass(frozen=True, slots=True)
class LaterPtx:
    """PTX that nvcc makes when it is first read; with ``lines``, the cubin with line numbers."""

    found: Found
    argv: tuple[str, ...]
    cache: DerivedCache
    lines: bool = False

    def read(self) -> bytes:
        code = rerun(self.found, self.argv, self.cache, lambda text: None)
        data = code.lines_cubin if self.lines else code.ptx
        if data is None:
            raise Unreadable(code.why or "the machine code differs with -lineinfo")
        return data


def read_folder(directory: Path, cache: DerivedCache) -> Iterator[Found | str]:
    """Every cubin of a build folder, and a sentence for each file that could not be read."""
    builds: tuple[Build, ...] = ()
    problems: list[str] = []
    ninja = directory / "build.ninja"
    try:
        builds = parse_ninja(files.text(ninja, files.limits().text, inside=directory))
    except files.Absent:
        pass
    except Unreadable as error:
        problems.append(error.message)
    try:
        object_files = objects(directory, problems.append)
    except Unreadable as error:
        yield error.message
        return
    # setup.py's objects are in folders named after the sources, below the build's folder.
    for edge in builds:
        output = directory / edge.output
        if output in object_files or not _cuda(edge):
            continue
        try:
            with files.opened(output, inside=directory) as file:
                if carries_device_code(file):
                    object_files.append(output)
        except files.Absent:
            continue
        except Unreadable as error:
            problems.append(error.message)
    yield from problems
    for path in object_files:
        real = path.resolve()
        made = (b for b in builds if (directory / b.output).resolve() == real and _cuda(b))
        yield from read_object(path, next(made, None), directory, cache)


def _cuda(build: Build) -> bool:
    return any(i.endswith(SOURCES) for i in build.inputs)


def read_object(
    path: Path, build: Build | None, directory: Path, cache: DerivedCache
) -> Iterator[Found | str]:
    """Every cubin of one object or library, with the PTX for it if the file has that."""
    try:
        device_images = images(path, cache)
    except PtxviewError as error:
        yield error.message
        return
    source = next((Path(i) for i in build.inputs if i.endswith(SOURCES)), None) if build else None
    if source is not None and not source.is_absolute():
        source = directory / source
    carried = {i.arch: i.data for i in device_images if i.is_ptx}
    real = architectures(build.argv) if build else []
    for image in device_images:
        if not image.is_ptx:
            # The command says whether it was sm_90 or sm_90a; the fat binary of an older tool
            # gives the number alone.
            number = re.sub(r"\D", "", image.arch)
            exact = next((a for a in real if re.sub(r"\D", "", a) == number), None)
            yield Found(
                path,
                f"sm_{exact}" if exact else image.arch,
                image.data,
                carried.get(image.arch),
                source,
                build.argv if build else (),
                directory,
            )


def rerun(
    built: Found, argv: tuple[str, ...], cache: DerivedCache, say: Callable[[str], None]
) -> DeviceCode:
    """Run nvcc again for one cubin of a build."""
    source = str(built.source or "")
    try:
        text = files.read(Path(source)) if source else b""
    except Unreadable:
        text = b""
    source_word = next(
        (w for w in argv if w.endswith(SOURCES) and Path(w).name == Path(source).name), ""
    )
    return device_code(
        argv,
        source_word or source,
        built.arch.removeprefix("sm_"),
        read_cubin(built.cubin),
        built.directory,
        cache,
        text,
        say,
    )


def _real_source(path: Path) -> Path | None:
    """A source's real path; None if that is not a source file, since a link may lead anywhere."""
    with suppress(OSError, RuntimeError, ValueError):
        real = path.resolve()
        return real if real.suffix in SOURCES and real.is_file() else None
    return None


def why_not(built: Found) -> str | None:
    """Why no PTX can be made, in one sentence; None if it can."""
    if built.source is None or not built.argv:
        return "no PTX: the object does not carry it, and the nvcc command of the build is unknown"
    if _real_source(built.source) is None:
        return f"PTX needs the build's own nvcc command, and {built.source} is not on this machine"
    if not Path(built.argv[0]).is_file() and find("nvcc") is None:
        return f"PTX needs the build's own nvcc command, and {built.argv[0]} is not on this machine"
    return None


# A build folder that is opened is untrusted: of its command only flags that start no program.
_HARMLESS = ("-D", "-U", "-I", "-O", "-std=", "--std=", "-isystem", "--expt-", "-use_fast_math",
             "--use_fast_math", "-m64", "-ftz", "-prec-", "-fmad", "--ftz", "--prec-", "--fmad",
             "-maxrregcount", "--maxrregcount", "-rdc", "-extended-lambda", "--extended-lambda",
             "-gencode", "-arch", "-code", "--generate-code", "--gpu-")  # fmt: skip
_PAIRS = {"-isystem", "-I", "-D", "-U", "-gencode", "--generate-code", "-std", "-arch"}


# nvcc hands its own commands to a shell, and quotes in a way that $(…) and `…` survive.
_PLAIN = re.compile(r"[\w.,/+=:%@\[\] -]+")


def harmless(argv: tuple[str, ...], nvcc_path: Path, source: Path) -> tuple[str, ...]:
    """The command with this machine's nvcc and only the flags that shape the code."""
    out = [str(nvcc_path)]
    words = iter(argv[1:])
    for word in words:
        if word in _PAIRS:
            value = next(words, "")
            if _PLAIN.fullmatch(value) and not value.startswith(("-", "@")):
                out += [word, value]
        elif word.startswith(_HARMLESS) and _PLAIN.fullmatch(word):
            out.append(word)
    return (*out, str(source))


def event_of(built: Found, cache: DerivedCache) -> Event:
    """The event of one cubin in a folder that is opened; nvcc runs only when its PTX is read."""
    event = _facts(built, lambda data: BytesContent(data))
    event["cubin"] = BytesContent(built.cubin)
    if built.source is not None:
        for file in (built.source, built.directory / built.source.name):
            if (real := _real_source(file)) is not None:
                event["source_blob"] = FileContent(real, real.parent)
                break
    tool = find("nvcc")
    reason = why_not(built)
    # An absolute path, since one that begins with a dash would be an option.
    source = built.source.absolute() if built.source is not None else None
    if reason is None and not _PLAIN.fullmatch(str(source)):
        reason = "PTX needs nvcc, and nvcc would obey the odd characters in the source's path"
    if built.embedded_ptx is None and reason is None and source is not None and tool is not None:
        argv = harmless(built.argv, tool.path, source)
        event["ptx"] = LaterPtx(built, argv, cache)
        event["costly"] = True
        event["ptx_from"] = "nvcc again with the build's flags and -lineinfo"
        event["lineinfo_cubin"] = LaterPtx(built, argv, cache, lines=True)
    event["why"] = reason
    return event


def recorded_event(
    built: Found,
    blob: Callable[[bytes], str],
    cache: DerivedCache,
    say: Callable[[str], None],
) -> list[Event]:
    """The events of one cubin of a build that has just been recorded: its PTX, its spills."""
    figures: list[Event] = []
    event = _facts(built, blob)
    event["cubin"] = blob(built.cubin)
    if built.source is not None and built.source.is_file():
        event["source_blob"] = blob(files.read(built.source))
    reason = why_not(built)
    if reason is None:
        code = rerun(built, built.argv, cache, say)
        reason = code.why
        event["ptx_command"] = list(code.command)
        if code.ptx is not None:
            event["ptx"] = blob(code.ptx)
            event["ptx_from"] = "the build's nvcc command again, with -lineinfo"
        if code.lines_cubin is not None:
            event["lineinfo_cubin"] = blob(code.lines_cubin)
            digest = str(event["sha256"])
            figures = [ptxas_event(digest, s, r) for s, r in from_ptxas(code.ptxas).items()]
        elif code.ptx is not None:
            event["no_lines"] = "with -lineinfo the machine code differs: no lines are shown"
    event["why"] = reason
    return [event, *figures]


def ptxas_event(digest: str, symbol: str, resources: Resources) -> Event:
    """The event with the figures that ``ptxas -v`` printed for one function."""
    return {
        "event": "ptxas",
        "hash": digest,
        "symbol": symbol,
        "spill_store_bytes": resources.spill_store_bytes,
        "spill_load_bytes": resources.spill_load_bytes,
        "barriers": resources.barriers,
    }


def _facts(built: Found, blob: Callable[[bytes], str | Content]) -> Event:
    event: Event = {
        "event": "device_code",
        "object": str(built.object),
        "source": str(built.source) if built.source else None,
        "arch": built.arch or None,
        "directory": str(built.directory),
        "flags": list(built.argv[1:]),
        "sha256": hashlib.sha256(built.cubin).hexdigest(),
    }
    if built.embedded_ptx is not None:
        event["ptx"] = blob(built.embedded_ptx)
        event["ptx_from"] = f"carried by {built.object.name}"
    return event
