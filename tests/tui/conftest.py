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
from pathlib import Path
from time import monotonic, process_time
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import pytest_asyncio
from textual import app as textual_app
from textual import pilot as textual_pilot
from textual._compositor import Compositor
from textual._context import active_app
from textual.app import App
from textual.css.model import RuleSet, SelectorType
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.screen import Screen

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One loop for all tests here."""
    for item in items:
        if item.path.is_relative_to(HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


_rules: dict[tuple[object, ...], list[RuleSet]] = {}


@pytest.fixture(scope="session", autouse=True)
def styles_parsed_once() -> Iterator[None]:
    """Parse the same styles with the same variables once for all applications."""
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


_matched: dict[tuple[object, ...], dict[str, Any]] = {}


@pytest.fixture(scope="session", autouse=True)
def parts_styled_once() -> Iterator[None]:
    """Parts of a widget (its component classes) get the rules that they got before in a place like
    this: the same rules, beneath nodes of which they ask the same.

    Textual looks through all rules for each of forty parts of a listing, whenever a class or the
    focus changes anywhere above it.
    """
    own = Stylesheet._process_component_classes
    sheets: WeakKeyDictionary[Stylesheet, tuple[object, tuple[int, ...]]] = WeakKeyDictionary()
    places: WeakKeyDictionary[DOMNode, tuple[object, ...]] = WeakKeyDictionary()
    asked: dict[tuple[object, ...], tuple[frozenset[str], frozenset[str]]] = {}

    def asked_of(sheet: Stylesheet, parts: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """The classes and the states that rules for these parts ask of nodes above them."""
        chains = [chain.selectors for rule in sheet.rules for chain in rule.selector_set]
        wanted = {*parts, "*"}
        own = [one for chain in chains if any(s.name in wanted for s in chain) for one in chain]
        names = frozenset(one.name for one in own if one.type is SelectorType.CLASS)
        return names, frozenset().union(*(one.pseudo_classes for one in own))

    def place_of(sheet: Stylesheet, node: DOMNode) -> tuple[object, ...]:
        made, rules = sheets.get(sheet, (None, ()))
        if made is not sheet.rules_map:  # it is made again whenever the rules are
            rules = tuple(map(id, sheet.rules))
            sheets[sheet] = sheet.rules_map, rules
        parts = frozenset(node._get_component_classes())
        if (rules, parts) not in asked:
            asked[rules, parts] = asked_of(sheet, parts)
        names, states = asked[rules, parts]
        path = (
            (type(n), n._id, names & n._classes, *map(n.has_pseudo_class, sorted(states)))
            for n in node.css_path_nodes
        )
        return (rules, *path)

    def styled(self: Stylesheet, node: DOMNode) -> None:
        if not node._get_component_classes():
            return
        place = place_of(self, node)
        if node._component_styles and places.get(node) == place:
            return
        places[node] = place
        if place not in _matched:
            own(self, node)
            parts = node._component_styles.items()
            _matched[place] = {name: dict(styles.base._rules) for name, styles in parts}
            return
        before = node._component_styles.copy()
        node._component_styles.clear()
        for name, rules in _matched[place].items():
            part = DOMNode(classes=name)
            part._attach(node)
            part.styles.base._rules.update(rules)
            node._component_styles[name] = part.styles
        if node._component_styles != before:
            node.refresh()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_process_component_classes", styled)
        yield


SLICE, PATIENCE = 0.001, 0.1
"""Seconds in which a process that is at rest uses next to nothing; and where a thread is at work,
which may have to wait for a processor."""
MOST, LONG = 60, 10
"""Seconds after which a loop that never comes to rest is left alone, and threads that compute."""
LASTING = ("block", "count", "timing")
"""Groups of threads that may take long: the interface stays usable."""


def at_work() -> tuple[list[asyncio.Task[None]], bool]:
    """What the application has begun in threads and not ended; whether it will end soon."""
    app = active_app.get(None)
    workers = [] if app is None else [one for one in app.workers if not one.is_finished]
    tasks = [one._task for one in workers if one._task is not None]
    return tasks, bool(tasks) and not any(one.group in LASTING for one in workers)


def brought_up_to_date() -> bool:
    """Have the screen laid out if it waits for its sixtieth of a second, or for a new size."""
    app = active_app.get(None)
    if app is None or not app._running or not app._screen_stack:
        return False
    if app._resize_event is not None:
        app._check_resize()
        return True
    screen = app.screen
    if not screen._update_timer._active.is_set():
        return False
    screen._on_timer_update()
    return True


async def at_rest(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until the loop has nothing to call, and until no thread of this process computes.

    For a thread that may take long it waits as long as Textual's own does; for others longer: on a
    loaded machine the next key would come before what the one before it asks for.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    begun = monotonic()
    while monotonic() - begun < MOST:
        await asyncio.sleep(0)
        if ready or brought_up_to_date():
            continue
        tasks, soon = at_work()
        used, most = process_time(), PATIENCE if tasks else SLICE
        if tasks:  # what a thread has done goes on as soon as it is done
            done, _ = await asyncio.wait(tasks, timeout=most, return_when=asyncio.FIRST_COMPLETED)
            if done:
                continue
        else:
            await asyncio.sleep(most)
        if ready or brought_up_to_date():
            continue
        waited = monotonic() - begun
        quiet = process_time() - used < max(SLICE / 2, most / 40)
        quiet = quiet and (bool(tasks) or not at_work()[0])
        if waited >= (LONG if soon and max_sleep else max_sleep) or (quiet and waited >= min_sleep):
            return


@pytest.fixture(scope="session", autouse=True)
def waits_for_what_is_to_be_done() -> Iterator[None]:
    """Wait until all is done, and no longer.

    A message to each widget says when all are done, a hundred of them a pause; none is needed
    where the loop is at rest and no widget has one left.
    """
    own = Pilot._wait_for_screen

    async def waited(self: Pilot[Any], timeout: float = 30.0) -> bool:
        await at_rest(max_sleep=0)  # regardless of threads
        app = self.app
        if not app._running or app._exception is not None or not app._screen_stack:
            return await own(self, timeout)
        if any(one.message_queue_size for one in [app, *app.screen.walk_children(with_self=True)]):
            return await own(self, timeout)
        return True

    with pytest.MonkeyPatch.context() as patch:
        for module in (textual_app, textual_pilot):
            patch.setattr(module, "wait_for_idle", at_rest)
        patch.setattr(Pilot, "_wait_for_screen", waited)
        yield


Waits = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def frames_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the screen where a test looks at it, clicks or resizes, and at the end.

    Frames between two keys are half of what the tests would take. A module about frames has all.
    """
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

    def drawn(app: App[Any]) -> None:
        if app in undrawn and app._running and app._exception is None:
            undrawn.discard(app)
            with app._context():
                draw(app.screen)

    def drawn_before(act: Waits) -> Waits:
        @wraps(act)
        async def acted(self: Pilot[Any], *args: Any, **more: Any) -> Any:
            drawn(self.app)
            return await act(self, *args, **more)

        return acted

    async def shut_down(self: App[Any]) -> None:
        drawn(self)
        await end(self)

    def looked_at(self: Compositor, *args: Any, **more: Any) -> Any:
        # A test that has all lines of a screen made has drawn it.
        undrawn.difference_update([app for app in undrawn if app.screen._compositor is self])
        return render(self, *args, **more)

    monkeypatch.setattr(Screen, "_compositor_refresh", put_off)
    for name in ("resize_terminal", "_post_mouse_events"):
        monkeypatch.setattr(Pilot, name, drawn_before(getattr(Pilot, name)))
    end, render = App._shutdown, Compositor.render_strips
    monkeypatch.setattr(App, "_shutdown", shut_down)
    monkeypatch.setattr(Compositor, "render_strips", looked_at)


@pytest.fixture(autouse=True)
def colours_of_a_usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures depend on the terminal's colours: all tests have the same."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def no_kept_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """No estimate of another test is found: tests of one worker share the user's cache."""
    for name in ("_read", "kept_cycles"):
        monkeypatch.setattr(
            f"inspector.estimate.launches.LaunchEstimates.{name}", lambda estimates, *launched: None
        )
