"""From the tree to the table of a kernel's variants, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspector.tui.acting import Acting

if TYPE_CHECKING:
    from inspector.tui.variants_screen import Left


class Comparing(Acting):
    """A screen that opens the table."""

    def action_variants(self) -> None:
        """All variants of the kernel under the cursor."""
        # What compares is imported when something is compared: the first frame need not wait.
        from inspector.tui.variants_screen import VariantsScreen

        row = self.kernels.row
        kernel = None if row is None else row.subject.kernel
        if row is None or kernel is None:
            self._warn("There is no kernel here whose variants could be shown.")
            return
        table = VariantsScreen(self.reads, kernel, self.marked, row.subject.variant, self.times)
        self.app.push_screen(table, self._left)

    def _left(self, left: Left | None) -> None:
        """The marks are what they were made in the table."""
        if left is None:
            return
        self.marked = left.marked
        self.kernels.mark(tuple(one.key[:2] for one in self.marked))
        if left.read is None:
            return
        wanted = left.read.key[:2]
        rows = self.kernels.rows
        found = [i for i, row in enumerate(rows) if row.subject.key[:2] == wanted]
        if not found and self.kernels.query_text:
            self.kernels.filter("")
            rows = self.kernels.rows
            found = [i for i, row in enumerate(rows) if row.subject.key[:2] == wanted]
        if found:
            self.kernels.go(found[-1])
            self.panes.display = True
            self.panes.activate(self.panes.active)
        else:
            self._warn("The variant's row is folded away in the tree.")
