"""What did not compile, or could not be loaded, in the interface: counted, marked, at its line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.recording.layout import Writer
from inspector.system.toolchain import need
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.tree.kernel_tree import KernelTree
from tests.helpers.ptxview import SQUARE, saved
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import started

SOURCE = "import triton\n\n@triton.jit\ndef square_kernel(x):\n    absent(x)\n"
SOURCE += "    x += 1\n" * 7


pytestmark = pytest.mark.usefixtures("new_user")


def refused(ptx: str, folder: Path) -> tuple[int, str]:
    """The line of a text of which ptxas complains first, and what it says."""
    file = saved(folder / "refused.ptx", ptx)
    out = str(folder / "refused.cubin")
    command = [str(need("ptxas").path), "--gpu-name=sm_90a", str(file), "-o", out]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"line (\d+); error\s+: (.+)", said)
    assert found is not None, said
    return int(found[1]), found[2]


def recorded(folder: Path) -> tuple[Path, int, str, int]:
    """Four variants of one kernel: whose Python is refused, whose PTX is, which cannot be loaded,
    and one that ran; the line of the PTX, what ptxas says of it, and the line that it came of."""
    good = (SQUARE / "square_kernel.ptx").read_text("utf-8")
    good = good.replace("/tmp/lab/lecture.py", "/home/me/square.py")
    bad = re.sub(r"\bmul\.f32\b", "mulx.f32", good, count=1)
    line, said = refused(bad, folder)
    writer = Writer(folder / "rec")
    kept = {
        "file": "/home/me/square.py",
        "blob": writer.blob(SOURCE.encode()),
        "first": 3,
        "last": 12,
    }
    common = {"name": "square_kernel", "source": kept, "pid": 1}
    writer.event(event="recording", schema=1, mode="gpu", time=1.0)
    message = {
        "severity": "error",
        "message": "NameError('absent is not defined')",
        "tool": "triton",
        "file": "/home/me/square.py",
        "line": 5,
    }
    writer.event(
        event="triton_failed",
        hash="1a" * 32,
        stage="ttir",
        constexprs={"B": 1},
        message=message["message"],
        messages=[message],
        **common,
    )
    writer.event(
        event="triton_failed",
        hash="2b" * 32,
        stage="sass",
        constexprs={"B": 2},
        files={"ptx": writer.blob(bad.encode())},
        message=said,
        **common,
        messages=[
            {"severity": "error", "message": said, "tool": "ptxas", "file": "ptx", "line": line}
        ],
    )
    for digest, block in (("3c" * 32, 3), ("4d" * 32, 4)):
        writer.event(
            event="triton",
            hash=digest,
            constexprs={"B": block},
            files={"ptx": writer.blob(good.encode())},
            **common,
        )
    writer.event(
        event="not_loaded",
        hash="3c" * 32,
        required=300,
        limit=200,
        resource="threads",
        error="OutOfResources: out of resource: threads",
    )
    writer.close()
    came_of = re.findall(r"\.loc\s+1 (\d+)", bad[: bad.index("mulx.f32")])[-1]
    return folder / "rec", line, said, int(came_of)


async def test_what_failed_is_counted_and_its_line_is_shown(
    tmp_path: Path,
) -> None:
    path, line, said, came_of = recorded(tmp_path)
    async with started(size=(200, 60), app=PtxviewApp(open_reader(str(path)))) as (pilot, _):
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        rows = text_of(pilot).split("\n")
        assert sum("3 failed" in row for row in rows) == 2, "origin and kernel"
        # The first did not come to any stage: the cursor is where the compiler says why.
        await settle(pilot, "down")
        text = text_of(pilot)
        assert "✗ did not compile: square.py:5" in text.split("\n")[1]
        assert main.panes.panes[0].view.cursor == 5
        assert "No ptx here. Triton could not compile it" in " ".join(text.split())
        assert "nothing links" not in text, "there is no PTX that anything could link"
        # The second has the PTX that ptxas refused; the source is at the line that it came of,
        # and says so beneath.
        await settle(pilot, "down")
        active = main.panes.active
        assert (active.stage, active.view.cursor) == (Stage.SOURCE, came_of)
        assert any(said[:24] in row for row in text_of(pilot).split("\n")[2:])
        await settle(pilot, "6")
        pane = main.panes.active
        assert (pane.stage, pane.view.cursor) == (Stage.PTX, line)
        rows = text_of(pilot).split("\n")
        drawn = [row for row in rows if "mulx.f32  %r10" in row]
        assert drawn and all("⚠" in row for row in drawn)
        assert any(said[:24] in row and "mulx.f32" not in row for row in rows)
        # The third was compiled, and has its figures beside the reason.
        await settle(pilot, "down")
        assert "✗ not loaded: threads 300 > 200" in text_of(pilot).split("\n")[1]
        (row,) = (one for one in text_of(pilot).split("\n") if one.lstrip().startswith("› "))
        assert re.search(r"B=3| 3 ", row) and "failed" in row
        await settle(pilot, "<filter>", *"failed", "enter")
        kept = [one.text.partition(" ")[0] for one in main.query_one(KernelTree).rows]
        assert kept == ["triton", "square_kernel", "B=1", "B=2", "B=3"]
        await settle(pilot, "V")
        table = text_of(pilot)
        assert table.count("✗") == 3
        assert table.count("–+0") == 0, "what is not known has nothing added to it"
        assert " not loaded: threads 300 > 200 " in table.split("\n")[-2]
