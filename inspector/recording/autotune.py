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
from inspector.recording.facts import Event, Processes, as_int, as_map, as_seconds, as_text
from inspector.recording.variants import Key, VariantOfKernel

GraphRef = tuple[int | None, int | None, int | None, str | None]
"""A graph as events name it: process, frame, which compile of that, and AOTAutograd's name."""
# Triton asks its stopwatch for these quantiles, in this order.
QUANTILES = (0.5, 0.2, 0.8)
MAX_NAME_CHARS = 60


class _Heard(Struct, frozen=True):
    """One recorded tuning: its kernel's name and file, and hash or folder of each configuration."""

    tuning: Tuning
    name: str
    file: str
    compiled: tuple[tuple[str | None, str | None], ...]
    has_subset: bool = False
    files: tuple[str | None, ...] = ()
    candidates: tuple[int | None, ...] = ()
    node: str | None = None
    graph: GraphRef = (None, None, None, None)

    @property
    def operation(self) -> Key | None:
        if self.tuning.operation is None:
            return None
        return Origin.INDUCTOR.value, self.name, f"{self.tuning.operation} {self.tuning.key}"


class _Tried(Struct, frozen=True):
    """Operations that were compiled in one file, to be measured; ``choice`` is what wrote them."""

    nodes: tuple[str, ...]
    graph: GraphRef
    choice: tuple[object, int] | None

    @property
    def key(self) -> Key:
        name = "+".join(self.nodes)
        short = name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…"
        return Origin.INDUCTOR.value, f"{short} (tried)", f"{self.graph} {name}"


