"""Names: base names against c++filt, ids against all others."""

from __future__ import annotations

import re
import subprocess
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.base.escapes import shown
from inspector.base.names import base_name, shortest_ids
from inspector.system import toolchain
from tests.helpers.tools import needs, path_of

SYMBOLS = [
    "_Z20square_matrix_kernelPKfPfii",
    "_Z11gelu_kernelPfS_i",
    "_Z6kernelIfLi4EEvPT_i",
    "_ZN2ns6kernelEPf",
    "_ZN2ns5inner6kernelILi3EEEvPf",
    "_ZL6staticPf",
    "_ZN12_GLOBAL__N_16hiddenEPf",
    "_ZN55_INTERNAL_c0ffee_7_cuda_cu_square_matrix_kernel_12345676kernelEPf",
    "_ZN2nsL7in_fileEPf",
    "_ZN5outerIiE6methodEv",
    "_ZN5outerIN2ns3argELi3EPKfE6methodILi1EEEvv",
    "_ZNK5outer6methodEv",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEvi"
    "T0_T1_",
]


@needs("c++filt")
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_base_name_is_the_one_that_cxxfilt_says(symbol: str) -> None:
    said = subprocess.run(
        ["c++filt", symbol], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert said != symbol
    # Without template arguments, parameters and the words before the name.
    said = said.replace("(anonymous namespace)", "anonymous")
    while re.search(r"<[^<>]*>", said):
        said = re.sub(r"<[^<>]*>", "", said)
    plain = said.split("(")[0].split()[-1].split("::")[-1]
    assert base_name(symbol) == plain


@pytest.mark.parametrize("symbol", ["matmul_kernel", "", "_Z", "_Z0x", "_Z99short", "_ZN", "main"])
def test_other_names_are_left_as_they_are(symbol: str) -> None:
    assert base_name(symbol) == symbol


def test_demangling_keeps_the_order_and_what_is_no_cxx_name() -> None:
    names = ["b", "_Z1av", "_Znonsense", "_Z1av", "_Z1b\0v", "-x", "_Z1cv\nd"]
    done = toolchain.demangle(names)
    assert len(done) == len(names)
    assert [done[n] for n in (0, 2, 4, 5, 6)] == [names[n] for n in (0, 2, 4, 5, 6)]
    if path_of("c++filt"):
        assert done[1] == done[3] == "a()"


@given(st.lists(st.text("01ab", min_size=12, max_size=12), max_size=8))
def test_ids_are_the_shortest_that_tell_apart(digests: list[str]) -> None:
    ids = shortest_ids(digests)
    assert set(ids) == set(digests)
    for digest, short in ids.items():
        others = [d for d in ids if d != digest]
        assert digest.startswith(short) and len(short) >= 8
        assert not any(o.startswith(short) for o in others)
        if len(short) > 8:
            assert any(o.startswith(short[:-1]) for o in others), "it could be shorter"


@given(st.text())
def test_shown_text_has_no_control_character_but_tabs(text: str) -> None:
    assert bool(shown(text)) is bool(text)
    for char in shown(text):
        # Cc: controls; Cs: surrogates; B, and the marks that turn the direction of writing.
        assert char == "\t" or unicodedata.category(char) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(char) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
            "B",
        )
