"""Count the verdicts of ``ptxview verify`` on sound kernels: none may be unexplained.

    python -m tests.verify.count_sound FOLDER [PROGRAM…]

A PROGRAM is a model of ``sound_models`` (``resnet``), or operators of ``sound_operators`` with
their dtype (``float32-0`` has the first sixty); all of them by default. Each is recorded into
FOLDER once and then compared; what FOLDER has already is compared again. The counts are printed,
with the reasons of what is not compared, and every kernel that is accused.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from subprocess import run
from typing import Any

from tests.verify.sound_models import MODELS

HERE = Path(__file__).parent
SLICE = 60
"""Operators that one program compiles."""
OPERATORS = 720
"""At least as many as torch has samples of."""
DTYPES = ("float32", "bfloat16", "float16")
SECONDS = 1800
"""At most for one program, recorded and compared."""


def programs() -> dict[str, list[str]]:
    """Scripts with their arguments, by name."""
    models = {name: [str(HERE / "sound_models.py"), name] for name in MODELS}
    operators = {
        f"{dtype}-{start}": [
            str(HERE / "sound_operators.py"), str(start), str(start + SLICE), dtype
        ]
        for dtype in DTYPES
        for start in range(0, OPERATORS, SLICE)
    }  # fmt: skip
    return models | operators


def verified(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a program's kernels, from its recording if there is one."""
    recording = folder / f"{name}.rec"
    words = [str(recording)] if recording.exists() else ["-o", str(recording), *programs()[name]]
    argv = [sys.executable, "-m", "inspector", "verify", "--json", *words]
    done = run(argv, capture_output=True, text=True, timeout=SECONDS, cwd=HERE.parents[1])
    try:
        document = json.loads(done.stdout)
    except ValueError:
        print(f"{name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return []
    return [kernel for graph in document["graphs"] for kernel in graph["kernels"]]


def count(folder: Path, names: list[str]) -> None:
    """Compare each program and print its verdicts."""
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for name in names:
        kernels = verified(folder, name)
        verdicts.update(kernel["verdict"] for kernel in kernels)
        for kernel in kernels:
            if kernel["verdict"] == "unexplained":
                print(f"accused: {name} {kernel['kernel']}: {kernel['reason']}")
                print(f"  {kernel['first']}")
            if kernel["verdict"] == "not-compared":
                reasons[re.sub(r"\d+", "N", kernel["reason"])] += 1
        print(f"{name}: {len(kernels)} kernels, {sum(verdicts.values())} so far", flush=True)
    for title, counts in (("verdicts", verdicts), ("not compared because", reasons)):
        print(title)
        for text, number in counts.most_common():
            print(f"{number:6d}  {text}")


if __name__ == "__main__":
    destination = Path(sys.argv[1])
    destination.mkdir(parents=True, exist_ok=True)
    count(destination, sys.argv[2:] or list(programs()))
