"""A verdict for each kernel, from the figures of its comparison."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from inspector.verify.graph_nodes import Node, base_name


class Verdict(StrEnum):
    """What explains a kernel's values. Of several the last of this order counts."""

    NOT_COMPARED = "not-compared"
    EQUAL = "equal"
    CLOSER = "closer-than-eager"
    SUM_ORDER = "summation-order"
    APPROXIMATION = "approximation"
    UNEXPLAINED = "unexplained"


SEVERITY = tuple(Verdict)


class FirstDifference(Struct, frozen=True):
    """The first element that nothing explains: of which output, where, and the values there.

    ``allowed`` is by how much rounding may move it; ``inputs`` are values by the names of nodes.
    """

    output: str
    index: tuple[int, ...]
    value: object
    reference: object
    eager: object
    allowed: object = None
    inputs: Mapping[str, object] = {}


class Judgement(Struct, frozen=True):
    """The verdict on a launch; errors are shares of the reference's largest magnitude."""

    verdict: Verdict
    reason: str
    max_error: float | None = None
    eager_max_error: float | None = None
    elements: int = 0
    unexplained_elements: int = 0
    first: FirstDifference | None = None
    output: str | None = None
    """The parameter of the kernel that the difference is in."""
    source: str | None = None
    """The model's line that its node comes from: ``model.py:12: x = self.norm(x)``."""


def not_compared(reason: str) -> Judgement:
    return Judgement(Verdict.NOT_COMPARED, reason)


def judge(
    nodes: Sequence[Node],
    parameters: Sequence[str],
    figures: Sequence[Mapping[str, Any]],
    table: Mapping[str, Any],
    coarse_words: Sequence[str],
) -> Judgement:
    """The verdict on a launch: that on its output which is hardest to explain.

    ``parameters`` are the kernel's names of the outputs that ``figures`` are of; ``coarse_words``
    name the approximate instructions of its PTX.
    """
    judgements = [
        _of_output(nodes, parameter, output_figures, table, coarse_words)
        for parameter, output_figures in zip(parameters, figures, strict=True)
    ]
    return max(judgements, key=lambda judgement: SEVERITY.index(judgement.verdict))


def _of_output(
    nodes: Sequence[Node],
    parameter: str,
    figures: Mapping[str, Any],
    table: Mapping[str, Any],
    coarse_words: Sequence[str],
) -> Judgement:
    elements = int(figures["elements"])
    if figures["equal"]:
        return Judgement(Verdict.EQUAL, "equal in all bits", elements=elements)
    error = figures["max_error"]
    eager_error = figures["eager_max_error"]
    common = {"max_error": error, "eager_max_error": eager_error, "elements": elements}
    if figures["outside"]:
        count = int(figures["outside"])
        first = figures["first"]
        difference = FirstDifference(
            parameter,
            tuple(first["index"]),
            first["value"],
            first["reference"],
            first["eager"],
            first.get("allowed"),
            first.get("inputs") or {},
        )
        reason = (
            f"{count:,} of {elements:,} elements of {figures['node']} are not explained by rounding"
        )
        return Judgement(
            Verdict.UNEXPLAINED,
            reason,
            unexplained_elements=count,
            first=difference,
            output=parameter,
            source=_source(nodes, figures["node"]),
            **common,
        )
    dropped = dropped_roundings(nodes, figures["node"], table["exact"]["operators"])
    if figures["narrowed"]:
        words = f"within the roundings to {dropped[0]['dtype']} between its operators"
        return Judgement(Verdict.APPROXIMATION, words, **common)
    closer = error is not None and eager_error is not None and error <= eager_error
    if closer and figures["by_rounding"]:
        words = "its error is at most that of the operators"
        if dropped:
            words = f"the kernel does not round {_named(dropped)} to {dropped[0]['dtype']}"
        return Judgement(Verdict.CLOSER, words, **common)
    sums = [base_name(node) for node in nodes if base_name(node) in table["sums"]["operators"]]
    if figures["by_rounding"] and sums:
        words = f"the order of {_words(sums)} explains it"
        if figures["largest_move"] is not None:
            words += f": at most {figures['largest_move']:.1e} of the largest value"
        return Judgement(Verdict.SUM_ORDER, words, **common)
    functions = [base_name(node) for node in nodes if base_name(node) in table["functions"]]
    if functions:
        words = f"within the error of {_words(functions)}"
        if coarse_words:
            words += f" by {_words(coarse_words)}"
        return Judgement(Verdict.APPROXIMATION, words, **common)
    if closer:
        return Judgement(Verdict.CLOSER, "its error is at most that of the operators", **common)
    words = "within the rounding of its own arithmetic (fused multiply-adds round once)"
    if error is None:
        words = "a value of its inputs decides, which rounding may move by one step"
    return Judgement(Verdict.APPROXIMATION, words, **common)


CONVERSIONS = ("convert_element_type", "_to_copy")


NARROW = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


def dropped_roundings(nodes: Sequence[Node], output: str, exact: Collection[str]) -> list[Node]:
    """The nodes between inputs and outputs that round to a narrow dtype if they are run alone."""
    return [
        node
        for node in nodes
        if node.get("dtype") in NARROW
        and node["name"] != output
        and (base_name(node) not in exact or base_name(node) in CONVERSIONS)
    ]


def _source(nodes: Sequence[Node], name: str) -> str | None:
    """The model's line of a node: outside of installed packages where the recording knows one."""
    changing = nodes[-1] if nodes else {}  # of an input that is changed in place
    node = next((node for node in nodes if node["name"] == name), changing)
    place = node.get("caller") or node.get("line")
    if not place:
        return None
    file, line, code = place
    return f"{file}:{line}: {code}"


def _named(nodes: Sequence[Node]) -> str:
    return _words([base_name(node) for node in nodes])


def _words(names: Sequence[str]) -> str:
    """At most three different names."""
    unique = list(dict.fromkeys(names))
    text = ", ".join(unique[:3])
    return f"{text} and {len(unique) - 3} more" if len(unique) > 3 else text
