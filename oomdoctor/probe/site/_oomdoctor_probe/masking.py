"""Masks secrets before anything is written: in command lines, messages, lines of source and printed text.

Secrets are known by their shape (`hf_…`, `AKIA…`, a JWT, a private key), by the name they are given under
(`--api-key …`, `PASSWORD=…`, `"client_secret": "…"`, `Authorization: …`) or by their place in a URL
(`https://user:secret@host`). Every pattern has bounded repeats or starts only at a boundary: the time is linear in the
text. A name such as `max_tokens` or `eos_token` is no secret; a memory log is full of them.
Patterns are compiled when a text is met that may hold what they look for: most processes never need them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from re import Match, Pattern

MASK = "<masked>"
_MASK = MASK.encode()
_compiled: dict[bytes, Pattern[bytes]] = {}

# Searched in the lower-cased bytes. Each begins with plain letters, which the engine skips to quickly; what stands
# before the word (`hf_` token, not `eos_` token) is looked at only where the rest fits.
_QUOTE = rb"(?:\\{0,3}[\"'])?"
"""Escaped where a text was quoted in another."""
_NAMED = (
    rb"(?:password|passwd|passphrase|pwd|secret|key|token|credential|pass)(?P<tail>[a-z0-9_-]{0,20})"
    + _QUOTE
    + rb"(?P<joint>\]?[ \t]{0,3}[=:][ \t]{0,3}|[ \t]{0,40}(?:\||\xe2\x94[\x82\x83]|\\{1,7}u250[23])[ \t]{0,40}"
    + rb"|(?<=[\"']),[ \t]{0,3}(?=\\{0,3}[\"'])|[ \t]{1,40})(?P<quote>"
    + _QUOTE
    + rb")(?P<value>[^\s\"',;&<>\\]{4})"
)
_VALUE = rb"(?:[^\s\"',;&<>\\]|\\[^nrt\"'\\])*"
_WORD_BEFORE = rb"[a-z0-9_.-]{0,40}\Z"
_NAME_HINTS = (b"pass", b"pwd", b"secret", b"key", b"token", b"credential")
# What a text must hold (in lower case) for the pattern to be tried, first a part that several share; searched in the
# lower-cased bytes.
_BY_PLACE: tuple[tuple[bytes, bytes, bytes], ...] = (
    (
        b"auth",
        b"authorization",
        rb"authorization"
        + _QUOTE
        + rb"[ \t]{0,3}[:=][ \t]{0,3}"
        + _QUOTE
        + rb"(?:(?:bearer|basic|token|digest)[ \t]{1,3})?(?P<value>[^\s\"',<\\]{4,4096})",
    ),
    (b"bearer", b"bearer", rb"bearer[ \t]{1,3}(?P<value>[a-z0-9._~+/=-]{16,4096})"),
    (
        b"cookie",
        b"cookie",
        rb"cookie" + _QUOTE + rb"[ \t]{0,3}:[ \t]{0,3}" + _QUOTE + rb"(?P<value>[^\s\"'\\][^\r\n\"'\\]{0,4095})",
    ),
    (b"://", b"://", rb"://(?P<value>[^\s/@'\"]{1,512})@"),
    (b"sig", b"sig=", rb"[?&](?:x-(?:amz|goog|oss)-)?sig=(?P<value>[^\s&\"'<>]{4,4096})"),
    (b"sig", b"signature=", rb"[?&](?:x-(?:amz|goog|oss)-)?signature=(?P<value>[^\s&\"'<>]{4,4096})"),
    (b"hook", b"webhook", rb"/webhooks/(?P<value>[0-9]{5,30}/[a-z0-9_-]{16,200})"),
    (b"hook", b"hooks.", rb"hooks\.[a-z]{2,20}\.com/[a-z]{2,20}/(?P<value>[a-z0-9/_-]{16,200})"),
    (b"bot", b"/bot", rb"/bot(?P<value>[0-9]{6,12}:[a-z0-9_-]{30,60})"),
    (b"auth", b'"auth', rb"\"auth\\{0,3}\"[ \t]{0,3}:[ \t]{0,3}\\{0,3}\"(?P<value>[a-z0-9+/=_-]{8,4096})"),
    (b"auth", b"_auth", rb"_auth[ \t]?=[ \t]?(?P<value>[a-z0-9+/=_-]{8,4096})"),
    (b"login", b"password", rb"login[ \t]{1,8}\S{1,200}[ \t]{1,8}password[ \t]{1,8}(?P<value>[^\s\\]{1,512})"),
    (b"pass", b"password", rb"(?:\A|\n)[ \t]{0,40}password[ \t]{1,8}(?P<value>[^\s\\]{1,512})[ \t]{0,8}(?=\r|\n|\Z)"),
    (
        b"login",
        b"wandb",
        rb"wandb[ \t]{1,8}login[ \t]{1,8}(?:--?[a-z]{1,20}[ \t]{1,8}){0,3}(?P<value>[a-z0-9_]{20,512})",
    ),
    (b"pass", b"sshpass", rb"sshpass[ \t]{1,8}-p[ \t]{0,8}[\"']?(?P<value>[^\s\"']{1,512})"),
    (b"mysql", b"mysql", rb"mysql[a-z]{0,10}\b[^\r\n]{0,200}?[ \t]-p(?P<value>[^\s\"']{2,512})"),
    (
        b"login",
        b"login",
        rb"(?:docker|podman|helm)\b[^\r\n]{0,100}\blogin\b[^\r\n]{0,200}?[ \t]-p[ \t]{1,8}(?P<value>[^\s\"']{1,512})",
    ),
    (b"key", b"key=", rb"[?&]key=(?P<value>[^\s&\"'<>]{8,4096})"),
    (
        b"auth",
        b"auth",
        rb"auth[ \t]?=[ \t]?\(\\{0,3}[\"'][^\"'\r\n]{0,200}[\"'],[ \t]?\\{0,3}[\"'](?P<value>[^\"'\r\n\\]{1,512})",
    ),
    (b"cookie", b"cookies", rb"cookies[ \t]?=[ \t]?\{(?P<value>[^}\r\n]{4,4096})\}"),
    (b"bot", b"bot ", rb"bot[ \t]{1,3}(?P<value>[a-z0-9_-]{20,30}\.[a-z0-9_-]{6}\.[a-z0-9_-]{27,50})"),
    (b"login", b"login(", rb"login\([^)\r\n]{0,80}key[ \t]?=[ \t]?\\{0,3}[\"'](?P<value>[^\"'\s\\]{8,512})"),
    (
        b"curl",
        b"curl",
        rb"curl\b[^\r\n]{0,400}?[ \t](?:-u[ \t]?|--user[ =])[\"']?[^\s:\"']{1,200}:(?P<value>[^\s\"']{1,512})",
    ),
)
_SHAPES = (
    rb"hf_[A-Za-z0-9]{20,}",
    rb"api_org_[A-Za-z0-9]{20,}",
    rb"sk-[A-Za-z0-9_-]{20,}",
    rb"[rs]k_live_[A-Za-z0-9]{16,}",
    rb"[rs]k_test_[A-Za-z0-9]{16,}",
    rb"gh[pousr]_[A-Za-z0-9]{20,}",
    rb"github_pat_[A-Za-z0-9_]{20,}",
    rb"gl(?:pat|rt|dt|cbt|ptt|ft|soat|agent|imt)-[A-Za-z0-9_-]{16,}",
    rb"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    rb"xapp-[A-Za-z0-9-]{10,}",
    rb"AKIA[A-Z0-9]{16}",
    rb"ASIA[A-Z0-9]{16}",
    rb"AIza[A-Za-z0-9_-]{30,}",
    rb"ya29\.[A-Za-z0-9_-]{20,}",
    rb"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",
    rb"npm_[A-Za-z0-9]{30,}",
    rb"pypi-[A-Za-z0-9_-]{20,}",
    rb"dckr_pat_[A-Za-z0-9_-]{20,}",
    rb"nvapi-[A-Za-z0-9_-]{20,}",
    rb"gsk_[A-Za-z0-9]{20,}",
    rb"r8_[A-Za-z0-9]{20,}",
    rb"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    rb"dapi[0-9a-f]{32}",
    rb"hvs\.[A-Za-z0-9_-]{20,}",
    rb"hvb\.[A-Za-z0-9_-]{20,}",
    rb"wandb_v1_[A-Za-z0-9_]{20,}",
    rb"xai-[A-Za-z0-9]{20,}",
    rb"pplx-[A-Za-z0-9]{20,}",
    rb"tgp_v1_[A-Za-z0-9_-]{20,}",
    rb"csk-[A-Za-z0-9]{20,}",
    rb"jina_[A-Za-z0-9_-]{20,}",
    rb"ABSK[A-Za-z0-9+/]{40,}={0,2}",
    rb"GOCSPX-[A-Za-z0-9_-]{20,}",
    rb"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
    rb"shp(?:at|ca|pa|ss)_[A-Za-z0-9]{20,}",
    rb"do[opr]_v1_[0-9a-f]{32,}",
    rb"tskey-[A-Za-z0-9-]{16,}",
    rb"ATATT3[A-Za-z0-9_=-]{20,}",
    rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{20,}",
    rb"key-[0-9a-f]{32}(?![0-9a-f])",
    rb"whsec_[A-Za-z0-9]{20,}",
    rb"pul-[0-9a-f]{40}",
    rb"sbp_[0-9a-f]{40}",
    rb"pscale_[a-z]{2,8}_[A-Za-z0-9_-]{20,}",
    rb"lin_api_[A-Za-z0-9]{20,}",
    rb"figd_[A-Za-z0-9_-]{20,}",
    rb"sntry[su]_[A-Za-z0-9_=+/-]{20,}",
    rb"AQ\.[A-Za-z0-9_-]{30,}",
    rb"lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}",
    rb"tvly-[A-Za-z0-9-]{20,}",
    rb"fc-[0-9a-f]{32}(?![0-9a-f])",
    rb"rpa_[A-Za-z0-9]{20,}",
    rb"fw_[A-Za-z0-9]{20,}",
    rb"glsa_[A-Za-z0-9_]{20,}",
    rb"glc_[A-Za-z0-9+/=]{20,}",
    rb"pcsk_[A-Za-z0-9_]{20,}",
    rb"ph[cxs]_[A-Za-z0-9]{30,}",
    rb"e2b_[0-9a-f]{32,}",
    rb"a[ks]-[A-Za-z0-9]{22}(?![A-Za-z0-9])",
    rb"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    rb"apify_api_[A-Za-z0-9]{20,}",
    rb"rnd_[A-Za-z0-9]{20,}",
    rb"cf(?:ut|at|k)_[A-Za-z0-9]{30,}",
    rb"fm[12]_[A-Za-z0-9+/=_-]{30,}",
    rb"dose[0-9a-f]{32}",
    rb"sk_[0-9a-f]{40,}",
    rb"sgp_[A-Za-z0-9_]{30,}",
)
_SHAPE_FOLLOWS = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=[0-9]m)|(?<=\x1b\[m))"
"""A shape begins with a word, also one that the end of a line, as a quotation writes it, or a colour stands before."""
_SHAPE = _SHAPE_FOLLOWS + rb"(?P<value>" + b"|".join(_SHAPES) + rb")"
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_AS_WORDS = bytes(0x77 if byte in _LETTERS else 0x20 for byte in range(256))
_LONG_WORD = b"w" * 16
"""Every shape holds so many letters, digits, `_` and `-` in a row,"""
_SHORT_SHAPES = (b"eyJ", b"glc_", b"fm1_", b"fm2_", b"xox", b"xapp-", b".atlasv1.", b"ABSK", b"sntry", b"ATATT3")
"""but for those that hold one of these."""
_BEFORE_LONG_WORD = 20
"""More than what of a shape may stand before either."""
_SHAPE_TO_ITS_END = rb"[A-Za-z0-9_.=+/-]*"
_KEY_BEGIN = rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = rb"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

_OWNERS_OF_KEYS = b"api|access|private|account|auth|secret|encryption|signing|master|service|subscription|ssh|client"
_OWNERS_OF_TOKENS = (
    b"hf|hub|huggingface|github|gh|gitlab|auth|access|api|bearer|refresh|session|security|wandb|slack|bot|personal|private|deploy"
    b"|service|identity|oauth|jwt|csrf|registry|vault|discord|telegram|modelscope|neptune|clearml|secret"
)
_OWNERS_OF_PASSES = (
    b"db|database|smtp|mail|ftp|sql|mysql|pg|postgres|redis|mongo|ldap|proxy|http|user|admin|root|login"
    b"|config_[a-z0-9]{1,40}"
)
"""A `forward_pass` is none."""
_SECRET_NAME = (
    rb"password|passwd|passphrase|(?:^|[_-])pwd|secret|credential|(?:^|[_.-])(?:%s)[_.-]?key(?![a-z])"
    rb"|(?:^|[_.-])(?:%s)[_.-]?token(?![a-z])|^-{0,2}token(?![a-z_-])|(?:^|[_.-])(?:%s)[_-]pass(?![a-z_-])"
) % (_OWNERS_OF_KEYS, _OWNERS_OF_TOKENS, _OWNERS_OF_PASSES)
_COLOUR_OFF = b"\x1b[0m"
_CHARSET = b"\x1b(B"
_QUOTED_ESCAPES = (b"x1b[", b"u001b[", b"033[")
_ESCAPE = (
    rb"\\\\{0,6}(?:x1b|u001b|033)\[[0-9;]{0,64}m"
    rb"|\x1b(?:\[[0-?]{0,64}[ -/]{0,8}(?:[@-~]|(?=[\x1b\x00]))"
    rb"|\][^\x07\x1b\r\n]{0,2048}(?:\x07|\x1b\\)|[ -/]{0,4}[0-Z\\^-~])"
)
"""Colours and the like, which part a name from its value; colours also as a quotation writes them, and such as the next
one breaks off."""


def mask_text(text: str, is_code: bool = False) -> str:
    """`text` with every known kind of secret replaced by `<masked>`; its lines stay in place.

    In code `token = value` is a secret only in quotes.
    """
    masked, _ = mask_bytes(text.encode("utf-8", "surrogateescape"), False, is_code)
    return masked.decode("utf-8", "surrogateescape")


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """A command line with the values of secret options masked, whether joined by `=` or the next word."""
    masked: list[str] = []
    follows_secret = False
    for word in command:
        if follows_secret and (not word.startswith("-") or (len(word) > 4 and not word.startswith("--"))):
            masked.append(MASK)
            follows_secret = False
            continue
        follows_secret = word.startswith("-") and "=" not in word and " " not in word and is_secret_name(word)
        masked.append(mask_text(word))
    return _masked_by_place(masked)


def _masked_by_place(words: Sequence[str]) -> tuple[str, ...]:
    """What is a secret by the words before it (`sshpass -p …`, `curl -u me:…`), of each the word that it begins in."""
    data = [word.encode("utf-8", "surrogateescape") for word in words]
    spans = _by_place(b" ".join(data).lower())
    if not spans:
        return tuple(words)
    from bisect import bisect_right

    begins = [0]
    for each in data:
        begins.append(begins[-1] + len(each) + 1)
    for start, stop in sorted(spans, reverse=True):
        place = bisect_right(begins, start) - 1
        each, at = data[place], start - begins[place]
        if _MASK not in each:
            data[place] = each[:at] + _MASK + each[max(at, stop - begins[place]) :]
    return tuple(each.decode("utf-8", "surrogateescape") for each in data)


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name holds a secret."""
    return _holds_secret(name.lower().encode("utf-8", "surrogateescape"))


