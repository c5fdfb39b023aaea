"""Run specimens by name: ``python -m kernels [NAME…]``; all of them when none is named."""

import argparse
import importlib
import sys

from kernels import SPECIMENS


def main(arguments: list[str] | None = None) -> int:
    """Run the named specimens and print each output's shape; an unknown name exits with 2."""
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SPECIMENS))
    parser.add_argument("--device", default="cuda", help="default: cuda")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in SPECIMENS]
    if unknown:
        parser.error(f"no specimen {', '.join(unknown)}; there are {', '.join(SPECIMENS)}")
    for name in options.names or SPECIMENS:
        outputs = importlib.import_module(f"kernels.{name}").run(device=options.device)
        shapes = ", ".join(f"{key} {'×'.join(map(str, out.shape))}" for key, out in outputs.items())
        print(f"{name}: agrees with torch ({shapes})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
