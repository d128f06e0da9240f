"""A diagnosis for strangers: users, hosts, addresses, paths and processes under pseudonyms, relations intact.

What is public stays: paths of the system and inside installed packages, addresses of documentation, interpreters.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

from ..model.diagnosis import Diagnosis
from ..model.texts import map_texts, texts_of
from .pseudonyms import Pseudonyms

_PUBLIC_ROOTS = frozenset({"bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr"})
"""What lies below them came with the system."""
_KNOWN_FOLDERS = frozenset(
    {
        ".",
        "..",
        ".cache",
        ".local",
        ".venv",
        "Users",
        "bin",
        "build",
        "cache",
        "conda",
        "content",
        "data",
        "dist",
        "envs",
        "home",
        "lib",
        "local",
        "logs",
        "media",
        "mnt",
        "models",
        "opt",
        "output",
        "outputs",
        "reports",
        "root",
        "run",
        "runs",
        "scratch",
        "scripts",
        "src",
        "srv",
        "tests",
        "tmp",
        "usr",
        "var",
        "venv",
        "work",
        "workspace",
        "~",
    }
)
_INSTALLED = re.compile(r"(?:site|dist)-packages|python\d+(?:\.\d+)?|lib-dynload")
"""From such a folder on a path is that of a package."""
_LIBRARIES = frozenset(
    {
        "accelerate",
        "aten",
        "c10",
        "caffe2",
        "cuda",
        "deepspeed",
        "diffusers",
        "flash_attn",
        "ggml",
        "jax",
        "jaxlib",
        "llama.cpp",
        "lmdeploy",
        "numpy",
        "peft",
        "probe",
        "ray",
        "sglang",
        "snapshots",
        "tensorflow",
        "tensorrt_llm",
        "torch",
        "torchvision",
        "transformers",
        "triton",
        "trl",
        "vllm",
        "xformers",
    }
)
"""First folders of relative paths that name public code, and the bundle's own folders."""
_GENERIC_PROCESSES = re.compile(
    r"python[\d.]*|pypy\S*|(?:ba|da|z)?sh|node|java|torchrun|ray(?:::\S*)?|pt_\w+|vllm\S*|sglang\S*|ollama\S*|llama-\S+"
    r"|nvidia-\S+|Xorg|Xwayland|gnome-shell|containerd\S*|dockerd|kubelet|systemd\S*|unnamed|\[\S+\]|\d+",
    re.IGNORECASE,
)
_GENERIC_NAMES = frozenset(
    {"admin", "host", "jovyan", "localdomain", "localhost", "nobody", "node", "none", "root", "ubuntu", "user", "users"}
)

_DOCUMENTATION = re.compile(
    r"(?:[\w-]+\.)*(?:pytorch\.org|nvidia\.com|kernel\.org|python\.org|readthedocs\.io|vllm\.ai|sglang\.(?:ai|io)|ray\.io"
    r"|kubernetes\.io|docker\.com|tensorflow\.org|schedmd\.com|freedesktop\.org|amd\.com|intel\.com|numpy\.org)"
)
_PUBLIC_HOSTS = frozenset({"github.com", "gitlab.com", "huggingface.co", "pypi.org", "raw.githubusercontent.com"})
"""The host stays, not what is looked up there."""

