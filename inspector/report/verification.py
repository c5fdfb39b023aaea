"""What it came to that launches were run by their PTX and interpreted: sentences, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from inspector.model import Recording, Variant, Verified
from inspector.text import plural

MOST_TOLD = 10
"""Differences that are told each in a line."""


def of_variant(rec: Recording, variant: Variant) -> Verified | None:
    """What the launches of a variant came to; None if none was to be verified."""
    for one in rec.verified or ():
        if one.hash == variant.hash and one.kernel == variant.symbol:
            return one
    return None


def sentence(rec: Recording) -> str:
    """All launches of a run in one sentence; "" where none was to be verified."""
    if rec.verified is None:
        return ""
    each = rec.verified
    if not any(one.launches for one in each):
        return "nothing was verified: the program launched no Triton kernel"
    agreeing = [one for one in each if one.agree]
    parts = []
    if agreeing:
        launches, kernels = sum(one.agree for one in agreeing), len({o.kernel for o in agreeing})
        parts.append(
            f"{plural(launches, 'launch')} of {plural(kernels, 'kernel')} "
            f"{'agrees' if launches == 1 else 'agree'}{_how(agreeing)}"
        )
    differ = sum(one.differ for one in each)
    if differ:
        names = ", ".join(dict.fromkeys(one.kernel for one in each if one.differ))
        parts.append(f"{differ:,} {'differs' if differ == 1 else 'differ'} ({names})")
    left = sum(count for one in each for count in one.unverified.values())
    if left:
        parts.append(f"{left:,} could not be verified")
    return "PTX against Python: " + "; ".join(parts)


def _how(agreeing: Iterable[Verified]) -> str:
    """How exactly launches agree."""
    each = list(agreeing)
    same, whole = sum(one.identical for one in each), sum(one.agree for one in each)
    if same == whole:
        return ", bit for bit"
    others = "" if not same else f", {same:,} bit for bit, the others"
    return f"{others or ','} within what rounding may change"


def details(rec: Recording) -> list[str]:
    """A line for each difference, and one for each reason why launches could not be verified."""
    each = rec.verified or ()
    out = [f"{one.kernel} differs: {d.text}" for one in each for d in one.differences]
    if len(out) > MOST_TOLD:
        rest = plural(len(out) - MOST_TOLD, "more difference")
        out[MOST_TOLD:] = [f"{rest}; list --json has all of them"]
    reasons: Counter[tuple[str, str]] = Counter()
    for one in each:
        for why, count in one.unverified.items():
            reasons[one.kernel, why] += count
    out += [
        f"{plural(count, 'launch')} of {kernel} not verified: {why}"
        for (kernel, why), count in reasons.items()
    ]
    return out


def of_launches(one: Verified) -> str:
    """What the launches of one variant came to, as a phrase."""
    parts = []
    if one.agree:
        near = "" if one.ulps is None else f", {_ulps(one.ulps)} of {_ulps(one.bound_ulps)} ulps"
        parts.append(
            f"{plural(one.agree, 'launch')} {'agrees' if one.agree == 1 else 'agree'}"
            f"{_how([one])}{near}"
        )
    if one.differ:
        parts.append(f"{plural(one.differ, 'launch')} {'differs' if one.differ == 1 else 'differ'}")
    parts += [f"{plural(n, 'launch')} not verified: {why}" for why, n in one.unverified.items()]
    return "; ".join(parts)


def _ulps(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def document(rec: Recording) -> dict[str, object] | None:
    """``list --json``'s ``verification``."""
    if rec.verified is None:
        return None
    variants = {(v.hash, v.symbol): (k.id, v.id) for k, v in rec.variants()}
    kernels = []
    for one in rec.verified:
        kernel, variant = variants.get((one.hash, one.kernel), (None, None))
        kernels.append({"name": one.kernel, "kernel": kernel, "variant": variant, **values(one)})
    return {
        "launches": sum(one.launches for one in rec.verified),
        "agree": sum(one.agree for one in rec.verified),
        "identical": sum(one.identical for one in rec.verified),
        "differ": sum(one.differ for one in rec.verified),
        "unverified": sum(n for one in rec.verified for n in one.unverified.values()),
        "kernels": kernels,
    }


def values(one: Verified | None) -> dict[str, object]:
    """What the launches of one variant came to."""
    if one is None:
        return {}
    return {
        "launches": one.launches,
        "agree": one.agree,
        "identical": one.identical,
        "differ": one.differ,
        "unverified": dict(one.unverified),
        "ulps": one.ulps,
        "bound_ulps": one.bound_ulps,
        "differences": [asdict(d) for d in one.differences],
    }
