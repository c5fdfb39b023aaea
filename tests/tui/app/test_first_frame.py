"""The first frame: what is loaded for it, the rows that are kept for it, and the keys meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from inspector.capture.opening import open_path
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache, pack, user_cache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.app.opening import FirstRows, Opening
from inspector.tui.app.remembered import Memory, View
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.program.live import Live
from inspector.tui.tree.kept_tree import MOST_ROWS, KeptRow, KeptTree, TreeKeeper
from inspector.tui.tree.kernel_tree import keep_rows
from inspector.tui.tree.row_look import RowLook, TreeRows
from tests.helpers.many import TEMPLATE, many
from tests.helpers.ptxview import REPOSITORY
from tests.helpers.sample import settle

SIZES = ((120, 36), (80, 24), (160, 48), (220, 60), (100, 10), (70, 24))
LECTURE = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"

STARTED = """
import sys
from inspector.cli import main
from inspector.errors import Unreadable
from inspector.tui.app import app
told = sys.argv.pop(1)
def load(opener):
    with open(told, "w") as file:
        file.write("\\n".join(sys.modules))
    raise Unreadable("that is enough")
app.load = load
sys.exit(main())
"""
"""Tells what is loaded when the first frame stands and the recording would be read."""

NEEDED = {
    "inspector", "inspector.cli", "inspector.commands", "inspector.commands.open",
    "inspector.errors", "inspector.files", "inspector.printing", "inspector.recording",
    "inspector.recording.driver_records", "inspector.recording.layout", "inspector.text",
    "inspector.tui", "inspector.tui.app",
    "inspector.tui.app.app", "inspector.tui.app.config", "inspector.tui.program.live",
    "inspector.tui.app.opening", "inspector.tui.keys.places", "inspector.tui.app.remembered",
    "inspector.tui.program.terminal_text", "inspector.tui.widgets.theme", "inspector.tui.app.thin_line",
    "inspector.tui.tree", "inspector.tui.tree.kept_tree", "inspector.tui.tree.row_look",
    "inspector.tui.widgets", "inspector.tui.widgets.visible",
}  # fmt: skip
"""What of ours the first frame may wait for."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty kernels with names of their own, twenty that are called alike."""
    return many(tmp_path_factory.mktemp("many") / "recording", 40, 20)


@pytest.fixture
def cache(tmp_path: Path) -> DerivedCache:
    """Nothing is kept yet."""
    return DerivedCache(tmp_path / "derived")


class Waiting:
    """An application that reads a recording when it may."""

    def __init__(self, path: Path, cache: DerivedCache, memory: Memory | None = None) -> None:
        self.may = threading.Event()
        self.keeper = TreeKeeper(cache, path)

        def opener() -> tuple[Reader, Live | None]:
            self.may.wait(60)
            return Reader(open_path(path), cache), None

        self.app = PtxviewApp(
            None, memory=memory, opener=opener, name=path.name, keeper=self.keeper
        )

    async def read(self, pilot: Pilot[None]) -> MainScreen:
        """Let it be read, and wait until all stands there and its rows are kept."""
        self.may.set()
        await until(pilot, lambda: isinstance(self.app.screen, MainScreen))
        screen = await settle(pilot)
        await until(pilot, lambda: self.keeper.tree is not None)
        return screen


