"""Stands where nvcc stands in a build: one .cu file to an object whose launches run on the host.

Run as a program by ninja or setuptools. The real nvcc compiles the device code at the same time;
what it leaves is noted in a record beside our cache, for the building process to report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> int:
    """nvcc's exit status, or g++'s where only that failed and nothing can stand in for it."""
    from ptxview_probes.target import build, nvcc, records

    target = os.environ.get("PTXVIEW_TARGET", "sm_90")
    homes = nvcc.homes()
    if "--version" in argv or "-V" in argv:
        return subprocess.call([f"{homes[0]}/bin/nvcc", "--version"]) if homes else 1
    source, output, depends, flags = nvcc.split(argv)
    if not homes:
        print(nvcc.lacking(), file=sys.stderr)
        return 1
    if source is None or output is None:
        return _empty_object(build.compiler(), output)
    from ptxview_probes.target import settings

    native = settings.read(target).engine != "ptx"
    make = _natively if native else _with_ptx
    record, why = make(homes[0], Path(source), Path(output), flags, target)
    log = str(record.get("log") or "")
    if log:
        sys.stderr.write(log)
    status = int(record.get("status") or 0)
    if depends:
        Path(depends).write_text(f"{output}: {' '.join([source, *record.get('depends', {})])}\n")
    records.write(Path(output), {**record, "source": source, "argv": argv, "host": why or None})
    if status == 0 and why:
        return _refusing_object(build.compiler(), Path(output), flags)
    return status


def _natively(
    home: str, source: Path, output: Path, flags: list[str], target: str
) -> tuple[dict[str, Any], str]:
    """The device code's record, and why there is no object whose kernels run on this machine."""
    from ptxview_probes.target import build, hostbuild, nvcc

    device = nvcc.Device(home, source, flags, target)
    host, why = None, ""
    try:
        text = hostbuild.rewrite(hostbuild.read(source), str(source))
        host = hostbuild.compile_host(source, output, flags, home, text)
    except (hostbuild.CannotRewrite, build.CannotBuild, OSError) as error:
        why = str(error)
    record = device.finish()
    if host is not None:
        why = _said(host)
    return record, why


def _with_ptx(
    home: str, source: Path, output: Path, flags: list[str], target: str
) -> tuple[dict[str, Any], str]:
    """The device code's record, and why there is no object that launches the PTX.

    The host's part is compiled beside the device's. Where it cannot be told apart, nvcc's own
    front end does that, in more time.
    """
    from ptxview_probes.target import build, hostbuild, hostpart, nvcc

    place = build.writable(build.cache_root() / "host")
    symbol = hostbuild.symbol(output)
    part = place / f"{symbol}.{os.getpid()}.o"
    try:
        text = hostpart.rewrite(hostbuild.read(source), source, symbol)
        host = hostbuild.compile_host(source, part, flags, home, text)
    except (hostbuild.CannotRewrite, build.CannotBuild, OSError):
        return _whole(home, source, output, flags, target)
    record = nvcc.Device(home, source, flags, target).finish()
    if _said(host) or record.get("status") or not record.get("ptx"):
        return record, "" if record.get("status") else _whole(home, source, output, flags, target)[
            1
        ]
    why = hostbuild.join(part, Path(str(record["ptx"])), symbol, output)
    part.unlink(missing_ok=True)
    return record, why


def _whole(
    home: str, source: Path, output: Path, flags: list[str], target: str
) -> tuple[dict[str, Any], str]:
    """Both by nvcc, to one object; the device's alone where the host's part does not compile."""
    from ptxview_probes.target import nvcc

    record = nvcc.Device(home, source, flags, target, whole=True).finish()
    if record.get("object"):
        shutil.copy(str(record["object"]), output)
        return record, ""
    alone = nvcc.Device(home, source, flags, target).finish()
    return alone, _errors(str(record.get("log") or "nvcc failed"))


def _said(compiler: subprocess.Popen[str]) -> str:
    """The errors of a compilation that failed; nothing where it did not."""
    said, _ = compiler.communicate()
    return _errors(said) if compiler.returncode else ""


def _errors(said: str) -> str:
    return "\n".join(line for line in said.splitlines() if "error" in line)[:2000] or said[:2000]


def _empty_object(cxx: str | None, output: str | None) -> int:
    """A device link: nothing is left to link."""
    if cxx is None or output is None:
        return 1
    return subprocess.call([cxx, "-x", "c++", "-c", os.devnull, "-o", output])


def _refusing_object(cxx: str | None, output: Path, flags: list[str]) -> int:
    """The host cannot compile the source: an object in its place, for a library that refuses.

    A module made by the source itself (PYBIND11_MODULE) imports, and each of its functions raises.
    Functions that another file binds are missing: the import fails, and the loader stands in.
    """
    if cxx is None:
        return 1
    name = next((f.split("=", 1)[1] for f in flags if f.startswith("-DTORCH_EXTENSION_NAME=")), "")
    stand_in = output.with_suffix(".absent.c")
    module = f"""
#include <Python.h>
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", 0, -1, 0}};
__attribute__((weak)) PyMODINIT_FUNC PyInit_{name}(void) {{
  PyObject* module = PyModule_Create(&definition);
  PyObject* maker = PyImport_ImportModule("ptxview_probes.target.extension");
  PyObject* refuse = maker ? PyObject_CallMethod(maker, "refusing", "s", "{name}") : 0;
  if (!refuse) return 0;
  PyModule_AddObject(module, "__getattr__", refuse);
  return module;
}}
"""
    stand_in.write_text(module if name else "")
    compiler = shutil.which("gcc") or cxx
    return subprocess.call(
        [
            compiler,
            "-x",
            "c",
            "-fPIC",
            "-w",
            "-c",
            str(stand_in),
            "-o",
            str(output),
            *(f for f in _includes(flags)),
        ]
    )


def _includes(flags: list[str]) -> list[str]:
    import sysconfig

    return [f"-I{sysconfig.get_path('include')}"]


def _probes() -> None:
    """Make our package importable where the interpreter was started without the recorder's path."""
    if "ptxview_probes" in sys.modules:
        return
    from importlib.util import module_from_spec, spec_from_file_location

    folder = Path(__file__).resolve().parents[1]
    spec = spec_from_file_location(
        "ptxview_probes", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["ptxview_probes"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    # This folder must not shadow standard modules for what is imported from here on.
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).parent]
    _probes()
    sys.exit(main(sys.argv[1:]))
