"""Turns events of autotuning into tunings of kernels, tied to the kernels' variants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from inspector.model import Configuration, Kernel, Origin, Tuning, Variant
from inspector.recording.facts import as_int, as_map, as_text
from inspector.recording.variants import VariantOfKernel

Event = Mapping[str, object]
Key = tuple[str, str, str]
Process = tuple[int, int]
# Triton asks its stopwatch for these quantiles, in this order.
QUANTILES = (0.5, 0.2, 0.8)


@dataclass(frozen=True, slots=True)
class _Heard:
    """One recorded tuning: its kernel's name and file, and hash or folder of each configuration."""

    tuning: Tuning
    name: str
    file: str
    compiled: tuple[tuple[str | None, str | None], ...]
    kept: bool = False
    files: tuple[str | None, ...] = ()

    @property
    def operation(self) -> Key | None:
        """The kernel that stands for an operation whose candidates were compared."""
        if self.tuning.operation is None:
            return None
        return Origin.INDUCTOR.value, self.name, f"{self.tuning.operation} {self.tuning.key}"


class Tunings:
    """Collects the events of autotuning of all processes."""

    def __init__(self) -> None:
        self._generation: dict[int, int] = {}
        self._heard: dict[object, _Heard] = {}
        self._failed: list[_Heard] = []
        self._configured: dict[str, list[Mapping[str, object]]] = {}
        self._candidates: dict[str, tuple[Key, Mapping[str, object]]] = {}

    def take(self, event: Event) -> None:
        """Take in an event of any kind; a later event of a tuning replaces the earlier one."""
        kind, pid = event.get("event"), as_int(event.get("pid"))
        if kind == "process" and pid is not None:
            self._generation[pid] = self._generation.get(pid, 0) + 1
        elif kind == "configured" and (digest := as_text(event.get("hash"))) is not None:
            self._configured.setdefault(digest, []).append(as_map(event.get("config")))
        elif kind == "autotune_failed":
            heard = _heard({**event, "configurations": [event.get("configuration")]})
            if heard is not None:
                self._failed.append(heard)
        elif kind == "autotune":
            heard = _heard(event)
            number = as_int(event.get("tuning"))
            if heard is None:
                return
            if number is None or pid is None:
                self._heard[len(self._heard), None, None] = heard
            else:
                self._heard[pid, self._generation.get(pid, 0), number] = heard

    def candidate(self, compiled: VariantOfKernel) -> VariantOfKernel:
        """A compile, under its operation if it was a candidate for one of max-autotune's.

        Inductor writes each candidate into a file of its own, which is told with it.
        """
        if not self._candidates:
            for heard in self._heard.values():
                key = heard.operation
                pairs = zip(heard.files, heard.tuning.configurations, strict=False)
                for file, configuration in pairs:
                    if file and key is not None:
                        entry = (key, configuration.config)
                        self._candidates.setdefault(PurePath(file).name, entry)
        home = self._candidates.get(PurePath(compiled.key[2]).name) if self._candidates else None
        if home is None or compiled.origin is not Origin.INDUCTOR:
            return compiled
        key, config = home
        variant = replace(compiled.variant, config={**config, **compiled.variant.config})
        return replace(compiled, key=key, name=key[1], variant=variant)

    def strangers(self, keys: Collection[Key]) -> Iterator[tuple[Key, Origin, str]]:
        """Kernels that are known only because they were tuned: Triton's, and operations."""
        names = {(key[0], key[1]) for key in keys}
        for heard in self._heard.values():
            if heard.operation is not None:
                if heard.operation not in keys:
                    yield heard.operation, Origin.INDUCTOR, heard.name
                continue
            origin = Origin.TRITON
            if heard.tuning.by != origin.value or not heard.name:
                continue
            has_binary = any(h or c for h, c in heard.compiled)
            if not has_binary and (origin.value, heard.name) not in names:
                yield (origin.value, heard.name, heard.file), origin, heard.name

    def place(
        self, kernels: Mapping[Key, tuple[Variant, ...]], files: Mapping[str, Key]
    ) -> dict[Key, tuple[Tuning, ...]]:
        """The tunings of each kernel, with its variants' ids; variants must have theirs.

        ``files``: the kernel in each of Inductor's files, by the file's name.
        """
        tunings_of: dict[Key, list[tuple[Tuning, bool]]] = {}
        for heard in self._heard.values():
            key = _kernel(heard, kernels, files)
            if key is not None:
                of_kernel = tunings_of.setdefault(key, [])
                linked = _linked(heard, kernels[key], self._configured)
                of_kernel.append((linked, heard.tuning.from_cache))
        operations = {heard.operation for heard in self._heard.values()}
        for heard in self._failed:
            key = _kernel(heard, kernels, files)
            if key is not None and key not in operations:  # there its own tuning says why
                linked = _linked(heard, kernels[key], self._configured)
                _drop(tunings_of.setdefault(key, []), linked)
        return {key: _distinct(tunings) for key, tunings in tunings_of.items()}


