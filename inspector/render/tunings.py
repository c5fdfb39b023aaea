"""Autotuning, one table for each round: candidates by time, the choice, and what became of it.

Times of different rounds (nodes, shapes, processes) never share a column: the same code differs
between them by more than most candidates of one round differ.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from inspector.analysis.tuner_times import (
    SMALL_ELEMENTS,
    Codes,
    TunerFacts,
    best_by_gpu,
    elsewhere,
    same_code,
    tuner_facts,
)
from inspector.base.escapes import shown
from inspector.base.model import Configuration, Kernel, Recording, Tuning
from inspector.base.units import microseconds, plural
from inspector.render.compiles import CompileLine
from inspector.render.kernel_names import titles
from inspector.render.pictures.picture import RowPicture
from inspector.render.pictures.terminal_picture import picture_lines
from inspector.render.pictures.tuning_picture import tuning_picture
from inspector.render.tables import (
    BEST_BY_GPU,
    GAP,
    STAR,
    TIE,
    TILE,
    UNKNOWN,
    grid,
    settings_in_words,
    settings_text,
)

HEADS = ("", "candidate", "variant", "µs", "GPU µs", "other rounds", "became")
SHRINK_ORDER = (
    ("became", 24),
    ("candidate", 40),
    ("other rounds", 0),
    ("variant", 0),
    ("became", 0),
)


def lines(rec: Recording, width: int, codes: Codes) -> Iterator[CompileLine]:
    """Every round of every kernel with a heading, its candidates the fastest first.

    ``codes`` tells the machine code of variants apart, by their ids.
    """
    titles_by_id = titles(rec)
    facts = tuner_facts(rec, codes)
    for kernel in rec.kernels:
        hashes = {variant.id: variant.hash for variant in kernel.variants}
        for number, tuning in enumerate(kernel.autotune):
            name = titles_by_id.get(kernel.id, shown(kernel.display_name))
            heading = " · ".join(filter(None, (name, about(kernel, number))))
            yield CompileLine(Text(heading, "bold cyan"), tuned=(kernel.id,))
            rows = _rows(kernel, number, titles_by_id, facts)
            worded_rows = [_with_words(row) for row in rows]
            has_room = _table_width(worded_rows) <= width
            rows = worded_rows if has_room else rows
            head, *table = grid(HEADS, rows, width, ("µs", "GPU µs"), SHRINK_ORDER)
            yield CompileLine(head)
            generated = generated_kernels(tuning)
            for text, row, (place, _) in zip(table, rows, by_time(tuning), strict=True):
                variant = hashes.get(row[HEADS.index("variant")])
                became = row[HEADS.index("became")]
                yield CompileLine(text, None, variant, False, became, generated.get(place, ()))
            for remark in remarks(kernel, tuning, facts):
                yield CompileLine(Text(f"  {remark}"))
            picture = round_picture(tuning, facts, in_words=has_room)
            if picture is not None:
                yield from map(CompileLine, picture_lines(picture, width))
            yield CompileLine(Text(""))


def _with_words(row: Sequence[str]) -> list[str]:
    """A row with ``warps 4 stages 3`` for ``w4 s3``."""
    place = HEADS.index("candidate")
    return [*row[:place], settings_in_words(row[place]), *row[place + 1 :]]


def _table_width(rows: Sequence[Sequence[str]]) -> int:
    """The cells of a line if no column gives room."""
    columns = zip(HEADS, *rows, strict=True)
    return sum(max(map(cell_len, cells)) + len(GAP) for cells in columns) - len(GAP)


def round_picture(
    tuning: Tuning, facts: TunerFacts, *, in_words: bool = False
) -> RowPicture | None:
    """A round's candidates as dots with bands of noise; None of fewer than two times."""
    texts = [candidate(configuration) for configuration in tuning.configurations]
    if in_words:
        texts = list(map(settings_in_words, texts))
    return tuning_picture(tuning, facts, texts)


def about(kernel: Kernel, number: int) -> str:
    """Which round it is, the nodes or sizes that it was for, and its stopwatch."""
    tuning, rounds = kernel.autotune[number], len(kernel.autotune)
    nodes = ", ".join(use.node for use in tuning.uses if use.node)
    key = tuning.key
    sizes = ", ".join(f"{k}={v}" for k, v in key.items()) if isinstance(key, Mapping) else key
    parts = [
        f"round {number + 1} of {rounds}" if rounds > 1 else "",
        f"for {nodes}" if nodes else "" if tuning.operation else shown(str(sizes or "")),
        "times from a cache" if tuning.from_cache else shown(tuning.stopwatch or ""),
    ]
    return " · ".join(filter(None, parts))


def generated_kernels(tuning: Tuning) -> dict[int, tuple[str, ...]]:
    """The ids of the kernels that each candidate became, by its place."""
    kernels: dict[int, tuple[str, ...]] = {}
    for use in tuning.uses:
        place = tuning.best if use.configuration is None else use.configuration
        if place is not None and use.kernel is not None:
            kernels[place] = (*kernels.get(place, ()), use.kernel)
    return kernels


