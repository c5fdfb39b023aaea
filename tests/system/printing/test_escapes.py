"""No terminal obeys text of strangers, in any field of any input.

Every field gets titles, erased screens, colours, marks of direction and halves of characters, and
every command is asked about it, to a pipe and on a terminal.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.base.model import Variant
from inspector.commands import common
from inspector.commands import list as list_command
from inspector.measure.ncu.attach import ProfiledRecording
from inspector.reader.summaries import Summaries, VariantSummary
from tests.helpers.hostile import EVIL, SQUARE, all_names, fields, obeyed, on_pty, written
from tests.helpers.nightly import first_by_day
from tests.helpers.ptxview import LECTURE, MATMUL, SAMPLE, Done, call

BATCHES = 3

FIGURES: dict[str, object] = {
    "name": "square_kernel",
    "kernel": "square_kernel",
    "variant": SQUARE,
    "median_us": 3.5,
    "low_us": 3.4,
    "high_us": 3.6,
    "samples": 60,
}
LAUNCH: dict[str, object] = {
    **dict.fromkeys(("bytes", "flops", "gb_per_s", "cpu_us", "percent_of_peak", "traced_us"), 9.0),
    **dict.fromkeys(("bytes_from", "flops_from"), "estimate"),
    "call": 0,
    "cache": "cold",
    "grid": [1, 1, 1],
    "block": [128, 1, 1],
    "count": 3,
    "inputs": "float32 8",
    "warnings": ["it was slow"],
    "clocks": {"low_mhz": 1, "slowed_by": ["heat"]},
    "kernels": [FIGURES | {"per_call": 1}],
}
TIMED = {
    "taken": "2026-01-01T00:00:00+00:00",
    "device": {"name": "H200", "torch": "2", "triton": "3"},
    "peaks": [{"stopwatch": "cupti", "cache": "cold", "gb_per_s": 4000.0, "bytes": 1 << 30}],
    "data_sheet_gb_per_s": 4800.0,
    "rows": [
        FIGURES | LAUNCH | {"kind": kind, "stopwatch": watch, "error": error}
        for kind, watch, error in (
            ("triton", "cupti", None),
            ("graph", "cupti", "no memory"),
            ("triton", "event", None),
        )
    ],
}


@pytest.fixture(autouse=True)
def few_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that has colours, which the user does not want: what is red is a stranger's."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")


opened: dict[tuple[object, ...], ProfiledRecording] = {}
"""What was opened in this test, by the command's words and the state of every file it may see."""


def state(path: Path) -> tuple[object, ...]:
    below = path.rglob("*") if path.is_dir() else path.parent.iterdir()
    found = [(str(each), each.lstat()) for each in below]
    return tuple(sorted((name, how.st_mtime_ns, how.st_size, how.st_ino) for name, how in found))


