"""Disassembles cubins, finds device code in other files, and reads resources and spills.

As a rule one call of ``nvdisasm`` gives the text and its annotations:
``nvdisasm -c -gi -gp -hex`` prints what ``-c`` prints, with locations and PTX lines on lines of
their own (``//## …``) and the encoding at the ends of lines (``/* 0x… */``). The output of ``-c``
is derived from that if nothing else was added, which is checked; else nvdisasm is called again.

A kernel spills to local memory, which is on its stack, or to shared memory, which the cubin has on
record: one with neither has spilled nothing. For others ``ptxas -v`` is run on the recorded PTX, if
the same assembler is found: the machine code that it writes must equal the recorded one.
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Resources, Stage, Variant
from inspector.parsers.cubin import (
    FATBIN_SECTIONS,
    Cubin,
    function_records,
    is_cubin,
    is_elf,
    read_cubin,
)
from inspector.recording.layout import DerivedCache
from inspector.recording.resources import from_ptxas, without_local_memory
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import Tool, find, installed_copies, need, version_of

PLAIN = ("-c",)
ANNOTATED = ("-c", "-gi", "-gp", "-hex")
_ENCODING = re.compile(r"(?<![ \t])[ \t]*+/\* 0x[0-9a-f]{16} \*/\Z")
_CODE = re.compile(r"\s*/\*[0-9a-f]{4,16}\*/\s+(?!\.)\S[^;]*;")
# How a cached failure begins; no tool prints a zero byte.
_FAILED = b"\0refused: "


def disassemble(cubin: bytes, cache: DerivedCache) -> tuple[str, str | None, str]:
    """The plain text, the annotated one or None, and the command that printed them.

    cuobjdump reads some cubins that nvdisasm refuses (symbols that are not there); what it prints
    has no locations. Raises ``Unreadable`` with nvdisasm's complaint if neither reads this cubin,
    ``ToolMissing`` without nvdisasm.
    """
    need("nvdisasm")
    complaint = ""
    for tool in installed_copies("nvdisasm"):
        for options in (ANNOTATED, ("-c", "-hex"), PLAIN):
            try:
                text = _run(tool, options, cubin, cache)
                plain_text = text if options is PLAIN else plain_of(text)
                plain_text = _run(tool, PLAIN, cubin, cache) if plain_text is None else plain_text
            except _Refused as error:
                complaint = complaint or str(error)
                continue
            annotated = None if options is PLAIN else text
            return plain_text, annotated, f"nvdisasm {tool.version or '?'} -c"
    for tool in installed_copies("cuobjdump"):
        with suppress(_Refused):
            text = _run(tool, ("-sass",), cubin, cache)
            if any(map(_CODE.match, text.splitlines())):
                return text, None, f"cuobjdump {tool.version or '?'} -sass"
    raise Unreadable(f"nvdisasm cannot read this cubin: {complaint}")


def plain_of(annotated: str) -> str | None:
    """The output of ``nvdisasm -c``; None if it cannot be derived from the annotated text."""
    out: list[str] = []
    half = False
    for line in annotated.split("\n"):
        if line.lstrip().startswith("//## "):
            continue
        match = _ENCODING.search(line)
        code = line if match is None else line[: match.start()]
        if match is not None and not code:
            half = False
            continue
        # Every instruction has its encoding; without it a line has an unknown form. Without a
        # second word the encoding has 64 bits (before sm_70), and -c may align such lines in
        # another way.
        if half or (_CODE.match(line) if match is None else not code.lstrip().startswith("/*")):
            return None
        half = match is not None
        out.append(code)
    return None if half else "\n".join(out)


class _Refused(Exception):
    """A tool does not read a cubin, or knows no such option."""


def _run(tool: Tool, options: tuple[str, ...], cubin: bytes, cache: DerivedCache) -> str:
    key = cache.key(tool.name, tool.version or "?", *options, cubin)
    if (output := cache.get(key)) is None:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            finished = run_tool([tool.path, *options, file.name])
        refused = _FAILED + (finished.complaint or f"status {finished.status}").encode()
        output = refused if finished.status != 0 or not finished.out else finished.out
        if finished.status >= 0:  # a tool that was killed may succeed the next time
            cache.store(key, output)
    if output.startswith(_FAILED):
        raise _Refused(output.removeprefix(_FAILED).decode("utf-8", "replace"))
    return output.decode("utf-8", "surrogateescape")


def usage_text(cubin: bytes, cache: DerivedCache) -> str:
    """The output of ``cuobjdump -res-usage``: figures of every function; "" if it is no ELF file.
    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` if it does not finish."""
    if not is_elf(cubin):
        return ""
    try:
        return _run(need("cuobjdump"), ("-res-usage",), cubin, cache)
    except _Refused:
        return ""


_NAMED = re.compile(r"\.(sm_\d+[af]?)\.(cubin|ptx)$")
FATBIN_MAGIC = b"\x50\xed\x55\xba"


class Image(Struct, frozen=True):
    """One piece of device code: ``arch`` as cuobjdump names it (``sm_90a``), cubin or PTX."""

    arch: str
    data: bytes
    is_ptx: bool


def carries_device_code(file: files.File) -> bool:
    """Whether an opened file is a host object or library with a fat binary. The file is not read
    into memory as a whole."""
    file.seek(0)
    return is_elf(file.take(4)) and files.contains(file, FATBIN_SECTIONS)


def images(path: Path, cache: DerivedCache | None = None) -> tuple[Image, ...]:
    """Every cubin and PTX in a file, in its order; the file itself if it is a cubin.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` if the file cannot be read or
    holds no device code.
    """
    with files.opened(path) as binary:
        head = binary.take(64)
        if is_cubin(head):
            binary.seek(0)
            return (Image("", binary.read_all(), False),)
        if not carries_device_code(binary) and FATBIN_MAGIC not in head:
            raise Unreadable(
                f"{path} holds no CUDA device code",
                "ptxview reads what nvcc, ptxas or Triton made.",
            )
        tool, allowance = need("cuobjdump"), files.Allowance()
        device_images: list[Image] = []
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            # A link with a plain name: odd names, or one that begins with a dash, do no harm.
            ending = path.suffix if re.fullmatch(r"\.[A-Za-z0-9]{1,10}", path.suffix) else ""
            inside = Path(folder) / f"input{ending}"
            inside.symlink_to(binary.descriptor_path())
            for option in ("-xelf", "-xptx"):
                run_tool([tool.path, option, "all", inside], cwd=Path(folder), seconds=300)
            for file in sorted(files.files_in(Path(folder)), key=_number):
                if match := _NAMED.search(file.name):
                    data = files.read(file, follow=False)
                    allowance.take(len(data), f"{file.name} of {path}")
                    device_images.append(Image(match[1], data, match[2] == "ptx"))
    if not device_images:
        raise Unreadable(f"cuobjdump found no device code in {path}")
    return tuple(device_images)


def images_of(data: bytes, name: str) -> tuple[Image, ...]:
    """The same of a fat binary inside another file; ``name`` is what it is called."""
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        path = Path(folder) / "embedded.fatbin"
        path.write_bytes(data)
        try:
            return images(path)
        except Unreadable:
            raise Unreadable(f"cuobjdump found no device code in {name}") from None


def arch_of(cubin: files.File) -> str | None:
    """The architecture of a cubin as cuobjdump names it (``sm_90a``); None without cuobjdump."""
    if (tool := find("cuobjdump")) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        inside = Path(folder) / "input.cubin"
        inside.symlink_to(cubin.descriptor_path())
        match = _NAMED.search(run_tool([tool.path, "-lelf", inside], seconds=60).text.strip())
    return match[1] if match else None


def _number(path: Path) -> tuple[int, str]:
    match = re.search(r"\.([0-9]{1,9})\.", path.name)
    return (int(match[1]) if match else 0, path.name)


# Triton's own options, by version: 3.9 gives the register allocator's level, all give lines
# unless options forbid it, and fused multiply-add is the kernel's choice.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-lineinfo",),
    ("-lineinfo", "--regAllocOptLevel=2"),
    ("-lineinfo", "--fmad=false"),
    ("-lineinfo", "--fmad=false", "--regAllocOptLevel=2"),
    (),
)


def likeliest_options(variant: Variant) -> list[tuple[str, ...]]:
    """Sets of options for ptxas, those first that the Triton that was recorded gives it."""
    options = variant.options
    version = re.match(r"(\d{1,3})\.(\d{1,3})", str(options.get("triton_version") or ""))
    # The first version of Triton that tells ptxas's register allocator its level.
    level = version is not None and (int(version[1]), int(version[2])) >= (3, 9)
    without_fusion = options.get("enable_fp_fusion") is False
    likely = {"--regAllocOptLevel=2": level, "--fmad=false": without_fusion}
    return sorted(
        OPTIONS,
        key=lambda words: sum((word in words) != expected for word, expected in likely.items()),
    )


# Cached instead of machine code if an assembler refused the PTX; no cubin begins so.
_REFUSED = b"\0ptxas would not"


def assemblers(folders: Iterable[str | None]) -> list[Path]:
    """Every ptxas in folders of triton packages, then those that the toolchain finds."""
    triton_tools = (path for folder in folders if folder for path in _of_triton(folder))
    return list(dict.fromkeys((*triton_tools, *(tool.path for tool in installed_copies("ptxas")))))


def _of_triton(folder: str) -> list[Path]:
    binaries = Path(folder) / "backends" / "nvidia" / "bin"
    return [p for p in sorted(binaries.glob("ptxas*")) if p.is_file()]


def versions(folder: str | None) -> dict[str, str]:
    """The versions of the assemblers in a folder of a triton package, by file name."""
    by_name = {p.name: version_of(p) for p in _of_triton(folder)} if folder else {}
    return {name: version for name, version in by_name.items() if version is not None}


def on_record(cubin: bytes, usage: str) -> dict[str, Resources]:
    """Barriers of each function, and 0 spilled bytes if it has no memory to spill to.

    ``usage`` is the output of ``cuobjdump -res-usage`` for the cubin. The kernels' figures equal
    those that ``ptxas -v`` printed when it made the cubin; functions that they call may differ.
    """
    clean = without_local_memory(usage)
    return {
        name: Resources(spill_store_bytes=0, spill_load_bytes=0, barriers=record.barriers)
        if name in clean and record.linked and not record.shared_scratch
        else Resources(barriers=record.barriers)
        for name, record in function_records(cubin).items()
    }


def of_variant(
    variant: Variant, tools: Sequence[Path], cache: DerivedCache
) -> dict[str, Resources]:
    """Spills and barriers of a variant: on record in the cubin, else found by ``assembled``. Empty
    if the cubin, or the PTX that ``assembled`` needs, is not available."""
    sass = variant.stages.get(Stage.SASS)
    with suppress(PtxviewError, OSError):
        cubin = sass.content.read() if sass is not None else b""
        recorded = on_record(cubin, usage_text(cubin, cache)).get(variant.symbol)
        if recorded is not None and recorded.spill_store_bytes is not None:
            return {variant.symbol: recorded}
    return assembled(variant, tools, cache)


def assembled(variant: Variant, tools: Sequence[Path], cache: DerivedCache) -> dict[str, Resources]:
    """Spills and barriers by function, of an assembler that makes the same machine code of the PTX.
    Empty if none does, or if the variant's PTX or cubin is not available."""
    ptx, sass = variant.stages.get(Stage.PTX), variant.stages.get(Stage.SASS)
    if ptx is None or ptx.costly or sass is None or variant.target is None:
        return {}
    try:
        text, cubin = ptx.content.read(), sass.content.read()
        reproduced = reproduction(text, cubin, variant.target, tools, cache)
    except (PtxviewError, OSError):
        return {}
    return {} if reproduced is None else from_ptxas(reproduced[2])


