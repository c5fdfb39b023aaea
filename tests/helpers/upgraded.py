"""Kernels of the lecture's recording with a small report of ``upgrade`` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspector.recording.layout import UPGRADES, store_record
from inspector.sources.opening import open_path
from tests.helpers.ptxview import SAMPLE, call

CHANGED = (WORSE, TRIED) = ("square_matrix_kernel", "gelu_kernel")
GONE = "lost_kernel"
EVIL = "\x1b]0;T\x07<b>"


def upgraded(folder: Path) -> Path:
    """The copy. Two variants changed, one that it lacks did, one no longer compiles."""
    path = folder / "new.ptxview"
    # Without launches there is no time to be estimated.
    assert call("export", SAMPLE, *CHANGED, "gelu_float_kernel", "-o", path).status == 0
    found = {kernel.display_name: variant for kernel, variant in open_path(path).variants()}
    changes = [
        _change(WORSE, found[WORSE].id, {"registers": (24, 32), "occupancy": (100.0, 62.5)}),
        _change(TRIED, found[TRIED].id, {"spills": (0, 8)}, in_use=False, estimates_us=[]),
        _change(GONE, "00000000", {"instructions": (7, 9)}, estimates_us=[]),
    ]
    keys = [(found[name].hash, found[name].symbol) for name in CHANGED]
    edits = [
        {"stage": "ptx", "gone": [], "come": [f"add.s{n}"], "variants": n, "instructions": 4 * n}
        for n in range(15, 0, -1)
    ]
    edits[0] |= {"gone": ["mad.lo.s32"], "variants": 2}
    refused = {"kernel": "gelu_float_kernel", "variant": "2e569683", "compiled_before": True}
    report: dict[str, Any] = {
        "schema": 1,
        "a": str(folder / "old.ptxview"),
        "b": str(path),
        "versions": {"triton": [["3.6.0", "3.7.1"]]},
        "compared": 16,
        "same": 11,
        "reordered": 1,
        "alone": 0,
        "edits": edits,
        "changes": changes,
        "failed": [{**refused, "reason": f"out of registers {EVIL}"}],
        "check": None,
    }
    record = {"taken": "2026-01-01T12:00:00+00:00", "report": report}
    store_record(path, {**record, "variants": [*keys, ("0" * 64, GONE)]}, UPGRADES)
    return path


def _change(name: str, variant: str, figures: dict[str, Any], **fields: Any) -> dict[str, Any]:
    estimates_us = [(30.0, 28.0, 33.0), (31.0, 29.0, 34.0)]
    row = {"kernel": name, "variant": variant, "in_use": True, "first": "ttgir", "edits": 3}
    return {**row, "figures": figures, "estimates_us": estimates_us, **fields}
