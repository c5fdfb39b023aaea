"""Typed rows of a recording as JSON, and the document of ``list --json``.

A field is a key of the JSON, in its order. None is unknown, never 0.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from inspector.base.model import Compilation, Kernel, Recording, Unwatched
from inspector.render.graph_rows import graph_row
from inspector.render.json_rows import (
    NO_MEASURES,
    KernelRow,
    MeasuresOf,
    ResourcesOf,
    kernel_row,
    named_call_json,
)
from inspector.render.jsons import SCHEMA, pick_fields
from inspector.verify.verdicts import Verdict


class UncapturedRow(Struct, frozen=True):
    """A kernel that was compiled, and not recorded."""

    name: str
    by: str


class RecordingRow(Struct, frozen=True, kw_only=True):
    """What is recorded beside kernels, graphs and calls."""

    path: str
    command: tuple[str, ...] | None
    started: str | None
    exit_status: int | None
    complete: bool
    tools: Mapping[str, str]
    device: Mapping[str, object] | None
    mode: str
    target: str | None
    removed: tuple[str, ...]
    environment: Mapping[str, str]
    problems: tuple[str, ...]
    uncaptured: list[UncapturedRow]
    unwatched: tuple[Unwatched, ...]
    unmade: list[object]


def recording_row(rec: Recording) -> RecordingRow:
    return RecordingRow(
        path=rec.path,
        command=rec.command,
        started=rec.started,
        exit_status=rec.exit_status,
        complete=rec.complete,
        tools=rec.tools,
        device=rec.device,
        mode=rec.mode,
        target=rec.target,
        removed=rec.removed,
        environment=rec.environment,
        problems=rec.problems,
        uncaptured=[UncapturedRow(kernel.name, kernel.compiler) for kernel in rec.uncaptured],
        unwatched=rec.unwatched,
        unmade=[],
    )


def recording_document(
    rec: Recording,
    resources_of: ResourcesOf,
    measures_of: MeasuresOf = lambda kernel, variant: NO_MEASURES,
    rows: Callable[[Iterable[object]], object] = list,
    verdicts: Mapping[str, Verdict] | None = None,
) -> dict[str, object]:
    """Return the document of ``list``: the recording, its graphs, kernels and variants.

    Args:
        resources_of: the resources of a variant.
        measures_of: what is read or measured of a variant.
        rows: makes the list of kernels; ``Rows`` makes each while it is written.
        verdicts: those of ``verify`` by the id of the kernel.
    """

    def row(kernel: Kernel) -> KernelRow:
        return kernel_row(kernel, resources_of, measures_of, (verdicts or {}).get(kernel.id))

    return {
        "schema": SCHEMA,
        "recording": recording_row(rec),
        "graphs": list(map(graph_row, rec.graphs)),
        "kernels": rows(map(row, rec.kernels)),
        "calls": list(map(named_call_json, rec.calls)),
        "compilations": list(map(compilation_json, rec.compilations)),
    }


def compilation_json(compilation: Compilation) -> dict[str, object]:
    """One attempt to compile a file, or a kernel of it."""
    return pick_fields(compilation) | {"signature": compilation.signature or None}
