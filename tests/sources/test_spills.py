"""What a cubin has on record of spills and barriers, judged by what ptxas said when it made it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from inspector.base.model import Resources, Stage, StageFile, Variant
from inspector.parsers.cubin import function_records, read_cubin
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.recording.resources import from_ptxas
from inspector.sources.disassembly import assemblers, of_variant, on_record
from tests.helpers.ptxview import LECTURE, REPOSITORY, finished, printed, saved, tool

LISTINGS = REPOSITORY / "tests" / "data" / "parsers"
TEXTS = (*sorted(LISTINGS.glob("*.ptx")), *sorted((LECTURE / "triton").glob("*/*.ptx")))
OPTIONS = (
    *((), ("-O1",), ("-O0",), ("-g",), ("-c",), ("-c", "--maxrregcount=16")),
    *(("--maxrregcount=16",), ("--maxrregcount=24",), ("--maxrregcount=40",)),
)


def many(values: int, target: str, pragma: str = "") -> str:
    """A kernel of 1,024 threads, two blocks of them a multiprocessor: no thread has more than 32
    registers for the values that it holds at once."""
    loads = [f"ld.volatile.global.f32 %f{n}, [%rd2+{4 * n}];" for n in range(values)]
    stores = [f"st.volatile.global.f32 [%rd2+{4 * n}], %f{n};" for n in range(values)]
    body = "\n    ".join((*loads, *stores))
    return f"""
.version {"8.0" if not pragma else "9.0"}
.target {target}
.address_size 64
.visible .entry many(.param .u64 p)
.maxntid 1024, 1, 1
.minnctapersm 2
{{
    {pragma}
    .reg .b64 %rd<4>;
    .reg .f32 %f<{values}>;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    {body}
    ret;
}}
"""


def assembled(
    ptx: Path, assembler: Path, options: tuple[str, ...], out: Path
) -> tuple[bytes, dict[str, Resources]] | None:
    """A cubin and what its assembler printed of it; None where it would not."""
    target = re.search(r"^\.target\s+(\w+)", ptx.read_text(), re.MULTILINE)
    assert target is not None
    done = finished([assembler, "-v", *options, f"--gpu-name={target[1]}", ptx, "-o", out])
    if done.status:
        return None
    return out.read_bytes(), from_ptxas(done.said + done.text)


def made(folder: Path) -> Iterator[tuple[str, bytes, dict[str, Resources]]]:
    """Every text by every assembler, those that have the most to spill with every option that it
    takes, of the rest each with every third."""
    wanted = [(ptx, OPTIONS[n % 3 :: 3]) for n, ptx in enumerate(TEXTS)]
    for values, target in product((8, 26, 29, 34, 90), ("sm_75", "sm_80", "sm_90")):
        ptx = saved(folder / f"many{values}_{target}.ptx", many(values, target))
        wanted.append((ptx, OPTIONS if target == "sm_90" else OPTIONS[values % 3 :: 3]))
    # What two copies of one assembler make is the same.
    different = {printed(assembler, "--version"): assembler for assembler in assemblers(())}
    pairs = [(ptx, options) for ptx, all_of_it in wanted for options in all_of_it]
    for (ptx, options), assembler in product(pairs, different.values()):
        done = assembled(ptx, assembler, options, folder / "made.cubin")
        if done is not None:
            yield f"{ptx.name} {assembler} {options}", *done


@pytest.mark.nightly
def test_a_cubin_says_of_spills_and_barriers_what_ptxas_said(tmp_path: Path) -> None:
    if not assemblers(()):
        pytest.skip("needs ptxas: pip install triton")
    spilled = clean = 0
    for name, cubin, said in made(tmp_path):
        (tmp_path / "asked.cubin").write_bytes(cubin)
        usage = printed(tool("cuobjdump"), "-res-usage", tmp_path / "asked.cubin").decode()
        record = on_record(cubin, usage)
        known = read_cubin(cubin)
        assert known is not None
        for entry in known.entries:
            theirs, ours = said[entry], record[entry]
            assert ours.barriers == theirs.barriers, name
            if ours.spill_store_bytes is not None:
                both = (theirs.spill_store_bytes, theirs.spill_load_bytes)
                assert both == (0, 0), f"{name}: {entry} was said to have spilled nothing"
                clean += 1
            spilled += bool(theirs.spill_store_bytes)
    assert spilled > 10, "the texts with few registers spill, or nothing was judged"
    assert clean > 50


def test_a_spill_to_shared_memory_is_on_record(tmp_path: Path) -> None:
    """``.pragma "enable_smem_spilling"``: registers go to shared memory, and may leave no stack."""
    if not assemblers(()):
        pytest.skip("needs ptxas: pip install triton")
    judged = 0
    for assembler, values in product(assemblers(()), (34, 40, 60)):
        ptx = saved(tmp_path / "many.ptx", many(values, "sm_90", '.pragma "enable_smem_spilling";'))
        done = assembled(ptx, assembler, (), tmp_path / "many.cubin")
        if done is None:
            continue  # one of CUDA 12 does not know the pragma
        cubin, said = done
        usage = printed(tool("cuobjdump"), "-res-usage", tmp_path / "many.cubin").decode()
        if said["many"].spill_store_bytes:
            judged += function_records(cubin)["many"].shared_scratch
            assert on_record(cubin, usage)["many"].spill_store_bytes is None
    assert judged


def test_a_kernel_that_spills_has_the_bytes_that_ptxas_says(tmp_path: Path) -> None:
    """Local memory is there: the assembler is asked, and a variant's figures are its."""
    tool("ptxas")
    ptx = saved(tmp_path / "many.ptx", many(90, "sm_90"))
    paths = assemblers(())
    assert paths
    for number, assembler in enumerate(paths):
        done = assembled(ptx, assembler, ("-lineinfo",), tmp_path / "many.cubin")
        assert done is not None
        cubin, said = done
        assert said["many"].spill_store_bytes
        variant = Variant(
            id="0" * 8,
            hash="0" * 64,
            symbol="many",
            target="sm_90",
            stages={
                Stage.PTX: StageFile(BytesContent(ptx.read_bytes())),
                Stage.SASS: StageFile(BytesContent(cubin), None, "nvdisasm -c"),
            },
        )
        kept = DerivedCache(tmp_path / f"kept{number}")
        assert of_variant(variant, [assembler], kept)["many"] == said["many"]
