"""load_inline, load and CUDAExtension: torch's own builds, with nvcc_main in nvcc's place.

torch writes its sources and build.ninja, and ninja runs them as before. nvcc compiles device and
host code; the library is linked with a stand-in for the CUDA runtime that launches the PTX.
"""

import hashlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial, partialmethod
from pathlib import Path
from typing import Any

from ..writer import blob, emit, file_blob
from . import current, say, shim
from .say import WAITING

NO_TOOLKIT = (
    "no CUDA toolkit was found (nvcc with its headers): CUDA C++ is captured as source only; "
    "pip install 'ptxview[cuda]', or set CUDA_HOME"
)
GCC_HEAP_KB = 500_000
"""Memory that GCC takes before it collects garbage: a tenth off the time of torch's headers."""


@cache
def homes() -> tuple[str, ...]:
    """Toolkits at hand, best first: each has bin/nvcc and the runtime's headers."""
    variables = ("CUDA_HOME", "CUDA_PATH")
    homes = [Path(os.environ[name]) for name in variables if os.environ.get(name)]
    if on_path := shutil.which("nvcc"):
        homes.append(Path(on_path).resolve().parents[1])
    homes.append(Path("/usr/local/cuda"))
    for wheels in (Path(folder) / "nvidia" for folder in sys.path):
        homes += [*sorted(wheels.glob("cu[0-9]*"), reverse=True), wheels / "cuda_nvcc"]
    return tuple(
        str(home)
        for home in dict.fromkeys(homes)
        if (home / "bin" / "nvcc").exists() and (home / "include" / "cuda_runtime.h").exists()
    )


def architecture(argv: list[str], target: str) -> str:
    """The flavour of the target that the build asks for: sm_90a where it names sm_90a."""
    number = re.sub(r"\D", "", target)
    architectures = re.findall(r"(?:sm|compute)_(\d+[af]?)", " ".join(argv))
    exact = [a for a in architectures if a.rstrip("af") == number]
    return f"sm_{max(exact, key=len)}" if exact else f"sm_{number}"


def _options(flags: list[str], *names: str) -> tuple[list[str], list[str]]:
    """The values of the options with these names (``-x v`` or ``-x=v``), and the other flags."""
    values: list[str] = []
    remaining: list[str] = []
    items = iter(flags)
    for item in items:
        name, equals, value = item.partition("=")
        if name in names:
            values.append(value if equals else next(items, ""))
        else:
            remaining.append(item)
    return values, remaining


def split(argv: list[str]) -> tuple[str | None, str | None, str | None, list[str]]:
    """Source, output and dependency file of an nvcc command, and its other flags."""
    outputs, remaining = _options(argv, "-o")
    depends, remaining = _options(remaining, "-MF", "--dependency-output")
    _, remaining = _options(remaining, "-MT")
    modes = ("-MD", "--generate-dependencies-with-compile", "-c", "--compile", "-dc")
    sources = [flag for flag in remaining if flag.endswith((".cu", ".cuh")) and flag[0] != "-"]
    flags = [flag for flag in remaining if flag not in modes and flag not in sources]
    return _last(sources), _last(outputs), _last(depends), flags


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None


ARCHITECTURE = ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code")
RELOCATABLE = ("-rdc", "--relocatable-device-code")
"""Options that choose architectures or relocatable code: one target is compiled."""


def command(home: str, source: Path, flags: list[str], target: str, folder: Path) -> list[str]:
    """The command that leaves PTX with line information, a cubin, and an object in ``folder``.

    The object holds the PTX uncompressed, since the runtime's stand-in reads it from there.
    """
    compiler = os.environ.get("PTXVIEW_NVCC")
    nvcc = shlex.split(compiler) if compiler else [f"{home}/bin/nvcc"]
    return [
        *nvcc,
        *_options(flags, *ARCHITECTURE, *RELOCATABLE)[1],
        *f"-lineinfo -arch={architecture(flags, target)} -c -no-compress -Xcompiler=-w".split(),
        f"-Xcompiler=--param=ggc-min-heapsize={GCC_HEAP_KB}",
        *("--keep", "--keep-dir", str(folder), "-o", str(folder / "whole.o"), str(source)),
    ]


