"""Turns events of autotuning into tunings of kernels, tied to the kernels' variants."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import (
    ChoiceUse,
    Configuration,
    GpuTime,
    Kernel,
    Origin,
    TriedFusion,
    Tuning,
    Variant,
)
from inspector.recording.decoding import as_map, tolerant
from inspector.recording.events import (
    ChoiceWritten,
    ConfigurationCompiled,
    ConfigurationRow,
    Event,
    Frame,
    FusionTime,
    FusionTried,
    GraphCode,
    JsonObject,
    ProcessStarted,
    TuningRecorded,
)
from inspector.recording.processes import Process, Processes
from inspector.recording.variants import Key, VariantOfKernel

GraphRef = tuple[Frame, str | None]
"""A graph as events name it: its frame, and AOTAutograd's name."""
TuningKey = tuple[Process, int]
"""A tuning by its number in a process."""
# Triton asks its stopwatch for these quantiles, in this order.
QUANTILES = (0.5, 0.2, 0.8)
MAX_NAME_CHARS = 60


class _RecordedTuning(Struct, frozen=True):
    """One recorded tuning with its event: its kernel's name and file, and hash or folder of each
    configuration."""

    tuning: Tuning
    name: str
    file: str
    rows: tuple[ConfigurationRow, ...]
    graph: GraphRef
    node: str | None = None
    has_subset: bool = False

    @property
    def operation(self) -> Key | None:
        """The key of the operation that max-autotune chose for; None where a kernel was tuned."""
        if self.tuning.operation is None:
            return None
        return Origin.INDUCTOR.value, self.name, f"{self.tuning.operation} {self.tuning.key}"


class _FusionTrial(Struct, frozen=True):
    """Operations that were compiled in one file, to be measured; ``choice`` is the tuning and the
    candidate that wrote them."""

    nodes: tuple[str, ...]
    graph: GraphRef
    choice: tuple[TuningKey, int] | None

    @property
    def key(self) -> Key:
        name = "+".join(self.nodes)
        short = name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…"
        return Origin.INDUCTOR.value, f"{short} (tried)", f"{self.graph} {name}"


class _MeasuredTrial(Struct, frozen=True):
    trial: _FusionTrial
    time_us: float | None


