"""``python -m tests.mutation [ROOM …] [--sample N] [--seed N]``: mutants that the tests kill.

cosmic-ray changes one operator, number or condition at a time in a copy of the committed tree, and
runs the tests of the room. ``[tool.ptxview.mutation]`` in pyproject.toml has the rooms, their tests
and the least share of mutants that must be killed. Prints the diff of each mutant that survives;
exits with 1 if too many do. ``pip install -e '.[test,mutation]'`` installs what it needs.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def configuration() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    table: dict[str, Any] = project["tool"]["ptxview"]["mutation"]
    return table


def copied_tree(folder: Path) -> Path:
    """Clone the committed tree, with an interpreter that imports the clone before anything else."""
    tree = folder / "tree"
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(tree)], check=True)
    venv.create(tree / ".venv", with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tree / ".venv" / "lib" / version / "site-packages"
    installed = sysconfig.get_path("purelib")
    (packages / "a_tree.pth").write_text(f"{tree}\n")
    (packages / "b_installed.pth").write_text(f"import site; site.addsitedir({installed!r})\n")
    return tree


def cosmic_ray(tree: Path, *arguments: str) -> None:
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(arguments, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)


def results(tree: Path, room: str, sample: int | None, seed: int) -> list[Any]:
    """Run mutants of one room; the results of cosmic-ray, each with its ``diff``."""
    from cosmic_ray.config import serialize_config
    from cosmic_ray.work_db import WorkDB, use_db

    table = configuration()
    rules = table["rooms"][room]
    python = tree / ".venv" / "bin" / "python"
    tests = " ".join(rules["tests"])
    config = {
        "module-path": rules["modules"],
        "timeout": float(table["timeout_seconds"]),
        "excluded-modules": [],
        "test-command": f"{python} -m pytest -x -p no:cacheprovider {tests}",
        "distributor": {"name": "local"},
        "filters": {"operators-filter": {"exclude-operators": table["excluded_operators"]}},
    }
    config_file = tree / f"{room}.toml"
    config_file.write_text(serialize_config(config))
    session = f"{room}.sqlite"
    cosmic_ray(tree, "cosmic-ray", "init", config_file.name, session)
    cosmic_ray(tree, "cr-filter-operators", session, config_file.name)
    with use_db(str(tree / session), WorkDB.Mode.open) as database:
        pending = sorted(database.pending_work_items, key=lambda item: str(item.mutations))
        if sample is not None and sample < len(pending):
            pending = random.Random(seed).sample(pending, sample)
        database.clear()
        database.add_work_items(pending)
    cosmic_ray(tree, "cosmic-ray", "baseline", config_file.name)
    cosmic_ray(tree, "cosmic-ray", "exec", config_file.name, session)
    with use_db(str(tree / session), WorkDB.Mode.open) as database:
        return [result for _, result in database.results]


def run(rooms: list[str], sample: int | None, seed: int) -> int:
    """Try the mutants of some rooms and print how many were killed; the exit status."""
    killed_count = 0
    mutant_count = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        tree = copied_tree(Path(name))
        for room in rooms:
            tried = results(tree, room, sample, seed)
            survivors = [result for result in tried if not result.is_killed]
            killed_count += len(tried) - len(survivors)
            mutant_count += len(tried)
            for survivor in survivors:
                print(survivor.diff, end="\n\n")
            print(f"{room}: {len(tried) - len(survivors)} of {len(tried)} killed", flush=True)
    percent = 100 * killed_count / max(mutant_count, 1)
    print(f"{percent:.0f} % of {mutant_count} mutants were killed, seed {seed}")
    return int(percent < configuration()["least_percent"])


if __name__ == "__main__":
    known_rooms = list(configuration()["rooms"])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=", ".join(known_rooms))
    parser.add_argument("--sample", type=int, metavar="N", help="try N mutants of each room")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="choose these mutants")
    args = parser.parse_args()
    unknown = set(args.rooms) - set(known_rooms)
    if unknown:
        parser.error(f"unknown room {unknown.pop()!r}; there are {', '.join(known_rooms)}")
    sys.exit(run(args.rooms or known_rooms, args.sample, args.seed))
