"""One running application for all tests of a screen: each finds it as if it had just been started.

Starting one takes as long as most tests do. Between two tests all above the main screen is
left, every part of it gets what its constructor gives, and it begins again; then it is compared,
part by part, with what it was when it had been started. One that is not the same is ended, and so
is one that a test has ended, whose test has failed or that still computes: the next test starts
its own. So a test does not depend on those before it, and runs alone as well.

The reader is shared too, with all that it has found out: a test that has our code find out
something else starts an application on another reader.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from textual.dom import DOMNode
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from inspector.commands.common import open_reader
from inspector.reader.reader import Reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.highlight import Highlighter
from inspector.tui.main.main_screen import MainScreen
from tests.helpers.sample import reader, settle

RECORDING = Path(__file__).parents[2] / "examples" / "recordings" / "lecture-h200.ptxview"

LEARNT = ("_resources", "_shortened", "_asked", "_spans", "_laid")
"""What a tree has learnt of the recording, which is the same for all tests, and what was drawn."""
OURS = "inspector.tui"


# What a part is made of


@cache
def _textuals(base: type[DOMNode]) -> frozenset[str]:
    """What Textual itself keeps in every node of a kind."""
    return frozenset(vars(base()))


def _own(part: object) -> list[str]:
    """The attributes that our code has given to a part, in the order in which it has."""
    others = {*LEARNT}
    if isinstance(part, DOMNode):
        base = next(c for c in type(part).__mro__ if c.__module__.startswith("textual."))
        others |= _textuals(base)
    return [n for n in vars(part) if n not in others and not n.startswith("_reactive_")]


def _is_part(value: object) -> bool:
    """Whether a value is one that goes on living, and whose attributes change."""
    if isinstance(value, DOMNode):
        return True
    if isinstance(value, Enum | tuple | Highlighter) or is_dataclass(value) or callable(value):
        return False
    return hasattr(value, "__dict__") and type(value).__module__.startswith(OURS)


def _pairs(old: object, new: object, out: dict[int, tuple[object, object]]) -> None:
    """Every part that can be reached from ``new``, with its counterpart."""
    if id(new) in out:
        return
    out[id(new)] = (old, new)
    for name in _own(new):
        mine, fresh = getattr(old, name, None), getattr(new, name)
        if type(mine) is not type(fresh):
            continue
        if _is_part(fresh):
            _pairs(mine, fresh, out)
        elif isinstance(fresh, list):
            for one, other in zip(mine or (), fresh, strict=False):
                if _is_part(other):
                    _pairs(one, other, out)


def _reconstruct(main: MainScreen) -> None:
    """Give every part what its constructor gives."""
    pairs: dict[int, tuple[object, object]] = {}
    _pairs(main, MainScreen(main.reads), pairs)
    for old, new in pairs.values():
        for name in _own(new):
            value = getattr(new, name)
            if id(value) in pairs:
                value = pairs[id(value)][0]
            elif isinstance(value, list) and any(id(one) in pairs for one in value):
                value = [pairs[id(one)][0] for one in value]
            elif callable(value) and not isinstance(value, type):
                continue
            setattr(old, name, value)


# What can be compared


def _plain(value: object, depth: int = 6) -> object:
    """A comparable form of a value; the type alone of foreign objects."""
    if value is None or isinstance(value, str | int | float | bytes | Path | Enum):
        return value
    if isinstance(value, DOMNode | Highlighter) or not depth:
        return type(value).__name__
    if isinstance(value, Mapping):
        return {repr(key): _plain(one, depth - 1) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one, depth - 1) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(one, depth - 1)) for one in value)
    module = type(value).__module__
    if is_dataclass(value) and module.startswith(OURS):
        return {f.name: _plain(getattr(value, f.name), depth - 1) for f in fields(value)}
    if is_dataclass(value) and module == "inspector.base.model":
        return value
    if _is_part(value):
        names = _own(value)
        return {name: _plain(getattr(value, name), depth - 1) for name in names}
    return type(value).__name__


Looks = list[tuple[object, ...]]


def _looks(app: PtxviewApp) -> Looks:
    """All that is to be the same again: of the application and of every part, and the screen."""
    out: Looks = [
        (
            app.theme,
            app.clipboard,
            app.animation_level,
            len(app._notifications),
            dict(app.keys),
            app.screen_stack == [app.main],
            app._exit,
            app.app_focus,
        )
    ]
    for node in app.screen.walk_children(with_self=True):
        where = (id(node), node._id, frozenset(node._classes), node.pseudo_classes, node.display)
        stands = (getattr(node, "region", None), getattr(node, "scroll_offset", None))
        ours = type(node).__module__.startswith(OURS)
        state = {n: _plain(getattr(node, n)) for n in _own(node)} if ours else {}
        if isinstance(node, Input):
            state = {"value": node.value, "placeholder": node.placeholder}
        set_ = {rule: v for rule, v in node.styles.inline.get_rules().items() if rule != "display"}
        out.append((*where, *stands, str(set_), state))
    strips = app.screen._compositor.render_strips()
    out += [(y, "".join(s.text for s in strip)) for y, strip in enumerate(strips)]
    return out


# Applications that run


@dataclass(eq=False)
class Running:
    """An application that runs, until ``end`` is set."""

    pilot: Pilot[None]
    end: asyncio.Event
    task: asyncio.Task[None]
    looks: Looks = field(default_factory=list)
    in_use: bool = False

    @property
    def app(self) -> PtxviewApp:
        """The application."""
        assert isinstance(self.pilot.app, PtxviewApp)
        return self.pilot.app


async def _start(app: PtxviewApp, size: tuple[int, int]) -> Running:
    """Start it in a separate task: the test that has it started is not the one that ends it."""
    began: asyncio.Future[Pilot[None]] = asyncio.get_running_loop().create_future()
    end = asyncio.Event()

    async def run() -> None:
        try:
            async with app.run_test(size=size) as pilot:
                began.set_result(pilot)
                await end.wait()
        except BaseException as error:
            if began.done():
                raise
            began.set_exception(error)

    task = asyncio.create_task(run())
    running = Running(await began, end, task)
    with running.app._context():
        await settle(running.pilot)
        running.looks = _looks(running.app)
    return running


async def _end(running: Running) -> None:
    """End it; what went wrong in it is raised."""
    running.end.set()
    await running.task


async def _again(running: Running) -> bool:
    """Bring it back to its beginning; False if it is not as it was then."""
    app, main = running.app, running.app.main
    if not app._running or app._exit or main not in app.screen_stack:
        return False
    while app.screen is not main:
        await app.pop_screen()
    app.clear_notifications()
    app.mouse_position = Offset()
    app._set_mouse_over(None, None)
    app._clipboard = ""
    app.animation_level = "full"
    app.theme = PtxviewApp(main.reads).theme
    main.prompt.kind = ""  # its text is not to be searched for
    main.prompt.display, main.status.display = False, True
    main.prompt.input.value = main.prompt.input.placeholder = ""
    main.set_focus(None)
    _reconstruct(main)
    for pane in main.panes._all:
        pane.remove_class("-focused")
        pane.heads.remove_class("-there")
    for node in main.walk_children(with_self=False):
        if isinstance(node, Widget) and node.scroll_offset != (0, 0):
            node.scroll_to(0, 0, animate=False, force=True)
    main.footer.refresh()
    main.kernels.on_mount()
    main.on_mount()
    main.panes.fit()
    main.refresh(layout=True)
    await settle(running.pilot)
    main.prompt.input.remove_class("-valid", "-invalid")
    if [one for one in app.workers if not one.is_finished]:
        return False
    return _looks(app) == running.looks


_ALL: dict[tuple[object, ...], Running] = {}


async def end_all() -> None:
    """End every one that runs."""
    running = [*_ALL.values()]
    _ALL.clear()
    for one in running:
        with suppress(Exception):  # the test that it happened in has said it
            await _end(one)


@dataclass(frozen=True, eq=False)
class SharedApp:
    """The application on a reader that all tests have in common; used as one of a test's own."""

    reads: Callable[[], Reader]

    def _key(self, size: tuple[int, int]) -> tuple[object, ...]:
        looked_at = ("NO_COLOR", "COLORFGBG")  # when an application is made
        return (self, size, *map(os.environ.get, looked_at))

    @asynccontextmanager
    async def run_test(self, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[Any]]:
        """The application at its beginning, in a terminal of so many columns and rows."""
        key = self._key(size)
        running = _ALL.get(key)
        if running is not None and running.in_use:
            async with PtxviewApp(self.reads()).run_test(size=size) as pilot:
                yield pilot
            return
        if running is not None:
            with running.app._context():
                same = await _again(running)
            if not same:
                await _end(_ALL.pop(key))
                running = None
        if running is None:
            running = _ALL[key] = await _start(PtxviewApp(self.reads()), size)
        running.in_use = True
        done = False
        try:
            with running.app._context():
                yield running.pilot
            done = True
        finally:
            running.in_use = False
            if not done or not running.app._running or running.app._exception is not None:
                _ALL.pop(key, None)
                await _end(running)


@cache
def _lecture() -> Reader:
    return open_reader(str(RECORDING))


small_app = SharedApp(cache(reader))
"""On the small recording of ``tests.helpers.sample``."""

lecture_app = SharedApp(_lecture)
"""On the recording among the examples, with its reader's cache."""