class Tunings:
    """Collects the events of autotuning of all processes."""

    EVENTS = (
        ProcessStarted,
        TuningRecorded,
        ConfigurationCompiled,
        ChoiceWritten,
        FusionTried,
        FusionTime,
    )
    """The events that it takes."""

    def __init__(self) -> None:
        self._processes = Processes("process")
        self._tunings: dict[TuningKey | int, _RecordedTuning] = {}
        self._failed: list[_RecordedTuning] = []
        self._written: dict[TuningKey | None, list[tuple[int, str]]] = {}
        self._fusions: dict[str, _FusionTrial] = {}
        self._fusion_ms: dict[str, float] = {}
        self._configured: dict[str, list[JsonObject]] = {}

    def take(self, event: Event) -> None:
        """Take in an event; a later one of a tuning replaces the earlier one."""
        match event:
            case ProcessStarted():
                self._processes.process_of(event)
            case ConfigurationCompiled(hash=str(digest)):
                self._configured.setdefault(digest, []).append(event.config)
            case TuningRecorded():
                self._take_tuning(event)
            case ChoiceWritten(configuration=int(index), kernel=str(kernel)):
                key = self._key(event)
                self._written.setdefault(key, []).append((index, kernel))
            case FusionTried(file=str(file)):
                if event.nodes:  # the same text is compiled once, however often it is requested
                    key = self._key(event)
                    choice = None
                    if key is not None and event.configuration is not None:
                        choice = key, event.configuration
                    trial = _FusionTrial(event.nodes, graph_ref(event, event.graph), choice)
                    self._fusions.setdefault(PurePath(file).name, trial)
            case FusionTime(ms=float(ms)):
                self._fusion_ms[PurePath(event.file or "").name] = ms

    def _take_tuning(self, event: TuningRecorded) -> None:
        failed = event.event == "autotune_failed"
        rows = event.configurations
        if failed:
            rows = (event.configuration or ConfigurationRow(),)
        if not rows:
            return
        recorded = _recorded(event, rows)
        if failed:
            self._failed.append(recorded)
        else:
            self._tunings[self._key(event) or len(self._tunings)] = recorded

    def _key(self, event: TuningRecorded | ChoiceWritten | FusionTried) -> TuningKey | None:
        """A tuning among those of all processes; None if it has no number."""
        process = self._processes.process_of(event)
        if process is None or event.tuning is None:
            return None
        return process, event.tuning

    def under_operation(self, compiled: VariantOfKernel) -> VariantOfKernel:
        """A compile, under its operation if it was a candidate for one of max-autotune's.

        Inductor writes each candidate into a separate file, which the event names, and also each
        trial of a fusion.
        """
        home = self._homes.get(PurePath(compiled.key[2]).name)
        if home is None or compiled.origin is not Origin.INDUCTOR:
            return compiled
        key, config = home
        variant = replace(compiled.variant, config={**config, **compiled.variant.config})
        return replace(compiled, key=key, name=key[1], variant=variant)

    @cached_property
    def _homes(self) -> Mapping[str, tuple[Key, Mapping[str, object]]]:
        """The operation and the settings of each candidate, by the name of its file."""
        homes = {name: (t.key, self._settings(t)) for name, t in self._fusions.items()}
        for recorded in reversed(self._tunings.values()):
            key = recorded.operation
            if key is None:
                continue
            for row, configuration in zip(
                recorded.rows, recorded.tuning.configurations, strict=True
            ):
                if row.file:
                    homes[PurePath(row.file).name] = key, configuration.config
        return homes

    def _settings(self, trial: _FusionTrial) -> Mapping[str, object]:
        """The settings of the candidate that wrote what was tried."""
        if trial.choice is None:
            return {}
        key, candidate = trial.choice
        recorded = self._tunings.get(key)
        if recorded is None:
            return {}
        configurations = recorded.tuning.configurations
        return configurations[candidate].config if 0 <= candidate < len(configurations) else {}

    def compared_for(
        self, kernels: Mapping[Key, Kernel], graphs: Mapping[GraphRef, str]
    ) -> Iterator[tuple[str, Key, TriedFusion | None]]:
        """Graphs, and the kernels that were compared for each; of a fusion how long it took."""
        for recorded in self._tunings.values():
            key = recorded.operation
            graph = graphs.get(recorded.graph)
            if key in kernels and key is not None and graph:
                yield graph, key, None
        for key, trials in self._trials().items():
            first = trials[0].trial
            graph = graphs.get(first.graph)
            if key in kernels and graph:
                times = [t.time_us for t in trials if t.time_us is not None]
                fusion = TriedFusion(first.nodes, kernels[key].id, min(times, default=None))
                yield graph, key, fusion

    def _trials(self) -> Mapping[Key, list[_MeasuredTrial]]:
        """What was compiled with what could be fused into it, with its times."""
        out: dict[Key, list[_MeasuredTrial]] = {}
        for file, trial in self._fusions.items():
            ms = self._fusion_ms.get(file)
            measured = _MeasuredTrial(trial, None if ms is None else ms * 1000)
            out.setdefault(trial.key, []).append(measured)
        return out

    def tuned_kernels(self, keys: Collection[Key]) -> Iterator[tuple[Key, Origin, str]]:
        """Kernels that are known only because they were tuned: Triton's, and operations."""
        names = {(key[0], key[1]) for key in keys}
        for recorded in self._tunings.values():
            operation = recorded.operation
            if operation is not None:
                if operation not in keys:
                    yield operation, Origin.INDUCTOR, recorded.name
                continue
            kernel = Origin.TRITON.value, recorded.name
            if recorded.tuning.tuner != Origin.TRITON.value or not recorded.name:
                continue
            has_binary = any(row.hash or row.cache_key for row in recorded.rows)
            if not has_binary and kernel not in names:
                yield (*kernel, recorded.file), Origin.TRITON, recorded.name

    def place(
        self,
        kernels: Mapping[Key, tuple[Variant, ...]],
        files: Mapping[str, Key],
        graphs: Mapping[GraphRef, tuple[str, Mapping[str, str]]],
        candidate_time: Callable[[int, int], GpuTime | None],
    ) -> dict[Key, tuple[Tuning, ...]]:
        """The tunings of each kernel, with its variants' ids; variants must have theirs.

        ``files``: the kernel in each of Inductor's files, by the file's name. ``graphs``: their
        ids, and of each the ids of its kernels by name. ``candidate_time``: that of a candidate
        without a separate kernel, by the process's id and the candidate's number.
        """
        tunings_of: dict[Key, list[Tuning]] = {}
        for name, recorded in self._tunings.items():
            key = _kernel_key(recorded, kernels, files)
            if key is not None:
                linked = _linked(recorded, kernels[key], self._configured)
                linked = replace(linked, uses=self._uses(name, recorded, graphs))
                linked = _with_candidate_times(linked, recorded, candidate_time)
                tunings_of.setdefault(key, []).append(linked)
        for key, trials in self._trials().items():
            fused = None if key not in kernels else self._fused(key, trials, kernels[key])
            if fused is not None:
                tunings_of.setdefault(key, []).append(fused)
        operations = {recorded.operation for recorded in self._tunings.values()}
        for recorded in self._failed:
            key = _kernel_key(recorded, kernels, files)
            if key is not None and key not in operations:  # there its own tuning says why
                linked = _linked(recorded, kernels[key], self._configured)
                _add_failure(tunings_of.setdefault(key, []), linked)
        return {key: _distinct(tunings) for key, tunings in tunings_of.items()}

    def _fused(
        self, key: Key, trials: Iterable[_MeasuredTrial], variants: tuple[Variant, ...]
    ) -> Tuning | None:
        """Candidates that were compiled with what could be fused into them, as a tuning."""
        configurations = []
        for measured in trials:
            config = self._settings(measured.trial)
            if config:
                configuration = Configuration(config, time_us=measured.time_us, maker="Triton")
                configurations.append(_with_variant(configuration, variants))
        if not configurations:
            return None
        times = [(c.time_us, n) for n, c in enumerate(configurations) if c.time_us is not None]
        best = min(times)[1] if times else None
        nodes = {"fused": key[2].rpartition(" ")[2]}
        return Tuning("inductor", nodes, tuple(configurations), best, method="fusion")

    def _uses(
        self,
        name: TuningKey | int,
        recorded: _RecordedTuning,
        graphs: Mapping[GraphRef, tuple[str, Mapping[str, str]]],
    ) -> tuple[ChoiceUse, ...]:
        """What an operation's tuning was used for: kernels generated from its candidates."""
        if recorded.operation is None or recorded.graph not in graphs:
            return ()
        graph, kernels = graphs[recorded.graph]
        count = len(recorded.tuning.configurations)
        uses = []
        for index, kernel in () if isinstance(name, int) else self._written.get(name, ()):
            if kernel in kernels and 0 <= index < count:
                uses.append(ChoiceUse(graph, recorded.node, index, kernels[kernel]))
        return tuple(uses) or (ChoiceUse(graph, recorded.node),)


