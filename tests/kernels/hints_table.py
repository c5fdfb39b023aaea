"""The table of hints by kernel in ``kernels/README.md``, of a recording of the specimens.

::

    ptxview run --target sm_90 --no-tui -o specimens.ptxview -m kernels
    python tests/kernels/hints_table.py specimens.ptxview

replaces the rows of the specimens that were recorded; the rest of the file stays.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from inspector.analysis.hints.rules import hints
from inspector.analysis.hints.subject import HintSubject
from inspector.analysis.occupancy import Device
from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.names import base_name
from inspector.commands.common import open_reader
from inspector.reader.reader import Reader

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
README = KERNELS / "README.md"
BEGIN, END = "<!-- hints -->", "<!-- end of hints -->"
HEAD = ("| specimen | kernel | compiled as | hints |", "| --- | --- | --- | --- |")
STAGES = (Stage.TTGIR, Stage.PTX, Stage.SASS)


def rows(recording: str, *names: str) -> list[str]:
    """The table's rows, sorted; of all specimens, or of these."""
    reader = open_reader(recording)
    specimens = set(names) or {path.stem for path in KERNELS.glob("*.py")}
    variants = [(k, v) for k, v in reader.recording.variants() if _specimen(v) in specimens]
    alike = Counter((k.name, *_configuration(v)) for k, v in variants)
    out = []
    for kernel, variant in variants:
        how = list(_configuration(variant))
        if alike[kernel.name, *how] > 1:
            how += _specialised(variant)
        found = hints(subject(reader, kernel, variant), _table("hints"))
        said = ", ".join(f"`{rule}`" for rule in dict.fromkeys(f.rule for f in found)) or "–"
        out.append(f"| {_specimen(variant)} | {_name(kernel)} | {', '.join(how)} | {said} |")
    return sorted(out)


def subject(reader: Reader, kernel: Kernel, variant: Variant) -> HintSubject:
    """A variant as hints see it, for the representative of its architecture."""
    listings, functions = {}, {}
    for stage in STAGES:
        try:
            listings[stage] = reader.stages.listing(variant, stage)
            functions[stage] = reader.stages.function(variant, stage)
        except PtxviewError:
            continue
    arch = (variant.target or "").rstrip("af")
    device = Device.of(arch, _table("devices")[arch])
    facts = {stage: reader.facts.kernel_analysis(variant, stage) for stage in listings}
    resources, calls = reader.facts.resources(variant), variant.calls
    return HintSubject(kernel, variant, resources, listings, functions, calls, device, facts=facts)


def _table(name: str) -> dict[str, dict[str, object]]:
    path = ROOT / "inspector" / "reference" / f"{name}.toml"
    return tomllib.loads(path.read_text("utf-8"))


def _name(kernel: Kernel) -> str:
    name = base_name(kernel.name)
    return f"`{name if len(name) <= 30 else name[:28] + '…'}`"


def _specimen(variant: Variant) -> str | None:
    """The module of a variant: by its source, by its extension's name, else the generated one."""
    source = variant.stages.get(Stage.SOURCE)
    path = Path(source.origin_path or "") if source is not None else Path()
    if path.parent.name == KERNELS.name and path.suffix == ".py":
        return path.stem
    for module in KERNELS.glob("*.py"):
        if f'name="{path.parent.name}"' in module.read_text("utf-8"):
            return module.stem
    return None


def _configuration(variant: Variant) -> Iterator[str]:
    """Warps and constants that a variant was compiled with."""
    config = dict(variant.config)
    warps = config.get("num_warps")
    if isinstance(warps, int):
        yield f"{warps} warp{'' if warps == 1 else 's'}"
    for name, kind in variant.signature.items():
        if kind == "constexpr" and name in config:
            yield f"{name}={config[name]}"


def _specialised(variant: Variant) -> Iterator[str]:
    """What Triton knew of integer arguments: that they are 1, or a multiple of 16."""
    for name, said in variant.specialization.items():
        properties = [tuple(s) for s in said] if isinstance(said, list) else []
        if ("constant", 1) in properties:
            yield f"{name}=1"
        elif variant.signature.get(name) == "i32" and ("tt.divisibility", 16) in properties:
            yield f"{name}%16=0"


def between(text: str) -> list[str]:
    table = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    return table[len(HEAD) :]


def main(recording: str) -> None:
    text = README.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    new = rows(recording)
    recorded = {row.split("|")[1] for row in new}
    kept = [row for row in between(text) if row.split("|")[1] not in recorded]
    table = "\n".join([BEGIN, "", *HEAD, *sorted(kept + new), "", END])
    README.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
