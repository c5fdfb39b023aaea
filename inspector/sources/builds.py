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
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content, Resources
from inspector.parsers.cubin import read_cubin
from inspector.recording.layout import BytesContent, DerivedCache, FileContent
from inspector.recording.resources import from_ptxas
from inspector.sources.caches import objects
from inspector.sources.compilers import PLAIN, Compiled
from inspector.sources.disassembly import carries_device_code, images, same_code
from inspector.sources.traces import Event
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import find, path_folders

# Options with an argument that a second run, which compiles for one architecture, does not need.
_DROP_PAIR = {"-o", "--output-file", "-MF", "--dependency-output", "-gencode",
              "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code"}  # fmt: skip
_DROP_ONE = {"-c", "--compile", "-dc", "--device-c", "-dw", "-MD", "-MMD", "-M",
             "--generate-dependencies-with-compile", "-ptx", "-cubin", "-dlink"}  # fmt: skip
_DROP_PREFIX = ("-gencode=", "--generate-code=", "-arch=", "--gpu-architecture=", "-code=",
                "--gpu-code=", "-MF=", "--dependency-output=", "-o=")  # fmt: skip


def lineinfo_command(argv: Sequence[str], source: str, arch: str, out: Path) -> list[str]:
    """The same command for one architecture (``90a``), with ``-cubin -lineinfo --keep``."""
    return [
        *(word for word in _of_any_architecture(argv) if word != source),
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        *("-cubin", "-lineinfo", "-Xptxas", "-v", "--keep", "--keep-dir", str(out)),
        *(source, "-o", str(out / "again.cubin")),
    ]


def _of_any_architecture(argv: Sequence[str]) -> Iterator[str]:
    """The words of a command without its outputs, its kind and its architectures."""
    arguments = iter(argv)
    for word in arguments:
        if word in _DROP_PAIR:
            next(arguments, None)
        elif word not in _DROP_ONE and not word.startswith(_DROP_PREFIX):
            yield word


def rerun(
    built: BuiltCubin, argv: tuple[str, ...], cache: DerivedCache, say: Callable[[str], None]
) -> Compiled:
    """Run nvcc again for one cubin of a build, or take the cached result for the same content.

    It has a cubin, and ``printed`` holds for the built one, if their machine code is the same.
    """
    build_source = built.source or Path()
    source = next(
        (w for w in argv if w.endswith(SOURCES) and Path(w).name == build_source.name),
        str(build_source),
    )
    arch, machine_code = built.arch.removeprefix("sm_"), read_cubin(built.cubin)
    code = (
        json.dumps(sorted((n, c.hex()) for n, c in machine_code.code.items()))
        if machine_code
        else ""
    )
    key = cache.key("nvcc", "\0".join(argv), arch, files.read(Path(source)), code)
    keys = [cache.key(key, name) for name in ("ptx", "cubin", "said")]
    text, lines, printed = map(cache.get, keys)
    command = argv
    if text is None or printed is None:
        say(f"nvcc again for {build_source.name}, for its PTX (sm_{arch})")
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            command = tuple(lineinfo_command(argv, source, arch, Path(folder)))
            try:
                # It runs in the build's folder, and looks for the host's compiler on PATH.
                env = {**os.environ, "PATH": os.pathsep.join(path_folders())}
                build_folder = built.directory if built.directory.is_dir() else None
                finished = run_tool(command, cwd=build_folder, env=env, seconds=900)
            except PtxviewError as error:
                return Compiled(command=command, failed=error.message)
            ptx = next(iter(sorted(Path(folder).glob("*.ptx"))), None)
            if finished.status != 0 or ptx is None:
                return Compiled(command=command, failed=f"nvcc failed: {finished.complaint}")
            text, printed = files.read(ptx), finished.err
            cubin = files.read(Path(folder) / "again.cubin")
        lines = cubin if same_code(machine_code, read_cubin(cubin)) else b""
        for name, data in zip(keys, (text, lines, printed), strict=True):
            cache.store(name, data)
    return Compiled(
        text, lines or None, command=command, printed=printed.decode("utf-8", "replace")
    )


def architectures(argv: Sequence[str]) -> list[str]:
    """The real architectures that a command compiles for (``90a``), in order."""
    named = [w for w in argv if "code=" in w or w.startswith(("-arch", "--gpu-arch"))]
    real = (
        re.findall(r"sm_(\d+[af]?)", word) or re.findall(r"(?:compute|sm)_(\d+[af]?)", word)
        for word in named
    )
    return list(dict.fromkeys(itertools.chain.from_iterable(real)))


# What torch's generator uses: variables, rules, builds with variables of their own, ``$`` escapes,
# implicit inputs and outputs; no variables of rules, no ``include`` and no ``subninja``.

SOURCES = (".cu",)
_REFERENCE = re.compile(r"\$(?:([$ :])|\{([^{}]*)\}|([A-Za-z0-9_-]+)|)")
_EDGE = re.compile(r"((?:[^$:]|\$.)*+): *(\S+)(.*)")
_WORD = re.compile(r"(?:[^ $]|\$.|\$$)+")
MAX_EXPANSION = 64
"""Times the length of a file that its expanded text may have, or ``MIN_EXPANDED_CHARS`` if that is
more. A hundred commands with one long list of flags are 20 times as long as the file."""
MIN_EXPANDED_CHARS = 1 << 16


