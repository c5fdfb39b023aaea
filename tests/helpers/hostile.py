"""What strangers may send: a recording of which every field can be put to harm, and a terminal.

A field is known by its place: the event's kind and the names on the way, in any list
in; the names of maps that the program chose are fields too.
"""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import json
import os
import pty
import re
import threading
import tty
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from inspector.commands.cli import main
from tests.helpers.profile_traces import Made
from tests.helpers.ptxview import SAMPLE, Done

ROOT = Path(__file__).parents[2]
SQUARE = "a4fe74f3"
"""The beginning of the hash of the recording's kernel that is looked at."""
WHOLE = "a4fe74f336aad167097769e40db9610e8cab356672f88ef46340129e8d8befe4"

EVIL = "\x1b]0;T\x07\x1b[2J\x1b[31m\x9b31m\u202e\u200f\u2066\u2028\x85\udc9b\ud800\r\b\x7f\x00"
"""A title, an erased screen, a colour, C1's CSI, marks of direction, halves of characters, more."""

Change = Callable[[str, Any], Any]
"""What becomes of a field of that name, whose value it is given."""

KEPT = {"square_kernel", "matmul_kernel", "triton_poi_fused_add_mul_pow_0"}
MORE: list[dict[str, Any]] = [
    {"event": "problem", "where": "probe", "text": "it went wrong"},
    {"event": "triton_failed", "name": "bad_kernel", "error": "too many registers\nno more"},
    {"event": "triton_failed", "name": "worse_kernel", "hash": "ba" * 32, "stage": "sass",
     "kind": "PTXASError", "tool": "ptxas", "message": "no such instruction", "error": "it failed",
     "messages": [{"severity": "error", "message": "no such instruction", "tool": "ptxas",
                   "file": "x.py", "line": 3, "column": 4, "text": "mulx"}],
     "metadata": {"num_warps": 4, "target": {"arch": 90}}, "constexprs": {"B": 4},
     "signature": {"p": "*fp32"}, "command": "ptxas x.ptx", "log": None, "files": {},
     "source": {"file": "x.py", "first": 1, "last": 2}},
    {"event": "triton_said", "hash": "ba" * 32, "stage": "llir", "tool": "triton",
     "message": "unsupported", "messages": [{"severity": "note", "message": "here",
                                             "tool": "triton", "file": "x.py", "line": 1}]},
    {"event": "graph_failed", "frame_id": 7, "frame_compile_id": 0, "graph": "7_inference",
     "stage": "ir_pre_fusion", "kind": "LoweringException", "tool": "torch", "message": "no form",
     "messages": [{"severity": "error", "message": "no form", "tool": "torch", "file": "x.py",
                   "line": 5}]},
    {"event": "not_loaded", "hash": SQUARE, "error": "OutOfResources: threads", "required": 2048,
     "limit": 1024, "resource": "threads"},
    {"event": "not_launched", "name": "sq\x1b[31m", "symbol": "square_kernel", "hash": SQUARE,
     "kind": "cudaErrorInvalidValue", "error": "invalid argument: \x1b[2J", "required": 2048,
     "limit": 64, "resource": "threads", "grid": [1, 1, 1], "block": [2048, 1, 1]},
    {"event": "autotune_failed", "name": "bad_kernel", "error": "none was left", "hash": SQUARE},
    {"event": "profile", "pid": 424, "trace": "the trace", "mode": "steps", "by": "ptxview",
     "began": 1.0, "ended": 2.0, "seen": 3, "torch": "2.11.0",
     "ended_by": "steps", "rank": 0, "seconds": 10.0,
     "step": {"kind": "optimizer", "name": "AdamW"}, "schedule": {"wait": 1, "active": 2},
     "stacks": True, "gpu": True},
    {"event": "profile_facts", "pid": 424, "facts": [{"kind": "compile", "file": "x.py", "line": 3,
     "name": "f"}]},
    {"event": "compiled", "file": "square.py", "language": "triton", "target": "sm_90",
     "options": "num_warps=8", "kernel": "square_kernel", "config": {"BLOCK": 1024},
     "signature": "x: *fp32", "hash": WHOLE, "symbols": ["square_kernel"], "seconds": 0.5,
     "tool": "triton 3.9", "failed": "it did not compile",
     "messages": [{"severity": "warning", "message": "it is unused", "tool": "ptxas", "file": "ptx",
                   "line": 40, "column": 3, "text": "st.global.b32 [%rd1], %r1;"}]},
    {"event": "compile_start", "pid": 424, "frame_id": 0, "frame_compile_id": 1,
     "stack": [{"file": "/home/me/x.py", "line": 3, "name": "f", "code": "y = x * n"}]},
    {"event": "compile_end", "pid": 424, "frame_id": 0, "frame_compile_id": 1,
     "kind": "compilation_metrics", "figures": {"co_name": "f", "co_filename": "/home/me/x.py",
     "co_firstlineno": 3, "start_time": 1000.0, "duration_us": 2000000, "guard_count": 4,
     "fail_reason": "it did not compile"}},
    {"event": "compile_phases", "pid": 424, "frame_id": 0, "frame_compile_id": 1,
     "marks": [["B", "dynamo", 1e9], ["E", "dynamo", 1.002e9]]},
    {"event": "compile_cache", "pid": 424, "frame_id": 0, "frame_compile_id": 1,
     "name": "fx_graph_cache_bypass", "said": {"key": "f3", "cache_bypass_reason": "it may not",
     "time_saved_ns": 1000}},
    {"event": "symbol", "pid": 424, "frame_id": 0, "frame_compile_id": 1,
     "kind": "symbolic_shape_specialization", "said": {"symbol": "s0", "sources": ["L['x']"],
     "value": "24", "reason": "it is one", "vr": "[2, 24]", "expr": "Eq(s0, 24)"},
     "stack": [{"file": "/home/me/x.py", "line": 4, "name": "f", "code": "if n == 24:"}]},
    {"event": "graph_break", "pid": 424, "frame_id": 0, "frame_compile_id": 1, "attempt": 0,
     "blob": "the break"},
    {"event": "recompile", "pid": 424, "frame_id": 0, "frame_compile_id": 1, "blob": "the guards"},
    {"event": "guards", "pid": 424, "frame_id": 0, "frame_compile_id": 1, "blob": "all guards"},
    {"event": "autotune", "pid": 424, "tuning": 900, "by": "inductor", "operation": "mm",
     "name": "mm(8x8, 8x8)", "key": {"sizes": "8x8, 8x8", "dtypes": "float16"}, "winner": 0,
     "configurations": [{"config": {"choice": "mm", "BLOCK_M": 16}, "maker": "ATen",
     "file": "/x/c.py", "times_ms": [0.5], "reason": None}, {"config": {"choice": "triton_mm"},
     "maker": "Triton", "times_ms": None, "reason": "failed: OutOfResources"}]},
]  # fmt: skip


