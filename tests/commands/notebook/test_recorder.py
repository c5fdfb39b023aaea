"""``inspector.record()``: what a block of a program compiles and launches, and nothing else.

Each program is a separate process, with or without the emulated device, and prints its result as
JSON; the command line reads the recording.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.helpers.ptxview import REPOSITORY, call, environment, finished, ptxview, saved

KERNEL = """
import json, os, sys, threading
import torch, triton, triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)

x = torch.rand(1000, device="cuda")
out = torch.empty_like(x)

def launch(block):
    add_kernel[(triton.cdiv(1000, block),)](x, x, out, 1000, BLOCK=block)
    assert torch.equal(out, x + x)
"""
DEVICE = "from inspector.commands import notebook\nnotebook.emulate('sm_90')\n"


def program(tmp_path: Path, text: str, **changes: str | None) -> Any:
    """Run a program; return the JSON in the last line of its standard output."""
    script = saved(tmp_path / "program.py", text)
    changes = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), **changes}
    env = environment(PYTHONPATH=str(REPOSITORY), **changes)
    done = finished([sys.executable, script], tmp_path, env)
    assert done.status == 0, done.said
    return json.loads(done.text.splitlines()[-1])


def grids(path: Path) -> dict[int, int]:
    """Launches by the number of blocks, from the command line."""
    listed = call("list", path, "--json").json
    return {
        c["grid"][0]: c["count"]
        for kernel in listed["kernels"]
        for v in kernel["variants"]
        for c in v["calls"]
    }


def test_blocks_record_their_own_launches_alone(tmp_path: Path) -> None:
    said = program(
        tmp_path,
        DEVICE
        + KERNEL
        + textwrap.dedent("""
        import inspector
        launch(256)  # compiled and loaded before, and before the recording launched
        launch(512)
        environment = dict(os.environ)
        with inspector.record("one") as one:
            launch(256)
            launch(256)
            launch(128)
            live = [v.id for k in one.kernels for v in k.variants]
        back = environment == dict(os.environ)
        launch(256)  # not recorded any more
        try:
            with inspector.record("two.ptxview") as two:
                launch(64)
                raise ValueError("the block's own")
        except ValueError as error:
            raised = str(error)
        with inspector.record("outer") as outer:
            launch(128)
            with inspector.record("inner") as inner:
                launch(32)
            launch(256)
        with inspector.record("threads") as threads:
            started = [threading.Thread(target=launch, args=(b,)) for b in (64, 128, 256)]
            [t.start() for t in started], [t.join() for t in started]
        again = None
        try:
            one.__enter__()
        except Exception as error:
            again = str(error)
        import io, contextlib
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            one.show(one.kernels[0].variants[0].id, "ptx")
        print(json.dumps(dict(
            live=len(live), back=back, raised=raised, again=again,
            path=str(two.path), name=one.kernels[0].name, shown=shown.getvalue(),
            html=one._repr_html_()[:100], text=repr(one),
        )))
    """),
    )
    assert said["back"] and said["raised"] == "the block's own"
    assert "made already" in said["again"]
    # 4 blocks of 256, 8 of 128, 16 of 64, 32 of 32.
    assert grids(tmp_path / "one") == {4: 2, 8: 1}
    assert grids(tmp_path / "two.ptxview") == {16: 1}
    assert grids(tmp_path / "outer") == {8: 1, 4: 1}
    assert grids(tmp_path / "inner") == {32: 1}
    assert grids(tmp_path / "threads") == {16: 1, 8: 1, 4: 1}
    assert said["live"] == 2 and said["name"] == "add_kernel" and said["path"] == "two.ptxview"
    assert ".visible .entry add_kernel" in said["shown"]
    assert said["html"].startswith("<iframe srcdoc=") and "1 kernel" in said["text"]
    recorded = call("list", tmp_path / "one", "--json").json["recording"]
    assert recorded["complete"] and recorded["mode"] == "target" and not recorded["problems"]
    assert call("list", tmp_path / "two.ptxview", "--json").json["recording"]["exit_status"] == 1
    stages = {"source", "ttir", "ttgir", "llir", "ptx", "sass"}
    for folder in ("one", "outer"):
        (kernel,) = call("list", tmp_path / folder, "--json").json["kernels"]
        assert all(set(v["stages"]) == stages for v in kernel["variants"])


def test_a_program_that_ptxview_runs_is_recorded_once(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "import inspector\nfrom inspector.base.errors import PtxviewError\n"
        "try:\n    inspector.record().__enter__()\n"
        "except PtxviewError as error:\n    print(error)\n"
    )
    env = environment(PYTHONPATH=str(REPOSITORY))
    done = ptxview("run", "--no-tui", "-o", "x", "twice.py", cwd=tmp_path, env=env, fresh=True)
    assert done.status == 0 and "recorded already: ptxview run started it" in done.text


def test_importing_it_costs_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import inspector; inspector.record\n"
        "new = {m for m in set(sys.modules) - before}\n"
        "print(*sorted(m for m in new if m.split('.')[0] not in sys.stdlib_module_names))\n"
        "print(*sorted({'asyncio', 'argparse', 'json', 'pathlib', 'threading'} & new))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["inspector", ""]
