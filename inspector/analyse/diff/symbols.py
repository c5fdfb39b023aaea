"""Names of functions and variables without the digests that compilers put in them.

- Triton up to 2 marks how a kernel was specialised: ``add_kernel_0d1d2d3de``.
- ``nvcc`` names what is internal to a file after the file, a digest and its temporary files:
  ``_ZN50_INTERNAL_5f8a3c2e_9_kernel_cu_1b2c3d4e_12345E``, ``_GLOBAL__N__5c8a3a5f_11_foo_cu_…``,
  ``_47_tmpxft_00001234_00000000_7_foo_cpp1_ii_abcdef12``.
- ``ptxas`` numbers the functions it adds: ``$__internal_3_$__cuda_sm20_div_f32_slowpath``.
"""

from __future__ import annotations

import re

_MARKS = re.compile(r"__internal_|tmpxft|_INTERNAL_|_GLOBAL__N_|unnamed")
_SPECIALISED = re.compile(r"_(?:\d{1,3}(?:de|d|c))+\Z")
_INTERNAL = re.compile(r"__internal_\d++_")
_FILE = re.compile(r"(?:(?<!\d)\d++_)?_?tmpxft_[0-9a-f]++_[0-9a-f]++(?:-\d++)?(?:_\d++)?")
_LENGTH = re.compile(r"(?<!\d)\d++(?=_INTERNAL_|_GLOBAL__N_|_tmpxft)")
_DIGEST = re.compile(r"(?<=_)[0-9a-f]{8}(?:_\d++)?(?=_|E|\b)")
_UNNAMED = re.compile(r"__unnamed_\d++")


def plain(text: str) -> str:
    """``text`` with the digests and numbers of the names in it left out."""
    if not _MARKS.search(text):
        return text
    text = _INTERNAL.sub("__internal_", text)
    text = _LENGTH.sub("", text)
    text = _FILE.sub("tmpxft", text)
    if "_INTERNAL_" in text or "_GLOBAL__N_" in text or "tmpxft" in text:
        text = _DIGEST.sub("", text)
    return _UNNAMED.sub("__unnamed", text)


def plain_name(name: str) -> str:
    """A function's name as it is told to others: without digests and specialisation."""
    return _SPECIALISED.sub("", plain(name)) or name