class Tunings:
    """Collects the events of autotuning of all processes."""

    def __init__(self) -> None:
        self._written: dict[object, list[tuple[int, str]]] = {}
        self._tried: dict[str, _Tried] = {}
        self._tried_ms: dict[str, float] = {}
        self._processes = Processes("process")
        self._heard: dict[object, _Heard] = {}
        self._failed: list[_Heard] = []
        self._configured: dict[str, list[Mapping[str, object]]] = {}

    def take(self, event: Event) -> None:
        """Take in an event of any kind; a later event of a tuning replaces the earlier one."""
        match event.get("event"):
            case "process":
                self._processes.process_of(event)
            case "configured" if digest := as_text(event.get("hash")):
                self._configured.setdefault(digest, []).append(as_map(event.get("config")))
            case "autotune_failed":
                heard = _heard({**event, "configurations": [event.get("configuration")]})
                self._failed += [] if heard is None else [heard]
            case "autotune" if heard := _heard(event):
                self._heard[self._name(event) or (len(self._heard), None, None)] = heard
            case "written":
                index, kernel = as_int(event.get("configuration")), as_text(event.get("kernel"))
                if index is not None and kernel is not None:
                    self._written.setdefault(self._name(event), []).append((index, kernel))
            case "fusion_tried" if file := as_text(event.get("file")):
                candidate, tuning = as_int(event.get("configuration")), self._name(event)
                names = tuple(map(str, _listed(event.get("nodes"))))
                choice = None if candidate is None or tuning is None else (tuning, candidate)
                if names:  # the same text is compiled once, however often it is requested
                    tried = _Tried(names, graph_of(event), choice)
                    self._tried.setdefault(PurePath(file).name, tried)
            case "fusion_time" if (ms := as_seconds(event.get("ms"))) is not None:
                self._tried_ms[PurePath(as_text(event.get("file")) or "").name] = ms

    def _name(self, event: Event) -> tuple[int, int, int] | None:
        """A tuning among those of all processes; None of what has no number."""
        process, number = self._processes.process_of(event), as_int(event.get("tuning"))
        return None if process is None or number is None else (*process, number)

    def candidate(self, compiled: VariantOfKernel) -> VariantOfKernel:
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
        homes = {name: (tried.key, self._settings(tried)) for name, tried in self._tried.items()}
        for heard in reversed(self._heard.values()):
            key = heard.operation
            pairs = zip(heard.files, heard.tuning.configurations, strict=False)
            named = (
                (PurePath(file).name, configuration.config) for file, configuration in pairs if file
            )
            homes |= {name: (key, config) for name, config in named if key is not None}
        return homes

    def _settings(self, tried: _Tried) -> Mapping[str, object]:
        """The settings of the candidate that wrote what was tried."""
        heard = None if tried.choice is None else self._heard.get(tried.choice[0])
        if heard is None or tried.choice is None:
            return {}
        configurations = heard.tuning.configurations
        return (
            configurations[tried.choice[1]].config
            if 0 <= tried.choice[1] < len(configurations)
            else {}
        )

    def tried(
        self, kernels: Mapping[Key, Kernel], graphs: Mapping[GraphRef, str]
    ) -> Iterator[tuple[str, Key, TriedFusion | None]]:
        """Graphs, and the kernels that were compared for each; of a fusion how long it took."""
        for heard in self._heard.values():
            key = heard.operation
            if key in kernels and key is not None and (graph := graphs.get(heard.graph)):
                yield graph, key, None
        for key, trials in self._trials().items():
            first = trials[0][0]
            if key in kernels and (graph := graphs.get(first.graph)):
                us = min((us for _, us in trials if us is not None), default=None)
                yield graph, key, TriedFusion(first.nodes, kernels[key].id, us)

    def _trials(self) -> Mapping[Key, list[tuple[_Tried, float | None]]]:
        """What was compiled with what could be fused into it, with its microseconds."""
        out: dict[Key, list[tuple[_Tried, float | None]]] = {}
        for file, trial in self._tried.items():
            ms = self._tried_ms.get(file)
            out.setdefault(trial.key, []).append((trial, None if ms is None else ms * 1000))
        return out

    def strangers(self, keys: Collection[Key]) -> Iterator[tuple[Key, Origin, str]]:
        """Kernels that are known only because they were tuned: Triton's, and operations."""
        names = {(key[0], key[1]) for key in keys}
        for heard in self._heard.values():
            origin = Origin.TRITON
            if heard.operation is not None:
                if heard.operation not in keys:
                    yield heard.operation, Origin.INDUCTOR, heard.name
            elif heard.tuning.tuner == origin.value and heard.name:
                has_binary = any(h or c for h, c in heard.compiled)
                if not has_binary and (origin.value, heard.name) not in names:
                    yield (origin.value, heard.name, heard.file), origin, heard.name

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
        without a kernel of its own, by the process's id and the candidate's number.
        """
        tunings_of: dict[Key, list[tuple[Tuning, bool]]] = {}
        for name, heard in self._heard.items():
            key = _kernel(heard, kernels, files)
            if key is not None:
                of_kernel = tunings_of.setdefault(key, [])
                linked = _linked(heard, kernels[key], self._configured)
                linked = replace(linked, uses=self._uses(name, heard, graphs))
                linked = _with_candidate_times(linked, heard, candidate_time)
                of_kernel.append((linked, heard.tuning.from_cache))
        for key, trials in self._trials().items():
            if key in kernels and (fused := self._fused(key, trials, kernels[key])) is not None:
                tunings_of.setdefault(key, []).append((fused, False))
        operations = {heard.operation for heard in self._heard.values()}
        for heard in self._failed:
            key = _kernel(heard, kernels, files)
            if key is not None and key not in operations:  # there its own tuning says why
                linked = _linked(heard, kernels[key], self._configured)
                _add_failure(tunings_of.setdefault(key, []), linked)
        return {key: _distinct(tunings) for key, tunings in tunings_of.items()}

    def _fused(
        self, key: Key, trials: Iterable[tuple[_Tried, float | None]], variants: tuple[Variant, ...]
    ) -> Tuning | None:
        """Candidates that were compiled with what could be fused into them, as a tuning."""
        entries = tuple(
            _with_variant(Configuration(config, time_us=us, maker="Triton"), variants)
            for trial, us in trials
            if (config := self._settings(trial))
        )
        times = [(c.time_us, n) for n, c in enumerate(entries) if c.time_us is not None]
        best = min(times)[1] if times else None
        nodes = {"fused": key[2].rpartition(" ")[2]}
        return Tuning("inductor", nodes, entries, best, method="fusion") if entries else None

    def _uses(
        self, name: object, heard: _Heard, graphs: Mapping[GraphRef, tuple[str, Mapping[str, str]]]
    ) -> tuple[ChoiceUse, ...]:
        if heard.operation is None or heard.graph not in graphs:
            return ()
        graph, kernels = graphs[heard.graph]
        count = len(heard.tuning.configurations)
        written = [
            (index, kernels[kernel])
            for index, kernel in self._written.get(name, ())
            if kernel in kernels and 0 <= index < count
        ]
        if not written:
            return (ChoiceUse(graph, heard.node),)
        return tuple(ChoiceUse(graph, heard.node, *choice) for choice in written)


def _with_candidate_times(
    tuning: Tuning, heard: _Heard, candidate_time: Callable[[int, int], GpuTime | None]
) -> Tuning:
    """A tuning with the times of those candidates that launch a library's kernels."""
    pid = heard.graph[0]
    if pid is None or not any(heard.candidates):
        return tuning
    configurations = list(tuning.configurations)
    for index, number in enumerate(heard.candidates[: len(configurations)]):
        if number is not None:
            time = candidate_time(pid, number)
            configurations[index] = replace(configurations[index], gpu_time=time)
    return replace(tuning, configurations=tuple(configurations))