EVIL_BYTES = EVIL.encode("utf-8", "surrogatepass")
BREAK = b"""Graph break in user code at /x.py:3
Reason: EVIL
  Explanation: EVIL
  Hint: EVIL
User code traceback:
  File "/xEVIL", line 3, in f
    y = EVIL
""".replace(b"EVIL", EVIL_BYTES)
AGAIN = b"0/0: n == 3  # " + EVIL_BYTES + b"  # x.py:5 in f"
GUARDS = b"| +- EQUALS_MATCH: L['n'] == 3  # " + EVIL_BYTES


@functools.cache
def blobs() -> dict[str, bytes]:
    with zipfile.ZipFile(SAMPLE) as archive:
        found = {n.split("/")[1]: archive.read(n) for n in archive.namelist() if "blobs/" in n}
    return {**found, **{hashlib.sha256(t).hexdigest(): t for t in (BREAK, AGAIN, GUARDS)}}


@functools.cache
def trace(evil: str) -> bytes:
    """The blob of a profiler's trace; ``evil`` is in every name."""
    made = Made()
    for n in range(4):
        path = [f"Optimizer.step#AdamW.step{evil}", f"aten::square{evil}", f"aten::pow{evil}"]
        made.launched(path[: 1 + n % 3], f"square_kernel{evil}", 20.0 * n, 5.0)
        made.cpu(f"compile{evil}", 20.0 * n + 12, 3.0, "user_annotation")
    return gzip.compress(made.json().encode("utf-8", "surrogatepass"), mtime=0)