def mask_bytes(data: bytes, inside_key: bool, is_code: bool = False, given: int = 0) -> tuple[bytes, bool]:
    """Mask bytes that begin inside a private key or not, and say whether they end inside one.

    `given`: so many at the beginning have been given out and only tell what follows; they do not come out again.
    """
    if not inside_key and b"PRIVATE KEY" not in data:
        return _mask_plain(data, is_code, given), False
    pieces: list[bytes] = []
    position = 0
    while True:
        if inside_key:
            end = _pattern(_KEY_END).search(data, position)
            if end is None:
                return b"".join(pieces) + _MASK + (b"\n" if data.endswith(b"\n") else b""), True
            pieces.append(_MASK + b"\n")
            position = end.start()
        begin = _pattern(_KEY_BEGIN).search(data, position)
        stop = len(data) if begin is None else begin.end()
        pieces.append(_mask_plain(data[position:stop], is_code, max(0, given - position)))
        if begin is None:
            return b"".join(pieces), False
        pieces.append(b"\n")
        position, inside_key = stop, True


def _pattern(source: bytes) -> Pattern[bytes]:
    found = _compiled.get(source)
    if found is None:
        import re

        found = _compiled[source] = re.compile(source)
    return found


def _mask_plain(data: bytes, is_code: bool, given: int = 0) -> bytes:
    """Mask all but private keys; what comes out begins at the place `given`."""
    has_escapes = b"\x1b" in data
    if has_escapes or any(escape in data for escape in _QUOTED_ESCAPES):
        spans = [*_shapes(data), *_spans_as_shown(data, is_code)]
        if has_escapes and _holds_text_in_escapes(data):
            spans += _spans_in_escapes(data, is_code)
    else:
        spans = _spans(data, is_code)
    if not spans:
        return data[given:]
    pieces: list[bytes] = []
    position = given
    for start, stop in sorted(spans):
        if stop > position:
            if start >= position or not pieces:
                pieces += (data[position:start], _MASK)
            position = stop
    pieces.append(data[position:])
    return b"".join(pieces)