def tuned(kernel: Kernel, tunings: tuple[Tuning, ...]) -> Kernel:
    """The kernel with its tunings, and each variant with their result for it."""
    variants = (replace(v, autotune=of_variant(v, tunings)) for v in kernel.variants)
    return replace(kernel, autotune=tunings, variants=tuple(variants))


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
                "quantiles_us": None
                if configuration.quantiles_us is None
                else list(configuration.quantiles_us),
                "by": tuning.by,
                "stopwatch": tuning.stopwatch,
                "from_cache": tuning.from_cache,
                "reason": configuration.reason,
                "config": dict(configuration.config),
            }
    return out


def key_of(tuning: Tuning) -> object:
    """A tuning's key as JSON has it."""
    if tuning.key is None:
        return None
    return dict(tuning.key) if isinstance(tuning.key, Mapping) else list(tuning.key)


# -- events ---------------------------------------------------------------------------------------


def _heard(event: Event) -> _Heard | None:
    configurations = event.get("configurations")
    entries = [
        as_map(c) for c in (configurations if isinstance(configurations, list | tuple) else [])
    ]
    key = event.get("key")
    best = as_int(event.get("winner"))
    if not entries:
        return None
    by = "inductor" if event.get("by") == "inductor" else "triton"
    return _Heard(
        Tuning(
            by=by,
            key=as_map(key) if isinstance(key, Mapping)
            else tuple(key) if isinstance(key, list | tuple) else None,
            configurations=tuple(configuration(c, by) for c in entries),
            best=best if best is not None and 0 <= best < len(entries) else None,
            stopwatch=as_text(event.get("stopwatch")),
            method=as_text(event.get("method")),
            from_cache=event.get("from_cache") is True,
            seconds=finite(event.get("seconds")),
            operation=as_text(event.get("operation")) if by == "inductor" else None,
        ),
        name=as_text(event.get("name")) or "",
        file=as_text(event.get("file")) or "",
        compiled=tuple((as_text(c.get("hash")), as_text(c.get("cache_key"))) for c in entries),
        kept=event.get("kept") is True,
        files=tuple(as_text(c.get("file")) for c in entries),
    )  # fmt: skip


def configuration(entry: Mapping[str, object], by: str) -> Configuration:
    """One configuration of an event's; ``times_ms`` in Triton's order of quantiles."""
    times = entry.get("times_ms")
    times_ms = [finite(t) for t in times] if isinstance(times, list | tuple) else []
    measured = [t * 1000 for t in times_ms if t is not None]
    all_finite = bool(measured) and len(measured) == len(times_ms)
    three = all_finite and by == "triton" and len(measured) == len(QUANTILES)
    order = sorted(range(len(QUANTILES)), key=QUANTILES.__getitem__)
    return Configuration(
        config=as_map(entry.get("config")),
        time_us=measured[0] if all_finite else None,
        quantiles_us=tuple(measured[n] for n in order) if three else None,
        reason=as_text(entry.get("reason")),
        maker=as_text(entry.get("maker")),
    )


