"""Compiles files again whenever they are saved, and shows what an edit changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, Stopped
from inspector.base.model import Stage, Variant
from inspector.base.text import plural, shown
from inspector.commands.common import print_beside, reader_of
from inspector.diff import compare
from inspector.reader.reader import Reader
from inspector.recording.layout import pack, read_events, remove
from inspector.report import compiled as report
from inspector.report.compiled import CompiledTable, RowChange
from inspector.sources.compiling import CompileOutcome, CompileRequest, compile_files, with_before
from inspector.system import printing

if TYPE_CHECKING:
    from inspector.tui.program.live import Live

LOOK = 0.25
"""Seconds between two looks at the files."""
SETTLED = 0.1
"""Seconds in which a file that has changed must not change again: an editor writes in pieces."""
MAX_ROWS = 40
"""Rows of one difference that are printed."""

Stamps = dict[Path, tuple[int, int, int]]
Make = Callable[[], CompileRequest]
Table = Callable[[Reader], CompiledTable]


GONE = (0, -1, 0)


def stamps(paths: list[Path]) -> Stamps:
    """Stat fields that change when a file is written or replaced."""
    out: Stamps = {}
    for path in paths:
        try:
            status = path.stat()
            out[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:  # between two names, as editors have it
            out[path] = GONE
    return out


def _any(outcome: CompileOutcome) -> bool:
    """Whether anything compiled."""
    return any(one.failed is None for one in outcome.recording.compilations)


class Compiles:
    """The files, their last compilation, and the one before it."""

    def __init__(self, make: Make, out: Path | None, say: Callable[[str], None]) -> None:
        """Compile for the first time. Raises what ``compile_files`` raises."""
        self._make, self._out = make, out
        self.before: CompileOutcome | None = None
        request = make()
        self._given = [source.path for source in request.inputs]
        self._stamps = stamps(self._given)
        self.outcome = compile_files(request, say)
        self._compiled()

    def _read(self) -> list[Path]:
        """The files that were given, and those that they include."""
        read: dict[Path, None] = dict.fromkeys(self._given)
        try:
            events = read_events(self.outcome.path).events
        except PtxviewError:
            events = ()
        for event in events:
            listed = event.get("read")
            for name in listed if isinstance(listed, list) else ():
                read[Path(str(name))] = None
        return list(read)

    def changed(self) -> bool:
        """Whether a file was written since it was read, and is whole again."""
        now = stamps(list(self._stamps))
        if now == self._stamps or any(now.get(path) == GONE for path in self._given):
            return False
        time.sleep(SETTLED)
        if stamps(list(now)) != now:
            return False
        self._stamps = now
        return True

    def again(self, go_on: Callable[[], bool]) -> CompileOutcome:
        """Compile once more. Raises what ``compile_files`` raises."""
        made = compile_files(self._make(), lambda text: None, go_on)
        # Where nothing compiled there is nothing to compare with: what did before that stays.
        left: CompileOutcome | None = self.outcome
        if _any(self.outcome) or self.before is None:
            left, self.before = self.before, self.outcome
        self.outcome = made
        if left is not None:
            remove(left.path)
        self._compiled()
        return made

    def close(self) -> Path:
        """Keep the last recording alone; where it is."""
        if self.before is not None:
            remove(self.before.path)
        if self._out is None:
            return self.outcome.path
        remove(self.outcome.path)
        return self._out

    def _compiled(self) -> None:
        """Look at what was read from now on; a file that was saved since has changed."""
        known = stamps(self._read()) | self._stamps
        self._stamps = {path: known[path] for path in self._read()}
        if self._out is not None:
            pack(self.outcome.path, self._out)


# -- without a terminal ---------------------------------------------------------------------------


def watch_plainly(
    compiles: Compiles, table: Table, show: Callable[[CompileOutcome], None], json: bool
) -> int:
    """Print what comes of each save until Ctrl-C."""
    show(compiles.outcome)
    printing.flush()
    printing.narrate("ptxview: waiting for a change of the files (Ctrl-C ends)")
    try:
        while True:
            time.sleep(LOOK)
            if not compiles.changed():
                continue
            clock = time.strftime("%H:%M:%S")
            try:
                made = compiles.again(lambda: True)
            except PtxviewError as error:
                printing.narrate(f"ptxview: {clock} {error.message}")
                continue
            if json:
                show(made)
            else:
                _print_changes(compiles, table, clock)
            printing.flush()
    finally:
        printing.narrate(f"ptxview: {compiles.close()}")


def _print_changes(compiles: Compiles, table: Table, clock: str) -> None:
    assert compiles.before is not None
    readers = reader_of(compiles.before.recording), reader_of(compiles.outcome.recording)
    before, after = (table(reader) for reader in readers)
    out = printing.out()
    changes = list(report.changes(before, after))
    out.print(Text(f"{clock}  {_summary(compiles.outcome, changes)}", "bold"), soft_wrap=True)
    for line in report.change_lines(changes):
        out.print(line, soft_wrap=True)
    for line in report.messages(after):
        out.print(line, soft_wrap=True)
    shown_rows: set[tuple[str, str | None]] = set()
    for change in changes:
        row = (change.row.file, change.row.kernel)
        if row in shown_rows or change.before is None or change.after is None:
            continue
        if change.before.variant is None or change.after.variant is None:
            continue
        shown_rows.add(row)
        pair = (change.before.variant, change.after.variant)
        for stage in (Stage.PTX, Stage.SASS):
            _print_difference(readers, pair, stage, change.title)


def _print_difference(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage, title: str
) -> None:
    if any(stage not in variant.stages for variant in pair):
        return
    try:
        compared = compare.compare(readers, pair, stage)
    except PtxviewError as error:
        printing.narrate(f"ptxview: {error.message}")
        return
    out = printing.out()
    if compared.diff.identical:
        out.print(Text(f"  {stage.value} of {shown(title)}: the same but for names", "dim"))
        return
    out.print(Text(f"  {stage.value} of {shown(title)}: before │ after", "dim"))
    print_beside(compared, MAX_ROWS, "ptxview diff shows all")


def _summary(outcome: CompileOutcome, changes: list[RowChange]) -> str:
    tried = outcome.recording.compilations
    files = plural(len({one.file for one in tried}), "file")
    took = sum(one.seconds or 0.0 for one in tried)
    if outcome.failed:
        return f"{outcome.failed} of {plural(len(tried), 'compilation')} failed"
    said = f"{files} compiled in {took:.2f} s"
    return said if changes else f"{said}: the same machine code"


# -- on a terminal --------------------------------------------------------------------------------


def watch_in_interface(compiles: Compiles, table: Table, browse: Callable[..., None]) -> int:
    """Open the interface, which stays where it is while files are recompiled."""
    # Imported here: only who sits at a terminal needs the interface.
    from inspector.tui.program.live import Live

    stop = threading.Event()
    fresh: list[Reader] = []
    first = reader_of(compiles.outcome.recording)
    live = Live(lambda: fresh.pop() if fresh else None)
    shown_now = [first]

    def follow() -> None:
        while not stop.wait(LOOK):
            if compiles.changed():
                _compile_for(compiles, table, live, fresh, shown_now, stop)

    live.said = _standing(compiles.outcome)
    thread = threading.Thread(target=follow, daemon=True, name="compiling")
    thread.start()
    try:
        browse(lambda: (first, live), compiles.outcome.path.name, live)
    finally:
        stop.set()
        thread.join()
        printing.narrate(f"ptxview: {compiles.close()}")
    return Exit.DIFFERENT if compiles.outcome.failed else Exit.OK


def _compile_for(
    compiles: Compiles,
    table: Table,
    live: Live,
    fresh: list[Reader],
    shown_now: list[Reader],
    stop: threading.Event,
) -> None:
    """One save, for the interface: a reader of what it gives, and a word on what has changed."""
    live.said = "◔ compiling"
    clock = time.strftime("%H:%M:%S")
    try:
        made = compiles.again(lambda: not stop.is_set())
    except Stopped:
        return
    except (PtxviewError, OSError) as error:
        live.said = f"✗ {clock}"
        live.news.append((f"{clock}  not compiled", str(error), True))
        return
    before = shown_now[0]
    after = reader_of(made.recording)
    new_table = table(after)
    failed = [one for one in made.recording.compilations if one.failed is not None]
    if failed:
        said = "\n".join(dict.fromkeys(one.failed or "" for one in failed))
        live.news.append((f"{clock}  {plural(len(failed), 'compilation')} failed", said, True))
    live.said = f"✗ {clock}" if failed else f"✓ {clock}"
    if len(failed) == len(made.recording.compilations):
        return  # what was compiled before stays in view
    changes = list(report.changes(table(before), new_table))
    told = "\n".join(line.plain for line in report.change_lines(changes))
    if changes:
        live.news.append((f"{clock}  compiled", f"{told}\nB shows the difference", False))
    elif not failed:
        live.news.append((f"{clock}  compiled", "the machine code is the same", False))
    shown_now[0] = after
    fresh[:] = [reader_of(with_before(made.recording, before.recording))]


def _standing(outcome: CompileOutcome) -> str:
    return "✗ compiled" if outcome.failed else "✓ compiled"
