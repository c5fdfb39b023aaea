"""load_inline, load and CUDAExtension: torch's own builds, with nvcc_main in nvcc's place.

torch writes its sources and build.ninja, and ninja runs them as before. nvcc compiles device and
host code; the library is linked with a stand-in for the CUDA runtime that launches the PTX.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..writer import blob, emit, file_blob
from . import build, current, nvcc, say
from .say import WAITING

CUDA_LIBRARIES = ("cudart", "c10_cuda", "torch_cuda")
MAX_LOG_CHARS = 20_000


def attach(module: Any) -> None:
    """Change torch.utils.cpp_extension, whose functions look each other up in their module."""
    if nvcc.homes():
        module.CUDA_HOME = nvcc.homes()[0]
    # A separate root: no build for this device may be mixed with those for a real one.
    module._get_build_directory = _with_variables(
        module._get_build_directory, lambda: {"TORCH_EXTENSIONS_DIR": _root(module)}
    )
    module._write_ninja_file = _with_variables(module._write_ninja_file, _our_nvcc)
    module._prepare_ldflags = _link_flags(module._prepare_ldflags)
    module.include_paths = _include_paths(module.include_paths)
    module._jit_compile = _jit(module._jit_compile)
    module.CUDAExtension = _cuda_extension(module.CUDAExtension)
    builder = module.BuildExtension
    if isinstance(builder, type):
        builder.build_extensions = _setup(builder.build_extensions)  # type: ignore[attr-defined]


def _root(module: Any) -> str:
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or module.get_default_build_root()
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return os.path.join(root, f"{python}_ptxview_{current().target}")


def _our_nvcc() -> dict[str, str]:
    """nvcc_main in the place of nvcc; the user's own choice of an nvcc is passed on to it."""
    users = os.environ.get("PYTORCH_NVCC")
    if users and "nvcc_main.py" not in users:
        os.environ["PTXVIEW_NVCC"] = users
    main = Path(__file__).with_name("nvcc_main.py")
    return {"PYTORCH_NVCC": f"{shlex.quote(sys.executable)} {shlex.quote(str(main))}"}


def _with_variables(original: Callable[..., Any], values: Callable[[], dict[str, str]]) -> Any:
    """The function with other variables in its environment."""

    @functools.wraps(original)
    def call(*args: Any, **given: Any) -> Any:
        changed = values()
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            return original(*args, **given)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    return call


def _runtime(of_cuda: bool) -> list[str]:
    """Linker arguments for the replacement of the CUDA runtime, hidden from other libraries.

    nvcc_main.py builds it beside the first source of CUDA C++; ``of_cuda`` says that there is one.
    """
    try:
        home = nvcc.homes()[0]
        archive = build.runtime_archive(home) if of_cuda else build.build_runtime(home)
    except (build.CannotBuild, IndexError) as error:
        say.once("no-runtime", f"{error}: extensions that call the CUDA runtime cannot be imported")
        return []
    return [str(archive), f"-Wl,--exclude-libs,{archive.name}"]


def _link_flags(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def prepare(extra: Any, with_cuda: bool, *rest: Any, **given: Any) -> list[str]:
        flags = original(extra, False if with_cuda else with_cuda, *rest, **given)
        if not with_cuda:
            return flags
        return [f for f in flags if f.removeprefix("-l") not in CUDA_LIBRARIES] + _runtime(True)

    return prepare


def _include_paths(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def include_paths(*args: Any, **given: Any) -> list[str]:
        flags = list(original(*args, **given))
        if (args[:1] or [given.get("device_type", given.get("cuda"))])[0] in ("cuda", True):
            flags += build.cpu_build()[1:]
        return flags

    return include_paths


def _jit(original: Callable[..., Any]) -> Callable[..., Any]:
    """``_jit_compile``: torch's build, and a report of its device code."""
    import inspect

    signature = inspect.signature(original)

    def jit(*args: Any, **given: Any) -> Any:
        bound = signature.bind(*args, **given).arguments
        sources = bound["sources"]
        listed = [sources] if isinstance(sources, str) else [str(s) for s in sources]
        cuda = [s for s in listed if s.endswith((".cu", ".cuh"))]
        wanted = bound.get("with_cuda")
        if not (cuda or wanted):
            return original(*args, **given)
        folder, name = str(bound["build_directory"]), str(bound["name"])
        if not nvcc.homes():
            say.once("no-nvcc", nvcc.lacking())
            _report(folder, cuda, "no nvcc")
            return _captured_only(name, nvcc.lacking())
        if not cuda:
            _runtime(of_cuda=False)
        try:
            with WAITING.on("extensions built", name):
                made = original(*args, **given)
        except ImportError as error:
            text = f"the extension {name} was captured, and cannot run on the host: {error}"
            say.once(f"extension:{name}", text.splitlines()[0])
            made = _captured_only(name, text)
        finally:
            _report(folder, cuda, None)
        return made

    return jit


def _report(folder: str, sources: list[str], why: str | None) -> None:
    for source in sources:
        _emit(Path(folder) / f"{Path(source).stem}.cuda.o", folder, source, why)


def _emit(item: Path, folder: str, source: str, why: str | None) -> None:
    """One source's device code, into the recording."""
    record = nvcc.read_record(item)
    refused: dict[str, Any] = {}
    if record.get("status"):
        log = str(record.get("log"))
        why = f"nvcc failed: {_first_error(log)}"
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
            "flags": nvcc.split(list(record.get("argv", [])))[3],
            "cubin": _kept(record.get("cubin")),
            "ptx": _kept(record.get("ptx")),
            "ptx_from": "the build's nvcc command with -lineinfo, for the target alone",
            "ptx_command": record.get("ptx_command"),
            "lineinfo_cubin": _kept(record.get("lines_cubin")),
            "why": why if record.get("ptx") is None else None,
            **refused,
        }
    )


def _kept(path: Any) -> str | None:
    return file_blob(str(path)) if path else None


def _first_error(log: str) -> str:
    lines = [line for line in log.splitlines() if "error" in line]
    return (lines or log.splitlines() or [""])[0].strip()[:300]


def _captured_only(name: str, why: str) -> types.ModuleType:
    """A module whose every function raises with the reason."""

    def getattribute(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)

        def call(*args: Any, **given: Any) -> Any:
            raise RuntimeError(f"ptxview: {name}.{attribute}() cannot run here: {why}")

        return call

    module = types.ModuleType(name)
    module.__dict__["__getattr__"] = getattribute
    return module


def _cuda_extension(original: Callable[..., Any]) -> Callable[..., Any]:
    def extension(name: str, sources: Any, *args: Any, **given: Any) -> Any:
        made = original(name, sources, *args, **given)
        made.libraries = [x for x in made.libraries if x not in CUDA_LIBRARIES]
        of_cuda = any(str(source).endswith(".cu") for source in sources)
        made.extra_link_args = [*(made.extra_link_args or []), *_runtime(of_cuda)]
        return made

    return extension


def _setup(original: Callable[..., None]) -> Callable[..., None]:
    """BuildExtension.build_extensions, also without ninja, and a report of each source."""
    build_all = _with_variables(original, _our_nvcc)

    def build_extensions(self: Any) -> None:
        try:
            build_all(self)
        finally:
            root = Path(self.build_temp).absolute()
            for source in (str(s) for each in self.extensions for s in each.sources):
                if source.endswith(".cu"):
                    _emit(root / re.sub(r"\.cu$", ".o", source), str(root), source, None)

    return build_extensions
