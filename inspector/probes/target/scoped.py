"""Patches that end: attributes set for the length of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

_ABSENT = object()


class Patches:
    """Sets attributes on entering and puts back what was there on leaving; reentrant."""

    def __init__(self, wanted: Iterable[tuple[Any, str, Any]] = ()) -> None:
        self.wanted = list(wanted)
        self._undo: list[tuple[Any, str, Any]] = []
        self._depth = 0

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set one attribute now, to be put back with the rest."""
        # A class's own entry, so that a staticmethod comes back as one and an inherited name goes.
        own = vars(owner).get(name, _ABSENT) if isinstance(owner, type) else _ABSENT
        if own is _ABSENT and not isinstance(owner, type):
            own = getattr(owner, name, _ABSENT)
        self._undo.append((owner, name, own))
        setattr(owner, name, value)

    def __enter__(self) -> Patches:
        self._depth += 1
        if self._depth == 1:
            for owner, name, value in self.wanted:
                self.set(owner, name, value)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _ABSENT:
                try:
                    delattr(owner, name)
                except AttributeError:
                    pass
            else:
                setattr(owner, name, value)