@functools.cache
def _events() -> tuple[dict[str, Any], ...]:
    with zipfile.ZipFile(SAMPLE) as archive:
        names = sorted(n for n in archive.namelist() if n.endswith(".jsonl"))
        lines = [line for n in names for line in archive.read(n).splitlines()]
    out: list[dict[str, Any]] = []
    calls = 0
    for event in sorted(map(json.loads, lines), key=lambda e: e["event"] != "recording"):
        kind = event["event"]
        calls += kind == "calls"
        few = kind != "triton" or event["name"] in KEPT
        if few and (kind != "calls" or calls < 8):
            out.append(event)
    told = {"graph_break": BREAK, "recompile": AGAIN, "guards": GUARDS}
    named = {kind: hashlib.sha256(text).hexdigest() for kind, text in told.items()}
    more = [{**e, "blob": named[e["event"]]} if e["event"] in told else e for e in MORE]
    return (*out, *more)


def events() -> list[dict[str, Any]]:
    """A recording's events, which may be changed: one of each kind at least."""
    return copy.deepcopy(list(_events()))


def fields(value: Any, name: str, change: Change) -> Any:
    """The value with its fields changed, ``name`` being where it stands."""
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for key, held in value.items():
            # Fields below a name that the program chose are one field.
            below = f"{name}.{key}" if key.isidentifier() and len(value) < 60 else f"{name}.*"
            renamed = key if key == "event" else change(f"{name}{{{key}}}", key)
            out[renamed if isinstance(renamed, str) else key] = fields(held, below, change)
        return out
    if isinstance(value, list):
        return [fields(held, name, change) for held in value]
    return change(name, value)


def names(value: Any, name: str) -> list[str]:
    out: list[str] = []

    def keep(at: str, held: Any) -> Any:
        out.append(at)
        return held

    fields(value, name, keep)
    return out


def written(folder: Path, change: Change, times: object = None, traced: str = "") -> Path:
    """A recording's folder whose fields are changed, with ``times`` and something in its trace."""
    (folder / "blobs").mkdir(parents=True)
    digest = hashlib.sha256(trace(traced)).hexdigest()
    for name, data in {**blobs(), digest: trace(traced)}.items():
        (folder / "blobs" / name).write_bytes(data)
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        for event in events():
            if event.get("trace"):
                event["trace"] = digest
            kind = event["event"]
            changed = {k: fields(v, f"{kind}.{k}", change) if k != "event" else v
                       for k, v in event.items()}  # fmt: skip
            file.write(json.dumps(changed) + "\n")
    if times is not None:
        (folder / "timings.jsonl").write_text(json.dumps(times) + "\n")
    return folder


def all_names() -> list[str]:
    """Where the fields of all events stand, each place once."""
    out = [n for e in _events() for k, v in e.items() if k != "event"
           for n in names(v, f"{e['event']}.{k}")]  # fmt: skip
    return sorted(set(out))


# -- a terminal ----------------------------------------------------------------------------------


LET_THROUGH = "\n\t\u00a0\u3000"
"""What is not printable, as Python has it, and makes a terminal do nothing but go on."""

# Bold, dim and the like, and colours of a table: never the 31 that is put into fields. A line of
# progress hides the cursor and rewrites itself.
OWN = re.compile(r"\x1b\[(?!31m)[0-9;]*m|\x1b\[\?25[lh]|\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")


def on_pty(*args: str | Path) -> Done:
    """``ptxview`` in this process, on a terminal of 100 columns; all that it has sent there."""
    master, slave = pty.openpty()
    tty.setraw(slave)  # a line feed stays one
    chunks: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                data = os.read(master, 1 << 16)
            except OSError:
                return
            if not data:
                return
            chunks.append(data)

    reader = threading.Thread(target=drain)
    reader.start()
    with (
        open(slave, "w", encoding="utf-8", closefd=False) as out,
        redirect_stdout(out),
        redirect_stderr(out),
    ):
        try:
            status = int(main([str(a) for a in args]))
        except SystemExit as stop:
            status = int(stop.code or 0)
    os.close(slave)
    reader.join()
    os.close(master)
    sent = b"".join(chunks)
    return Done(status, sent, sent)


def obeyed(data: bytes, colours: bool = False) -> Iterator[str]:
    """What a terminal would obey in what was sent to it; ``colours`` of our own are let through."""
    text = data.decode("utf-8")  # a terminal gets no half characters: this is an error if it does
    if colours:
        text = OWN.sub("", text)
    rest = text
    for char in LET_THROUGH:
        rest = rest.replace(char, "")
    if rest.isprintable():
        return  # as nearly all of it is, without a look at each character
    for char in text:
        if not (char.isprintable() or char in LET_THROUGH):
            yield f"{char!r} in {text[max(0, text.find(char) - 60) : text.find(char) + 20]!r}"
            return