class Build(Struct, frozen=True):
    """One edge: ``argv`` makes ``output`` from ``inputs``."""

    output: str
    inputs: tuple[str, ...]
    argv: tuple[str, ...]

    @property
    def cuda(self) -> str | None:
        return next((name for name in self.inputs if name.endswith(SOURCES)), None)


class _Expander:
    """Replaces references to variables, until the texts would have too many characters: a small
    file may refer to itself many times."""

    def __init__(self, max_chars: int) -> None:
        self._remaining = max_chars

    def expand(self, text: str, values: Mapping[str, str]) -> str:
        """``text`` with the values of its variables; "" once there is too much."""

        def replacement(reference: re.Match[str]) -> str:
            value = reference[1] or values.get(reference[2] or reference[3] or "", "")
            return self._counted(value)

        return _REFERENCE.sub(replacement, self._counted(text))

    def _counted(self, text: str) -> str:
        self._remaining -= len(text)
        return text if self._remaining >= 0 else ""


class _NinjaFile(Struct):
    """The variables of a file, those of each rule, and each ``build`` line with its variables."""

    variables: dict[str, str] = field(default_factory=dict)
    rules: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, dict[str, str]]] = field(default_factory=list)


def _ninja_file(text: str, expander: _Expander) -> _NinjaFile:
    """Read a build file; what cannot be read is left out."""
    out = _NinjaFile()
    rule: dict[str, str] | None = None
    block = out.variables
    for line in re.sub(r"\$\n *", "", text.replace("\r\n", "\n")).split("\n"):
        name, equals, value = line.partition("=")
        if line.startswith("rule "):
            block = rule = out.rules.setdefault(line[5:].strip(), {})
        elif line.startswith("build "):
            block = {}
            out.edges.append((line[6:], block))
        elif equals and not line.lstrip().startswith("#"):
            if not line.startswith((" ", "\t")):
                block = out.variables
            value = value.lstrip()
            if block is not rule:  # a rule's command is expanded for each build
                value = expander.expand(value, out.variables)
            block[name.strip()] = value
    return out


def parse_ninja(text: str) -> tuple[Build, ...]:
    """The builds of a file, with their commands expanded. What cannot be read is left out."""
    expander = _Expander(MIN_EXPANDED_CHARS + MAX_EXPANSION * len(text))
    file = _ninja_file(text, expander)

    def words(names: str) -> tuple[str, ...]:
        """The explicit names: those after a bar only order the build."""
        explicit = _WORD.findall(names.partition("|")[0])
        return tuple(expander.expand(word, file.variables) for word in explicit)

    builds = []
    for edge, edge_variables in file.edges:
        match = _EDGE.match(edge)
        if match is None:
            continue
        outputs = words(match[1])
        inputs = words(match[3])
        own_names = {"in": shlex.join(inputs), "out": shlex.join(outputs)}
        command = file.rules.get(match[2], {}).get("command", "")
        values = ChainMap(own_names, edge_variables, file.variables)
        with suppress(ValueError):
            argv = shlex.split(expander.expand(command, values))
            builds.append(Build("".join(outputs[:1]), inputs, tuple(argv)))
    return tuple(builds)


class BuiltCubin(Struct, frozen=True):
    """One cubin of a build, with its source and the command that made it, if they are known."""

    object: Path
    arch: str
    cubin: bytes
    embedded_ptx: bytes | None
    source: Path | None
    argv: tuple[str, ...]
    directory: Path


class LaterPtx(Struct, frozen=True):
    """PTX that nvcc makes when it is first read; with ``lines``, the cubin with line numbers."""

    built: BuiltCubin
    argv: tuple[str, ...]
    cache: DerivedCache
    lines: bool = False

    def read(self) -> bytes:
        code = rerun(self.built, self.argv, self.cache, lambda text: None)
        data = code.cubin if self.lines else code.ptx
        if data is None:
            raise Unreadable(code.failed or "the machine code differs with -lineinfo")
        return data


def read_folder(directory: Path, cache: DerivedCache) -> Iterator[BuiltCubin | str]:
    """Every cubin of a build folder, and a sentence for each file that could not be read."""
    builds: tuple[Build, ...] = ()
    problems: list[str] = []
    try:
        ninja = files.text(directory / "build.ninja", files.limits().text, inside=directory)
        builds = parse_ninja(ninja)
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
        if output in object_files or edge.cuda is None:
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
        matching_builds = (b for b in builds if (directory / b.output).resolve() == real and b.cuda)
        yield from read_object(path, next(matching_builds, None), directory, cache)


