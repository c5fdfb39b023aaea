"""What applications in tests spare: frames that nobody could have seen, styles that were parsed.

Half of what these tests took was drawing sixty frames a second for a terminal that nobody reads.
A frame is drawn when the interface has come to rest: after the keys that a test presses, and when
it pauses. It holds all that has changed since the one before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Any

import pytest
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
