"""Lanes by the banks of shared memory that they ask, of the worst request of a launch."""

from collections import defaultdict
from collections.abc import Iterable

from inspector.base.units import plural
from inspector.execute.bank_conflicts import BANKS, BankConflict, BankWord
from inspector.execute.facts import ExecutedLine
from inspector.render.pictures.picture import GridCell, GridPicture

TITLE = "Which lanes collide?"
MAX_ROWS = 8
"""Words of a bank that are drawn."""


def bank_picture(lines: Iterable[ExecutedLine]) -> GridPicture | None:
    """The request to shared memory that took the most wavefronts; None where none took two."""
    worst: tuple[ExecutedLine, str, BankConflict] | None = None
    for line in lines:
        for access in line.accesses:
            conflict = access.conflict
            if conflict is None or (worst and conflict.wavefronts <= worst[2].wavefronts):
                continue
            worst = (line, access.way, conflict)
    return None if worst is None else _picture(*worst)


def _picture(line: ExecutedLine, way: str, conflict: BankConflict) -> GridPicture:
    by_bank = _lanes_by_word(conflict.words)
    cells = []
    for bank, lanes_by_word in by_bank.items():
        for row, (word, lanes) in enumerate(list(lanes_by_word.items())[:MAX_ROWS]):
            together = f"{plural(len(lanes), 'lane')} {', '.join(map(str, lanes))}"
            about = f"bank {bank}, word {word}: {together}"
            text = f"{lanes[0]}" if len(lanes) == 1 else f"{lanes[0]}+"
            cells.append(GridCell(row, bank, text, min(row, 1), about))
    drawn = min(conflict.wavefronts, MAX_ROWS)
    idle = BANKS - len(by_bank)
    answer = (
        f"Those in one column: {way} of PTX line {line.n} takes "
        f"{plural(conflict.wavefronts, 'wavefront')}, one for each row"
    )
    answer += f"; {plural(idle, 'bank')} stay idle." if idle else "."
    notes = ["cell: the lane that asks; +: several lanes ask for one word, which is no conflict"]
    if conflict.wavefronts > drawn:
        notes.append(f"{plural(conflict.wavefronts - drawn, 'further row')} not drawn")
    return GridPicture(
        TITLE,
        answer,
        "grid",
        "wavefront",
        "bank",
        [str(n + 1) for n in range(drawn)],
        [str(n) for n in range(BANKS)],
        sorted(cells, key=lambda cell: (cell.row, cell.column)),
        notes,
    )


def _lanes_by_word(words: Iterable[BankWord]) -> dict[int, dict[int, list[int]]]:
    """The lanes that ask for each word of each bank, in their order."""
    by_bank: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for asked in words:
        lanes = by_bank[asked.bank][asked.word]
        if asked.lane not in lanes:
            lanes.append(asked.lane)
    return by_bank
