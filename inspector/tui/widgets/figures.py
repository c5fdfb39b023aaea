"""Resources as text. A figure that is not known is a dash, never 0."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.base.model import Resources, Variant
from inspector.report.tables import setting

UNKNOWN = "–"
UNREAD = "…"
"""Nobody has looked yet, which is not the dash of what is not known."""


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


def warps(variant: Variant) -> int | None:
    """``num_warps`` of the configuration, where it has one."""
    value = variant.config.get("num_warps")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def configuration(config: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """The chosen entries of a configuration in a row."""
    return " ".join(setting(key, config[key]) for key in keys if config.get(key) is not None)