async def until(pilot: Pilot[None], done: Callable[[], bool]) -> None:
    """Wait until something holds; fails after a minute."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "it did not happen"
        await pilot.pause(0.02)


async def kept(path: Path, cache: DerivedCache) -> None:
    """Open a recording once."""
    waiting = Waiting(path, cache)
    async with waiting.app.run_test(size=SIZES[0]) as pilot:
        await waiting.read(pilot)


def stands(tree: TreeRows, region: Region) -> bool:
    """Whether a tree stands there."""
    return tree.region == region


def names(rows: TreeRows) -> list[str]:
    """What is drawn of a tree, without the figures, which are read later."""
    lines = [rows.render_line(y).text for y in range(rows.size.height)]
    return [line[: rows.scrollable_content_region.width - 6].rstrip() for line in lines]


def test_the_first_frame_waits_for_nothing_that_reads_or_analyses(tmp_path: Path) -> None:
    """A fresh interpreter on a terminal of its own."""
    master, slave = os.openpty()
    own = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("STATE", "CONFIG", "CACHE")}
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, str(tmp_path / "told"), "open", str(LECTURE)],
        stdin=slave, stdout=slave, stderr=slave, cwd=REPOSITORY,
        env={**os.environ, **own, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    written = b""
    try:
        while data := os.read(master, 1 << 16):
            written += data
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait(60) == 4 and b"that is enough" in written
    assert b"Reading lecture-h200.ptxview" in written
    loaded = set((tmp_path / "told").read_text().splitlines())
    ours = {name for name in loaded if name.split(".")[0] == "inspector"}
    assert ours == NEEDED
    assert not {"numpy", "elftools", "inspector.model", "tomllib"} & loaded


async def test_rows_stand_where_they_will_before_anything_is_read(
    recorded: Path, cache: DerivedCache
) -> None:
    await kept(recorded, cache)
    waiting = Waiting(recorded, cache)
    async with waiting.app.run_test(size=SIZES[0]) as pilot:
        stood = {}
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert isinstance(waiting.app.screen, Opening)
            rows = waiting.app.screen.query_one(FirstRows)
            stood[size] = (rows.region, rows.cursor, rows.scroll_offset.y, names(rows))
        assert any("square_kern_0" in line for line in stood[SIZES[0]][3])
        assert waiting.app.reads is None
        screen = await waiting.read(pilot)
        tree = screen.kernels
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(pilot)
            region, cursor, top, lines = stood[size]
            await until(pilot, partial(stands, tree, region))
            assert (tree.cursor, tree.scroll_offset.y) == (cursor, top), size
            begun = [line[:8] for line in names(tree)]
            assert [line[:8] for line in lines] == begun, size
            if size == SIZES[0]:  # that of which it is known how names are cut
                assert lines == names(tree)


async def test_the_row_that_was_left_has_the_cursor(
    recorded: Path, cache: DerivedCache, tmp_path: Path
) -> None:
    """It is the last of a group that begins folded, and below what is in view."""
    await kept(recorded, cache)
    recording = open_path(recorded)
    kernel = [k for k in recording.kernels if k.name == TEMPLATE][-1]
    memory = Memory(tmp_path / "remembered.json")
    memory.keep(str(recorded), View((kernel.id, kernel.variants[0].id, ""), tree_width=40))
    waiting = Waiting(recorded, cache, memory)
    async with waiting.app.run_test(size=(120, 24)) as pilot:
        await pilot.pause()
        rows = waiting.app.screen.query_one(FirstRows)
        stood = (rows.region, rows.cursor, rows.scroll_offset.y, names(rows))
        assert rows.scroll_offset.y > 0 and any(line.startswith("›") for line in stood[3])
        tree = (await waiting.read(pilot)).kernels
        assert tree.row is not None and tree.row.subject.kernel is not None
        assert tree.row.subject.kernel.id == kernel.id
        assert (tree.region, tree.cursor, tree.scroll_offset.y, names(tree)) == stood


async def test_keys_are_answered_by_the_screen_that_comes(
    recorded: Path, cache: DerivedCache
) -> None:
    await kept(recorded, cache)
    waiting = Waiting(recorded, cache)
    async with waiting.app.run_test(size=(120, 36)) as pilot:
        await pilot.press("down", "down", "7", "enter")
        assert isinstance(waiting.app.screen, Opening)
        screen = await waiting.read(pilot)
        await until(pilot, lambda: screen.focused is screen.panes.active.view)
        assert screen.kernels.cursor == 3
        assert str(screen.panes.active.stage) == "sass"


async def test_a_recording_that_was_just_made_has_its_rows(
    recorded: Path, cache: DerivedCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rows are those that opening it keeps, but for how a screen cuts long names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    made = DerivedCache(user_cache())
    keep_rows(Reader(open_path(recorded), made), recorded)
    just_made = TreeKeeper(made, recorded).tree
    await kept(recorded, cache)
    opened = TreeKeeper(cache, recorded).tree
    assert just_made is not None and opened is not None
    assert just_made.title == opened.title
    assert [(r.look.depth, r.look.text, r.subject) for r in just_made.rows] == [
        (r.look.depth, r.look.text, r.subject) for r in opened.rows
    ]


async def test_what_has_changed_since_is_not_shown_and_is_kept_anew(
    cache: DerivedCache, tmp_path: Path
) -> None:
    path = many(tmp_path / "recording", 4, 0)
    await kept(path, cache)
    before = TreeKeeper(cache, path).tree
    assert before is not None and len(before.rows) == 6
    events = (path / "events.jsonl").read_text()
    (path / "events.jsonl").write_text(events.replace("square_kern_0", "cubed_kernel_0"))
    assert TreeKeeper(cache, path).tree is None
    await kept(path, cache)
    after = TreeKeeper(cache, path).tree
    assert after is not None and [row.look.text for row in after.rows if "cubed" in row.look.text]


async def test_a_recording_in_one_file_is_kept_too_and_none_elsewhere(
    recorded: Path, cache: DerivedCache, tmp_path: Path
) -> None:
    pack(recorded, tmp_path / "one.ptxview")
    await kept(tmp_path / "one.ptxview", cache)
    found = TreeKeeper(cache, tmp_path / "one.ptxview").tree
    assert found is not None and len(found.rows) == 63
    assert TreeKeeper(cache, recorded).tree is None, "another path"
    (tmp_path / "x.ptx").write_text(".version 8.0")
    for other in (tmp_path / "x.ptx", tmp_path / "nothing", tmp_path):
        keeper = TreeKeeper(cache, other)
        keeper.keep(found)
        assert keeper.tree is None and TreeKeeper(cache, other).tree is None


EVIL = "\x1b]0;evil\x07\u202e\n\x00" + "x" * 10_000
TREE = KeptTree(
    ("r",),
    (
        KeptRow(RowLook(0, "tree--origin", "▾ ", "triton", "2 ")),
        KeptRow(RowLook(1, "tree--kernel", "▸ ", "a", "×2 "), ("a", "1", "")),
        KeptRow(RowLook(2, "", "  ", "b", " 32r ", "w4"), ("a", "2", ""), 3, "…b"),
    ),
)


def entry(cache: DerivedCache, folder: Path) -> tuple[Path, Path]:
    """A recording, and the entry that holds its rows."""
    folder.mkdir()
    (folder / "events.jsonl").write_text("{}")
    keeper = TreeKeeper(cache, folder)
    keeper.keep(TREE)
    assert TreeKeeper(cache, folder).tree == TREE
    (file,) = (folder.parent / "derived").iterdir()
    return folder, file


def test_an_entry_that_is_damaged_or_forged_is_none_or_harmless(
    cache: DerivedCache, tmp_path: Path
) -> None:
    folder, file = entry(cache, tmp_path / "recording")
    whole = file.read_bytes()
    said = json.loads(whole)
    forged: list[object] = [None, 1, [], {}, "x", {**said, "rows": [said["rows"]] * 3},
                            {**said, "rows": said["rows"] * MOST_ROWS}, {**said, "title": 3},
                            {**said, "format": True}, {**said, "of": None}]  # fmt: skip
    odd: tuple[object, ...] = (None, -1, 10**30, True, EVIL, [], {}, [EVIL] * 3, 1.5)
    for value in odd:
        for at, row in enumerate(said["rows"]):
            for field in range(len(row)):
                changed = [list(one) for one in said["rows"]]
                changed[at][field] = value
                forged.append({**said, "rows": changed})
        forged.append({**said, "title": value})
    texts = [json.dumps(value).encode() for value in forged]
    texts += [whole[:at] for at in range(0, len(whole), 40)] + [b"[" * 100_000, b"\xff" * 3_000_000]
    believed = 0
    for text in texts:
        file.write_bytes(text)
        tree = TreeKeeper(cache, folder).tree
        if tree is None:
            continue
        believed += 1
        rows, cursor = tree.shown(("a", "2", ""))
        assert 0 <= cursor < len(rows)
        drawn = [*tree.title, *(part for row in rows for part in (
            row.look.text, row.look.figures, row.look.many, row.look.right(40), row.fitted(20)
        ))]  # fmt: skip
        assert all(part.isprintable() and len(part) < 1000 for part in drawn)
    assert 10 < believed < len(texts) / 2
    file.write_bytes(whole)
    file.chmod(0o666)
    assert TreeKeeper(cache, folder).tree is None, "anybody may have written it"


def test_what_is_kept_is_bounded(cache: DerivedCache, tmp_path: Path) -> None:
    folder, file = entry(cache, tmp_path / "recording")
    row = TREE.rows[1]
    names = [f"kernel_{n}_{'long' * 200}" for n in range(MOST_ROWS + 500)]
    rows = tuple(replace(row, look=replace(row.look, text=name)) for name in names)
    keeper = TreeKeeper(cache, folder)
    keeper.keep(KeptTree(("r",), rows))
    found = TreeKeeper(cache, folder).tree
    assert found is not None and len(found.rows) == MOST_ROWS
    assert file.stat().st_size < 1 << 20