def _with_candidate_times(
    tuning: Tuning,
    recorded: _RecordedTuning,
    candidate_time: Callable[[int, int], GpuTime | None],
) -> Tuning:
    """A tuning with the times of those candidates that launch a library's kernels."""
    (pid, _, _), _ = recorded.graph
    if pid is None:
        return tuning
    configurations = []
    for row, configuration in zip(recorded.rows, tuning.configurations, strict=True):
        if row.candidate is not None:
            time = candidate_time(pid, row.candidate)
            configuration = replace(configuration, gpu_time=time)
        configurations.append(configuration)
    return replace(tuning, configurations=tuple(configurations))


def with_gpu_times(
    tunings: Sequence[Tuning],
    variants: Iterable[Variant],
    times_by_grid: Callable[[Variant], Sequence[GpuTime | None]],
) -> tuple[Tuning, ...]:
    """The tunings of a kernel with the times of the launches that compared their candidates.

    Launches of a variant in several rounds for one key are timed together. Those for several keys
    are distinguished by their grids, where each key has one: both are in the order of time.
    """
    times: dict[tuple[str | None, str], GpuTime | None] = {}
    for variant in variants:
        if variant.tuning_gpu_time is None:
            continue
        keys = dict.fromkeys(repr(t.key) for t in tunings if _was_launched(t, variant.id))
        of_keys = [variant.tuning_gpu_time] if len(keys) == 1 else times_by_grid(variant)
        if len(of_keys) == len(keys):
            times |= {(variant.id, key): time for key, time in zip(keys, of_keys, strict=True)}
    out = []
    for tuning in tunings:
        if tuning.from_cache:
            out.append(tuning)
            continue
        key = repr(tuning.key)
        configurations = []
        for configuration in tuning.configurations:
            time = configuration.gpu_time or times.get((configuration.variant, key))
            configurations.append(replace(configuration, gpu_time=time))
        out.append(replace(tuning, configurations=tuple(configurations)))
    return tuple(out)


