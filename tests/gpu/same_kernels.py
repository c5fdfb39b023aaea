"""Compare two recordings of one program: the same kernels by name, the same TTIR and PTX?

    python -m tests.gpu.same_kernels A B

Written for a run on a GPU against a run on the emulated device of that architecture, with the same
torch and triton. Paths, which differ with the caches' folders, are compared by their last part.
Run by hand. Prints a table; exits with 1 where a kernel is missing or a text differs.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from inspector.capture.opening import open_path
from inspector.model import Recording, Stage

_PATHS = re.compile(r'(?:/[^/\s":]+)+/(?=[^/\s":]*)')
# Names that hold a digest of a path: Inductor's files, nvcc's translation units.
_INDUCTOR = re.compile(
    r"c[a-z2-7]{51}(?=\.py|\b)|(?:(?<=_INTERNAL_)|(?<=_GLOBAL__N__))[0-9a-f]{8}(?=_)"
)


def texts(recording: Recording, stage: Stage) -> dict[str, list[str]]:
    """The texts of a stage by kernel name, sorted, without folders and hashed file names."""
    out: dict[str, list[str]] = defaultdict(list)
    for kernel, variant in recording.variants():
        if stage in variant.stages:
            text = variant.stages[stage].content.read().decode("utf-8", "surrogateescape")
            # The debug sections spell the folders out, a byte a line.
            text = text.partition("\t.section\t.debug_")[0]
            out[kernel.name].append(_INDUCTOR.sub("F", _PATHS.sub("", text)))
    return {name: sorted(held) for name, held in out.items()}


def main(argv: list[str]) -> int:
    a, b = (open_path(Path(p)) for p in argv[:2])
    names_a, names_b = ({k.name for k, _ in r.variants()} for r in (a, b))
    same = True
    for name in sorted(names_a ^ names_b):
        same = False
        print(f"only in {'A' if name in names_a else 'B'}: {name}")
    for stage in (Stage.TTIR, Stage.TTGIR, Stage.PTX):
        left, right = texts(a, stage), texts(b, stage)
        both = sorted(left.keys() & right.keys())
        equal = [n for n in both if left[n] == right[n]]
        print(f"{stage.value}: {len(equal)} of {len(both)} kernels equal")
        for name in sorted(set(both) - set(equal)):
            same = False
            print(f"  differs: {name} ({len(left[name])} and {len(right[name])} variants)")
            for x, y in zip(left[name], right[name], strict=False):
                rows = zip(x.split("\n"), y.split("\n"), strict=False)
                first = next(((p, q) for p, q in rows if p != q), None)
                if first:
                    print(f"    {first[0].strip()[:150]}\n    {first[1].strip()[:150]}")
                    break
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
