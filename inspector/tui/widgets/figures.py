"""Resources as text. A figure that is not known is a dash, never 0."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.model import Resources, Variant

UNKNOWN = "–"


def figure(value: int | None) -> str:
    """A number, or the dash."""
    return UNKNOWN if value is None else str(value)


def spilled(resources: Resources) -> bool:
    """Whether registers are known to have been spilled to local memory."""
    return bool(resources.spill_store_bytes or resources.spill_load_bytes)


def spills(resources: Resources) -> str:
    """Bytes stored and loaded again: ``16/24 B``."""
    store, load = resources.spill_store_bytes, resources.spill_load_bytes
    if store is None and load is None:
        return UNKNOWN
    if not store and not load and None not in (store, load):
        return "0"
    return f"{figure(store)}/{figure(load)} B" + (" ⚠" if store or load else "")


def shared(resources: Resources) -> str:
    """Static and dynamic bytes a block: ``1024+49152 B``; one dash where neither is known."""
    static, dynamic = resources.static_shared_bytes, resources.dynamic_shared_bytes
    if static is None and dynamic is None:
        return UNKNOWN
    if static == 0 and dynamic == 0:
        return "0"
    return f"{figure(static)}+{figure(dynamic)} B"


def warps(variant: Variant) -> int | None:
    """``num_warps`` of the configuration, where it has one."""
    value = variant.config.get("num_warps")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def setting(key: str, value: object) -> str:
    """One entry of a configuration, short: ``w4``, ``s3``, ``BLOCK=1024``."""
    short = {"num_warps": "w", "num_stages": "s", "num_ctas": "c", "maxnreg": "maxnreg="}
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    return f"{short[key]}{value}" if key in short else f"{key}={value}"


def differing(variants: tuple[Variant, ...]) -> tuple[str, ...]:
    """The keys of the configuration by which a kernel's variants differ, constexprs first."""
    keys: dict[str, None] = {}
    for variant in variants:
        keys.update(dict.fromkeys(variant.config))
    names = [
        key
        for key in keys
        if any(
            (key in variant.config, variant.config.get(key))
            != (key in variants[0].config, variants[0].config.get(key))
            for variant in variants[1:]
        )
    ]
    own = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    return tuple(k for k in names if k not in own) + tuple(k for k in own if k in names)


def configuration(config: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """The chosen entries of a configuration in a row."""
    return " ".join(setting(key, config[key]) for key in keys if config.get(key) is not None)