def _was_launched(tuning: Tuning, variant_id: str) -> bool:
    """Whether a round launched a variant to time it."""
    if tuning.from_cache:
        return False
    return any(c.variant == variant_id and c.time_us is not None for c in tuning.configurations)


def graph_ref(event: TuningRecorded | FusionTried | GraphCode, name: str | None) -> GraphRef:
    """The graph of an event, by AOTAutograd's name of it; ``aot`` has it in older recordings."""
    return event.frame, name or event.aot


def configs_by_kernel(kernels: Iterable[Kernel]) -> dict[str, Mapping[str, object]]:
    return {
        use.kernel: tuning.configurations[use.configuration].config
        for kernel in kernels
        for tuning in kernel.autotune
        for use in tuning.uses
        if use.kernel is not None and use.configuration is not None
    }


def variant_result(variant: Variant, tunings: Iterable[Tuning]) -> Mapping[str, object] | None:
    """The result of tuning for one variant: of the tuning that it won, else of the last one."""
    out: dict[str, object] | None = None
    for tuning in tunings:
        for index, configuration in enumerate(tuning.configurations):
            if configuration.variant != variant.id or (out is not None and out["winner"]):
                continue
            out = {
                "key": key_of(tuning),
                "winner": index == tuning.best,
                "time_us": configuration.time_us,
                "quantiles_us": configuration.quantiles_us and list(configuration.quantiles_us),
                "by": tuning.tuner,
                "stopwatch": tuning.stopwatch,
                "from_cache": tuning.from_cache,
                "reason": configuration.reason,
                "config": dict(configuration.config),
            }
    return out


def key_of(tuning: Tuning) -> object:
    if tuning.key is None:
        return None
    return dict(tuning.key) if isinstance(tuning.key, Mapping) else list(tuning.key)


def _recorded(event: TuningRecorded, rows: tuple[ConfigurationRow, ...]) -> _RecordedTuning:
    tuner = "inductor" if event.tuner == "inductor" else "triton"
    key: Mapping[str, object] | tuple[object, ...] | None = None
    if isinstance(event.key, Mapping):
        key = as_map(event.key)
    elif isinstance(event.key, list | tuple):
        key = tuple(event.key) or None
    best = event.winner
    tuning = Tuning(
        tuner=tuner,
        key=key,
        configurations=tuple(_configuration(row, tuner) for row in rows),
        best=best if best is not None and 0 <= best < len(rows) else None,
        stopwatch=event.stopwatch,
        method=event.method,
        from_cache=event.from_cache,
        seconds=event.seconds,
        operation=event.operation if tuner == "inductor" else None,
    )
    return _RecordedTuning(
        tuning,
        name=event.name or "",
        file=event.file or "",
        rows=rows,
        graph=graph_ref(event, event.graph),
        node=event.node,
        has_subset=event.has_subset,
    )


def configuration(entry: Mapping[str, object], tuner: str) -> Configuration:
    """One configuration of an event's; ``times_ms`` in Triton's order of quantiles."""
    return _configuration(tolerant(entry, ConfigurationRow), tuner)


def _configuration(row: ConfigurationRow, tuner: str) -> Configuration:
    times_us = [time * 1000 for time in row.times_ms or () if time is not None]
    all_finite = bool(times_us) and len(times_us) == len(row.times_ms or ())
    quantiles: tuple[float, ...] | None = None
    if all_finite and tuner == "triton" and len(times_us) == len(QUANTILES):
        quantiles = tuple(time for _, time in sorted(zip(QUANTILES, times_us, strict=True)))
    return Configuration(
        config=row.config,
        time_us=times_us[0] if all_finite else None,
        quantiles_us=quantiles,
        reason=row.reason,
        maker=row.maker,
    )


