"""Run as a program, with the probes awake: kernels whose signatures are given, or a file of IR."""

from __future__ import annotations

import sys


def main() -> int:
    """Return 0 if all was tried, 2 if the job does not fit the file, 3 without Triton."""
    from ptxview_probes.ahead import given, one

    job = one.read_job()
    try:
        import triton  # noqa: F401
    except ImportError:
        return 3
    return given.run(job)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder is no place to import from
    sys.exit(main())
