"""Archives are opened as they are; nothing in one leads out, or takes what it wants."""

from __future__ import annotations

import io
import lzma
import os
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.base.errors import Unreadable
from inspector.system import files
from inspector.system.files import unpacking
from tests.helpers.ptxview import (
    EXTENSION,
    LECTURE,
    SAMPLE,
    SQUARE,
    call,
    command,
    environment,
    saved,
)
from tests.helpers.tools import needs

PTX = (SQUARE / "square_kernel.ptx").read_bytes()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new folder for temporary files, empty at the end; archives are forgotten."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    for made in unpacking._unpacked.values():
        shutil.rmtree(made.folder)
    unpacking._unpacked.clear()
    assert not list(folder.iterdir())


def packed(target: Path, source: Path, mode: str) -> Path:
    if mode == "zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(source.rglob("*")):
                archive.write(file, str(file.relative_to(source.parent)))
    else:
        with tarfile.open(target, mode) as tar:  # type: ignore[call-overload]
            tar.add(source, source.name)
    return target


def unpacked_recording(folder: Path) -> Path:
    with zipfile.ZipFile(SAMPLE) as archive:
        archive.extractall(folder)
    return folder


PACKS = ("w", "w:gz", "w:bz2", "w:xz", "zip")


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        *((mode, "triton") for mode in PACKS[2:]),
        ("w", "torchinductor_user"),
        ("w:gz", "square_gelu"),
        ("zip", "recording"),
    ],
)
def test_an_archive_says_what_its_folder_says(
    tmp_path: Path, temporary: Path, mode: str, what: str
) -> None:
    source = {
        "triton": LECTURE / "triton",
        "torchinductor_user": LECTURE,
        "square_gelu": EXTENSION,
    }.get(what) or unpacked_recording(tmp_path / "recording")
    archive = packed(tmp_path / "x.bin", source, mode)
    said = [  # hints are counted while there is time
        re.sub(r'"path": "[^"]*"|"hints": \w+', "", call("list", path, "--json").text)
        for path in (source, archive)
    ]
    assert said[0] == said[1] and '"variants": [{' in said[0]
    assert str(temporary) not in said[1]
    kernel = {"recording": "square_loop_kernel", "square_gelu": "gelu_kernel"}.get(what, "f6904769")
    texts = [call("show", path, kernel, "--stage", "sass").out for path in (source, archive)]
    assert texts[0] == texts[1] and texts[0]


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = info.size or len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


EVIL = {
    "../out.ptx": "leads out",
    "/tmp/ptxview-absolute.ptx": "leads out",
    "a/../../out.ptx": "leads out",
    "/".join("d" * 70): "more than 64 folders",
    "n" * 300 + ".ptx": "too long",
}


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("name", EVIL, ids=lambda name: name[:12])
def test_a_member_with_a_name_that_leads_out_is_left_out(
    tmp_path: Path, temporary: Path, kind: str, name: str
) -> None:
    archive = tmp_path / "x.bin"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as out:
            out.writestr("k/good.ptx", PTX)
            out.writestr(name, PTX)
    else:
        tar_of(archive, (member("k/good.ptx"), PTX), (member(name), PTX))
    done = call("list", archive, "--json")
    listed = done.json
    assert [k["name"] for k in listed["kernels"]] == ["square_kernel"]
    (problem,) = listed["recording"]["problems"]
    assert EVIL[name] in problem and "left out" in problem
    assert not list(tmp_path.rglob("out*"))
    assert not Path("/tmp/ptxview-absolute.ptx").exists()


def test_links_devices_and_pipes_are_left_out(tmp_path: Path, temporary: Path) -> None:
    secret = saved(tmp_path / "secret", "root:x:0:0")
    archive = tar_of(
        tmp_path / "x.tgz",
        (member("good.ptx"), PTX),
        (member("link.ptx", tarfile.SYMTYPE, str(secret)), b""),
        (member("hard.ptx", tarfile.LNKTYPE, str(secret)), b""),
        (member("folder", tarfile.SYMTYPE, str(tmp_path)), b""),
        (member("folder/through.ptx"), PTX),
        (member("pipe.ptx", tarfile.FIFOTYPE), b""),
        (member("device.ptx", tarfile.CHRTYPE), b""),
    )
    done = call("list", archive, "--json")
    problems = "\n".join(done.json["recording"]["problems"])
    assert problems.count("is a link, a device, a pipe") == 5
    assert b"root:" not in done.out and not (tmp_path / "through.ptx").exists()
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as out:
        out.writestr("good.ptx", PTX)
        info = zipfile.ZipInfo("link.ptx")
        info.external_attr = 0o120777 << 16
        out.writestr(info, str(secret))
    done = call("list", tmp_path / "x.zip", "--json")
    assert "'link.ptx' is a link" in done.json["recording"]["problems"][0]
    for folder in temporary.iterdir():
        kinds = {p.is_symlink() or not (p.is_file() or p.is_dir()) for p in folder.rglob("*")}
        assert kinds == {False}


