"""Verdicts on kernels that are kept with their recording."""

import datetime
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from msgspec import Struct, to_builtins

from inspector.base.model import Recording
from inspector.measure.time.results import from_json
from inspector.recording.layout import VERDICTS, record_file, store_record, stored_records
from inspector.verify.report import VerifyReport
from inspector.verify.verdicts import SEVERITY, Verdict


class KeptVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on a kernel of one call of a graph; errors are shares of the reference's largest
    magnitude. ``variant`` is the hash of the one that was launched."""

    graph: str
    call: int
    kernel: str
    variant: str | None = None
    verdict: Verdict
    reason: str = ""
    max_error: float | None = None
    eager_max_error: float | None = None


class KeptReport(Struct, frozen=True, kw_only=True):
    """What was compared together: when (ISO 8601, UTC), and what the kernels were given."""

    taken: str
    inputs: str
    kernels: tuple[KeptVerdict, ...]


KeptVerdicts = Mapping[tuple[str, str], KeptVerdict]
"""Verdicts by the ids of graph and kernel."""


def store(path: Path, report: VerifyReport) -> str:
    """Keep a report with its recording. Returns why it could not be kept, or ""."""
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    kept = KeptReport(taken=taken, inputs=report.inputs, kernels=_verdicts(report))
    try:
        store_record(path, to_builtins(kept), VERDICTS)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return f"the verdicts are not kept: {record_file(path, VERDICTS)}: {why}"
    return ""


def _verdicts(report: VerifyReport) -> tuple[KeptVerdict, ...]:
    out = []
    for graph in report.graphs:
        for kernel in graph.kernels:
            judgement = kernel.judgement
            out.append(
                KeptVerdict(
                    graph=graph.graph.id,
                    call=graph.call,
                    kernel=kernel.kernel.id,
                    variant=None if kernel.variant is None else kernel.variant.hash,
                    verdict=judgement.verdict,
                    reason=judgement.reason,
                    max_error=judgement.max_error,
                    eager_max_error=judgement.eager_max_error,
                )
            )
    return tuple(out)


def kept_verdicts(path: Path, recording: Recording) -> dict[tuple[str, str], KeptVerdict]:
    """The newest verdict on each kernel of each graph, of several calls the most severe.

    Those of code that the recording does not have are left out: it may have been made again.
    """
    hashes = {variant.hash for _, variant in recording.variants()}
    out: dict[tuple[str, str], KeptVerdict] = {}
    for record in stored_records(path, VERDICTS):
        with suppress(TypeError, ValueError):
            report = cast(KeptReport, from_json(KeptReport, record))
            newest: dict[tuple[str, str], KeptVerdict] = {}
            for kept in report.kernels:
                if kept.variant is None or kept.variant in hashes:
                    key = kept.graph, kept.kernel
                    newest[key] = most_severe(kept, newest.get(key))
            out |= newest
    return out


def verdicts_of_kernels(kept: KeptVerdicts) -> dict[str, KeptVerdict]:
    """The most severe verdict on each kernel, by its id."""
    out: dict[str, KeptVerdict] = {}
    for (_, kernel), verdict in kept.items():
        out[kernel] = most_severe(verdict, out.get(kernel))
    return out


def verdicts_of_variants(kept: KeptVerdicts, recording: Recording) -> dict[str, KeptVerdict]:
    """The most severe verdict on each variant, by its hash.

    Where it is not known which variant was launched, every one of the kernel's that was.
    """
    launched = {
        kernel.id: [variant.hash for variant in kernel.variants if variant.launches]
        for kernel in recording.kernels
    }
    out: dict[str, KeptVerdict] = {}
    for verdict in kept.values():
        hashes = [verdict.variant] if verdict.variant else launched.get(verdict.kernel, [])
        for variant_hash in hashes:
            out[variant_hash] = most_severe(verdict, out.get(variant_hash))
    return out


def most_severe(verdict: KeptVerdict, other: KeptVerdict | None) -> KeptVerdict:
    """The verdict that is harder to explain; the first of two that are alike."""
    if other is None or SEVERITY.index(verdict.verdict) > SEVERITY.index(other.verdict):
        return verdict
    return other
