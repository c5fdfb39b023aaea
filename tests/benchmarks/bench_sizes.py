"""``python -m tests.benchmarks.bench_sizes [FOLDER]``: large things, in seconds and memory.

Each subject in two sizes, each size in a child of its own, the larger beside the smaller: a ratio
of the sizes' own is linear, of 1.0 flat. Traces are also given to tlparse and tritonparse where
they are installed (``pip install tlparse tritonparse``), in the same run. Prints, asserts nothing;
what must hold is in test_sizes.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.analyse.flow.test_definitions import branchy
from tests.helpers.ptxview import command
from tests.test_sizes import TRACE, Cost, cache, cost, kernels


def trace(folder: Path, megabytes: int) -> Path:
    """A TORCH_TRACE folder of about that size: one run's again and again, each frame its own."""
    text = TRACE.read_bytes()
    folder.mkdir(parents=True)
    with (folder / TRACE.name).open("wb") as file:
        n = 0
        while file.tell() < megabytes << 20:
            n += 1
            file.write(text.replace(b'"frame_id": ', b'"frame_id": %d' % n))
    return folder


def listing(path: Path, text: str) -> Path:
    """A file of PTX."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@dataclass(frozen=True)
class Subject:
    """What is measured: something of a size, made in a folder, and what is called on it."""

    name: str
    sizes: tuple[int, int]
    make: Callable[[Path, int], Path]
    argv: Callable[[Path], Sequence[str | Path]]
    times: int = 1
    """How often it is called; all but the first find what tools said before."""


def ours(*words: str) -> Callable[[Path], Sequence[str | Path]]:
    """``ptxview WORD … PATH …``: a word ``@`` stands for the path."""
    return lambda path: command([path if w == "@" else w for w in words])


def others() -> Iterator[Subject]:
    """Other readers of traces that are installed."""
    tlparse = shutil.which("tlparse") or str(Path(sys.executable).with_name("tlparse"))
    if Path(tlparse).is_file():
        yield Subject(
            "tlparse of a trace, MB", (10, 100), trace,
            lambda p: [tlparse, p / TRACE.name, "-o", p / "out", "--overwrite", "--no-browser"],
        )  # fmt: skip
    else:
        print("tlparse is not installed: pip install tlparse")
    if importlib.util.find_spec("tritonparse") is not None:
        code = "from tritonparse.cli import main; main()"
        yield Subject(
            "tritonparse of a trace, MB", (10, 100), trace,
            lambda p: [sys.executable, "-c", code, "parse", p, "-o", p / "out", "--overwrite"],
        )  # fmt: skip
    else:
        print("tritonparse is not installed: pip install tritonparse")


SUBJECTS = (
    Subject("list a cache, kernels (cold, then warm)", (10, 250), cache, ours("list", "@"), 2),
    Subject("list a cache, kernels (warm)", (10, 1000), cache, ours("list", "@"), 2),
    Subject("list --json of a cache, kernels", (10, 1000), cache, ours("list", "@", "--json"), 2),
    Subject("list a trace, MB", (10, 100), trace, ours("list", "@")),
    Subject("show --json, kernels of 100 lines", (20, 400),
            lambda f, n: listing(f / "many.ptx", kernels(n)), ours("show", "@", "k0", "--json")),
    Subject("show -a, kernels of 100 lines", (20, 400),
            lambda f, n: listing(f / "many.ptx", kernels(n)), ours("show", "@", "k0", "-a")),
    Subject("show --json with definitions, blocks", (600, 6000),
            lambda f, n: listing(f / "branchy.ptx", branchy(n)), ours("show", "@", "--json")),
)  # fmt: skip


def main() -> None:
    """Measure all and print a line a call."""
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="sizes-"))
    head = f"{'':<44}{'size':>8}{'seconds':>10}{'CPU s':>9}{'peak MB':>9}{'× peak':>8}{'× CPU':>8}"
    print(head)
    for number, subject in enumerate((*SUBJECTS, *others())):
        for again in range(subject.times):
            first: Cost | None = None
            for size in subject.sizes:
                folder = where / f"{number}-{size}"
                held = folder / "subject"
                path = held if held.exists() else subject.make(held, size)
                path = next(held.glob("*.ptx"), path)
                begin = time.monotonic()
                found = cost(subject.argv(path), folder / "kept")
                seconds = time.monotonic() - begin
                beside = ""
                if first is not None:
                    beside = f"{found.peak / first.peak:>8.2f}{found.cpu / first.cpu:>8.1f}"
                first = first or found
                name = subject.name if not again else "  again"
                print(
                    f"{name:<44}{size:>8}{seconds:>10.1f}{found.cpu:>9.1f}"
                    f"{found.peak / 1e6:>9.0f}{beside}"
                    + (f"  status {found.status}" if found.status else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