_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s\"'<>]+")
_AUTHORITY = re.compile(r"(?<=://)(?:[^\s/@]*@)?(\[[0-9a-fA-F:.]+\]|[^\s/:?#]+)")
_USER_AT_HOST = re.compile(r"(?<![\w./-])([A-Za-z_][\w.-]{0,63})@([A-Za-z0-9][\w.-]{1,252})\b")
_POSIX_PATH = re.compile(r"(?<![\w.:/~@%+-])~?(?:/[^\s/:\"'<>|,;()\[\]{}=`*&?#\\]+)+")
_WINDOWS_PATH = re.compile(r"(?<!\w)[A-Za-z]:(?:[\\/]{1,2}[^\s\\/:\"'<>|*?,;]+)+")
_RELATIVE_PATH = re.compile(r"(?<![\w./:@~-])(?:[\w.-]+/)+[\w-][\w.-]*\.[A-Za-z]\w{0,11}(?![\w/])")
_ADDRESS_4 = re.compile(r"(?<![\w.=-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.-])")
_ADDRESS_6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}:[0-9a-fA-F:.]{2,40}(?![\w:])")
_SYSLOG_HOST = re.compile(r"^(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) ([\w.-]+) [\w./-]+(?:\[\d+\])?:")
_NAMED_HOST = re.compile(
    r"(?i)(?:\b(?:host(?:name)?|node(?:name|list)?|MASTER_ADDR)[=:] ?|\bon (?:node|host) )[\"']?([\w.-]{3,})"
)
_NAMED_USER = re.compile(
    r"(?i)\b(?:user(?:name|id)?|login|owner)[=:] ?[\"']?(?:\w*\()?([A-Za-z_][\w.-]{2,31})|\buid=\d+\(([\w.-]+)\)"
)
_PROCESS = re.compile(
    r"(?:Killed process|process(?:es)?) \d+ \((?![A-Z]{3}\d{3}\))([^()\s][^()]{0,60})\)"
    r"|\btask=([^,\s]+)|\bcomm[=:] ?\"?([^\"\s]+)"
    r"|([^\s;:,()]+) \(pid \d+\)|\|\s+\d+\s+(?:\S+\s+\S+\s+)?\d+\s+[CGM+]{1,3}\s+(\S+)"
)


def with_pseudonyms(diagnosis: Diagnosis, names: Pseudonyms) -> Diagnosis:
    """The same diagnosis with pseudonyms in every text; `names` learns those it had not met."""
    texts = texts_of(diagnosis)
    public = {remedy.source for finding in diagnosis.findings for remedy in finding.remedies}
    redactor = _Redactor(names, public)
    for node in (diagnosis.environment.host.get("node"), diagnosis.environment.variables.get("MASTER_ADDR")):
        redactor.learn("host", node)
    for text in texts:
        redactor.read(text)
    for record in diagnosis.inputs:
        redactor.learn_file(record.path)
    for word in re.split(r"[\s=\"']+", diagnosis.environment.command or ""):
        if re.fullmatch(r"[\w./~-]*\.[A-Za-z]\w{0,11}", word):
            redactor.learn_file(word)
    return map_texts(diagnosis, redactor.changer())