def compile_source(home: str, source: Path, flags: list[str], target: str) -> dict[str, Any]:
    """Compile one source, or take the cached result for the same content.

    Returns the record: paths of ``object``, ``ptx``, ``cubin`` and ``lines_cubin``, the command,
    the log, the exit status, and the digests of the headers that it depends on.
    """
    inputs = [flags, target, home, str(source), shim.torch_version()]
    digest = hashlib.sha256(json.dumps(inputs).encode() + source.read_bytes())
    place = shim.cache_root() / "nvcc" / digest.hexdigest()[:24]
    record = _cached(place) or _compile(home, source, flags, target, place)
    if record["ptx"] and record["cubin"]:
        note_machine(Path(record["ptx"]), Path(record["cubin"]))
    return record


def _cached(place: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((place / "record.json").read_text())
        current = all(_digest(path) == digest for path, digest in record["depends"].items())
        return record if current and Path(record["object"]).exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _compile(home: str, source: Path, flags: list[str], target: str, place: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ptxview-nvcc-") as name:
        folder = Path(name)
        argv = command(home, source, flags, target, folder)
        completed = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        record: dict[str, Any] = {
            "status": completed.returncode,
            "log": completed.stdout.decode(errors="replace"),
            "ptx_command": argv,
            "arch": architecture(flags, target),
            "depends": {},
            **dict.fromkeys(("ptx", "cubin", "lines_cubin", "object")),
        }
        if completed.returncode:
            return record
        place = shim.writable(place)
        record["object"] = str(shutil.copy(folder / "whole.o", place / "whole.o"))
        for ptx in folder.glob("*.ptx"):
            record["ptx"] = str(shutil.copy(ptx, place / "kernel.ptx"))
            if _assemble(home, flags, target, ptx, place / "kernel.cubin"):
                record["cubin"] = str(place / "kernel.cubin")
        for lines in folder.glob("*.cubin"):
            record["lines_cubin"] = str(shutil.copy(lines, place / "lines.cubin"))
            record["cubin"] = record["cubin"] or record["lines_cubin"]
        record["depends"] = _depends(folder, home)
        write_record(place / "record.json", record)
        return record


def _assemble(home: str, flags: list[str], target: str, ptx: Path, cubin: Path) -> bool:
    """Make the machine code of an ordinary build, which asks for no line information."""
    ptxas_options, _ = _options(flags, "-Xptxas", "--ptxas-options")
    registers, _ = _options(flags, "-maxrregcount", "--maxrregcount")
    options = [option for value in ptxas_options for option in value.split(",")]
    options += [f"-maxrregcount={value}" for value in registers]
    argv = [f"{home}/bin/ptxas", *options, f"-arch={architecture(flags, target)}"]
    argv += [str(ptx), "-o", str(cubin)]
    return subprocess.run(argv, capture_output=True).returncode == 0


def _depends(folder: Path, home: str) -> dict[str, str]:
    """Digests of the user's own headers; torch's and CUDA's are known by their versions."""
    paths: set[str] = set()
    for file in folder.glob("*.ii"):
        text = file.read_text(errors="replace")
        paths.update(map(os.path.abspath, re.findall(r'^# \d+ "([^"<]+)"', text, re.MULTILINE)))
    library_roots = (str(shim.torch_folder()), home, os.path.realpath(home), "/usr/")
    user_headers = sorted(path for path in paths if not path.startswith(library_roots))
    return {path: _digest(path) for path in user_headers if Path(path).is_file()}


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def machine_place(ptx: bytes) -> Path:
    """The folder of one PTX, by its tokens: fatbinary embeds it without comments and indents."""
    digest = hashlib.sha256(re.sub(rb"//[^\n]*|\s+", b"", ptx.rstrip(b"\0"))).hexdigest()
    return shim.cache_root() / "machine" / digest[:32]


def note_machine(ptx: Path, machine: Path) -> None:
    """Remember the machine code that was made from some PTX, also with other flags."""
    with suppress(OSError):
        place = machine_place(ptx.read_bytes())
        place.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(machine).encode()).hexdigest()[:16]
        (place / name).write_text(str(machine), encoding="utf-8")


def record_file(item: Path) -> Path:
    """Where the record of an object is kept."""
    digest = hashlib.sha256(str(item.absolute()).encode()).hexdigest()[:24]
    return shim.cache_root() / "objects" / f"{digest}.json"


def write_record(file: Path, record: dict[str, Any]) -> None:
    """Write a record, whole or not at all; a cache that cannot be written costs it alone."""
    part = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(record), encoding="utf-8")
        os.replace(part, file)