def _rows(
    kernel: Kernel, number: int, titles_by_id: Mapping[str, str], facts: TunerFacts
) -> list[list[str]]:
    tuning = kernel.autotune[number]
    tied = facts.tied(tuning)
    fastest = facts.tied_by_gpu(tuning)
    became: dict[int, list[str]] = {}
    for use in tuning.uses:
        place = tuning.best if use.configuration is None else use.configuration
        name = titles_by_id.get(use.kernel or "", use.kernel or "a library's function")
        if place is not None and name not in became.setdefault(place, []):
            became[place].append(name)
    unlaunched = {variant.id for variant in kernel.variants if variant.launches == 0}
    rows = []
    for place, configuration in by_time(tuning):
        first = fastest_same_code(tuning, configuration, facts.codes)
        same = "" if first is None else f"same code as {first}"
        reason = (configuration.reason or "").partition("\n")[0]
        launched = became.get(place, [])
        if place == tuning.best and not launched and configuration.variant in unlaunched:
            launched = ["not launched"]
        row = [
            (STAR if place == tuning.best else TIE * (configuration in tied))
            + BEST_BY_GPU * (configuration in fastest),
            candidate(configuration),
            shown(configuration.variant or ""),
            UNKNOWN if configuration.time_us is None else microseconds(configuration.time_us),
            UNKNOWN
            if configuration.gpu_time is None
            else microseconds(configuration.gpu_time.median_us),
            ", ".join(map(microseconds, elsewhere(kernel, tuning, configuration))),
            shown(", ".join(filter(None, (*launched, same, reason)))),
        ]
        rows.append(row)
    return rows


def fastest_same_code(tuning: Tuning, configuration: Configuration, codes: Codes) -> str | None:
    """The variant of the fastest candidate with the same machine code, None if it is its own."""
    first = min(same_code(tuning, configuration, codes), key=_time)
    return None if first is configuration else first.variant


def _time(configuration: Configuration) -> float:
    return math.inf if configuration.time_us is None else configuration.time_us


def by_time(tuning: Tuning) -> list[tuple[int, Configuration]]:
    """The candidates with their places, the fastest first, those without a time last."""
    return sorted(
        enumerate(tuning.configurations),
        key=lambda pair: _time(pair[1]),
    )


def candidate(configuration: Configuration) -> str:
    """A candidate's maker or template, its tile and its settings."""
    choice = str(configuration.config.get("choice") or "")
    settings = {
        name: value
        for name, value in configuration.config.items()
        if name != "choice" and (not choice or name in (*TILE, "num_warps", "num_stages"))
    }
    maker = configuration.maker if configuration.maker not in (None, "Triton") else ""
    return shown(" ".join(filter(None, [maker, choice, settings_text(settings)])))


def remarks(kernel: Kernel, tuning: Tuning, facts: TunerFacts) -> Iterator[str]:
    """What the choice costs, what the round's times hide, and how often it was benchmarked."""
    if judgement := verdict(kernel, tuning, facts):
        yield judgement
    rounds = sum(
        configuration.key == tuning.key and not configuration.from_cache
        for configuration in kernel.autotune
    )
    if rounds > 1 and any(
        configuration.gpu_time is not None for configuration in tuning.configurations
    ):
        yield f"GPU times are of {rounds} rounds together"
    counts = {v.benchmarks for v in kernel.variants if v.benchmarks}
    if counts:
        least, greatest = min(counts), max(counts)
        yield f"benchmarked {least if least == greatest else f'{least} to {greatest}'} times each"
    spread = facts.noise(tuning)
    if spread is not None:
        tied = plural(len(facts.tied(tuning)), "candidate")
        yield f"≈ tied: {tied} within the {spread:.0%} by which its times of one code differ"
    overhead_us = facts.overhead_us(tuning)
    if overhead_us:
        yield (
            f"launching alone may take up to {microseconds(overhead_us)} µs of each time: "
            f"{tuning.stopwatch} read that around kernels of {SMALL_ELEMENTS:,} elements or fewer"
        )


def verdict(kernel: Kernel, tuning: Tuning, facts: TunerFacts) -> str:
    """One sentence on the choice by the GPU's times, "" where nothing is known of them."""
    if tuning.from_cache:
        return "the choice came from a cache: GPU times of its candidates are unknown"
    best = best_by_gpu(tuning)
    if best is None or best.gpu_time is None:
        tuned_variants = {v.id for v in kernel.variants if v.tuning_gpu_time is not None}
        unknown = {
            configuration.variant
            for configuration in tuning.configurations
            if configuration.gpu_time is None
        }
        apart = "GPU times are unknown: launches of several rounds are not told apart"
        return apart if tuned_variants & unknown else ""
    return _choice_beside_best(kernel, tuning, facts, best.gpu_time.median_us)


