"""What was counted when blocks of a call were run, kept by content in the user's own cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from inspector import __version__
from inspector.analyse.hints.counts import ExecutedAccess, ExecutedBranch, ExecutedFacts
from inspector.errors import PtxviewError
from inspector.model import Stage, Variant
from inspector.recording.layout import DerivedCache


class Executions:
    """The last counts of each variant. They are of its PTX and of its recorded calls: of another
    kernel of the same name, or of the same one launched otherwise, nothing is known."""

    def __init__(self, cache: DerivedCache) -> None:
        self._cache = cache

    def of(self, variant: Variant) -> ExecutedFacts | None:
        """What was counted of a variant; None if nobody has run it."""
        key = self._key(variant)
        kept = None if key is None else self._cache.get(key)
        if kept is None:
            return None
        try:
            return _from_json(json.loads(kept))
        except (ValueError, TypeError, LookupError):
            return None

    def keep(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Keep what was counted of a variant in place of what was before."""
        key = self._key(variant)
        if key is not None:
            self._cache.put(key, json.dumps(asdict(facts)).encode())

    def _key(self, variant: Variant) -> str | None:
        file = variant.stages.get(Stage.PTX)
        if file is None:
            return None
        try:
            text = file.content.read()
        except PtxviewError:
            return None
        # Names are a stranger's: not every one of them can be encoded.
        return self._cache.key(
            "executed", __version__, text, ascii((variant.symbol, variant.calls))
        )


def _from_json(told: Mapping[str, object]) -> ExecutedFacts:
    """Raises TypeError and others where it is no such thing."""
    accesses, branches = told["accesses"], told["branches"]
    if not isinstance(accesses, list) or not isinstance(branches, list):
        raise TypeError("no lists")
    numbers = {n: told[n] for n in ("ran", "of", "instructions", "threads", "active")}
    if not all(isinstance(n, int) for n in numbers.values()):
        raise TypeError("no numbers")
    return ExecutedFacts(
        **{n: int(str(v)) for n, v in numbers.items()},
        accesses=tuple(ExecutedAccess(**one) for one in accesses),
        branches=tuple(ExecutedBranch(**one) for one in branches),
    )
