"""The boundary: hooks around the program's calls, which change nothing."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.probes import hooks
from tests.helpers.ptxview import finished

PROBES = Path(__file__).parents[2] / "inspector" / "probes"


class Odd(BaseException):
    """Neither an ``Exception`` nor one of the program's ways to end."""


def failing(kind: type[BaseException]) -> Any:
    def hook(*_: object) -> None:
        raise kind("our fault")

    return hook


@pytest.fixture(autouse=True)
def problems(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What is reported, of hooks that have not failed before."""
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(hooks, "problem", lambda where, text: said.append((where, str(text))))
    hooks._failures.clear()
    yield said
    hooks._failures.clear()


@pytest.mark.parametrize("kind", [RuntimeError, Odd, GeneratorExit, MemoryError])
@pytest.mark.parametrize("where", ["before", "after", "both"])
def test_a_hook_that_raises_changes_nothing(where: str, kind: type[BaseException]) -> None:
    calls: list[tuple[Any, ...]] = []
    result, given = object(), object()

    def original(*args: object, **kwargs: object) -> object:
        calls.append((args, kwargs))
        return result

    before = failing(kind) if where != "after" else None
    after = failing(kind) if where != "before" else None
    assert hooks.observed(original, before, after)(given, named=given) is result
    assert calls == [((given,), {"named": given})]


@pytest.mark.parametrize("kind", [RuntimeError, Odd])
def test_the_programs_exception_is_passed_on_without_our_frames(kind: type[BaseException]) -> None:
    cause = KeyError("its cause")

    def original() -> None:
        raise ValueError("its own") from cause

    for hook in (None, failing(kind)):
        try:
            hooks.observed(original, hook, hook)()
        except ValueError as error:
            assert error.__cause__ is cause and error.__suppress_context__
            assert error.args == ("its own",)
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            assert names[1:] == ["original"]
        else:
            pytest.fail("the exception is lost")


def test_hooks_get_the_call_and_its_end() -> None:
    seen: list[Any] = []
    called = hooks.observed(
        lambda x, y=0: x / y, lambda args, kwargs: (args, kwargs), lambda *end: seen.append(end)
    )
    assert called(6, y=3) == 2
    with pytest.raises(ZeroDivisionError) as raised:
        called(1)
    assert seen == [(((6,), {"y": 3}), 2.0, None), (((1,), {}), None, raised.value)]


def test_a_hook_may_change_arguments_and_after_is_called_only_if_before_was() -> None:
    seen: list[Any] = []
    doubled = hooks.observed(
        lambda x: x,
        lambda args, kwargs: hooks.ReplaceArguments((args[0] * 2,), kwargs, "token"),
        lambda *end: seen.append(end),
    )
    assert doubled(4) == 8 and seen == [("token", 8, None)]
    plain = hooks.observed(lambda x: x, failing(RuntimeError), lambda *end: seen.append(end))
    assert plain(4) == 4 and len(seen) == 1


def test_a_token_may_be_an_argument_and_a_call_may_set_a_threads_local() -> None:
    local, seen = threading.local(), list[Any]()
    inner = hooks.observed(
        lambda x: seen.append(local.now), *hooks.during(local, "now", hooks.argument(0, "x"))
    )
    inner(1)
    inner(x=2)
    assert seen == [1, 2] and local.now is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_programs_own_ways_to_end_pass_through(kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        hooks.observed(lambda: None, failing(kind))()
    with pytest.raises(kind):
        hooks.guarded(failing(kind))()


def test_a_signal_handler_that_raises_during_a_hook_is_the_programs() -> None:
    def late(*_: object) -> None:
        raise TimeoutError("the program's own limit")

    earlier = signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError, match="own limit"):
            hooks.observed(lambda: None, lambda args, kwargs: time.sleep(20))()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def test_a_hook_is_reported_once_and_switched_off(problems: list[tuple[str, str]]) -> None:
    tried: list[int] = []

    def hook(*_: object) -> None:
        tried.append(1)
        raise RuntimeError("always")

    called = hooks.observed(lambda: "made", hook)
    assert [called() for _ in range(10)] == ["made"] * 10
    assert len(tried) == hooks.FAILURES_ALLOWED
    assert len(problems) == 1 and "RuntimeError: always" in problems[0][1]


def test_a_reporter_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (RuntimeError, Odd):
        monkeypatch.setattr(hooks, "problem", failing(kind))
        assert hooks.observed(lambda: "made", failing(RuntimeError), name=f"{kind}")() == "made"
        assert hooks.guarded(failing(RuntimeError), f"guarded {kind}")() is None


def test_nothing_is_called_while_nothing_is_recorded() -> None:
    seen: list[object] = []
    called = hooks.observed(lambda: "made", lambda *call: seen.append(call))
    hooks.end_recording()
    try:
        assert called() == "made" and not seen
    finally:
        hooks.begin_recording()
    assert called() == "made" and len(seen) == 1


IMPORTS = """
import sys
from ptxview_probes import hooks
assert hooks.recording()

def bad(*_):
    raise {kind}("our fault")

if {where!r} == "callback":
    hooks.when_imported("colorsys", bad)
    hooks.before_import("colorsys", bad)
elif {where!r} == "loader":
    hooks._watch_loader = bad
    hooks.when_imported("colorsys", print)
else:
    hooks.when_imported("colorsys", print)
    class Refuses:
        def find_spec(self, name, path=None, target=None):
            if name == "colorsys":
                raise ImportError("not here")
    sys.meta_path.insert(1, Refuses())
try:
    import colorsys
    print(colorsys.rgb_to_hsv(0, 0, 0))
except ImportError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("kind", ["RuntimeError", "BaseException"])
@pytest.mark.parametrize(
    ("where", "out"),
    [("callback", "(0.0, 0.0, 0)"), ("loader", "(0.0, 0.0, 0)"), ("finder", "refused: not here")],
)
def test_an_import_is_as_without_hooks(where: str, out: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    env = {"PYTHONPATH": str(PROBES / "bootstrap"), "PTXVIEW_RECORDING": str(tmp_path)}
    done = finished([sys.executable, "-c", IMPORTS.format(where=where, kind=kind)], env=env)
    assert (done.status, done.text.strip(), done.said) == (0, out, "")
    events = [json.loads(line) for f in tmp_path.glob("events*") for line in f.open()]
    assert ("problem" in {e["event"] for e in events}) is (where != "finder")


def test_a_guarded_callback_may_be_given_any_keyword() -> None:
    def callback(**given: object) -> object:
        return given

    assert hooks.guarded(callback)(name=1, hook=2) == {"name": 1, "hook": 2}


def call_counter(count: int, flush_at: int) -> hooks.CallCounter:
    counter = hooks.CallCounter(0)
    counter.count = count
    counter.flush_at = flush_at
    return counter


class LaunchCounter:
    """Counts calls by their first argument, and keeps what it is called with."""

    def __init__(self, key: Any = None) -> None:
        self.counters: dict[Any, hooks.CallCounter] = {}
        self.lookup = (1, key or (lambda args: args[0]), self.counters)
        self.hooks: list[str] = []
        self.pending: list[hooks.CallCounter] = []
        self.note_pending = self.pending.append

    def on_launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> hooks.CallCounter:
        self.hooks.append("on_launch")
        return self.counters.setdefault(args[0], call_counter(0, 3))

    def on_return(
        self, counter: hooks.CallCounter, result: Any, error: BaseException | None
    ) -> None:
        counter.count += error is None

    def failed(self, args: tuple[Any, ...], error: BaseException) -> None:
        self.hooks.append(f"failed {error}")

    def flush_count(self, counter: hooks.CallCounter) -> None:
        self.hooks.append(f"flush {counter.count}")


def test_frequent_calls_are_counted_by_their_keys_without_hooks() -> None:
    counter = LaunchCounter()
    call = hooks.observed_often(lambda key: key * 2, counter, (), "counting")
    assert [call(7) for _ in range(4)] == [14] * 4
    assert list(counter.counters) == [7] and counter.counters[7].count == 4
    assert counter.hooks == ["on_launch", "flush 3", "flush 4"]
    assert counter.pending == [counter.counters[7]] * 3


def test_frequent_calls_have_their_hooks_while_the_container_holds_anything() -> None:
    counter, threads = LaunchCounter(), {1}
    call = hooks.observed_often(lambda key: key, counter, threads, "counting")
    call(7)
    call(7)
    threads.clear()
    call(7)
    assert counter.hooks == ["on_launch", "on_launch", "flush 3"]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", [RuntimeError, Odd])
def test_a_frequent_calls_exception_is_passed_on_without_our_frames(
    kind: type[BaseException], known: bool
) -> None:
    error = kind("the program's")
    counter = LaunchCounter()

    def original(key: int) -> None:
        raise error

    if known:
        counter.counters[7] = call_counter(1, 3)
    call = hooks.observed_often(original, counter, (), "counting")
    with pytest.raises(kind) as caught:
        call(7)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert caught.value is error
    assert [frame.name for frame in frames][1:] == ["original"]
    assert counter.counters[7].count == known
    assert counter.hooks == (["failed the program's"] if known else ["on_launch"])


@pytest.mark.parametrize("kind", [RuntimeError, Odd, MemoryError])
@pytest.mark.parametrize("fault", ["key", "flush_count", "on_launch", "on_return"])
def test_a_counter_that_raises_changes_no_frequent_call(
    fault: str, kind: type[BaseException]
) -> None:
    counter = LaunchCounter(failing(kind) if fault == "key" else None)
    if fault != "key":
        setattr(counter, fault, failing(kind))
    call = hooks.observed_often(lambda key: key * 2, counter, (), "counting")
    counter.counters[7] = call_counter(0, 1)
    assert [call(key) for key in (7, 7, 8, 8, 9)] == [14, 14, 16, 16, 18]


def test_frequent_calls_are_not_counted_while_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = LaunchCounter()
    counter.counters[7] = call_counter(0, 3)
    call = hooks.observed_often(lambda key: key * 2, counter, (), "counting")
    monkeypatch.setitem(hooks._state, "recording", False)
    assert call(7) == 14 and counter.counters[7].count == 0 and not counter.hooks


class SlowCounter(hooks.CallCounter):
    """A count whose reader loses the processor before it writes, as on a free-threaded Python."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        time.sleep(0.0005)
        return value


def test_threads_lose_no_counts_without_the_interpreter_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "_count_lock", threading.Lock())
    counter = LaunchCounter()
    counter.counters[7] = SlowCounter(0)
    counter.counters[7].flush_at = 1_000_000
    call = hooks.observed_often(lambda key: key, counter, (), "counting")
    threads = [threading.Thread(target=lambda: [call(7) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.counters[7].count == 80
