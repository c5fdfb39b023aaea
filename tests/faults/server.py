"""An interpreter with torch, Triton and Inductor on the emulated device, and no probes attached.

It forks a child for each program (tests/helpers/warm.py). The child attaches the probes, if its
environment names a recording, as a recording does that begins within a program; all that they do
then runs in the child, and may fail there.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module, util
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])
from tests.helpers import warm

MODULES = (
    "torch",
    "triton.experimental.gluon",
    "triton.backends.nvidia.compiler",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.async_compile",
    "torch._inductor.kernel.mm",
    "torch._inductor.codegen.triton",
    "torch._inductor.runtime.triton_heuristics",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.select_algorithm",
    "torch.utils.cpp_extension",
    "multiprocessing.spawn",
    "multiprocessing.queues",
)


def load(probes: Path) -> None:
    """The probes, as a program finds them; the device before torch is imported."""
    spec = util.spec_from_file_location(
        "ptxview_probes", probes / "__init__.py", submodule_search_locations=[str(probes)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules["ptxview_probes"] = package = util.module_from_spec(spec)
    spec.loader.exec_module(package)
    refused = import_module("ptxview_probes.in_process").emulate("sm_90")
    assert refused is None, refused
    for name in MODULES:
        import_module(name)
    import_module("triton.runtime.cache").triton_key()
    import_module("ptxview_probes.emulator.executor").load("execute")


def attach() -> None:
    """What ``bootstrap`` does, and what it lets through."""
    import_module("ptxview_probes._hit").arm()
    if os.environ.get("PTXVIEW_RECORDING"):
        try:
            import_module("ptxview_probes.in_process").begin()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            pass


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    load(Path(sys.argv[1]))
    gc.collect()
    gc.freeze()
    program = warm.serve(*warm.given(sys.argv), kept=["PTXVIEW_RUNTIME"])
    if program is not None:
        ended: BaseException | None = None
        try:
            attach()
            warm.execute(program["argv"])
        except BaseException as error:
            ended = error
        warm.end(ended)
