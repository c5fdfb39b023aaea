"""The names of a CUDA C++ kernel's parameters: its source's, where the match is certain.

A kernel is told by its name with its namespaces, by whether it is a template, by the number of its
parameters and by their types. Where more than one kernel of the source may be meant, a parameter
has a name only where all of them agree on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.listing.cuda_signatures import (
    UNNAMED,
    Named,
    Operators,
    Signature,
    Signatures,
    Type,
    resolved,
    type_of,
)
from inspector.listing.ptx_declaration import Declared

_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|_NV_ANON_NAMESPACE")
_PATH = re.compile(r"(?:(?:\w|\$|\x01)+::)*+(?:\w|\$)+\Z")

Names = tuple[str | None, ...]


def parameter_names(
    source: Signatures,
    symbol: str,
    demangled: str,
    types: Sequence[str],
    declared: Sequence[Declared],
) -> Names:
    """A name or None for each parameter; () where the kernel is not known for certain.

    ``types`` are those of the demangled name, ``declared`` what PTX declares (() where there is
    none).
    """
    count = len(declared) or len(types)
    if demangled.rstrip().endswith(")") and (not declared or len(types) == count):
        path, template = _path(demangled)
        possible = [k for k in source.kernels if k.path == path and k.template == template]
        targets = [type_of(t) for t in types]
        fitting = [k for k in possible if not k.certain or _fits(k, targets, source)]
    elif not symbol.startswith("_Z") and declared:
        # extern "C": the symbol is the name, and tells no types.
        possible = [
            k
            for k in source.kernels
            if k.path[-1] == symbol and not k.template and (k.c_linkage or len(k.path) == 1)
        ]
        fitting = [k for k in possible if not k.certain or _has_sizes(k, declared, source)]
    else:
        return ()
    if not fitting or not all(k.certain for k in fitting):
        return ()
    columns = zip(*([p.name for p in k.parameters] for k in fitting), strict=True)
    return tuple(names[0] if len(set(names)) == 1 else None for names in columns)


def _path(demangled: str) -> tuple[tuple[str, ...], bool]:
    """``(a, b, f)`` of ``void a::b::f<int>(float*)``, and whether it is a template."""
    text = _UNNAMED.sub("\x01", demangled.rstrip())
    depth, at = 0, len(text)
    while at:
        at -= 1
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            break
    name = text[:at].rstrip()
    template = name.endswith(">")
    if template:
        at, depth = len(name), 0
        while at:
            at -= 1
            depth += (name[at] == ">") - (name[at] == "<")
            if depth == 0:
                break
        name = name[:at].rstrip()
    last = max(name.rfind(" "), name.rfind("*"), name.rfind("&")) + 1
    if not _PATH.match(name, last):
        return (), template
    return tuple(UNNAMED if n == "\x01" else n for n in name[last:].split("::")), template


def _fits(kernel: Signature, targets: Sequence[Type], source: Signatures) -> bool:
    """Whether the types of a demangled name can be this kernel's."""
    if len(kernel.parameters) != len(targets):
        return False
    bound: dict[str, object] = {}
    return all(
        _may_be(p, target, kernel, source, bound)
        for p, target in zip(kernel.parameters, targets, strict=True)
    )


def _may_be(
    parameter: Named,
    target: Type,
    kernel: Signature,
    source: Signatures,
    bound: dict[str, object],
) -> bool:
    written = parameter.type
    if written.base not in kernel.own:
        written = resolved(written, source, kernel.own)
    if written.unknown or target.unknown:
        return True
    if written.complex:
        return target.complex
    if written.fundamental and written.base not in kernel.own:
        return not target.complex and (written.base, written.qualifiers, written.operators) == (
            target.base, target.qualifiers, target.operators,
        )  # fmt: skip
    if target.complex:
        return not _own_class(written, kernel, source)
    count = len(written.operators)
    if count > len(target.operators):
        return False
    left = target.operators[: len(target.operators) - count]
    if count and target.operators[len(left) :] != written.operators:
        return False
    held = left[-1][1] if left else target.qualifiers
    if not written.qualifiers <= held and (left or target.operators):
        return False
    if _own_class(written, kernel, source):
        name = target.base.partition("<")[0].rpartition("::")[2]
        return not left and name == written.base.partition("<")[0].rpartition("::")[2]
    # Another name (a template's own, an alias from a header) is one type throughout a signature.
    rest: tuple[str, Operators] = (target.base, _bare(left, written.qualifiers))
    return bound.setdefault(written.base, rest) == rest


def _bare(operators: Operators, without: frozenset[str]) -> Operators:
    """Pointers of a bound name without the qualifiers that the parameter itself adds."""
    if not operators:
        return ()
    mark, held = operators[-1]
    return (*operators[:-1], (mark, held - without))


def _own_class(type_: Type, kernel: Signature, source: Signatures) -> bool:
    """Whether the source defines the class, so that its name is no alias."""
    return type_.base.partition("<")[0] in source.classes - kernel.own


def _has_sizes(kernel: Signature, declared: Sequence[Declared], source: Signatures) -> bool:
    if len(kernel.parameters) != len(declared):
        return False
    for parameter, own in zip(kernel.parameters, declared, strict=True):
        type_ = resolved(parameter.type, source)
        if type_.size not in (None, own.size):
            return False
        number = type_.fundamental and not type_.operators and not type_.complex
        if number and "f" in own.type and type_.base not in ("float", "double"):
            return False
    return True
