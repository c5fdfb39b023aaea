"""Listings as files: in the user's editor, and saved with their annotations."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from inspector.base.errors import UsageError
from inspector.base.model import Stage, Variant
from inspector.reader.reader import Reader
from inspector.system.toolchain import which
from inspector.tui.widgets.subject import TreeSubject

WIDTH_CELLS = 160
MAX_NAME_CHARS = 60
_ENDINGS = {Stage.SOURCE: ".py", Stage.OUTPUT_CODE: ".py"}

TRIED = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
"""Stages that go through the rest of a compiler where they were edited."""

UNTRIED = {
    Stage.SOURCE: "it is a copy, since the file is not where it was recorded",
    Stage.OUTPUT_CODE: "Inductor writes it again",
    Stage.SASS: "nothing assembles it",
}

GOTO_EDITORS = frozenset(("code", "code-insiders", "code-server", "codium", "vscodium", "cursor"))
"""Editors that take the line with the path: VS Code and its derivatives."""


def file_name(subject: TreeSubject, stage: Stage, ending: str) -> str:
    """Return a name that every file system takes: ``square_kernel-3f2a91c0.ptx`` and ``ending``."""
    kernel = "" if subject.kernel is None else subject.kernel.name
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kernel or subject.name).strip("._-")[:MAX_NAME_CHARS]
    ident = "" if subject.variant is None else f"-{subject.variant.id}"
    own = re.sub(r"[^A-Za-z0-9_-]+", "_", ident)[:MAX_NAME_CHARS]
    return f"{name or 'kernel'}{own}{_ENDINGS.get(stage, f'.{stage.value}')}{ending}"


def save(path: Path, data: bytes) -> Path:
    """Write a new file and return its path, with a number where that name is taken.

    Nothing is overwritten, and no link is followed. Raises ``OSError``.
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


def text_of(reads: Reader, subject: TreeSubject, variant: Variant, stage: Stage) -> str:
    """Return a listing with its card, its hints and line annotations; called in a thread."""
    from inspector.report import card

    listing = reads.listing(variant, stage)
    annotations = reads.line_annotations(variant, stage)
    head = [f"{subject.name}  {variant.id}  {variant.target or ''}  {stage.value}"]
    head += [f"  {row}" for row in card.lines(reads.card(variant), width=WIDTH_CELLS)]
    head += [card.hint(finding).plain for finding in reads.findings(variant)]
    rows = [row.plain.rstrip() for row in card.rows(listing.lines, annotations, WIDTH_CELLS)]
    return "\n".join([*head, "", card.heading(annotations), *rows, ""])


def whole_path(recorded: str) -> Path | None:
    """Return where a recorded path leads, from the root on and without links.

    None if that is no regular file. A recording may name anything: a path that begins at the root
    is an option or a command (``+:!…``, ``-c …``) of no editor.
    """
    try:
        path = Path(recorded).resolve(strict=True)
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def editor_words() -> list[str]:
    """Return the words of the user's editor. Raises ``UsageError`` without one."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError:
        words = []
    words = words or [one for one in ("vi", "nano") if which(one)][:1]
    if not words:
        raise UsageError("No editor was found: set EDITOR, as in EDITOR=vim.")
    return words


def editor(words: list[str], path: Path, n: int) -> list[str]:
    """Return the command that opens line ``n`` of a file, whose path begins at the root."""
    if Path(words[0]).name in GOTO_EDITORS:
        return [*words, "--goto", f"{path}:{n}"]
    return [*words, f"+{n}", str(path)]
