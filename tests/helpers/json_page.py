"""The blocks of fields in docs/json.md: ``python -m tests.helpers.json_page`` writes them."""

from __future__ import annotations

import re
import textwrap

from inspector.reader.tables import fields, table
from tests.helpers.ptxview import REPOSITORY

PAGE = REPOSITORY / "docs" / "json.md"
COLUMNS = 118
BLOCK = re.compile(r"(<!-- fields of (\w+) -->\n).*?(\n<!-- -->)", re.DOTALL)


def page(text: str) -> str:
    """The page with each block as ``inspector/reference/json.toml`` has it, each table once."""
    seen: set[str] = set()

    def block(found: re.Match[str]) -> str:
        lines = "\n".join(_tables(found[2], seen))
        return f"{found[1]}\n```\n{lines}\n```\n{found[3]}"

    return BLOCK.sub(block, text)


def _tables(command: str, seen: set[str]) -> list[str]:
    known = table("json")
    lines, left = [f"{command}: {known['commands'][command]}"], [known["commands"][command]]
    while left:
        for name in re.findall(r"\b[A-Z]\w*", left.pop(0)):
            if name in seen or name not in known:
                continue
            seen.add(name)
            members = {key: text for key, (text, _) in fields(known[name]).items()}
            left += members.values()
            said = ", ".join(f"{key}: {text}" for key, text in members.items())
            whole = f"{name} = {members['=']}" if "=" in members else f"{name} {{ {said} }}"
            lines += textwrap.wrap(whole, COLUMNS, subsequent_indent="    ", break_long_words=False)
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