def with_gpu_times(
    tunings: Sequence[Tuning],
    variants: Iterable[Variant],
    times_by_grid: Callable[[Variant], Sequence[GpuTime | None]],
) -> tuple[Tuning, ...]:
    """The tunings of a kernel with the times of the launches that compared their candidates.

    Launches of a variant in several rounds for one key are timed together. Those for several keys
    are told apart by their grids, where each key has one: both are in the order of time.
    """
    times: dict[tuple[str | None, str], GpuTime | None] = {}
    for variant in variants:
        if variant.tuning_gpu_time is None:
            continue
        keys = dict.fromkeys(repr(t.key) for t in tunings if _was_launched(t, variant.id))
        of_keys = [variant.tuning_gpu_time] if len(keys) == 1 else times_by_grid(variant)
        if len(of_keys) == len(keys):
            times |= {(variant.id, key): time for key, time in zip(keys, of_keys, strict=True)}
    return tuple(
        replace(
            tuning,
            configurations=tuple(
                replace(
                    configuration,
                    gpu_time=configuration.gpu_time
                    or times.get((configuration.variant, repr(tuning.key))),
                )
                for configuration in tuning.configurations
            ),
        )
        if not tuning.from_cache
        else tuning
        for tuning in tunings
    )


def _was_launched(tuning: Tuning, variant_id: str) -> bool:
    """Whether a round launched a variant to time it."""
    return not tuning.from_cache and any(
        configuration.variant == variant_id and configuration.time_us is not None
        for configuration in tuning.configurations
    )


def graph_of(event: Event) -> GraphRef:
    name = as_text(event.get("graph")) or as_text(event.get("aot"))
    pid, frame, compiled = (
        as_int(event.get(key)) for key in ("pid", "frame_id", "frame_compile_id")
    )
    return pid, frame, compiled, name


def generated(kernels: Iterable[Kernel]) -> dict[str, Mapping[str, object]]:
    return {
        use.kernel: tuning.configurations[use.configuration].config
        for kernel in kernels
        for tuning in kernel.autotune
        for use in tuning.uses
        if use.kernel is not None and use.configuration is not None
    }


def of_variant(variant: Variant, tunings: Iterable[Tuning]) -> Mapping[str, object] | None:
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


def _heard(event: Event) -> _Heard | None:
    entries = [as_map(row) for row in _listed(event.get("configurations"))]
    key = event.get("key")
    best = as_int(event.get("winner"))
    if not entries:
        return None
    tuner = "inductor" if event.get("by") == "inductor" else "triton"
    tuning = Tuning(
        tuner=tuner,
        key=as_map(key) if isinstance(key, Mapping) else tuple(_listed(key)) or None,
        configurations=tuple(configuration(c, tuner) for c in entries),
        best=best if best is not None and 0 <= best < len(entries) else None,
        stopwatch=as_text(event.get("stopwatch")),
        method=as_text(event.get("method")),
        from_cache=event.get("from_cache") is True,
        seconds=as_seconds(event.get("seconds")),
        operation=as_text(event.get("operation")) if tuner == "inductor" else None,
    )
    return _Heard(
        tuning,
        name=as_text(event.get("name")) or "",
        file=as_text(event.get("file")) or "",
        compiled=tuple((as_text(c.get("hash")), as_text(c.get("cache_key"))) for c in entries),
        has_subset=event.get("kept") is True,
        files=tuple(as_text(c.get("file")) for c in entries),
        candidates=tuple(as_int(c.get("candidate")) for c in entries),
        node=as_text(event.get("node")),
        graph=graph_of(event),
    )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def configuration(entry: Mapping[str, object], tuner: str) -> Configuration:
    """One configuration of an event's; ``times_ms`` in Triton's order of quantiles."""
    times_ms = [as_seconds(t) for t in _listed(entry.get("times_ms"))]
    measured = [t * 1000 for t in times_ms if t is not None]
    all_finite = bool(measured) and len(measured) == len(times_ms)
    three = all_finite and tuner == "triton" and len(measured) == len(QUANTILES)
    order = sorted(range(len(QUANTILES)), key=QUANTILES.__getitem__)
    return Configuration(
        config=as_map(entry.get("config")),
        time_us=measured[0] if all_finite else None,
        quantiles_us=tuple(measured[n] for n in order) if three else None,
        reason=as_text(entry.get("reason")),
        maker=as_text(entry.get("maker")),
    )


