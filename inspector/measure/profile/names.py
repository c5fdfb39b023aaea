"""Short names of kernels, as a table has room for them."""

from __future__ import annotations

import re

# What says nothing of which kernel it is.
_PLAIN = re.compile(
    r"^(?:-?[\d.]+(?:ul|u|l|f)?|\([\w:]+\)-?\d+|bool|char|short|int|long|unsigned.*|float|double|void|"
    r"true|false|c10::\w+|std::.*|__half|__nv_bfloat16|.*\*|at::detail::Array.*|OffsetCalculator.*|"
    r"TrivialOffset.*|\.\.\.|"
    # What wraps the operation that one looks for.
    r"BinaryFunctor|[AB]UnaryFunctor|ReduceOp|func_wrapper_t|GpuReduce.*)$"
)
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\{lambda[^}]*\}|<unnamed>::")
LONGEST = 72


def short_name(name: str) -> str:
    """``vectorized_elementwise_kernel<pow_tensor_scalar_kernel_impl>`` of torch's long one.

    The function's own name, and of its template's arguments the first that names an operation.
    """
    text = _ANONYMOUS.sub("", name).strip()
    text = re.sub(r"^(?:void|auto|decltype\(auto\))\s+", "", text)
    base, inner = _split(text)
    found = _operation(inner)
    own = base.rpartition("::")[2] or base
    short = (f"{own}<{found}>" if found else own) or name
    return short if len(short) <= LONGEST else f"{short[: LONGEST - 1]}…"


def _split(text: str) -> tuple[str, str]:
    """What stands before the template's arguments or the function's, and the former."""
    at = next((n for n, c in enumerate(text) if c in "<("), len(text))
    if at == len(text) or text[at] == "(":
        return text[:at], ""
    depth = 0
    for n in range(at, len(text)):
        depth += (text[n] == "<") - (text[n] == ">" and text[n - 1] != "-")
        if depth == 0:
            return text[:at], text[at + 1 : n]
    return text[:at], text[at + 1 :]


def _operation(arguments: str) -> str:
    """The first word among template arguments that says what is computed."""
    for part in re.split(r"[<>,()&]", arguments):
        word = part.strip().removesuffix("::").rpartition("::")[2].strip()
        if word and not _PLAIN.match(part.strip()) and not _PLAIN.match(word):
            return word
    return ""