CUDA_LIBRARIES = ("cuda", "cudart", "c10_cuda", "torch_cuda")
MAX_LOG_CHARS = 20_000


def attach(module: Any) -> None:
    """Change torch.utils.cpp_extension, whose functions look each other up in their module."""
    if homes():
        module.CUDA_HOME = homes()[0]
    # A separate root: no build for this device may be mixed with those for a real one.

    def root() -> dict[str, str]:
        build_root = os.environ.get("TORCH_EXTENSIONS_DIR") or module.get_default_build_root()
        folder = f"py{sys.version_info.major}{sys.version_info.minor}_ptxview_{current().target}"
        return {"TORCH_EXTENSIONS_DIR": os.path.join(build_root, folder)}

    module._get_build_directory = _variables(root)(module._get_build_directory)
    module._write_ninja_file = _variables(_our_nvcc)(module._write_ninja_file)
    module._prepare_ldflags = partial(_link_flags, module._prepare_ldflags)
    module.include_paths = partial(_include_paths, module.include_paths)
    module._jit_compile = partial(_jit, module._jit_compile)
    module.CUDAExtension = partial(_cuda_extension, module.CUDAExtension)
    build_all = _variables(_our_nvcc)(module.BuildExtension.build_extensions)
    module.BuildExtension.build_extensions = partialmethod(_build_extensions, build_all)


def _our_nvcc() -> dict[str, str]:
    """nvcc_main in the place of nvcc; the user's own choice of an nvcc is passed on to it."""
    users = os.environ.get("PYTORCH_NVCC")
    if users and "nvcc_main.py" not in users:
        os.environ["PTXVIEW_NVCC"] = users
    main = Path(__file__).with_name("nvcc_main.py")
    return {"PYTORCH_NVCC": f"{shlex.quote(sys.executable)} {shlex.quote(str(main))}"}


@contextmanager
def _variables(values: Callable[[], dict[str, str]]) -> Iterator[None]:
    """Other variables in the environment, in a block or during a decorated function's calls."""
    changed = values()
    saved = {name: os.environ[name] for name in changed if name in os.environ}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name in changed:
            os.environ.pop(name, None)
        os.environ.update(saved)


def _runtime(of_cuda: bool) -> list[str]:
    """Linker arguments for the replacement of the CUDA runtime, hidden from other libraries.

    nvcc_main.py builds it beside the first source of CUDA C++; ``of_cuda`` says that there is one.
    """
    try:
        home = homes()[0]
        archive = shim.runtime_archive(home) if of_cuda else shim.build_runtime(home)
    except (shim.CannotBuild, IndexError) as error:
        say.once("no-runtime", f"{error}: extensions that call the CUDA runtime cannot be imported")
        return []
    return [str(archive), f"-Wl,--exclude-libs,{archive.name}"]


def _link_flags(original: Any, extra: Any, with_cuda: bool, *args: Any, **kwargs: Any) -> list[str]:
    flags: list[str] = original(extra, False, *args, **kwargs)
    if with_cuda:
        flags = [f for f in flags if f.removeprefix("-l") not in CUDA_LIBRARIES] + _runtime(True)
    return flags