def _kernel(
    heard: _Heard, kernels: Mapping[Key, tuple[Variant, ...]], files: Mapping[str, Key]
) -> Key | None:
    """The kernel that was tuned: found by its binaries, its file, or its name alone."""
    if heard.operation is not None:
        return heard.operation if heard.operation in kernels else None
    hashes = {h for h, _ in heard.compiled if h}
    folders = {c for _, c in heard.compiled if c}
    for key, variants in kernels.items():
        if any(v.hash in hashes or (v.cache_key or "") in folders for v in variants):
            return key
    inside = files.get(PurePath(heard.file).name) if heard.file else None
    if inside in kernels:
        return inside
    named = [k for k in kernels if k[1] == heard.name and k[0] == heard.tuning.tuner]
    exact = [k for k in named if k[2] == heard.file]
    return exact[0] if exact else named[0] if len(named) == 1 else None


def _linked(
    heard: _Heard,
    variants: tuple[Variant, ...],
    configured: Mapping[str, list[Mapping[str, object]]],
) -> Tuning:
    """The tuning with its variants' ids.

    A configuration belongs to the variant that was compiled for it. If the tuner did not record
    which that was (it took the best one from a cache), the compiling process may have. If neither
    did, it is the only variant with the same warps, stages and constants, provided that no other
    measured configuration has them too.
    """
    if heard.operation is not None:
        candidates = (_with_variant(c, variants) for c in heard.tuning.configurations)
        return replace(heard.tuning, configurations=_with_reasons(candidates, variants))
    hashes = {v.hash: v.id for v in variants}
    folders = {v.cache_key: v.id for v in variants if v.cache_key}
    out = []
    for configuration, (digest, folder) in zip(
        heard.tuning.configurations, heard.compiled, strict=True
    ):
        variant_id = hashes.get(digest or "") or folders.get(folder or "")
        compiled = (configuration.reason or "").partition(":")[0] not in ("pruned", "failed")
        if variant_id is None and digest is None and compiled:
            fits = [v.id for v in variants if configuration.config in configured.get(v.hash, ())]
            variant_id = fits[0] if len(fits) == 1 else None
        out.append(replace(configuration, variant=variant_id))
    assigned = {configuration.variant for configuration in out}
    for index, configuration in enumerate(out):
        was_measured = index == heard.tuning.best or (
            heard.has_subset and configuration.time_us is not None
        )
        if (
            configuration.variant is not None
            or not was_measured
            or heard.compiled[index][0] is not None
        ):
            continue
        agreeing = [v for v in variants if _agrees(configuration.config, v)]
        if len(agreeing) != 1 or agreeing[0].id in assigned:
            continue
        rivals = [
            c for c in out if c.variant is None and (c.time_us is not None or c is configuration)
        ]
        if sum(_agrees(c.config, agreeing[0]) for c in rivals) == 1:
            out[index] = replace(configuration, variant=agreeing[0].id)
    return replace(heard.tuning, configurations=_with_reasons(out, variants))


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


def _add_failure(tunings: list[tuple[Tuning, bool]], failed: Tuning) -> None:
    (failure,) = failed.configurations
    indices = [n for n, (t, cached) in enumerate(tunings) if t.tuner == failed.tuner and not cached]
    for n in indices:
        configurations = tuple(
            replace(c, reason=c.reason or failure.reason)
            if c.config == failure.config and c.time_us is None
            else c
            for c in tunings[n][0].configurations
        )
        added = () if any(c.config == failure.config for c in configurations) else (failure,)
        tunings[n] = replace(tunings[n][0], configurations=(*configurations, *added)), False
    if not indices:
        tunings.append((failed, False))


def _distinct(tunings: list[tuple[Tuning, bool]]) -> tuple[Tuning, ...]:
    """Each tuning once, without cached ones whose winner was measured in this recording; what
    they were used for is the measured one's."""
    measured = [(t, t.winner.config) for t, cached in tunings if not cached and t.winner]
    out: dict[int, Tuning] = {}
    unused: list[Tuning] = []  # the same, without what they were used for
    for tuning, cached in tunings:
        won = (
            tuning.winner.config
            if cached and tuning.tuner == "inductor" and tuning.winner
            else None
        )
        original = next((t for t, config in measured if config == won), tuning)
        alone = replace(original, uses=())
        if alone not in unused:
            unused.append(alone)
        index = unused.index(alone)
        out[index] = _with_uses(out.get(index, alone), tuning)
    return tuple(out.values())


def _with_uses(tuning: Tuning, other: Tuning) -> Tuning:
    """A tuning with what another of the same operation was used for, by its own candidates."""
    other_configurations, configs = (
        other.configurations,
        [repr(c.config) for c in tuning.configurations],
    )
    used_configs = [
        None if u.configuration is None else repr(other_configurations[u.configuration].config)
        for u in other.uses
    ]
    moved = (
        replace(use, configuration=configs.index(config) if config in configs else None)
        for use, config in zip(other.uses, used_configs, strict=True)
    )
    return replace(tuning, uses=tuple(dict.fromkeys((*tuning.uses, *moved))))
