"""What ran on the CPU, a lane a thread: which call lies within which, as torch has it."""

from __future__ import annotations

from array import array

OP, ANNOTATION, RUNTIME = 0, 1, 2
NOBODY = -1


class Names:
    """Each text once, by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(self.texts)
            self.texts.append(text)
        return found


class Lane:
    """The spans of one thread; times in ns of the trace's clock.

    ``build`` finds for each the one that it lies in (``parent``), and its time without those that
    lie in it (``own``). Spans that torch's tables leave out have ``kept`` 0.
    """

    def __init__(self) -> None:
        self.start, self.end = array("q"), array("q")
        self.name, self.kind = array("i"), array("b")
        self.parent = array("i")
        self.children = array("i")
        self.own = array("q")
        self.kept = array("b")
        self.order: list[int] = []

    def add(self, start: int, end: int, name: int, kind: int) -> int:
        """One more span; its number in this lane."""
        self.start.append(start)
        self.end.append(end)
        self.name.append(name)
        self.kind.append(kind)
        return len(self.start) - 1

    def build(self) -> None:
        """A span's parent is the innermost that it lies in whole, by start, the longest first."""
        count = len(self.start)
        start, end = self.start, self.end
        self.parent = array("i", [NOBODY]) * count
        self.children = array("i", [0]) * count
        self.own = array("q", (e - s for s, e in zip(start, end, strict=True)))
        self.kept = array("b", [1]) * count
        self.order = sorted(range(count), key=lambda n: (start[n], -end[n]))
        stack: list[int] = []
        for n in self.order:
            while stack and (start[n] >= end[stack[-1]] or end[n] > end[stack[-1]]):
                stack.pop()
            if stack:
                self.parent[n] = stack[-1]
                self.children[stack[-1]] += 1
            stack.append(n)
        self._merge()
        for n in self.order:
            if self.kept[n] and self.parent[n] != NOBODY:
                self.own[self.parent[n]] -= end[n] - start[n]

    def _merge(self) -> None:
        """An operator that only calls itself again under the same name counts once."""
        into: dict[int, int] = {}
        for n in self.order:
            above = self.parent[n]
            if above in into:
                above = self.parent[n] = into[above]
            if above != NOBODY and self.name[above] == self.name[n] and self.children[above] == 1:
                self.kept[n] = 0
                self.children[above] = self.children[n]
                into[n] = above
