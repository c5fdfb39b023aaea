"""Has a child process with torch compute the operators of tasks, and judges what it finds."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Variant
from inspector.reader import tables
from inspector.sources.compilers import by_probes
from inspector.system import files
from inspector.system.process import run_tool
from inspector.verify.launches import TensorValue
from inspector.verify.tasks import Comparison, LaunchTask
from inspector.verify.verdicts import Judgement, judge, not_compared

BATCH_BYTES = 256 << 20
"""Bytes of tensors that are written to disk for one child at most, but for one launch alone."""
BATCH_SECONDS = 3600.0
COARSE = {"tanh": "tanh.approx", "sin": "sin.approx", "cos": "cos.approx"}
"""Operators that an approximate instruction computes alone."""
TF32 = "tf32"
TF32_ERROR = 2.0**-10
"""Relative error of a product whose factors are rounded to the ten bits of TF32."""
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution")


class JudgedLaunch(Struct, frozen=True):
    """A launch with the judgement on it."""

    task: LaunchTask
    judgement: Judgement


CoarseWords = Callable[[Variant | None], Sequence[str]]
"""Returns the opcodes of a variant's approximate instructions."""


def judged(
    tasks: Sequence[LaunchTask],
    python: str,
    coarse_words: CoarseWords,
    tell: Callable[[int, int], None] = lambda done, total: None,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[JudgedLaunch]:
    """The judgement on each task, in order.

    ``tell`` is called with the number of tasks judged and their total. Raises ``ToolMissing`` where
    the interpreter cannot be started, ``Unreadable`` where the child does not come to its end,
    ``Stopped`` where ``go_on`` says no.
    """
    done = 0
    for batch in _batches(tasks):
        figures = _figures(batch, python, coarse_words, go_on)
        for task in batch:
            yield JudgedLaunch(task, _judgement(task, figures.get(id(task)), coarse_words))
            done += 1
        tell(done, len(tasks))


def _batches(tasks: Sequence[LaunchTask]) -> Iterator[list[LaunchTask]]:
    batch: list[LaunchTask] = []
    size = 0
    for task in tasks:
        task_bytes = 0 if task.comparison is None else task.comparison.bytes
        if batch and size + task_bytes > BATCH_BYTES:
            yield batch
            batch = []
            size = 0
        batch.append(task)
        size += task_bytes
    if batch:
        yield batch


def _figures(
    batch: Sequence[LaunchTask],
    python: str,
    coarse_words: CoarseWords,
    go_on: Callable[[], bool],
) -> dict[int, Mapping[str, Any]]:
    """The child's record of each task that is compared, by the task's identity."""
    out: dict[int, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="ptxview-verify-") as name:
        folder = Path(name)
        remaining: list[tuple[LaunchTask, dict[str, Any]]] = []
        for number, task in enumerate(batch):
            if task.comparison is None:
                continue
            try:
                words = coarse_words(task.launch.variant)
                remaining.append((task, _job(folder, number, task.comparison, words)))
            except Unreadable as error:
                out[id(task)] = {"why": error.message}
        while remaining:
            records, why = _run_child(folder, [job for _, job in remaining], python, go_on)
            answered = {record["n"]: record for record in records if "n" in record}
            for number, (task, _) in enumerate(remaining):
                if number in answered:
                    out[id(task)] = answered[number]
            begun = max((r["begin"] for r in records if "begin" in r), default=-1)
            if begun < 0:
                raise Unreadable("the operators could not be computed", why)
            if begun not in answered:  # the child ended within this task
                ended = remaining[begun][0]
                out[id(ended)] = {"why": f"computing its operators ended: {why}"}
            remaining = remaining[begun + 1 :]
    return out


def _run_child(
    folder: Path, tasks: Sequence[Mapping[str, Any]], python: str, go_on: Callable[[], bool]
) -> tuple[list[dict[str, Any]], str]:
    """A child's records, and why it ended early, or ""."""
    job = {"rounding": tables.table("operator_rounding"), "tasks": tasks}
    job_file = folder / "job.json"
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    job_file.write_text(json.dumps(job), "utf-8")
    argv = by_probes(python, "verify.session", job_file, results)
    finished = run_tool(argv, seconds=BATCH_SECONDS, go_on=go_on)
    try:
        records = [record for record in files.records(results) if isinstance(record, dict)]
    except Unreadable:
        records = []
    if finished.status == 0:
        return records, ""
    lines = finished.complaint.strip().splitlines()
    return records, lines[-1] if lines else f"the process ended with status {finished.status}"


def _job(folder: Path, number: int, comparison: Comparison, words: Sequence[str]) -> dict[str, Any]:
    """A task of the child's, with its tensors as files. Raises ``Unreadable`` for a damaged one."""

    def described(file_name: str, label: str, tensor: TensorValue) -> dict[str, Any]:
        path = folder / f"{number}-{file_name}"
        try:
            path.write_bytes(tensor.read())
        except Unreadable:
            raise Unreadable(f"its kept {label} is damaged") from None
        return {
            "label": label,
            "file": str(path),
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "strides": list(tensor.strides),
        }

    inputs = {
        name: described(f"in{n}", f"input {name}", tensor)
        for n, (name, tensor) in enumerate(comparison.inputs.items())
    }
    outputs = [
        (node, described(f"out{n}", f"output {parameter}", tensor))
        for n, (parameter, node, tensor) in enumerate(comparison.outputs)
    ]
    return {
        "nodes": list(comparison.nodes),
        "inputs": inputs,
        "sizes": dict(comparison.sizes),
        "combined": {name: list(nodes) for name, nodes in comparison.combined.items()},
        "unread": dict(comparison.unread),
        "outputs": outputs,
        "coarse": coarse_errors(words),
        "roundings": list(comparison.roundings),
    }


def coarse_errors(words: Sequence[str]) -> dict[str, float]:
    """Relative errors by operator of a kernel with these approximate instructions."""
    table = tables.table("approximate")
    out: dict[str, float] = {}
    for operator, beginning in COARSE.items():
        opcodes = [word for word in words if word.startswith(beginning)]
        bounds = [table[o] for o in opcodes if o in table]
        powers = [b.get("relative", b.get("absolute")) for b in bounds]
        known = [power for power in powers if power is not None]
        if known:
            out[operator] = 2.0 ** max(known)
    if any(TF32 in word for word in words):
        out |= dict.fromkeys(PRODUCTS, TF32_ERROR)
    return out


def _judgement(
    task: LaunchTask, record: Mapping[str, Any] | None, coarse_words: CoarseWords
) -> Judgement:
    if task.comparison is None:
        return not_compared(task.why)
    if record is None or "outputs" not in record:
        return not_compared("its operators were not computed" if record is None else record["why"])
    return judge(
        task.comparison.nodes,
        [parameter for parameter, _, _ in task.comparison.outputs],
        record["outputs"],
        tables.table("operator_rounding"),
        coarse_words(task.launch.variant),
    )


def coarse_words_of(read_opcodes: Callable[[Variant], Sequence[str]]) -> CoarseWords:
    """The approximate opcodes of variants, by their PTX."""
    table = tables.table("approximate")

    def words(variant: Variant | None) -> Sequence[str]:
        if variant is None:
            return ()
        try:
            opcodes = read_opcodes(variant)
        except PtxviewError:
            return ()
        plain = {opcode: opcode.replace(".ftz", "") for opcode in opcodes}
        return tuple(
            plain[o]
            for o in opcodes
            if plain[o] in table or (TF32 in o and o.startswith(("mma", "wgmma")))
        )

    return words
