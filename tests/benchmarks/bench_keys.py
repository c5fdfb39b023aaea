"""How long keys take (``python -m tests.benchmarks.bench_keys``), the worst of all, in seconds.

Ten thousand variants in the tree: each letter of a filter, each order. A million lines of PTX in a
pane: opening, paging, a jump, folding and unfolding, a search's whole time in its thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from inspector import listing as parsers
from inspector.listing.line import Listing
from inspector.model import Kernel, Origin, Recording, Resources, Stage, Variant
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_view import CodeView
from tests.benchmarks.ratio import Ratio
from tests.helpers.sample import FakeReader, settle, variant

KERNELS, EACH = 500, 20
LINES = 1_000_000


def many(count: int = KERNELS) -> Recording:
    """``count`` kernels with ``EACH`` variants, half of them generated."""
    kernels = []
    for k in range(count):
        name = f"triton_poi_fused_add_mul_{k}"
        own = tuple(
            replace(
                variant(name, f"{k:04x}{n:04x}", Stage.PTX),
                config={"BLOCK": 64 << n % 5, "num_warps": 1 << n % 4, "n": n},
                known=Resources(registers=16 + (k * 7 + n * 13) % 200),
            )
            for n in range(EACH)
        )
        kernels.append(Kernel(f"k{k}", name, name, Origin.TRITON, own))
    return Recording("/tmp/many.ptxview", tuple(kernels), mode="gpu")


def long(count: int = LINES) -> str:
    """PTX with debug sections, comments and branches."""
    body = "\n".join(
        f"$L{n}:\n\t// one\n\t// two\n\tadd.s32 \t%r{n}, %r{n}, 1;\n\t@%p1 bra $L{n};"
        for n in range(count // 5 - 2)
    )
    return f".visible .entry k()\n{{\n{body}\n}}\n\t.section\t.debug_info\n\t{{\n.b8 1\n\t}}"


class Long(FakeReader):
    """Everything is one long text."""

    written = ""

    def listing(self, variant: Variant, stage: Stage) -> Listing:
        """Parsed anew, as when it is opened."""
        return parsers.parse(Stage.PTX, self.written)


def told(what: str, seconds: list[float]) -> None:
    """One row."""
    print(f"{what:<44}{max(seconds) * 1000:9.1f} ms worst{min(seconds) * 1000:9.1f} ms best")


async def tree() -> None:
    """The tree's keys."""
    began = time.perf_counter()
    app = PtxviewApp(FakeReader(many(), {}))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        told(f"opening {KERNELS * EACH} variants", [time.perf_counter() - began])
        tree = screen.kernels
        for text in ("mul_123", "block=1024 w", "nothing like it"):
            took = []
            for end in range(1, len(text) + 1):
                began = time.perf_counter()
                tree.filter(text[:end])
                took.append(time.perf_counter() - began)
            told(f"a letter of the filter “{text}”", took)
        tree.filter("")
        took = []
        for _ in range(5):
            began = time.perf_counter()
            tree.action_order()
            took.append(time.perf_counter() - began)
            await settle(pilot)
        told("another order", took)


async def code() -> None:
    """A pane's keys."""
    reader = Long(many(), {})
    reader.written = long()
    app = PtxviewApp(reader)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        view = screen.panes.active.view
        while not view.lines:
            await pilot.pause(0.05)
        print(f"lines: {view.lines}")
        keys_of: dict[str, list[Callable[[CodeView], None]]] = {
            "a page down": [lambda v: v.action_page(1)] * 20,
            "the last line and the first": [
                lambda v: v.action_edge(1),
                lambda v: v.action_edge(-1),
            ],
            "a line, the comments folded": [lambda v: v.action_move(1)] * 20,
            "what is folded": [lambda v: v.action_fold_level()] * 4,
            "wrapping, and not": [lambda v: v.action_wrap()] * 2,
        }
        for what, keys in keys_of.items():
            took = []
            for key in keys:
                took.append(pressed(view, key))
                await pilot.pause()
            told(what, took)
            if what.startswith("the last"):
                while not view.folding.regions:
                    await pilot.pause(0.1)
                view.folding.level = frozenset(view.folding.regions)
                took = [pressed(view, lambda v: v.fold())]
                told(f"folding {len(view.map.closed)} regions", took)
        began = time.perf_counter()
        screen.search.look_for("bra.*777")
        worst = 0.0
        while not view.matches:
            before = time.perf_counter()
            await asyncio.sleep(0)
            worst = max(worst, time.perf_counter() - before)
            if time.perf_counter() - began > 60:
                break
        print(f"{'a search, in its thread':<44}{time.perf_counter() - began:9.2f} s")
        told("the loop meanwhile", [worst])


def pressed(view: CodeView, key: Callable[[CodeView], None]) -> float:
    """Seconds of one action and of drawing the page after it."""
    began = time.perf_counter()
    key(view)
    for y in range(view.size.height):
        view.render_line(y)
    return time.perf_counter() - began


async def filtered(count: int) -> float:
    """Seconds of the slowest letter of a filter in the tree of so many kernels."""
    app = PtxviewApp(FakeReader(many(count), {}))
    async with app.run_test(size=(120, 40)) as pilot:
        tree = (await settle(pilot)).kernels
        took = []
        for end in range(1, 8):
            began = time.process_time()
            tree.filter("mul_123"[:end])
            took.append(time.process_time() - began)
        return max(took)


async def paged(count: int) -> float:
    """Seconds of a page down in a listing of so many lines: the best of twenty."""
    reader = Long(many(1), {})
    reader.written = long(count)
    app = PtxviewApp(reader)
    async with app.run_test(size=(120, 40)) as pilot:
        view = (await settle(pilot)).panes.active.view
        while not view.lines:
            await pilot.pause(0.05)
        return min(pressed(view, lambda v: v.action_page(1)) for _ in range(20))


def ratios() -> Iterator[Ratio]:
    """Ten times the variants, a thousand times the lines."""
    letter = asyncio.run(filtered(500)) / asyncio.run(filtered(50))
    yield Ratio("a letter of a filter of 10,000 variants", letter, "of 1,000")
    page = asyncio.run(paged(1_000_000)) / asyncio.run(paged(1000))
    yield Ratio("a page down in a million lines", page, "in a thousand")


if __name__ == "__main__":
    asyncio.run(tree())
    asyncio.run(code())
