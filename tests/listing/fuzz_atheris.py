"""``python -m tests.listing.fuzz_atheris PARSER [libFuzzer's options]``: coverage-guided fuzzing.

One target a parser: ``ptx``, ``sass``, ``ttir``, ``ttgir``, ``llir``, ``source``, ``output_code``,
``cuda``, or ``annotated`` for what ``nvdisasm -gi -gp -hex`` adds to SASS. Atheris instruments the
parsers, so that inputs which reach new branches are kept and mutated further; the samples of
tests/data are the first. Whatever goes in must come out, line for line. Atheris is on PyPI for
CPython 3.11 to 3.13 on Linux; it is no dependency of the project::

    pip install atheris
    python -m tests.listing.fuzz_atheris ptx -runs=100000

Where it is not installed, ``python -m tests.listing.fuzz`` mutates without guidance.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST = 1 << 14


def targets() -> dict[str, Callable[[str], None]]:
    """A check by the parser's name."""
    from inspector.listing import parse
    from inspector.listing.cuda import parse_cuda
    from inspector.listing.line import Listing
    from inspector.model import Stage

    def lossless(make: Callable[[str], Listing]) -> Callable[[str], None]:
        def check(text: str) -> None:
            listing = make(text)
            assert "\n".join(line.text for line in listing.lines) == text
            for function in listing.functions:
                assert 1 <= function.first <= function.last <= len(listing.lines)

        return check

    def of(stage: Stage) -> Callable[[str], Listing]:
        return lambda text: parse(stage, text, path="x.py")

    found = {stage.value: lossless(of(stage)) for stage in Stage}
    found["cuda"] = lossless(lambda text: parse_cuda(text, "x.cu"))
    found["annotated"] = _annotated
    return found


def _annotated(text: str) -> None:
    from inspector.listing import parse
    from inspector.model import Stage

    plain = "\t.section\t.text.k,\n        /*0000*/   MOV R1, R2 ;\n"
    listing = parse(Stage.SASS, plain, annotated=text)
    assert "\n".join(line.text for line in listing.lines) == plain


def main() -> None:
    """Run libFuzzer until a failure, or as its options say."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris")
    with atheris.instrument_imports(include=["inspector.listing"]):
        known = targets()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in known:
        sys.exit(f"name one of: {', '.join(known)}")
    check = known[name]

    def once(data: bytes) -> None:
        check(data.decode("utf-8", "surrogateescape"))

    with tempfile.TemporaryDirectory(prefix="ptxview-fuzz-") as folder:
        samples = Path(__file__).parent.parent / "data" / "listing"
        for file in sorted(samples.iterdir()):
            if file.suffix not in (".cubin", ".md"):
                shutil.copy(file, folder)
        options = [f"-max_len={LONGEST}", "-timeout=10", *sys.argv[2:]]
        atheris.Setup([sys.argv[0], *options, folder], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