def finite(value: object) -> float | None:
    """A time as a float; None if it is infinite, not a number, or negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # JSON's integers may be of any size; no time is as long.
    return float(value) if 0 <= value < 1e18 else None


# -- which kernel, which variant ------------------------------------------------------------------


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
    named = [k for k in kernels if k[1] == heard.name and k[0] == heard.tuning.by]
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
        return replace(
            heard.tuning,
            configurations=tuple(_chosen(c, variants) for c in heard.tuning.configurations),
        )
    hashes = {v.hash: v.id for v in variants}
    folders = {v.cache_key: v.id for v in variants if v.cache_key}
    out = []
    for configuration, (digest, folder) in zip(
        heard.tuning.configurations, heard.compiled, strict=True
    ):
        variant_id = hashes.get(digest or "") or folders.get(folder or "")
        if variant_id is None and digest is None and not _never_compiled(configuration):
            fits = [v.id for v in variants if configuration.config in configured.get(v.hash, ())]
            variant_id = fits[0] if len(fits) == 1 else None
        out.append(replace(configuration, variant=variant_id))
    assigned = {configuration.variant for configuration in out}
    for index, configuration in enumerate(out):
        chosen = index == heard.tuning.best or (heard.kept and configuration.time_us is not None)
        if configuration.variant is not None or not chosen or heard.compiled[index][0] is not None:
            continue
        agreeing = [v for v in variants if _agrees(configuration.config, v)]
        if len(agreeing) != 1 or agreeing[0].id in assigned:
            continue
        rivals = [
            c for c in out if c.variant is None and (c.time_us is not None or c is configuration)
        ]
        if sum(_agrees(c.config, agreeing[0]) for c in rivals) == 1:
            out[index] = replace(configuration, variant=agreeing[0].id)
    return replace(heard.tuning, configurations=tuple(out))


def _chosen(configuration: Configuration, variants: tuple[Variant, ...]) -> Configuration:
    """A candidate with its variant: the one that was given its settings."""
    config = configuration.config
    fits = [v.id for v in variants if all(v.config.get(k) == x for k, x in config.items())]
    return replace(configuration, variant=fits[0]) if len(fits) == 1 and config else configuration


def _never_compiled(configuration: Configuration) -> bool:
    return (configuration.reason or "").partition(":")[0] in ("pruned", "failed")


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


def _drop(tunings: list[tuple[Tuning, bool]], failed: Tuning) -> None:
    """Add a configuration that failed before its time was taken to the tunings of its kernel."""
    (configuration,) = failed.configurations
    for index, (tuning, cached) in enumerate(tunings):
        if tuning.by != failed.by or cached:
            continue
        same = [n for n, c in enumerate(tuning.configurations) if c.config == configuration.config]
        if not same:
            configurations = (*tuning.configurations, configuration)
        elif tuning.configurations[same[0]].time_us is None:
            earlier = tuning.configurations[same[0]]
            merged = replace(earlier, reason=earlier.reason or configuration.reason)
            configurations = (
                *tuning.configurations[: same[0]],
                merged,
                *tuning.configurations[same[0] + 1 :],
            )
        else:
            continue
        tunings[index] = (replace(tuning, configurations=configurations), cached)
    if not any(t.by == failed.by and not cached for t, cached in tunings):
        tunings.append((failed, False))


def _distinct(tunings: list[tuple[Tuning, bool]]) -> tuple[Tuning, ...]:
    """Each tuning once, without cached ones whose winner was measured in this recording."""
    measured = [t for t, cached in tunings if not cached]
    won = [t.winner.config for t in measured if t.winner is not None]
    out: list[Tuning] = []
    for tuning, cached in tunings:
        winner = tuning.winner
        if cached and tuning.by == "inductor" and winner is not None and winner.config in won:
            continue
        if tuning not in out:
            out.append(tuning)
    return tuple(out)
