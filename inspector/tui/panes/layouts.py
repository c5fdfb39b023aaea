"""Layouts by name: which stages are beside each other."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.model import Stage
from inspector.tui.widgets.subject import TreeSubject


@dataclass(frozen=True, slots=True)
class Layout:
    """``stages`` are those of the panes, each with its substitutes; none at
    all are one pane with whatever it shows."""

    name: str
    title: str
    stages: tuple[tuple[Stage, ...], ...] = ()

    def of(self, subject: TreeSubject) -> tuple[Stage, ...]:
        """The stages that the panes show of a subject."""
        return tuple(
            next((stage for stage in choices if subject.has(stage)), choices[0])
            for choices in self.stages
        )

    def lacks(self, subject: TreeSubject) -> tuple[Stage, ...]:
        """Those of them that the subject has not."""
        return tuple(stage for stage in self.of(subject) if not subject.has(stage))


LAYOUTS = (
    # What Inductor generates has no other source than its output_code.
    Layout(
        "lowering",
        "source · PTX · SASS",
        ((Stage.SOURCE, Stage.OUTPUT_CODE), (Stage.PTX,), (Stage.SASS,)),
    ),
    Layout(
        "generated",
        "source · output_code · PTX",
        ((Stage.SOURCE,), (Stage.OUTPUT_CODE,), (Stage.PTX,)),
    ),
    Layout("whole", "one pane, whole"),
)
"""In the order in which one key goes through them."""


def layout(name: str) -> Layout | None:
    """The layout of that name."""
    return next((one for one in LAYOUTS if one.name == name), None)


def after(now: Layout | None) -> Layout:
    """The one that the key goes to from another."""
    return LAYOUTS[0 if now is None else (LAYOUTS.index(now) + 1) % len(LAYOUTS)]