class _Redactor:
    """Learns names from all texts first: one met as a path in one text is a bare word in another."""

    def __init__(self, names: Pseudonyms, public: set[str]) -> None:
        self._names = names
        self._public = public
        self._words: dict[str, str] = {}

    def learn(self, kind: str, name: str | None) -> None:
        """A name that is to be replaced wherever it stands as a word."""
        if name and len(name) > 2 and name.lower() not in _GENERIC_NAMES and not _is_address(name):
            self._words.setdefault(name, self._names.of(kind, name))

    def learn_file(self, path: str) -> None:
        """The last part of a path, as a file that may be named without its folder."""
        name = re.split(r"[\\/]", path.rstrip("\\/"))[-1]
        if len(name) > 2 and not path.startswith(("probe/", "snapshots/")) and path not in self._public:
            self._words.setdefault(name, self._part_of_path(name, last=True))

    def read(self, text: str) -> None:
        """Learn what a text names."""
        for found in _SYSLOG_HOST.finditer(text):
            self.learn("host", found[1])
        for found in _NAMED_HOST.finditer(text):
            self.learn("host", found[1])
        for found in _NAMED_USER.finditer(text):
            self.learn("user", found[1] or found[2])
        for found in re.finditer(r"(?:/home/|/Users/|\\Users\\)([^\s/\\:\"']+)", text):
            self.learn("user", found[1])
        for found in _PROCESS.finditer(text):
            name = next(group for group in found.groups() if group).rsplit("/", 1)[-1]
            if not _GENERIC_PROCESSES.fullmatch(name):
                self.learn("process", name)
        for found in _POSIX_PATH.finditer(_URL.sub(" ", text)):
            parts = found[0].split("/")
            if parts[1] not in _PUBLIC_ROOTS and not any(map(_INSTALLED.fullmatch, parts)) and "." in parts[-1][1:]:
                self.learn_file(found[0])
        for found in _WINDOWS_PATH.finditer(text):
            if "." in re.split(r"[\\/]", found[0])[-1][1:]:
                self.learn_file(found[0])

    def changer(self) -> Callable[[str], str]:
        """What is to be done to each text, once all were read."""
        ordered = sorted(self._words, key=len, reverse=True)
        words = re.compile(rf"(?<![\w./\\-])(?:{'|'.join(map(re.escape, ordered))})(?![\w-]|\.\w)") if ordered else None

        def change(text: str) -> str:
            if text in self._public:
                return text
            pieces: list[str] = []
            position = 0
            for url in _URL.finditer(text):
                pieces += (self._outside_urls(text[position : url.start()], words), self._in_url(url[0]))
                position = url.end()
            return "".join((*pieces, self._outside_urls(text[position:], words)))

        return change

    def _outside_urls(self, text: str, words: re.Pattern[str] | None) -> str:
        text = _WINDOWS_PATH.sub(lambda found: self._path(found[0], "\\"), text)
        text = _POSIX_PATH.sub(lambda found: self._path(found[0], "/"), text)
        text = _RELATIVE_PATH.sub(lambda found: self._relative(found[0]), text)
        text = _USER_AT_HOST.sub(lambda found: f"{self._name('user', found[1])}@{self._name('host', found[2])}", text)
        text = _ADDRESS_4.sub(lambda found: self._address(found[0]), text)
        text = _ADDRESS_6.sub(lambda found: self._address(found[0]), text)
        return text if words is None else words.sub(lambda found: self._words[found[0]], text)

    def _in_url(self, url: str) -> str:
        if any(url.startswith(known) for known in self._public):
            return url
        scheme, _, rest = url.partition("://")
        if _DOCUMENTATION.fullmatch(re.split(r"[/:?#]", rest, maxsplit=1)[0]):
            return url
        place = _AUTHORITY.sub(lambda found: self._host(found[1]), f"://{rest.split('/', 1)[0]}")[3:]
        if "/" not in rest:
            return f"{scheme}://{place}"
        return f"{scheme}://{place}{self._path('/' + rest.split('/', 1)[1], '/', keep_known=False)}"

    def _host(self, name: str) -> str:
        bare = name.strip("[]")
        if bare in _PUBLIC_HOSTS:
            return name
        return self._address(bare) if _is_address(bare) else self._name("host", bare)

    def _name(self, kind: str, name: str) -> str:
        return name if name.lower() in _GENERIC_NAMES else self._names.of(kind, name)

    def _address(self, text: str) -> str:
        if not _is_address(text):
            return text
        address = ipaddress.ip_address(text)
        return text if address.is_loopback or address.is_unspecified else self._names.of("address", text)

    def _relative(self, path: str) -> str:
        return path if path.split("/")[0] in _LIBRARIES else self._path(path, "/")

    def _path(self, path: str, separator: str, keep_known: bool = True) -> str:
        parts = re.split(r"([\\/]+)", path)
        named = [part for part in parts[::2] if part]
        if keep_known and separator == "/" and path.startswith("/") and named and named[0] in _PUBLIC_ROOTS:
            return path
        return "".join(self._parts(parts))

    def _parts(self, parts: list[str]) -> Iterator[str]:
        """The pieces of a split path, names and separators in turn."""
        before = ""
        for index, part in enumerate(parts):
            if index % 2 or not part:
                yield part
                continue
            if _INSTALLED.fullmatch(part):
                yield "".join(parts[index:])
                return
            if before in ("home", "Users"):
                yield self._name("user", part)
            elif part in _KNOWN_FOLDERS or re.fullmatch(r"[A-Za-z]:|\d+", part):
                yield part
            else:
                yield self._part_of_path(part, last=index == len(parts) - 1)
            before = part

    def _part_of_path(self, part: str, last: bool) -> str:
        if part in self._words:
            return self._words[part]
        if self._names.has("user", part):
            return self._names.of("user", part)
        suffix = re.search(r"(?<=.)\.[A-Za-z]\w{0,11}$", part) if last else None
        return self._names.of("file", part, suffix[0]) if suffix else self._names.of("directory", part)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