def _spans(data: bytes, is_code: bool) -> list[tuple[int, int]]:
    """Where secrets lie."""
    # bytes: only ASCII letters change in lower(), so places stay the same
    return [*_places(data.lower(), is_code), *_shapes(data)]


def _places(lower: bytes, is_code: bool) -> list[tuple[int, int]]:
    """Where those lie that are known by their place or their name."""
    spans = _by_place(lower)
    if any(hint in lower for hint in _NAME_HINTS):
        spans += _named_values(lower, is_code)
    return spans


def _by_place(lower: bytes) -> list[tuple[int, int]]:
    held: dict[bytes, bool] = {}
    spans: list[tuple[int, int]] = []
    for part, hint, pattern in _BY_PLACE:
        if part not in held:
            held[part] = part in lower
        if held[part] and hint in lower:
            spans += (match.span("value") for match in _pattern(pattern).finditer(lower))
    return spans


def _shapes(data: bytes) -> list[tuple[int, int]]:
    """Where those lie that are known by their shape: around what every shape holds, which is rare in a log."""
    words = data.translate(_AS_WORDS)
    spans: list[tuple[int, int]] = []
    for text, part in ((words, _LONG_WORD), *((data, part) for part in _SHORT_SHAPES)):
        place, done = text.find(part), 0
        while place >= 0:
            end = _pattern(_SHAPE_TO_ITS_END).match(data, place).end()  # type: ignore[union-attr]
            for match in _pattern(_SHAPE).finditer(data, max(done, place - _BEFORE_LONG_WORD), end):
                spans.append(match.span("value"))
            done = end
            place = text.find(part, end)
    return spans