def same_code(built: Cubin | None, other: Cubin | None) -> bool:
    """Whether two cubins hold the same functions with the same encodings."""
    return built is not None and other is not None and built.code == other.code


def reproduction(
    ptx: bytes,
    cubin: bytes,
    target: str,
    tools: Sequence[Path],
    cache: DerivedCache,
    among: Sequence[tuple[str, ...]] = OPTIONS,
) -> tuple[Path, tuple[str, ...], str] | None:
    """Which of these assemblers makes the same machine code, with the first options that do, and
    what it prints with ``-v``.

    None if none does. Several sets of options may give the same code of one text and not of
    another: who will assemble others has those first that are the likeliest.
    """
    if (built := read_cubin(cubin)) is None:
        return None
    for tool in tools:
        if not _may_be(built, tool):
            continue
        for options in among:
            if (printed := _assemble(tool, options, ptx, target, cache)) is None:
                # An assembler that refuses the PTX with the first options is not tried again; one
                # that does not know an option may accept the next ones.
                if options == among[0]:
                    break
                continue
            text, assembled_cubin = printed
            if same_code(built, read_cubin(assembled_cubin)):
                return tool, options, text
    return None


def _may_be(built: Cubin, tool: Path) -> bool:
    """Whether this assembler may have made a cubin: by the version it names, else its ELF ABI."""
    if (version := version_of(tool)) is None or built.ptxas is not None:
        return version == built.ptxas
    # ABI 7 is CUDA 12's and names no version; ABI 8 came with CUDA 13.
    return (int(version.split(".")[0]) < 13) == (built.abi < 8)


def _assemble(
    tool: Path, options: tuple[str, ...], ptx: bytes, target: str, cache: DerivedCache
) -> tuple[str, bytes] | None:
    stamp = tool.stat()
    key = cache.key(
        "ptxas", str(tool), str(stamp.st_mtime_ns), str(stamp.st_size), *options, target, ptx
    )
    names = cache.key(key, "text"), cache.key(key, "cubin")
    messages, cubin = map(cache.get, names)
    if cubin == _REFUSED:
        return None
    if messages is None or cubin is None:
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            file, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
            file.write_bytes(ptx)
            argv: list[str | Path] = [tool, "-v", *options, f"--gpu-name={target}", file, "-o", out]
            try:
                finished = run_tool(argv, seconds=300)
            except PtxviewError:
                return None
            if finished.status != 0 or not out.is_file():
                if finished.status > 0:  # an assembler that was killed may succeed the next time
                    cache.store(names[1], _REFUSED)
                return None
            messages, cubin = finished.err + finished.out, files.read(out)
        for name, data in zip(names, (messages, cubin), strict=True):
            cache.store(name, data)
    return messages.decode("utf-8", "replace"), cubin
