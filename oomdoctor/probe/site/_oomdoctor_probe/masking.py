"""Masks secrets in what the probe writes: the command line, messages, lines of source."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MASK = "***"
_NAMES = ("token", "secret", "passw", "api_key", "api-key", "apikey", "access_key", "access-key", "credential", "auth")
_PREFIXES = ("hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xox", "AKIA", "eyJ")
_MOST_ARGUMENTS = 200
_LONGEST_ARGUMENT = 1000


def mask(text: str, is_code: bool = False) -> str:
    """The text without what looks like a secret. In code, `token = value` is one only in quotes."""
    lowered = text.lower()
    if not ("://" in text or any(name in lowered for name in _NAMES) or any(prefix in text for prefix in _PREFIXES)):
        return text
    import re  # rarely needed, and dear to a process that never needs it

    text = re.sub(r"(://[^/\s:@]*:)[^/\s@]+@", r"\1%s@" % _MASK, text)
    text = re.sub(r"(?i)\b(bearer\s+)[\w.\-]{6,}", r"\1%s" % _MASK, text)
    # A name such as `api_key` or `"hf_token"`, then = or :, then its value. Neither a tokenizer nor an author is a
    # secret, nor is a count (`max_tokens=4096`).
    text = re.sub(
        r"""(?i)((?:%s)(?!s\b|iz|ors?\b)[\w-]*["']?)(%s)(?!\d+\b|bearer\b)[^\s"',;)}]{4,}"""
        % ("|".join(_NAMES), r"""[=:]["']?|\s*[=:]\s*["']""" if is_code else r"""\s*[=:]\s*["']?"""),
        r"\1\2%s" % _MASK,
        text,
    )
    return re.sub(r"(?<![A-Za-z0-9_])(%s)[A-Za-z0-9_.\-]{8,}" % "|".join(_PREFIXES), r"\1%s" % _MASK, text)


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """The command line, shortened, with the values of options such as `--hf-token VALUE` masked."""
    kept = []
    secret_follows = False
    for argument in arguments[:_MOST_ARGUMENTS]:
        kept.append(_MASK if secret_follows and not argument.startswith("-") else mask(argument)[:_LONGEST_ARGUMENT])
        lowered = argument.lower()
        secret_follows = (
            argument.startswith("-")
            and "=" not in argument
            and not lowered.endswith("tokens")
            and any(name in lowered for name in _NAMES)
            and "author" not in lowered
        )
    return kept