@pytest.mark.parametrize("kind", ["xz", "zip"])
def test_a_trap_that_unpacks_to_much_is_refused_before_it_is_on_the_disk(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(unpacking, "FREE_BYTES", 1 << 20)
    size = 100 << 20
    archive = tmp_path / "x.bin"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out, out.open("a", "w") as to:
            for _ in range(size >> 20):
                to.write(bytes(1 << 20))
    else:
        with lzma.open(archive, "wb", preset=0) as packing:
            info = member("a")
            info.size = size
            packing.write(info.tobuf())
            for _ in range(size >> 20):
                packing.write(bytes(1 << 20))
    seen: list[int] = []
    check = unpacking._check_size

    def weighed(*args: Any) -> None:
        seen.append(sum(p.stat().st_size for p in temporary.rglob("*") if p.is_file()))
        check(*args)

    monkeypatch.setattr(unpacking, "_check_size", weighed)
    with pytest.raises(Unreadable, match="as only a trap does"):
        unpacking.unpacked(archive)
    assert max(seen) <= archive.stat().st_size * unpacking.MAX_RATIO + (3 << 20) < size


@pytest.mark.parametrize("mode", ["w:gz", "zip"])
def test_more_than_the_bound_is_refused_with_what_raises_it(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(5):
        (folder / f"{n}.ptx").write_bytes(os.urandom(40_000))
    archive = packed(tmp_path / "x.bin", folder, mode)
    monkeypatch.setenv(files.VARIABLE, "64K")  # 128 KiB of one archive, 32 members
    done = call("list", archive)
    assert done.status == 4 and f"{files.VARIABLE}=" in done.said
    assert "Traceback" not in done.said and done.said.count("\n") <= 2


def _header(size: int) -> bytes:
    """A tar whose first member is an extended header of so many bytes that never come."""
    info = member("x", tarfile.XHDTYPE)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def test_headers_are_not_read_beyond_what_a_name_takes(tmp_path: Path, temporary: Path) -> None:
    archive = saved(tmp_path / "x.tar", _header(1 << 30))
    done = call("list", archive)
    assert done.status == 4 and "headers" in done.said
    # Global ones that are small each, and never end.
    with tarfile.open(
        tmp_path / "y.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 1000}
    ) as tar:
        tar.addfile(member("a.ptx"), io.BytesIO())
    block = (tmp_path / "y.tar").read_bytes()[:2048]
    heads = b"".join(block.replace(b"comment", f"com{n:04}".encode()) for n in range(2000))
    (tmp_path / "y.tar").write_bytes(heads)
    done = call("list", tmp_path / "y.tar")
    assert done.status == 4 and "headers" in done.said


@needs("tar")
def test_files_with_holes_are_left_out(tmp_path: Path, temporary: Path) -> None:
    """A sparse file of a terabyte is a few bytes in a tar."""
    sparse = tmp_path / "sparse.ptx"
    with sparse.open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "good.ptx").write_bytes(PTX)
    for how in ("gnu", "posix"):
        archive = tmp_path / f"{how}.tar"
        subprocess.run(
            ["tar", "--sparse", f"--format={how}", "-cf", archive.name, "good.ptx", "sparse.ptx"],
            check=True,
            cwd=tmp_path,
        )
        done = call("list", archive, "--json")
        assert "file with holes" in done.json["recording"]["problems"][0]


@pytest.mark.parametrize("mode", PACKS)
def test_a_truncated_or_damaged_archive_is_one_sentence(
    tmp_path: Path, temporary: Path, mode: str
) -> None:
    whole = packed(tmp_path / "x.bin", LECTURE / "triton", mode).read_bytes()
    half = len(whole) // 2
    broken = [whole[:600], whole[:half]]
    if mode != "w":  # nothing guards the content of a tar alone
        broken.append(whole[:half] + bytes(64) + whole[half + 64 :])
    for n, data in enumerate(broken):
        archive = saved(tmp_path / f"{n}.bin", data)
        done = call("list", archive)
        assert done.status == 4 and "Traceback" not in done.said
        assert re.search(r"cut short|damaged|nothing that ptxview knows", done.said), done.said


def test_an_encrypted_zip_says_so(tmp_path: Path, temporary: Path) -> None:
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("a.ptx", PTX)
    data = bytearray(archive.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(mark) + at
        struct.pack_into("<H", data, place, struct.unpack_from("<H", data, place)[0] | 1)
    archive.write_bytes(data)
    done = call("list", archive)
    assert done.status == 4 and "is encrypted" in done.said and "Unpack it first" in done.said


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), None])
def test_the_folder_is_gone_when_the_command_ends_or_is_interrupted(
    tmp_path: Path, temporary: Path, number: signal.Signals | None
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(600 if number else 40):
        (folder / f"{n}.ptx").write_bytes(PTX + b"// %d\n" % n)
    archive = packed(tmp_path / "x.tar", folder, "w")
    child = subprocess.Popen(
        command(["list", archive]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(temporary)),
        start_new_session=True,
    )
    unpacked = f"{unpacking.PREFIX}*/*"  # tempfile itself tries the folder with another file
    while number is not None and child.poll() is None and not list(temporary.glob(unpacked)):
        time.sleep(0.01)
    if number is not None:
        child.send_signal(number)
    _, said = child.communicate(timeout=300)
    assert child.returncode == (130 if number else 0) and b"Traceback" not in said
    assert not list(temporary.iterdir())