def _include_paths(original: Any, *args: Any, **kwargs: Any) -> list[str]:
    flags = list(original(*args, **kwargs))
    if (args[:1] or [kwargs.get("device_type", kwargs.get("cuda"))])[0] in ("cuda", True):
        flags += shim.cpu_build()[1:]
    return flags


def _jit(original: Any, *args: Any, **kwargs: Any) -> Any:
    """``_jit_compile``: torch's build, and a report of its device code."""
    bound = inspect.signature(original).bind(*args, **kwargs).arguments
    sources = bound["sources"]
    listed = [sources] if isinstance(sources, str) else [str(s) for s in sources]
    cuda = [s for s in listed if s.endswith((".cu", ".cuh"))]
    if not (cuda or bound.get("with_cuda")):
        return original(*args, **kwargs)
    folder = str(bound["build_directory"])
    name = str(bound["name"])
    why = None if homes() else "no nvcc"
    try:
        if why:
            say.once("no-nvcc", NO_TOOLKIT)
            return _captured_only(name, NO_TOOLKIT)
        if not cuda:
            _runtime(of_cuda=False)
        with WAITING.on("extensions built", name):
            return original(*args, **kwargs)
    except ImportError as error:
        text = f"the extension {name} was captured, and cannot run on the host: {error}"
        say.once(f"extension:{name}", text.splitlines()[0])
        return _captured_only(name, text)
    finally:
        for source in cuda:
            _emit(Path(folder) / f"{Path(source).stem}.cuda.o", folder, source, why)


def _emit(item: Path, folder: str, source: str, why: str | None) -> None:
    """One source's device code, into the recording."""
    record: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        record = json.loads(record_file(item).read_text(encoding="utf-8"))
    refused: dict[str, Any] = {}
    blobs = {
        name: file_blob(str(record[name])) if record.get(name) else None
        for name in ("cubin", "ptx", "lines_cubin")
    }
    if record.get("status"):
        log = str(record.get("log"))
        lines = log.splitlines() or [""]
        first = next((line for line in lines if "error" in line), lines[0])
        why = f"nvcc failed: {first.strip()[:300]}"
        command = shlex.join(map(str, record.get("ptx_command") or ()))
        refused = {"log": blob(log[:MAX_LOG_CHARS]), "command": command or None}
    emit(
        {
            "event": "device_code",
            "object": str(item),
            "source": os.path.abspath(source),
            "source_blob": file_blob(os.path.abspath(source)),
            "directory": folder,
            "arch": record.get("arch") or current().target,
            "flags": split(list(record.get("argv", [])))[3],
            "cubin": blobs["cubin"],
            "ptx": blobs["ptx"],
            "ptx_from": "the build's nvcc command with -lineinfo, for the target alone",
            "ptx_command": record.get("ptx_command"),
            "lineinfo_cubin": blobs["lines_cubin"],
            "why": why if record.get("ptx") is None else None,
            **refused,
        }
    )


def _captured_only(name: str, why: str) -> types.ModuleType:
    """A module whose every function raises with the reason."""

    def getattribute(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return say.refusing(RuntimeError, f"{name}.{attribute}() cannot run here: {why}")

    module = types.ModuleType(name)
    module.__dict__["__getattr__"] = getattribute
    return module


def _cuda_extension(original: Any, name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
    extension = original(name, sources, *args, **kwargs)
    extension.libraries = [x for x in extension.libraries if x not in CUDA_LIBRARIES]
    runtime = _runtime(any(str(source).endswith(".cu") for source in sources))
    extension.extra_link_args = [*(extension.extra_link_args or []), *runtime]
    return extension


def _build_extensions(builder: Any, original: Callable[..., None]) -> None:
    """BuildExtension.build_extensions, also without ninja, and a report of each source."""
    try:
        original(builder)
    finally:
        root = Path(builder.build_temp).absolute()
        for source in (str(s) for extension in builder.extensions for s in extension.sources):
            if source.endswith(".cu"):
                _emit(root / re.sub(r"\.cu$", ".o", source), str(root), source, None)