def _kernel_key(
    recorded: _RecordedTuning,
    kernels: Mapping[Key, tuple[Variant, ...]],
    files: Mapping[str, Key],
) -> Key | None:
    """The kernel that was tuned: found by its binaries, its file, or its name alone."""
    if recorded.operation is not None:
        return recorded.operation if recorded.operation in kernels else None
    by_binary = _kernel_of_binaries(recorded, kernels)
    if by_binary is not None:
        return by_binary
    by_file = files.get(PurePath(recorded.file).name) if recorded.file else None
    if by_file in kernels:
        return by_file
    named = [k for k in kernels if k[1] == recorded.name and k[0] == recorded.tuning.tuner]
    for key in named:
        if key[2] == recorded.file:
            return key
    return named[0] if len(named) == 1 else None


def _kernel_of_binaries(
    recorded: _RecordedTuning, kernels: Mapping[Key, tuple[Variant, ...]]
) -> Key | None:
    """The first kernel with a variant that was compiled for one of a tuning's configurations."""
    hashes = {row.hash for row in recorded.rows if row.hash}
    folders = {row.cache_key for row in recorded.rows if row.cache_key}
    for key, variants in kernels.items():
        for variant in variants:
            if variant.hash in hashes or (variant.cache_key or "") in folders:
                return key
    return None


def _linked(
    recorded: _RecordedTuning,
    variants: tuple[Variant, ...],
    configured: Mapping[str, list[JsonObject]],
) -> Tuning:
    """The tuning with its variants' ids.

    A configuration belongs to the variant that was compiled for it. If the tuner did not record
    which that was (it took the best one from a cache), the compiling process may have. If neither
    did, it is the only variant with the same warps, stages and constants, provided that no other
    measured configuration has them too.
    """
    tuning = recorded.tuning
    if recorded.operation is not None:
        linked = [_with_variant(c, variants) for c in tuning.configurations]
        return replace(tuning, configurations=_with_reasons(linked, variants))
    linked = _by_binary(recorded, variants)
    linked = _by_compiled_config(recorded, linked, variants, configured)
    linked = _by_agreement(recorded, linked, variants)
    return replace(tuning, configurations=_with_reasons(linked, variants))


def _by_binary(recorded: _RecordedTuning, variants: Sequence[Variant]) -> list[Configuration]:
    """Configurations with the variants of the hashes or cache folders that the tuner recorded."""
    hashes = {v.hash: v.id for v in variants}
    folders = {v.cache_key: v.id for v in variants if v.cache_key}
    out = []
    for row, configuration in zip(recorded.rows, recorded.tuning.configurations, strict=True):
        variant_id = hashes.get(row.hash or "") or folders.get(row.cache_key or "")
        out.append(replace(configuration, variant=variant_id))
    return out


def _by_compiled_config(
    recorded: _RecordedTuning,
    configurations: Sequence[Configuration],
    variants: Sequence[Variant],
    configured: Mapping[str, list[JsonObject]],
) -> list[Configuration]:
    """Those still without a variant with the only one that was compiled for the configuration, as
    the compiling process recorded."""
    out = []
    for row, configuration in zip(recorded.rows, configurations, strict=True):
        outcome = (configuration.reason or "").partition(":")[0]
        is_compiled = outcome not in ("pruned", "failed")
        if configuration.variant is None and row.hash is None and is_compiled:
            config = configuration.config
            fits = [v.id for v in variants if config in configured.get(v.hash, ())]
            if len(fits) == 1:
                configuration = replace(configuration, variant=fits[0])
        out.append(configuration)
    return out


def _by_agreement(
    recorded: _RecordedTuning,
    configurations: Sequence[Configuration],
    variants: Sequence[Variant],
) -> list[Configuration]:
    """Measured ones still without a variant with the only one that has their settings, where no
    other measured configuration has them."""
    out = list(configurations)
    assigned = {configuration.variant for configuration in out}
    for index, configuration in enumerate(out):
        is_measured = recorded.has_subset and configuration.time_us is not None
        if index != recorded.tuning.best and not is_measured:
            continue
        if configuration.variant is not None or recorded.rows[index].hash is not None:
            continue
        agreeing = [v for v in variants if _agrees(configuration.config, v)]
        if len(agreeing) != 1 or agreeing[0].id in assigned:
            continue
        rivals = [
            c for c in out if c is not configuration and c.variant is None and c.time_us is not None
        ]
        if not any(_agrees(rival.config, agreeing[0]) for rival in rivals):
            out[index] = replace(configuration, variant=agreeing[0].id)
    return out


