"""Events of autotuning into values: each tuning of a kernel, tied to its variants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from inspector.model import Configuration, Kernel, Origin, Tuning, Variant
from inspector.recording.facts import as_int, as_map, as_text

Event = Mapping[str, object]
Key = tuple[str, str, str]
Process = tuple[int, int]
# Triton asks its stopwatch for these quantiles, in this order.
QUANTILES = (0.5, 0.2, 0.8)


@dataclass(frozen=True, slots=True)
class _Heard:
    """One tuning as it was told: by whom, of which kernel; configurations with hash or folder."""

    tuning: Tuning
    name: str
    file: str
    compiled: tuple[tuple[str | None, str | None], ...]
    kept: bool = False


class Tunings:
    """Collects the events of autotuning of all processes."""

    def __init__(self) -> None:
        self._generation: dict[int, int] = {}
        self._heard: dict[object, _Heard] = {}
        self._failed: list[_Heard] = []
        self._configured: dict[str, list[Mapping[str, object]]] = {}

    def take(self, event: Event) -> None:
        """One event of any kind; a tuning that is told again is told better."""
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

    def strangers(self, known: Iterable[Key]) -> Iterator[tuple[Key, Origin, str]]:
        """Kernels of Triton's of which nothing is known but that they were tuned."""
        names = {(key[0], key[1]) for key in known}
        for heard in self._heard.values():
            origin = Origin.TRITON
            if heard.tuning.by != origin.value or not heard.name:
                continue
            held = any(h or c for h, c in heard.compiled)
            if not held and (origin.value, heard.name) not in names:
                yield (origin.value, heard.name, heard.file), origin, heard.name

    def place(
        self, kernels: Mapping[Key, tuple[Variant, ...]], files: Mapping[str, Key]
    ) -> dict[Key, tuple[Tuning, ...]]:
        """The tunings of each kernel, with its variants' ids; variants must have theirs.

        ``files`` tells by name of a file of Inductor's which kernel stands in it.
        """
        found: dict[Key, list[tuple[Tuning, bool]]] = {}
        for heard in self._heard.values():
            key = _kernel(heard, kernels, files)
            if key is not None:
                at = found.setdefault(key, [])
                linked = _linked(heard, kernels[key], self._configured)
                at.append((linked, heard.tuning.from_cache))
        for heard in self._failed:
            key = _kernel(heard, kernels, files)
            if key is not None:
                linked = _linked(heard, kernels[key], self._configured)
                _drop(found.setdefault(key, []), linked)
        return {key: _distinct(tunings) for key, tunings in found.items()}


def tuned(kernel: Kernel, tunings: tuple[Tuning, ...]) -> Kernel:
    """The kernel with its tunings, each variant with what they came to for it."""
    variants = (replace(v, autotune=of_variant(v, tunings)) for v in kernel.variants)
    return replace(kernel, autotune=tunings, variants=tuple(variants))


def of_variant(variant: Variant, tunings: Iterable[Tuning]) -> Mapping[str, object] | None:
    """What tuning came to for one variant: of the tuning that it won, else of the last."""
    out: dict[str, object] | None = None
    for tuning in tunings:
        for at, one in enumerate(tuning.configurations):
            if one.variant != variant.id or (out is not None and out["winner"]):
                continue
            out = {
                "key": key_of(tuning),
                "winner": at == tuning.best,
                "time_us": one.time_us,
                "quantiles_us": None if one.quantiles_us is None else list(one.quantiles_us),
                "by": tuning.by,
                "stopwatch": tuning.stopwatch,
                "from_cache": tuning.from_cache,
                "reason": one.reason,
                "config": dict(one.config),
            }
    return out


def key_of(tuning: Tuning) -> object:
    """A tuning's key as JSON has it."""
    if tuning.key is None:
        return None
    return dict(tuning.key) if isinstance(tuning.key, Mapping) else list(tuning.key)


# -- events ---------------------------------------------------------------------------------------


def _heard(event: Event) -> _Heard | None:
    given = event.get("configurations")
    said = [as_map(c) for c in (given if isinstance(given, list | tuple) else [])]
    key = event.get("key")
    best = as_int(event.get("winner"))
    if not said:
        return None
    by = "inductor" if event.get("by") == "inductor" else "triton"
    return _Heard(
        Tuning(
            by=by,
            key=as_map(key) if isinstance(key, Mapping)
            else tuple(key) if isinstance(key, list | tuple) else None,
            configurations=tuple(configuration(c, by) for c in said),
            best=best if best is not None and 0 <= best < len(said) else None,
            stopwatch=as_text(event.get("stopwatch")),
            method=as_text(event.get("method")),
            from_cache=event.get("from_cache") is True,
            seconds=finite(event.get("seconds")),
        ),
        name=as_text(event.get("name")) or "",
        file=as_text(event.get("file")) or "",
        compiled=tuple((as_text(c.get("hash")), as_text(c.get("cache_key"))) for c in said),
        kept=event.get("kept") is True,
    )  # fmt: skip


