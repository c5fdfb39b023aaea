"""The main screen on a new reader of the same recording."""

from __future__ import annotations

from inspector.model import Recording
from inspector.tui.main_screen import MainScreen
from inspector.tui.reads import Reads
from inspector.tui.subject import Subject


def resolve(recording: Recording, subject: Subject) -> Subject:
    """The subject with these ids in a recording; what is not there any more is as it was.

    What had no compilation yet, a kernel or a whole graph, is the first of those that it has now.
    """
    if subject.kernel is None and subject.graph is None:
        return subject
    kernel, variant, graph = subject.kernel, subject.variant, subject.graph
    if kernel is not None:
        kernel = next((k for k in recording.kernels if k.id == subject.key[0]), kernel)
    if variant is not None and kernel is not None:
        # The id is the shortest unique prefix of the hash: it may have grown.
        variant = next((v for v in kernel.variants if v.hash == variant.hash), variant)
    if graph is not None:
        graph = next((g for g in recording.graphs if g.id == subject.key[2]), graph)
        if kernel is None:
            own = {k.id: k for k in recording.kernels if k.variants}
            kernel = next((own[name] for name in graph.kernels if name in own), None)
    if variant is None and kernel is not None and kernel.variants:
        variant = kernel.variants[0]
    return Subject(kernel, variant, graph)


def renew(main: MainScreen, reads: Reads) -> None:
    """The main screen on a new reader of the same recording; nothing that is read moves."""
    main.reads, main.recording = reads, reads.recording
    main.title_bar.recording = reads.recording
    main.title_bar.refresh()
    panes = main.panes
    panes.reads = main.card.reads = main.understanding.reads = reads
    before = panes.subject
    panes.subject = resolve(reads.recording, before)
    panes.forget_links()
    for pane in panes.panes:
        shown = pane.request
        pane.renew(reads, resolve(reads.recording, shown.subject) if shown else Subject())
    if panes.subject != before:
        panes.show(panes.subject)
        main.card.show(panes.subject)
    main.kernels.renew(reads)
    main.read_times()