def _with_reasons(
    configurations: Iterable[Configuration], variants: tuple[Variant, ...]
) -> tuple[Configuration, ...]:
    """Give candidates that failed the reason of their variants: the compiler's words, with their
    place."""
    errors = {v.id: v.failed for v in variants if v.failed is not None}
    return tuple(
        replace(configuration, reason=f"failed: {errors[configuration.variant]}")
        if configuration.variant in errors and configuration.time_us is None
        else configuration
        for configuration in configurations
    )


def _with_variant(configuration: Configuration, variants: tuple[Variant, ...]) -> Configuration:
    """A candidate with its variant: the one that was given its settings."""
    config = configuration.config
    fits = [v.id for v in variants if all(v.config.get(k) == x for k, x in config.items())]
    return replace(configuration, variant=fits[0]) if len(fits) == 1 and config else configuration


def _agrees(config: Mapping[str, object], variant: Variant) -> bool:
    """Whether a tuner's configuration contradicts nothing in the variant's own.

    Inductor omits constants that a kernel does not need (XBLOCK of one row, R0_BLOCK of a
    persistent reduction), and a cache keeps no constants.
    """
    compiled = variant.config
    if "RBLOCK" in config and "R0_BLOCK" in compiled:
        config = {("R0_BLOCK" if k == "RBLOCK" else k): v for k, v in config.items()}
    if config.get("num_warps") is None or compiled.get("num_warps") is None:
        return False
    return all(compiled.get(name) in (None, value) for name, value in config.items())


def _add_failure(tunings: list[Tuning], failed: Tuning) -> None:
    """Add a configuration that failed to each measured tuning of its tuner."""
    (failure,) = failed.configurations
    is_added = False
    for index, tuning in enumerate(tunings):
        if tuning.tuner != failed.tuner or tuning.from_cache:
            continue
        configurations = []
        for configuration in tuning.configurations:
            if configuration.config == failure.config and configuration.time_us is None:
                reason = configuration.reason or failure.reason
                configuration = replace(configuration, reason=reason)
            configurations.append(configuration)
        if not any(c.config == failure.config for c in configurations):
            configurations.append(failure)
        tunings[index] = replace(tuning, configurations=tuple(configurations))
        is_added = True
    if not is_added:
        tunings.append(failed)


def _distinct(tunings: Sequence[Tuning]) -> tuple[Tuning, ...]:
    """Each tuning once, without cached ones whose winner was measured in this recording; what
    they were used for is the measured one's."""
    measured = [t for t in tunings if not t.from_cache and t.winner]
    out: list[Tuning] = []
    unused: list[Tuning] = []  # the same, without what they were used for
    for tuning in tunings:
        original = _measured_one(tuning, measured) or tuning
        alone = replace(original, uses=())
        if alone not in unused:
            unused.append(alone)
            out.append(alone)
        index = unused.index(alone)
        out[index] = _with_uses(out[index], tuning)
    return tuple(out)


def _measured_one(tuning: Tuning, measured: Iterable[Tuning]) -> Tuning | None:
    """The measured tuning whose winner Inductor took from its cache."""
    if not tuning.from_cache or tuning.tuner != "inductor" or tuning.winner is None:
        return None
    for other in measured:
        if other.winner is not None and other.winner.config == tuning.winner.config:
            return other
    return None


def _with_uses(tuning: Tuning, other: Tuning) -> Tuning:
    """A tuning with what another of the same operation was used for, by its own candidates."""
    configs = [repr(c.config) for c in tuning.configurations]
    uses = list(tuning.uses)
    for use in other.uses:
        index = None
        if use.configuration is not None:
            config = repr(other.configurations[use.configuration].config)
            index = configs.index(config) if config in configs else None
        uses.append(replace(use, configuration=index))
    return replace(tuning, uses=tuple(dict.fromkeys(uses)))
