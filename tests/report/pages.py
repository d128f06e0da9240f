"""An HTML report taken apart with the standard library's parser, as a viewer would read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}


@dataclass
class Page(HTMLParser):
    """The elements with their attributes, and the text."""

    source: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    first_screen: list[str] = field(default_factory=list)
    style: str = ""
    scripts: list[str] = field(default_factory=list)
    """Those that run."""
    data: str = ""
    """The block of data for them."""
    _open: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop()[0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if "style" in tags:
            self.style += data
            return
        if "script" in tags:
            if self._open[-1][1].get("type") == "application/json":
                self.data += data
            else:
                self.scripts.append(data)
            return
        self.texts.append(data)
        words = " ".join(data.split())
        if words and "header" in tags and not {"title", "desc"} & set(tags):
            self.first_screen.append(words)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]

    def policy(self) -> str:
        """The Content-Security-Policy the page declares."""
        (policy,) = [
            attributes["content"]
            for tag, attributes in self.elements
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        return policy
