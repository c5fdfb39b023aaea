"""What every test finds: folders of a new user, no terminal, copies of the captured data."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import pytest

from inspector.sources import disassembly
from inspector.system import toolchain
from tests.helpers import ptxview as programs
from tests.helpers import samples, warm, warm_python
from tests.helpers.ptxview import LECTURE, LOST_SCALE, SAMPLE, Done, call, saved
from tests.helpers.samples import Disassembler, disassemble

# A worker of pytest-xdist has the width of its parent's terminal here (80 without one), and
# tables that are no terminal's are as wide as this says. Child processes inherit it.
WIDTH_AND_COLOURS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
# Without bytecode, each of hundreds of programs compiles ptxview again. The options of this run are
# not those of a pytest that a test starts.
for name in (*WIDTH_AND_COLOURS, "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS"):
    os.environ.pop(name, None)

# As in an environment that is activated: pip puts ninja beside the interpreter, where torch, which
# asks PATH, would not find it.
if shutil.which("ninja") is None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"

# Modules and tests that are collected stay: nothing is looked for until they are all there.
gc.disable()

# A loaded machine is no failure.
hypothesis.settings.register_profile("ptxview", deadline=None)
hypothesis.settings.load_profile("ptxview")

# What stands behind `&` in a script ignores SIGINT, behind `nohup` SIGHUP, under `perf` SIGUSR2; so
# would all that tests start: programs that are asked to end by them would go on.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(number) is signal.SIG_IGN:
        ends = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, ends)

TESTS = Path(__file__).parent
FAST = ("analysis", "base", "diff", "execute", "parsers", "render")
"""Rooms that are pure: every test in their folders has the marker ``fast``, but for these files,
which try thousands of programs or every cubin that there is, or have Triton compile."""
SLOW = (
    "analysis/flow",
    "analysis/test_reference_sass.py",
    "analysis/test_scheduling.py",
    "diff/test_adversarial.py",
    "execute/test_integers.py",
    "execute/test_values.py",
    "parsers/test_lossless.py",
    "execute/calls/test_counted_hints.py",
    "diff/test_limits.py",
)


LONG = ("probes", "faults", "kernels", "examples", "sources", "test_sizes.py", "test_trust.py")
"""Compilers, interpreters with torch, whole programs. One of two workers begins with these, and
builds once what they share; the other takes from the rest, and neither ends with a long one."""


@cache
def is_fast(path: Path) -> bool:
    """Whether a file's tests are fast, or a folder may hold such files."""
    place = path.relative_to(TESTS)
    slow = any(place.is_relative_to(name) for name in SLOW)
    return not slow and place.parts[:1] in [(), *((name,) for name in FAST)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m fast`` does not import what it will not run."""
    if config.option.markexpr == "fast" and collection_path.is_relative_to(TESTS):
        return None if is_fast(collection_path) else True
    return None


NIGHTLY_PER_SAMPLE = 100
"""Nightly tests of which ``--sample`` chooses one: about four of 430."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--sample SEED``, for nightly tests on every change."""
    parser.addoption("--sample", metavar="SEED", help="run a few nightly tests too, chosen by SEED")


def pytest_configure(config: pytest.Config) -> None:
    """Let ``--sample`` choose among nightly tests, in place of ``-m 'not nightly'``."""
    if config.getoption("--sample") is not None:
        config.option.markexpr = ""


def is_nightly(item: pytest.Item) -> bool:
    return item.get_closest_marker("nightly") is not None


def is_sampled(item: pytest.Item, seed: str) -> bool:
    """Whether a test runs with ``--sample``: any that is not nightly, and a few that are."""
    number = crc32(f"{seed} {item.nodeid}".encode())
    return number % NIGHTLY_PER_SAMPLE == 0 or not is_nightly(item)


def takes_long(item: pytest.Item) -> bool:
    return is_nightly(item) or item.path.relative_to(TESTS).parts[0] in LONG


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark by folders, put first what takes long, keep those that ``--sample`` chooses."""
    seed = config.getoption("--sample")
    if seed is not None:
        items[:] = [item for item in items if is_sampled(item, seed)]
    items.sort(key=takes_long, reverse=True)
    for item in items:
        if item.path.parent != TESTS and is_fast(item.path):
            item.add_marker(pytest.mark.fast)


def pytest_collection_finish() -> None:
    """Modules and thousands of tests are no garbage: the collector need not look at them again."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 50)


MAY_LACK = ("needs nvcc", "needs a GPU", "needs a language's package")
"""What a machine of CI need not have: any other test that skips there fails the run."""


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell CI which tests skipped for lack of a tool that .ci/run should have installed."""
    for reason in unexpected_skips(terminalreporter):
        terminalreporter.write_line(f"skipped in CI: {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail in CI if tests were skipped that have all they need there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter is not None and unexpected_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def unexpected_skips(reporter: pytest.TerminalReporter) -> list[str]:
    """Find the tests that skipped in CI without a reason that holds there."""
    if os.environ.get("CI") != "true":
        return []
    skipped = reporter.stats.get("skipped", [])
    return [
        f"{one.nodeid}: {one.longrepr[2]}"
        for one in skipped
        if not one.longrepr[2].removeprefix("Skipped: ").startswith(MAY_LACK)
    ]


PICKLE = "inductor/fxgraph/2x/f2x7v6gvreumntz423uyucjumf7sjhaes4kadit3p5jmchek5ey5/entry"


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all xdist workers have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory, common: Path) -> Iterator[Path]:
    """State, caches and build folders of a user who has none of them yet."""
    root = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        # What the emulated device builds, and compilers keep among temporary files, takes a while:
        # once, for every worker. Nothing is left beside these folders.
        patch.setenv("XDG_CACHE_HOME", str(common / "target-caches"))
        (common / "tmp").mkdir(exist_ok=True)
        patch.setenv("TMPDIR", str(common / "tmp"))
        patch.setattr(tempfile, "tempdir", None)
        patch.setattr(samples, "SAID", common / "said")
        patch.setattr(disassembly, "run_tool", samples.remembered)
        patch.setattr(programs, "WARM", common / "warm" / "ptxview")
        caches = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
        for name in ("XDG_STATE_HOME", *caches):
            patch.setenv(name, str(root / name.lower()))
        # No GPU, a page's width, and no colours.
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        for name in (*WIDTH_AND_COLOURS, "TORCH_LOGS", "TORCH_TRACE", "PYTHONPATH"):
            patch.delenv(name, raising=False)
        yield root
        warm.leave_all()


@pytest.fixture(scope="session")
def plain_python(common: Path) -> Callable[..., str]:
    """``plain_python(module, …)``: the path of an interpreter that has imported them (Triton where
    none is named), and makes a child for each program; see tests/helpers/warm_python.py."""

    def path(*modules: str) -> str:
        pytest.importorskip("triton")
        wanted = modules or warm_python.TRITON
        return warm_python.python(common / "warm" / f"plain-{'-'.join(wanted)[:40]}", wanted)

    return path


@pytest.fixture
def triton_at_once(plain_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The interpreter that ptxview takes where none is asked for has imported Triton."""
    own, python = toolchain.interpreter, plain_python()
    monkeypatch.setattr(toolchain, "interpreter", lambda asked: own(asked or python))
    return python


class Bomb:
    """Unpickled, it makes a file that shows who loaded it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.fixture(scope="session")
def exploded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path that unpickling the caches' pickle makes."""
    return tmp_path_factory.mktemp("bomb") / "exploded"


@pytest.fixture(scope="session")
def lecture(tmp_path_factory: pytest.TempPathFactory, exploded: Path) -> Path:
    """A copy of the captured caches, with a pickle in Inductor's that must not be loaded."""
    copy = tmp_path_factory.mktemp("captured") / "lecture"
    shutil.copytree(LECTURE, copy)
    bomb = copy / PICKLE
    saved(bomb, pickle.dumps(Bomb(exploded)))
    return copy


@pytest.fixture(scope="session")
def listed(lecture: Path) -> Done:
    """``list --json`` of the captured caches."""
    return call("list", lecture, "--json")


@pytest.fixture
def new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, cache and configuration of a user who has none, for one test."""
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Somebody else's recording: a copy of the project's, beside which things can be kept."""
    return Path(shutil.copy(SAMPLE, tmp_path / "lecture.ptxview"))


@pytest.fixture
def lost_scale(tmp_path: Path) -> Path:
    """A copy of the recording whose first kernel is wrong."""
    return Path(shutil.copy(LOST_SCALE, tmp_path / "lost_scale.ptxview"))


@pytest.fixture
def nvdisasm() -> Disassembler:
    """``nvdisasm(file name, *options)``: what it prints for a sample."""
    return disassemble
