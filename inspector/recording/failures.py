"""Why something came to nothing, of its events: a compile failed, a binary was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from inspector.model import LOAD, Compilation, Content, Failure, Stage, Variant
from inspector.recording.compilations import messages_from
from inspector.recording.facts import as_int, as_text

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
_STAGES = frozenset((*(stage.value for stage in Stage), LOAD))


def of_compile(event: Event, blob: Blob) -> Failure | None:
    """The failure that an event tells of a compile; None where it tells of none."""
    message = as_text(event.get("message")) or as_text(event.get("failed"))
    if message is None:
        return None
    stage = as_text(event.get("stage"))
    return Failure(
        message,
        stage=stage if stage in _STAGES else None,
        tool=as_text(event.get("tool")),
        kind=as_text(event.get("kind")),
        messages=messages_from(event.get("messages")),
        log=blob(event.get("log")),
        command=as_text(event.get("command")),
        required=as_int(event.get("required")),
        limit=as_int(event.get("limit")),
        resource=as_text(event.get("resource")),
    )


def of_loading(event: Event) -> Failure | None:
    """Why the device would not load a binary."""
    error = as_text(event.get("error"))
    if error is None:
        return None
    kind, colon, _ = error.partition(": ")
    return Failure(
        error,
        stage=LOAD,
        tool="driver" if event.get("required") is None else "triton",
        kind=kind if colon and kind.isidentifier() else None,
        required=as_int(event.get("required")),
        limit=as_int(event.get("limit")),
        resource=as_text(event.get("resource")),
    )


class Failures:
    """What is known of the failures of all variants, by hash."""

    def __init__(self) -> None:
        self._refused: dict[str, Failure] = {}
        self._loaded: set[str] = set()
        self._attempts: dict[str, Compilation] = {}

    def refused(self, event: Event) -> None:
        """A binary was not loaded."""
        failure = of_loading(event)
        if failure is not None:
            self._refused.setdefault(str(event.get("hash")), failure)

    def loaded(self, event: Event) -> None:
        """It was loaded, by this process or another."""
        self._loaded.add(str(event.get("hash")))

    def attempts(self, compilations: Iterable[Compilation]) -> None:
        """What ``ptxview compile`` was told of those that failed."""
        for one in compilations:
            if one.failed is not None and one.hash is not None:
                self._attempts.setdefault(one.hash, one)

    def of(self, variant: Variant) -> Failure | None:
        """Why a variant came to nothing, None where it did not."""
        own, attempt = variant.error, self._attempts.get(variant.hash)
        if own is None and (attempt is None or Stage.SASS in variant.stages):
            return None if variant.hash in self._loaded else self._refused.get(variant.hash)
        if attempt is None or (own is not None and own.messages):
            return own
        return Failure(
            attempt.failed or "", None if own is None else own.stage,
            (attempt.tool or "").partition(" ")[0] or None, messages=attempt.messages,
        )  # fmt: skip