def configuration(said: Mapping[str, object], by: str) -> Configuration:
    """One configuration of an event's; ``times_ms`` in Triton's order of quantiles."""
    times = said.get("times_ms")
    given = [finite(t) for t in times] if isinstance(times, list | tuple) else []
    measured = [t * 1000 for t in given if t is not None]
    whole = bool(measured) and len(measured) == len(given)
    three = whole and by == "triton" and len(measured) == len(QUANTILES)
    order = sorted(range(len(QUANTILES)), key=QUANTILES.__getitem__)
    return Configuration(
        config=as_map(said.get("config")),
        time_us=measured[0] if whole else None,
        quantiles_us=tuple(measured[n] for n in order) if three else None,
        reason=as_text(said.get("reason")),
    )


def finite(value: object) -> float | None:
    """A time, or None if it is infinite, not a number, or no time at all."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # JSON's integers may be of any size; no time is as long.
    return float(value) if 0 <= value < 1e18 else None


# -- which kernel, which variant ------------------------------------------------------------------


def _kernel(
    heard: _Heard, kernels: Mapping[Key, tuple[Variant, ...]], files: Mapping[str, Key]
) -> Key | None:
    """The kernel that was tuned: by what was compiled for it, its file, or its name alone."""
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

    A configuration is the variant's that was compiled for it. Where the tuner did not say which
    that was (it took the best one from a cache), the process that compiled it did; where neither
    did, it is the only variant whose own warps, stages and constants are no others, if no other
    of the measured configurations has the same.
    """
    hashes = {v.hash: v.id for v in variants}
    folders = {v.cache_key: v.id for v in variants if v.cache_key}
    out = []
    for one, (digest, folder) in zip(heard.tuning.configurations, heard.compiled, strict=True):
        found = hashes.get(digest or "") or folders.get(folder or "")
        if found is None and digest is None and not _never_compiled(one):
            fits = [v.id for v in variants if one.config in configured.get(v.hash, ())]
            found = fits[0] if len(fits) == 1 else None
        out.append(replace(one, variant=found))
    taken = {one.variant for one in out}
    for at, one in enumerate(out):
        chosen = at == heard.tuning.best or (heard.kept and one.time_us is not None)
        if one.variant is not None or not chosen or heard.compiled[at][0] is not None:
            continue
        agreeing = [v for v in variants if _agrees(one.config, v)]
        if len(agreeing) != 1 or agreeing[0].id in taken:
            continue
        rivals = [c for c in out if c.variant is None and (c.time_us is not None or c is one)]
        if sum(_agrees(c.config, agreeing[0]) for c in rivals) == 1:
            out[at] = replace(one, variant=agreeing[0].id)
    return replace(heard.tuning, configurations=tuple(out))


def _never_compiled(one: Configuration) -> bool:
    return (one.reason or "").partition(":")[0] in ("pruned", "failed")


def _agrees(config: Mapping[str, object], variant: Variant) -> bool:
    """Whether nothing of a tuner's configuration is otherwise in what was compiled.

    Inductor leaves out of a kernel what it does not take (XBLOCK of one row, R0_BLOCK of a
    persistent reduction), and a cache keeps no constants.
    """
    own = variant.config
    if "RBLOCK" in config and "R0_BLOCK" in own:
        config = {("R0_BLOCK" if k == "RBLOCK" else k): v for k, v in config.items()}
    if config.get("num_warps") is None or own.get("num_warps") is None:
        return False
    return all(own.get(name) in (None, value) for name, value in config.items())


def _drop(tunings: list[tuple[Tuning, bool]], failed: Tuning) -> None:
    """Put what failed before it was measured to the tunings of its kernel, which never saw it."""
    (one,) = failed.configurations
    for at, (tuning, cached) in enumerate(tunings):
        if tuning.by != failed.by or cached:
            continue
        same = [n for n, c in enumerate(tuning.configurations) if c.config == one.config]
        if not same:
            configurations = (*tuning.configurations, one)
        elif tuning.configurations[same[0]].time_us is None:
            earlier = tuning.configurations[same[0]]
            said = replace(earlier, reason=earlier.reason or one.reason)
            configurations = (
                *tuning.configurations[: same[0]],
                said,
                *tuning.configurations[same[0] + 1 :],
            )
        else:
            continue
        tunings[at] = (replace(tuning, configurations=configurations), cached)
    if not any(t.by == failed.by and not cached for t, cached in tunings):
        tunings.append((failed, False))


def _distinct(tunings: list[tuple[Tuning, bool]]) -> tuple[Tuning, ...]:
    """Each tuning once; one that was taken from a cache not where it was seen to be measured."""
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
