"""Compare a recording with the caches of the run that made it: which kernels are missing?

    python -m tests.gpu.completeness RECORDING TRITON_CACHE [EXTENSIONS_FOLDER]

Run by hand on a machine with a GPU, after a run with its caches in places of their own. Exits
with 1 where Triton's cache or a build folder holds a cubin that the recording lacks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inspector.capture.binaries import images
from inspector.capture.caches import objects
from inspector.capture.opening import open_path
from inspector.model import Stage


def main(argv: list[str]) -> int:
    recording = open_path(Path(argv[0]))
    hashes = {v.hash for _, v in recording.variants()}
    cubins = {
        v.stages[Stage.SASS].content.read()
        for _, v in recording.variants()
        if Stage.SASS in v.stages
    }
    missing = 0
    seen = 0
    for file in sorted(Path(argv[1]).rglob("*.json")):
        if file.name.startswith("__grp__"):
            continue
        held = json.loads(file.read_text())
        if "hash" not in held:
            continue
        seen += 1
        if held["hash"] not in hashes:
            missing += 1
            print(f"missing: {held.get('name')} {held['hash'][:12]} {file.parent}")
    for folder in argv[2:]:
        for directory in sorted(p.parent for p in Path(folder).rglob("build.ninja")):
            for path in objects(directory, print):
                for image in images(path):
                    if not image.is_ptx:
                        seen += 1
                        if image.data not in cubins:
                            missing += 1
                            print(f"missing: device code of {path}")
    print(f"{seen} compilations in the caches, {missing} missing from {argv[0]}")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