def _holds_text_in_escapes(data: bytes) -> bool:
    """Others than colours and the like hold text themselves: a title, the address of a link."""
    return data.count(b"\x1b") != data.count(b"\x1b[") + data.count(_CHARSET)


def _spans_in_escapes(data: bytes, is_code: bool) -> list[tuple[int, int]]:
    """Where they lie in the lines with such escapes, as written."""
    spans: list[tuple[int, int]] = []
    begin = 0
    for line in data.replace(b"\r", b"\n").split(b"\n"):
        if _holds_text_in_escapes(line):
            spans += ((begin + start, begin + stop) for start, stop in _places(line.lower(), is_code))
        begin += len(line) + 1
    return spans


def _spans_as_shown(data: bytes, is_code: bool) -> list[tuple[int, int]]:
    """Where they lie in the text as a terminal shows it."""
    escape = _pattern(_ESCAPE)
    # Half of all escapes are this one, which goes more quickly so. In its place stands what breaks another off too; but
    # not a title, which may hold it.
    if b"\0" not in data and b"\x1b]" not in data:
        quickly = escape.sub(b"", data.replace(_COLOUR_OFF, b"\0")).replace(b"\0", b"")
        if not _spans(quickly, is_code):
            return []
    shown = escape.sub(b"", data)
    spans = _spans(shown, is_code)
    if not spans:
        return []
    from bisect import bisect_right
    from itertools import accumulate

    lines = data.split(b"\n")  # no escape goes over the end of a line
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    starts_shown = [0, *accumulate(len(line) + 1 for line in shown.split(b"\n"))]
    pieces: dict[int, tuple[list[int], list[int]]] = {}
    """Of a line, where the pieces between escapes begin, as shown and as written."""

    def written(place: int) -> int:
        number = bisect_right(starts_shown, place) - 1
        if number not in pieces:
            as_shown, as_written = [0], [0]
            for each in escape.finditer(lines[number]):
                as_shown.append(as_shown[-1] + each.start() - as_written[-1])
                as_written.append(each.end())
            pieces[number] = as_shown, as_written
        as_shown, as_written = pieces[number]
        within = place - starts_shown[number]
        piece = bisect_right(as_shown, within) - 1
        return starts[number] + as_written[piece] + within - as_shown[piece]

    return [(written(start), written(stop - 1) + 1) for start, stop in spans]


