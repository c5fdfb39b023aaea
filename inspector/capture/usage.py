"""What ``cuobjdump -res-usage`` prints of a cubin, kept by content."""

from __future__ import annotations

import tempfile
from pathlib import Path

from inspector.listing.cubin import is_elf
from inspector.recording.layout import DerivedCache
from inspector.system.process import run_tool
from inspector.system.toolchain import need


def usage_text(cubin: bytes, cache: DerivedCache) -> str:
    """Figures of every function; "" of what is no ELF file.

    Raises ``ToolMissing`` without cuobjdump, ``Unreadable`` where it does not finish.
    """
    if not is_elf(cubin):
        return ""
    tool = need("cuobjdump")
    key = cache.key("cuobjdump -res-usage", tool.version or "?", cubin)
    printed = cache.get(key)
    if printed is None:
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            file = Path(folder) / "kernel.cubin"
            file.write_bytes(cubin)
            printed = run_tool([tool.path, "-res-usage", file]).out
        cache.put(key, printed)
    return printed.decode("utf-8", "surrogateescape")
