"""Takes nvcc's place in a build: one .cu file to an object whose launches run on the host.

ninja or setuptools run it as a program. The real nvcc compiles device and host code; a record of
the result is kept beside our cache, for the building process to report.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main(argv: list[str]) -> int:
    """Compile one source as nvcc would for the target alone. Returns nvcc's exit status."""
    from ptxview_probes.emulator import extension, shim

    target = os.environ.get("PTXVIEW_TARGET", "sm_90")
    homes = extension.homes()
    if not homes:
        print(extension.NO_TOOLKIT, file=sys.stderr)
        return 1
    if "--version" in argv or "-V" in argv:
        return subprocess.call([f"{homes[0]}/bin/nvcc", "--version"])
    source, output, depends, flags = extension.split(argv)
    if output is None:
        return 1
    try:
        if source is None:
            # The object of a device link, for which nothing is left to link.
            empty = [shim.compiler(), "-x", "c++", "-c", os.devnull, "-o", output]
            return subprocess.call(empty)
        with ThreadPoolExecutor() as pool:
            runtime = pool.submit(shim.build_runtime, homes[0])
            record = extension.compile_source(homes[0], Path(source), flags, target)
        runtime.result()
    except shim.CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    sys.stderr.write(record["log"])
    if record["object"]:
        shutil.copy(record["object"], output)
    if depends:
        Path(depends).write_text(f"{output}: {' '.join([source, *record['depends']])}\n")
    extension.write_record(extension.record_file(Path(output)), {**record, "argv": argv})
    return int(record["status"])


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
