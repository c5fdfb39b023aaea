"""Filters of variants by the query language: names at once, properties in a thread."""

from collections.abc import Callable, Sequence
from time import monotonic

from textual.content import Content
from textual.dom import DOMNode
from textual.suggester import Suggester

from inspector.base.errors import UsageError
from inspector.reader.query import (
    Term,
    completions,
    matching,
    may_be_module,
    needs_measures,
    parse,
    with_modules,
)
from inspector.reader.reader import Reader
from inspector.tui.widgets.notice import cancelled, in_thread

MatchingIds = frozenset[tuple[str, str]] | None
"""Ids of kernels and variants that have the properties of a query; None where it names none."""

UPDATE_SECONDS = 0.2
MAX_OFFERS = 6


class Selection:
    """What a query selects: plain words are the view's own, and found as they are typed."""

    def __init__(
        self,
        node: DOMNode,
        reads: Callable[[], Reader],
        show: Callable[[str, str, MatchingIds], object],
        say: Callable[[str], object],
    ) -> None:
        """``show`` takes the query, its plain words and what is chosen, ``say`` progress."""
        self.node = node
        self.reads = reads
        self.show = show
        self.say = say
        self._last_result: tuple[Reader, tuple[Term, ...], MatchingIds] | None = None

    def look(self, query: str) -> None:
        """Select by a query; one with an error says so and leaves the selection as it is."""
        try:
            terms = parse(query)
        except UsageError as error:
            self.say(f"⚠ {error.message}: {error.hint}")
            return
        reads = self.reads()
        if any(may_be_module(term, reads.recording.kernels) for term in terms):
            # Which modules there are is in the graphs, which may not be read yet.
            in_thread(
                self.node,
                lambda: with_modules(reads, terms),
                lambda resolved_terms: self._look(query, resolved_terms),
                "query",
            )
        else:
            self._look(query, terms)

    def _look(self, query: str, terms: Sequence[Term]) -> None:
        words = " ".join(term.name for term in terms if term.is_name)
        property_terms = tuple(term for term in terms if not term.is_name)
        reads = self.reads()

        def show_matches(matching_ids: MatchingIds) -> None:
            self._last_result = reads, property_terms, matching_ids
            self.say("")
            self.show(query, words, matching_ids)

        if not property_terms or (
            self._last_result is not None and self._last_result[:2] == (reads, property_terms)
        ):
            in_thread(self.node, lambda: None, lambda _: None, "query")  # an earlier one ends
            show_matches(
                self._last_result[2] if property_terms and self._last_result is not None else None
            )
        else:
            in_thread(
                self.node,
                lambda: self._matching_ids(reads, property_terms),
                show_matches,
                "query",
                failed=lambda notice: self.say(f"⚠ {notice.message}"),
            )

    def _matching_ids(self, reads: Reader, terms: Sequence[Term]) -> MatchingIds:
        variants = reads.recording.variants()
        checked_count = 0
        last = monotonic()

        def report_progress() -> None:
            nonlocal checked_count, last
            checked_count += 1
            if cancelled():
                raise UsageError("another query was typed")
            if monotonic() - last > UPDATE_SECONDS:
                last = monotonic()
                self.node.call_later(self.say, f"◔ {checked_count} of {len(variants)} looked at")

        measures = None
        if needs_measures(terms):
            # The first frame does not wait for it.
            from inspector.estimate.launches import launch_evidence
            from inspector.render.costs import costs

            measures = costs(reads.recording, launch_evidence(reads)).measure
        pairs = matching(reads, terms, variants, measures, report_progress)
        return frozenset((kernel.id, variant.id) for kernel, variant in pairs)


class Completion(Suggester):
    """Completes the last word of a query."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return completed(value)


def completed(query: str) -> str | None:
    """The query with its last word completed; None where nothing is offered or typed."""
    word_start = query.rfind(" ") + 1
    matches = completions(query) if query[word_start:] else []
    return query[:word_start] + matches[0][0] if matches else None


def offered(query: str) -> Content:
    """The words that may come next with their meanings, or all words where none was begun."""
    matches = completions(query)
    if not query[query.rfind(" ") + 1 :]:
        names = "  ".join(word for word, _ in matches)
        return Content.assemble((" properties  ", "$quiet"), names)
    rows = [
        Content.assemble(
            (f" {'Tab' if not n else '':<4}", "$quiet"), f"{word:<12}", (explanation, "$quiet")
        )
        for n, (word, explanation) in enumerate(matches[:MAX_OFFERS])
    ]
    return Content("\n").join(rows)
