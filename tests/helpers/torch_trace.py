"""Writes TORCH_TRACE folders of records."""

import json
from collections.abc import Mapping
from pathlib import Path

NAME = "dedicated_log_torch_trace_specimen.log"
HEAD = "V1128 14:36:30.472000 18048 torch/_inductor/codecache.py:2616] "


def trace(folder: Path, *records: tuple[Mapping[str, object], str]) -> Path:
    """A TORCH_TRACE folder with records and their payloads."""
    rows = []
    for record, payload in records:
        rows.append(HEAD + json.dumps(record))
        rows += [f"\t{line}" for line in payload.split("\n") if payload]
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_text("\n".join(rows) + "\n")
    return folder
