"""What applications in tests spare: frames that nobody could have seen, styles that were parsed.

Half of what these tests took was drawing sixty frames a second for a terminal that nobody reads.
A frame is drawn when the interface has come to rest and a test goes on with it: before the next
keys, and before it ends. It holds all that has changed since the one before it.

Nor does a test wait for a time: it goes on as soon as nothing is left to be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from time import monotonic, process_time
from typing import Any

import pytest
from textual import app as textual_app
from textual import pilot as textual_pilot
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

_rules: dict[tuple[object, ...], list[RuleSet]] = {}


@pytest.fixture(scope="session", autouse=True)
def styles_parsed_once() -> Iterator[None]:
    """The same styles with the same variables are the same rules, whichever application asks."""
    own = Stylesheet._parse_rules

    def parsed(self: Stylesheet, css: str, read_from: Any, *args: Any, **more: Any) -> Any:
        variables = frozenset(self._variables.items())
        key = (css, read_from, args, tuple(sorted(more.items())), variables)
        if key not in _rules:
            _rules[key] = own(self, css, read_from, *args, **more)
        return _rules[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parsed)
        yield


SLICE = 0.001
"""Seconds in which a process that is at rest uses next to nothing, a thread's work included."""


async def at_rest(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until the loop has nothing to call and no thread of this process computes.

    Textual's own asks twenty times as seldom, twice a key: a third of these tests was sleeping.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    begun = monotonic()
    while monotonic() - begun < max_sleep:
        await asyncio.sleep(0)
        if ready:
            continue
        used = process_time()
        await asyncio.sleep(SLICE)
        if not ready and process_time() - used < SLICE / 2 and monotonic() - begun >= min_sleep:
            return


@pytest.fixture(scope="session", autouse=True)
def waits_for_what_is_to_be_done() -> Iterator[None]:
    """Wait until all is done, and no longer."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (textual_app, textual_pilot):
            patch.setattr(module, "wait_for_idle", at_rest)
        yield
Waits = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def frames_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what a test can see, when it can see it; a module about frames has all of them."""
    undrawn: set[App[Any]] = set()
    draw = Screen._compositor_refresh

    def put_off(self: Screen[Any]) -> None:
        app = self.app
        if self is not app.screen or not app.is_headless:
            draw(self)
            return
        undrawn.add(app)
        self._dirty_widgets.clear()
        app._update_mouse_over(self)

    def drawn_after(wait: Waits) -> Waits:
        @wraps(wait)
        async def waited(self: Pilot[Any], *args: Any, **more: Any) -> Any:
            answer = await wait(self, *args, **more)
            if self.app in undrawn and self.app._running:
                undrawn.discard(self.app)
                with self.app._context():
                    draw(self.app.screen)
            return answer

        return waited

    monkeypatch.setattr(Screen, "_compositor_refresh", put_off)
    for name in ("press", "pause"):
        monkeypatch.setattr(Pilot, name, drawn_after(getattr(Pilot, name)))
