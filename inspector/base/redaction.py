"""Removal of secrets from command lines."""

from collections.abc import Iterable

SECRETS = ("secret", "passw", "credential", "api-key", "apikey", "access-key", "accesskey")


def _is_secret(name: str) -> bool:
    """Whether an option or a variable names a secret: ``--hf-token``, ``WANDB_API_KEY``; a language
    model's ``--max-tokens`` and ``--tokenizer`` do not."""
    dashed_name = name.lower().replace("_", "-").replace(".", "-")
    is_name = dashed_name.replace("-", "").isalnum()  # else it is code, or a path
    return is_name and (
        dashed_name.endswith("token") or any(secret in dashed_name for secret in SECRETS)
    )


def without_secrets(words: Iterable[str]) -> list[str]:
    """A command line as it is recorded: what ``--api-key`` and ``HF_TOKEN=`` are given is ``…``.

    ``probes/writer.py`` does the same to each process's own.
    """
    out: list[str] = []
    hides = False
    for word in words:
        name, equals, _ = word.partition("=")
        option = word.startswith("-")
        secret = (equals != "" or option) and _is_secret(name)
        out.append(f"{name}=…" if secret and equals else "…" if hides and not option else word)
        hides = secret and not equals
    return out