def _choice_beside_best(kernel: Kernel, tuning: Tuning, facts: TunerFacts, best_us: float) -> str:
    """The choice beside the candidate that the GPU ran fastest, and what the difference costs."""
    winner = tuning.winner
    timed = sum(configuration.gpu_time is not None for configuration in tuning.configurations)
    benchmarked = sum(configuration.time_us is not None for configuration in tuning.configurations)
    among = f" of the {timed} timed of {benchmarked}" if timed < benchmarked else ""
    shortest = f"best candidate by GPU time{among}: {microseconds(best_us)} µs"
    if winner is None or winner.gpu_time is None:
        return f"{shortest}; the chosen one's is unknown"
    choice = f"chosen: {microseconds(winner.gpu_time.median_us)} µs"
    if winner is best_by_gpu(tuning):
        return f"{choice}, the shortest GPU time{among}"
    if winner in facts.tied_by_gpu(tuning):
        return f"{choice}; {shortest}, a tie within the noise of their launches"
    cost = facts.cost_of_choice(kernel, tuning)
    if cost is None:
        return f"{choice}; {shortest}"
    if cost.program_us is not None:
        choice += f" ({microseconds(cost.program_us)} µs in the program)"
    if cost.us is not None:
        times = f"× {plural(cost.launches or 0, 'launch')} of the run"
        return f"{choice}; {shortest}; {times} ≈ {microseconds(cost.us)} µs"
    reason = "cost unknown: in the program the chosen one is no slower" if cost.launches else ""
    return "; ".join(filter(None, (choice, shortest, reason)))


class CandidateRow(Struct, frozen=True, kw_only=True):
    """A candidate of a round: µs by the tuner, and by the GPU with its quartiles.

    ``became`` are the kernels that were generated from it.
    """

    config: Mapping[str, object]
    maker: str | None
    variant: str | None
    us: float | None
    gpu_us: float | None
    gpu_low_us: float | None
    gpu_high_us: float | None
    gpu_timed: int | None
    gpu_tied: bool
    other_rounds_us: Sequence[float]
    same_code_as: str | None
    tied: bool
    reason: str | None
    became: list[str]


class RoundRow(Struct, frozen=True, kw_only=True):
    """A round of tuning; ``best`` and ``best_by_gpu`` are places among its candidates.

    ``noise`` is the spread of the tuner's times of one code, as a share of them.
    """

    kernel: str
    round: int
    nodes: list[str | None]
    best: int | None
    best_by_gpu: int | None
    cost_of_choice_us: float | None
    noise: float | None
    overhead_us: float | None
    from_cache: bool
    candidates: list[CandidateRow]
    picture: RowPicture | None


def round_rows(rec: Recording, codes: Codes) -> list[RoundRow]:
    """``list --tunings``' JSON: a row for each round."""
    facts = tuner_facts(rec, codes)
    return [
        _round_row(kernel, number, facts)
        for kernel in rec.kernels
        for number in range(len(kernel.autotune))
    ]


def _round_row(kernel: Kernel, number: int, facts: TunerFacts) -> RoundRow:
    tuning = kernel.autotune[number]
    best = best_by_gpu(tuning)
    cost = facts.cost_of_choice(kernel, tuning)
    return RoundRow(
        kernel=kernel.id,
        round=number + 1,
        nodes=[use.node for use in tuning.uses],
        best=tuning.best,
        best_by_gpu=None if best is None else tuning.configurations.index(best),
        cost_of_choice_us=None if cost is None else cost.us,
        noise=facts.noise(tuning),
        overhead_us=facts.overhead_us(tuning),
        from_cache=tuning.from_cache,
        candidates=[
            _candidate_row(kernel, tuning, place, facts)
            for place in range(len(tuning.configurations))
        ],
        picture=round_picture(tuning, facts),
    )


def _candidate_row(kernel: Kernel, tuning: Tuning, place: int, facts: TunerFacts) -> CandidateRow:
    configuration = tuning.configurations[place]
    gpu = configuration.gpu_time
    kernels = {u.kernel for u in tuning.uses if u.kernel and u.configuration == place}
    return CandidateRow(
        config=configuration.config,
        maker=configuration.maker,
        variant=configuration.variant,
        us=configuration.time_us,
        gpu_us=None if gpu is None else gpu.median_us,
        gpu_low_us=None if gpu is None else gpu.quartiles_us[0],
        gpu_high_us=None if gpu is None else gpu.quartiles_us[2],
        gpu_timed=None if gpu is None else gpu.timed,
        gpu_tied=configuration in facts.tied_by_gpu(tuning),
        other_rounds_us=elsewhere(kernel, tuning, configuration),
        same_code_as=fastest_same_code(tuning, configuration, facts.codes),
        tied=configuration in facts.tied(tuning),
        reason=configuration.reason,
        became=sorted(kernels),
    )