def read_object(
    path: Path, build: Build | None, directory: Path, cache: DerivedCache
) -> Iterator[BuiltCubin | str]:
    """Every cubin of one object or library, with the PTX for it if the file has that."""
    try:
        device_images = images(path, cache)
    except PtxviewError as error:
        yield error.message
        return
    source = directory / build.cuda if build is not None and build.cuda else None
    carried = {i.arch: i.data for i in device_images if i.is_ptx}
    real = architectures(build.argv) if build else []
    for image in device_images:
        if not image.is_ptx:
            # The command says whether it was sm_90 or sm_90a; the fat binary of an older tool
            # gives the number alone.
            number = re.sub(r"\D", "", image.arch)
            exact = next((a for a in real if re.sub(r"\D", "", a) == number), None)
            yield BuiltCubin(
                path,
                f"sm_{exact}" if exact else image.arch,
                image.data,
                carried.get(image.arch),
                source,
                build.argv if build else (),
                directory,
            )


def _real_source(path: Path) -> Path | None:
    """A source's real path; None if that is not a source file, since a link may lead anywhere."""
    with suppress(OSError, RuntimeError, ValueError):
        real = path.resolve()
        return real if real.suffix in SOURCES and real.is_file() else None
    return None


def why_not(built: BuiltCubin) -> str | None:
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


def harmless(argv: tuple[str, ...], nvcc_path: Path, source: Path) -> tuple[str, ...]:
    """The command with this machine's nvcc and only the flags that shape the code."""
    out = [str(nvcc_path)]
    words = iter(argv[1:])
    for word in words:
        if word in _PAIRS:
            value = next(words, "")
            if PLAIN.fullmatch(value) and not value.startswith(("-", "@")):
                out += [word, value]
        elif word.startswith(_HARMLESS) and PLAIN.fullmatch(word):
            out.append(word)
    return (*out, str(source))


def code_flags(argv: Sequence[str]) -> list[str]:
    """Of a recorded nvcc command the flags that shape the code of any architecture."""
    return list(harmless(("", *_of_any_architecture(argv)), Path(), Path())[1:-1])


def event_of(built: BuiltCubin, cache: DerivedCache) -> Event:
    """The event of one cubin in a folder that is opened; nvcc runs only when its PTX is read."""
    event = _facts(built, BytesContent) | {"cubin": BytesContent(built.cubin)}
    if built.source is not None:
        sibling = _real_source(built.directory / built.source.name)
        if (real := _real_source(built.source) or sibling) is not None:
            event["source_blob"] = FileContent(real, real.parent)
    tool = find("nvcc")
    reason = why_not(built)
    # An absolute path, since one that begins with a dash would be an option.
    source = built.source.absolute() if built.source is not None else None
    if reason is None and not PLAIN.fullmatch(str(source)):
        reason = "PTX needs nvcc, and nvcc would obey the odd characters in the source's path"
    if built.embedded_ptx is None and reason is None and source is not None and tool is not None:
        argv = harmless(built.argv, tool.path, source)
        event |= {
            "ptx": LaterPtx(built, argv, cache),
            "costly": True,
            "ptx_from": "nvcc again with the build's flags and -lineinfo",
            "lineinfo_cubin": LaterPtx(built, argv, cache, lines=True),
        }
    return event | {"why": reason}


def recorded_event(
    built: BuiltCubin, blob: Callable[[bytes], str], cache: DerivedCache, say: Callable[[str], None]
) -> list[Event]:
    """The events of one cubin of a build that has just been recorded: its PTX, its spills."""
    figures: list[Event] = []
    event = _facts(built, blob) | {"cubin": blob(built.cubin)}
    if built.source is not None and built.source.is_file():
        event["source_blob"] = blob(files.read(built.source))
    if (reason := why_not(built)) is None:
        code = rerun(built, built.argv, cache, say)
        reason = code.failed
        event["ptx_command"] = list(code.command)
        if code.ptx is not None:
            origin = "the build's nvcc command again, with -lineinfo"
            event |= {"ptx": blob(code.ptx), "ptx_from": origin}
        if code.cubin is not None:
            event["lineinfo_cubin"] = blob(code.cubin)
            digest = str(event["sha256"])
            figures = [ptxas_event(digest, s, r) for s, r in from_ptxas(code.printed).items()]
        elif code.ptx is not None:
            event["no_lines"] = "with -lineinfo the machine code differs: no lines are shown"
    return [event | {"why": reason}, *figures]


def ptxas_event(digest: str, symbol: str, resources: Resources) -> Event:
    """The event with the figures that ``ptxas -v`` printed for one function."""
    names = ("spill_store_bytes", "spill_load_bytes", "barriers")
    figures = {name: getattr(resources, name) for name in names}
    return {"event": "ptxas", "hash": digest, "symbol": symbol, **figures}


def _facts(built: BuiltCubin, blob: Callable[[bytes], str | Content]) -> Event:
    ptx: Event = {}
    if built.embedded_ptx is not None:
        ptx = {"ptx": blob(built.embedded_ptx), "ptx_from": f"carried by {built.object.name}"}
    return {
        "event": "device_code",
        "object": str(built.object),
        "source": str(built.source) if built.source else None,
        "arch": built.arch or None,
        "directory": str(built.directory),
        "flags": list(built.argv[1:]),
        "sha256": hashlib.sha256(built.cubin).hexdigest(),
        **ptx,
    }
