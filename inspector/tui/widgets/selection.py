"""Filters of variants by the query language: names at once, properties in a thread."""

from collections.abc import Callable, Sequence
from time import monotonic

from textual.content import Content
from textual.dom import DOMNode
from textual.suggester import Suggester

from inspector.base.text import UsageError
from inspector.reader.query import Term, matching, measured, offers, parse
from inspector.reader.reader import Reader
from inspector.tui.widgets.notice import cancelled, in_thread

Chosen = frozenset[tuple[str, str]] | None
"""Ids of kernels and variants that have the properties of a query; None where it names none."""

UPDATE_SECONDS = 0.2
MAX_OFFERS = 6


class Selection:
    """What a query selects: plain words are the view's own, and found as they are typed."""

    def __init__(
        self,
        node: DOMNode,
        reads: Callable[[], Reader],
        show: Callable[[str, str, Chosen], object],
        say: Callable[[str], object],
    ) -> None:
        """``show`` takes the query, its plain words and what is chosen, ``say`` progress."""
        self.node, self.reads, self.show, self.say = node, reads, show, say
        self._known: tuple[Reader, tuple[Term, ...], Chosen] | None = None

    def look(self, query: str) -> None:
        """Select by a query; one with an error says so and leaves the selection as it is."""
        try:
            terms = parse(query)
        except UsageError as error:
            self.say(f"⚠ {error.message}: {error.hint}")
            return
        words = " ".join(term.name for term in terms if term.is_name)
        wanted = tuple(term for term in terms if not term.is_name)
        reads = self.reads()

        def found(chosen: Chosen) -> None:
            self._known = reads, wanted, chosen
            self.say("")
            self.show(query, words, chosen)

        if not wanted or (self._known is not None and self._known[:2] == (reads, wanted)):
            in_thread(self.node, lambda: None, lambda _: None, "query")  # an earlier one ends
            found(self._known[2] if wanted and self._known is not None else None)
        else:
            in_thread(
                self.node,
                lambda: self._chosen(reads, wanted),
                found,
                "query",
                failed=lambda notice: self.say(f"⚠ {notice.message}"),
            )

    def _chosen(self, reads: Reader, terms: Sequence[Term]) -> Chosen:
        every, done, last = reads.recording.variants(), 0, monotonic()

        def told() -> None:
            nonlocal done, last
            done += 1
            if cancelled():
                raise UsageError("another query was typed")
            if monotonic() - last > UPDATE_SECONDS:
                last = monotonic()
                self.node.call_later(self.say, f"◔ {done} of {len(every)} looked at")

        measures = None
        if measured(terms):
            # The first frame does not wait for it.
            from inspector.estimate.launches import launch_evidence
            from inspector.report.costs import costs

            measures = costs(reads.recording, launch_evidence(reads)).measure
        pairs = matching(reads, terms, every, measures, told)
        return frozenset((kernel.id, variant.id) for kernel, variant in pairs)


class Completion(Suggester):
    """Completes the last word of a query."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return completed(value)


def completed(query: str) -> str | None:
    """The query with its last word completed; None where nothing is offered or typed."""
    at = query.rfind(" ") + 1
    found = offers(query) if query[at:] else []
    return query[:at] + found[0][0] if found else None


def offered(query: str) -> Content:
    """The words that may come next with their meanings, or all words where none was begun."""
    found = offers(query)
    if not query[query.rfind(" ") + 1 :]:
        names = "  ".join(word for word, _ in found)
        return Content.assemble((" properties  ", "$quiet"), names)
    rows = [
        Content.assemble(
            (f" {'Tab' if not n else '':<4}", "$quiet"), f"{word:<12}", (said, "$quiet")
        )
        for n, (word, said) in enumerate(found[:MAX_OFFERS])
    ]
    return Content("\n").join(rows)