@pytest.fixture(autouse=True)
def opened_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A recording is read once for all commands: what they make of each field is what is tested.

    The recording that others are compared with is the same for every test.
    """
    own = common.open_profiled

    def shared(
        path: str | None,
        device: str | None = None,
        reports: Sequence[str] = (),
        other_paths: Sequence[str] = (),
    ) -> ProfiledRecording:
        if path is None or other_paths:
            return own(path, device, reports, other_paths)
        where = state(Path(path)) if Path(path).exists() else ()
        key = (path, device, tuple(reports), where, *(state(Path(r)) for r in reports))
        if key not in opened:
            opened[key] = own(path, device, reports)
        return opened[key]

    for module in (common, list_command):
        monkeypatch.setattr(module, "open_profiled", shared)
    yield
    for key in [key for key in opened if key[0] != str(SAMPLE)]:
        del opened[key]


def commands(path: Path, *, kernel: str = SQUARE, recording: bool = True) -> Iterator[list[str]]:
    where = str(path)
    yield ["list", where]
    for how in ("--calls", "--compiles", "--guards", "--json"):
        yield ["list", where, how]
    yield ["open", where, "--no-tui"]
    one = ["show", where, *([kernel] if kernel else [])]
    for stage in ("source", "output_code", "ttir", "sass"):
        yield [*one, "--stage", stage]
    yield [*one, "-a"]
    yield [*one, "-a", "--stage", "ttgir"]
    yield [*one, "--json"]
    yield [*one, "--beside", "ttgir"]
    run = ["--grid", "2", "--threads", "128"]
    yield ["trace", *one[1:], "--blocks", "1", "--by", "source", *run]
    yield ["step", *one[1:], "--commands", "next 9; registers; list; end", *run]
    yield ["show", where, "*nowhere*"]
    yield ["diff", where, str(SAMPLE)]
    yield ["diff", where, str(SAMPLE), "--markdown"]
    yield ["diff", f"{where}::{kernel}", f"{SAMPLE}::{SQUARE}"]
    yield ["diff", f"{where}::{kernel}", f"{SAMPLE}::{SQUARE}", "--markdown"]
    if recording:
        yield ["diff", where, "matmul_kernel*"]
        yield ["time", where, "--stored"]
        yield ["profile", "--stored", where]
        yield ["profile", "--stored", where, "--json"]


def verbatim(words: list[str]) -> bool:
    """Whether a pipe gets the text of a stage as it stands, and only that."""
    return words[0] == "show" and not {"-a", "--json", "--beside"} & set(words)


def assert_harmless(words: list[str]) -> None:
    """The command obeys its contract and no byte of it is obeyed by a terminal."""
    piped = call(*words)
    assert_sane(words, piped)
    assert not list(obeyed(piped.err)), (words, *obeyed(piped.err))
    print(words, piped.status)
    if not (verbatim(words) and piped.status == 0):
        assert not list(obeyed(piped.out)), (words, *obeyed(piped.out))
    if "--json" in words:
        assert piped.out.isascii()
    else:
        sent = on_pty(*words)
        assert_sane(words, sent)
        assert not list(obeyed(sent.out, colours=True)), (words, *obeyed(sent.out, colours=True))


def assert_sane(words: list[str], done: Done) -> None:
    assert "Traceback" not in done.said and "fault of ptxview" not in done.said, (words, done.said)
    assert done.status in (0, 1, 2, 3, 4), (words, done.said)


def poisoned(value: Any, before: bool = False) -> Any:
    """A text that is put to harm; what is no text stays what it is."""
    if not isinstance(value, str):
        return value
    return EVIL + value if before else value + EVIL


def test_a_recording_that_nobody_has_touched_answers_everything(tmp_path: Path) -> None:
    """What is tried below is tried on something that works."""
    path = written(tmp_path / "r", lambda name, value: value, TIMED)
    good = [words for words in commands(path) if call(*words).status == 0]
    asked = [w for w in commands(path) if not {"*nowhere*", "output_code"} & set(w)]
    assert len(asked) > 20
    assert [(w, call(*w).said) for w in asked if w not in good] == []


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_field_of_a_recording_is_obeyed(tmp_path: Path, batch: int) -> None:
    """Each field is put to harm once, together with others."""
    chosen = {name for name in all_names() if zlib.crc32(name.encode()) % BATCHES == batch}

    def change(name: str, value: Any) -> Any:
        return poisoned(value, before=batch % 2 == 1) if name in chosen else value

    path = written(tmp_path / "r", change, evil_times(batch))
    asked = list(commands(path))
    assert chosen and len(asked) > 20
    for words in asked:
        assert_harmless(words)


def evil_times(number: int) -> Any:
    """Kept times of which a part of the texts is put to harm."""
    return fields(
        TIMED,
        "",
        lambda name, value: (
            poisoned(value) if zlib.crc32(name.encode()) % BATCHES == number else value
        ),
    )


def evil_texts(text: str) -> Iterator[str]:
    """The text with something evil after the first or the third word of all of its lines."""
    for word in (0, 2):
        out = []
        for line in text.split("\n"):
            parts = line.split(" ")
            at = min(len(parts) - 1, len(line) - len(line.lstrip()) + word)
            parts[at] += EVIL
            out.append(" ".join(parts))
        yield "\n".join(out)


@pytest.mark.parametrize("suffix", first_by_day(["ptx", "ttgir", "source"]))
def test_no_word_of_a_listing_is_obeyed(tmp_path: Path, suffix: str) -> None:
    folder = LECTURE / "triton" / "QGNHRXZLHGC2YJ4RCQ27CD3XUW3TPV3OLG4XBHLEQZCPY2R2NZDA"
    text = (folder / f"square_kernel.{suffix}").read_text("utf-8")
    kept = MATMUL / f"matmul_kernel.{'ptx' if suffix == 'source' else suffix}"
    given: dict[str, Any] = {f"square_kernel_param_{n}": np.int32(64) for n in range(7)}
    given |= {f"square_kernel_param_{n}": np.zeros(4096, np.float32) for n in range(2)}
    np.savez(tmp_path / "given.npz", **given)
    launch = ["--grid", "1", "--threads", "128", "--inputs", str(tmp_path / "given.npz")]
    texts = list(evil_texts(text))
    assert len(texts) == 2
    for n, evil in enumerate(texts):
        path = tmp_path / f"x{n}\x1b[2J.{'ttir' if suffix == 'source' else suffix}"
        data = (
            evil.replace("\ud800", "\udcff").replace("\x00", "").encode("utf-8", "surrogateescape")
        )
        path.write_bytes(data)
        done = call("show", path)
        assert done.out == data, ("to a pipe, byte for byte", done.said)
        for name, *more in (
            ["list"],
            ["show"],
            ["show", "-a"],
            ["diff", str(kept)],
            ["diff", str(kept), "--markdown"],
            ["trace", *launch],
            ["step", "--commands", "end; list 99", *launch],
        ):
            assert_harmless([name, str(path), *more])


FILE = os.fsdecode(b"\x1b]0;T\x07\x1b[2J\xc2\x9b31m\x9b\xff\r\b")
"""A hostile file name."""


def test_no_field_of_a_trace_of_torch_is_obeyed(tmp_path: Path) -> None:
    (log,) = (LECTURE / "trace").iterdir()
    lines = log.read_text("utf-8").split("\n")
    for kind in ("head", "payload"):
        out = []
        for line in lines:
            if kind == "payload" and line.startswith("\t"):
                line += EVIL.replace("\r", "")
            if kind == "head" and "{" in line and not line.startswith("\t"):
                start = line.index("{")
                try:
                    said = json.loads(line[start:])
                except ValueError:
                    continue
                line = line[:start] + json.dumps(_each(said))
            out.append(line)
        folder = tmp_path / kind
        folder.mkdir()
        data = "\n".join(out).replace("\ud800", "").encode("utf-8", "surrogateescape")
        (folder / log.name).write_bytes(data)
        (folder / f"dedicated_log_torch_trace_{FILE}.log").write_bytes(data)
        asked = list(commands(folder, kernel="", recording=False))
        assert len(asked) > 15
        for words in asked:
            assert_harmless(words)


def _each(said: Any) -> Any:
    if isinstance(said, dict):
        return {k: _each(v) for k, v in said.items()}
    if isinstance(said, list):
        return [_each(v) for v in said]
    return poisoned(said)


def test_nothing_that_is_typed_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of the command line come from scripts and from completion, and are quoted in errors."""
    evil = EVIL.replace("\x00", "").replace("\ud800", "")
    monkeypatch.setenv("PATH", f"{tmp_path}/{FILE}:{os.environ['PATH']}")
    for words in (
        [evil],
        [f"--{evil}"],
        ["list", evil],
        ["show", evil],
        ["show", str(SAMPLE), evil],
        ["diff", evil, evil],
        ["diff", str(SAMPLE), "matmul_kernel", "--sort", evil],
        ["explain", evil],
        ["explain", f"ld{evil}.global.b32 %r1, [%rd1];"],
        ["explain", "--list", evil],
        ["time", str(SAMPLE), evil],
        ["time", "--stopwatch", evil],
        ["profile", "--stored", evil],
        ["show", str(SAMPLE), SQUARE, "--device", evil],
        ["open", "--port", evil],
        ["run", "--target", evil, "x.py"],
        ["doctor", "--python", evil],
        ["ncu", evil],
        ["trace", str(SAMPLE), SQUARE, "--inputs", evil],
        ["trace", str(SAMPLE), SQUARE, "--blocks", evil],
        ["step", str(SAMPLE), SQUARE, "--commands", f"{evil}; print {evil}; store {evil}"],
    ):
        piped, sent = call(*words), on_pty(*words)
        for done in (piped, sent):
            assert "Traceback" not in done.said and "fault of" not in done.said, (words, done.said)
            assert not list(obeyed(done.err, colours=True)), words
            assert not list(obeyed(done.out, colours=True)), words


def test_a_line_of_progress_rewrites_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    read_now = Summaries.read_now

    def read_slowly(summaries: Summaries, variant: Variant) -> VariantSummary:
        time.sleep(0.2)
        return read_now(summaries, variant)

    monkeypatch.setattr(Summaries, "read_now", read_slowly)
    sent = on_pty("list", SAMPLE, "--by", "cost").out.decode("utf-8")
    progress = sent[: sent.index("NVIDIA")].split("\x1b[?25h")[0].removesuffix("\n")
    turns = progress.split("\r\x1b[2K")
    assert len(turns) > 2 and any("counting hints" in turn for turn in turns)
    assert "\n" not in progress