def _named_values(lower: bytes, is_code: bool) -> Iterator[tuple[int, int]]:
    """Where the values of named secrets lie. What follows the name of something else is searched again for names."""
    position = 0
    named, value = _pattern(_NAMED), _pattern(_VALUE)
    match = named.search(lower)
    while match:
        position = match.start("value")
        if _names_secret(match, is_code):
            rest = value.match(lower, position)
            stop = rest.end() if rest else match.end()
            yield position, stop
            position = stop
        match = named.search(lower, position)


def _names_secret(match: Match[bytes], is_code: bool) -> bool:
    """Whether the word around a match of `_NAMED` is the name of a secret, and one that is followed by its value."""
    before = _pattern(_WORD_BEFORE).search(match.string, max(0, match.start() - 40), match.start())
    prefix = before[0] if before else b""
    if (
        before
        and prefix[:1] in (b"n", b"r", b"t")
        and match.string[max(0, before.start() - 1) : before.start()] == b"\\"
    ):
        prefix = prefix[1:]  # the end of a line, in a text quoted in another
    joint = match["joint"]
    if len(joint) < 2 and not joint.strip() and not prefix.startswith(b"-") and not match[0].startswith(b"-"):
        return False  # only an option's value follows after a space; in a table, several
    if is_code and not match["quote"] and joint != b"=":
        return False
    return _holds_secret(prefix + match.string[match.start() : match.end("tail")])


def _holds_secret(name: bytes) -> bool:
    return any(hint in name for hint in _NAME_HINTS) and _pattern(_SECRET_NAME).search(name) is not None
