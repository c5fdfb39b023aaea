"""Content of an exported page, file or folder, unpacked."""

from __future__ import annotations

import base64
import html
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DATA = re.compile(rb'<script type="text/plain" id="b(\d+)">([^<]*)</script>')
_INDEX = re.compile(rb'<script type="application/json" id="index">(.*?)</script>', re.DOTALL)


def index_of(page: bytes) -> Any:
    match = _INDEX.search(page)
    assert match is not None
    return json.loads(match[1])


def blocks_of(page: bytes) -> dict[int, Any]:
    return {
        int(number): json.loads(zlib.decompress(base64.b64decode(data)))
        for number, data in _DATA.findall(page)
    }


def variant_of(page: bytes, variant: str, kernel: str = "") -> tuple[Any, Any]:
    index = index_of(page)
    row = next(
        v
        for v in index["variants"]
        if v["id"] == variant and kernel in ("", index["kernels"][v["kernel"]]["name"])
    )
    return row, blocks_of(page)[row["block"]]


def unpacked(path: Path) -> Iterator[bytes]:
    """Every piece of what was written, as it is and unpacked, names of files too; JSON's strings
    without their escapes."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        yield str(file.relative_to(path)).encode()
        if not file.is_file():
            continue
        data = file.read_bytes()
        yield data
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                for member in archive.namelist():
                    yield member.encode()
                    yield (content := archive.read(member))
                    if member.endswith(".jsonl"):
                        yield from map(_plain, map(json.loads, content.splitlines()))
        elif data.startswith(b"<!doctype"):
            yield _plain(index_of(data))
            yield html.unescape(data.decode("ascii")).encode("utf-8", "replace")
            yield from map(_plain, blocks_of(data).values())


def _plain(value: object) -> bytes:
    return "\n".join(texts_of(value)).encode("utf-8", "surrogateescape")


def texts_of(value: object) -> Iterator[str]:
    """Every text of a value of JSON, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key)
            yield from texts_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts_of(member)
