"""``ptxview``, and ``python -m inspector``."""

import sys

INTERRUPTED = 130  # errors.Exit has it, but is not there yet


def main() -> int:
    """Run a command; its exit status. Who interrupts it while it is still being imported sees no
    traceback either."""
    try:
        from inspector.commands.cli import main as run

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    # -m puts the current folder first: a json.py there, from any source, stays
    # asleep.
    if not sys.flags.safe_path and sys.path[0] != __file__.rpartition("/inspector/")[0]:
        del sys.path[0]
    raise SystemExit(main())
