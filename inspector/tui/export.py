"""A listing as a text file, with its card, its hints and what is told of each line."""

from __future__ import annotations

import re
from pathlib import Path

from inspector.model import Stage, Variant
from inspector.report import annotated, card
from inspector.tui.reads import Reads
from inspector.tui.subject import Subject

WIDTH = 160
LONGEST = 60
_ENDINGS = {Stage.SOURCE: ".py", Stage.OUTPUT_CODE: ".py"}


def file_name(subject: Subject, stage: Stage, ending: str) -> str:
    """A name that every file system takes: ``square_kernel-3f2a91c0.ptx`` and ``ending``."""
    kernel = "" if subject.kernel is None else subject.kernel.name
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kernel or subject.name).strip("._-")[:LONGEST]
    ident = "" if subject.variant is None else f"-{subject.variant.id}"
    own = re.sub(r"[^A-Za-z0-9_-]+", "_", ident)[:LONGEST]
    return f"{name or 'kernel'}{own}{_ENDINGS.get(stage, f'.{stage.value}')}{ending}"


def save(path: Path, data: bytes) -> Path:
    """Write a new file and say where: ``path``, or with a number where something of that name lies
    there, a link that leads nowhere too. Nothing is lost, and nothing written elsewhere.

    Raises ``OSError`` where it cannot be written.
    """
    number, free = 1, path
    while True:
        try:
            with free.open("xb") as file:
                file.write(data)
            return free
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")


def text_of(reads: Reads, subject: Subject, variant: Variant, stage: Stage) -> str:
    """The text; called in a thread."""
    listing = reads.listing(variant, stage)
    telling = reads.telling(variant, stage)
    head = [f"{subject.name}  {variant.id}  {variant.target or ''}  {stage.value}"]
    head += [f"  {row}" for row in card.lines(reads.card(variant), width=WIDTH)]
    head += [annotated.hint(finding).plain for finding in reads.findings(variant)]
    rows = [row.plain.rstrip() for row in annotated.rows(listing.lines, telling, WIDTH)]
    return "\n".join([*head, "", annotated.heading(telling), *rows, ""])
