"""Run as a program, with the probes awake: kernels whose signatures are given, or a file of IR."""

from __future__ import annotations

import sys


def main() -> int:
    """0 where all was tried; 2 where what was given does not fit, 3 without Triton."""
    from ptxview_probes.ahead import given, ir, job

    asked = job.read()
    try:
        import triton  # noqa: F401
    except ImportError:
        return 3
    try:
        (given if asked.language == "triton" else ir).run(asked)
    except given.CannotCompile as error:
        given.refused(asked, error)
        return 2
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder is no place to import from
    sys.exit(main())
