"""What the launch line, the environment and the code shown do not do although they say so."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..knobs.allocator_settings import ALLOCATOR_VALUES, AllocatorSetting, least_split_size, read_allocator_settings
from ..knobs.load import Knob, Knobs, load_knobs
from ..knobs.misuses import ALLOCATOR_VARIABLES, KnownMisuse, Misuses, load_misuses
from ..knobs.versions import within
from ..language import N_, begun
from ..model.diagnosis import Misuse
from ..model.events import EventKind
from ..model.facts import FactSet
from ..readers.log.launch import pasted_dashes, server_options

if TYPE_CHECKING:
    from ..model.evidence import Evidence

_MOST = 20
_MOST_VALUES = 8
_SHORTEST_NAME, _MOST_EDITS = 12, 2
"""Only a long name may be called a slip of another: short ones (`tp-size`, `dp-size`) are often both real."""
_KEYWORDS = re.compile(r"\b([a-z][a-z0-9_]{1,60}) ?= ?(\"[^\"]{0,80}\"|'[^']{0,80}'|[\w.]{1,40})")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{11,60}")
_OPTION = re.compile(r"--([a-z][a-z0-9-]*)(?: (\{value\}|[a-z]+))?")
_ENGINES = {"vllm", "sglang", "tgi", "llama.cpp"}


def find_misuses(evidence: Evidence, facts: FactSet) -> tuple[Misuse, ...]:
    """Everything found, each once, in the order: options, variables, code, what programs say themselves."""
    finder = MisuseFinder(_versions(evidence, facts), load_knobs(), load_misuses())
    found: dict[tuple[str, str], Misuse] = {}
    for misuse in _all(finder, evidence):
        found.setdefault((re.sub(r"[\s'\"]+", " ", misuse.what), misuse.outcome), misuse)
    return tuple(found.values())[:_MOST]


def _all(finder: MisuseFinder, evidence: Evidence) -> Iterator[Misuse]:
    from .frames import frames_of  # its patterns are no use to `check`, which has no frames

    commands = [(text, str(e.source)) for e in evidence.of_kind(EventKind.COMMAND_LINE) if (text := e.word("command"))]
    if evidence.command and evidence.command not in dict(commands):
        commands.insert(0, (evidence.command, N_("command line")))
    for command, where in commands:
        yield from finder.of_command(command, where)
    for run in evidence.runs:
        for name in ALLOCATOR_VARIABLES:
            if value := run.variables.get(name):
                yield from finder.of_variable(name, value, N_("{path} (variables)").format(path=run.path))
    for event in evidence.of_kind(EventKind.ENVIRONMENT):
        name, value = event.word("name") or "", event.word("value") or ""
        yield from finder.of_variable(name, value, str(event.source))
    for event in evidence.of_kind(EventKind.CODE):
        yield from finder.of_code(event.word("code") or "", str(event.source))
    for event in evidence.of_kind(EventKind.EXCEPTION):
        for frame in frames_of(event):
            yield from finder.of_code(frame.code, f"{frame.file}:{frame.line}")
    for event in evidence.of_kind(EventKind.OPTION_OVERRULED):
        yield from finder.overruled(event.word("option") or "", event.word("by") or "", str(event.source))
    for event in evidence.of_kind(EventKind.OPTION_REFUSED):
        names = (event.word("option") or "", event.word("value"), event.word("program") or N_("the program"))
        yield finder.refused(*names, str(event.source))


def _versions(evidence: Evidence, facts: FactSet) -> dict[str, str]:
    """By framework: what the lines of the log say, the engine's own, torch's."""
    found = {}
    for event in evidence.of_kind(EventKind.VERSION):
        found[event.word("package") or ""] = event.word("version") or ""
    for run in evidence.runs:
        found.update(run.versions)
    for name, fact in ((facts.value("engine.name"), "engine.version"), ("torch", "torch.version")):
        version = facts.value(fact)
        if version is not None:
            found[str(name)] = str(version)
    return found


@dataclass(frozen=True)
class _Option:
    """An option of a launch line that a knob writes."""

    knob: Knob
    takes_value: bool
    since: str | None
    until: str | None


class MisuseFinder:
    """Judges what is written by the tables of knobs and misuses, as far as the versions are known."""

    def __init__(self, versions: Mapping[str, str], knobs: Knobs, misuses: Misuses) -> None:
        """`versions` by framework; of one that is not in it, only what holds for every version is told."""
        self.versions, self.knobs, self.misuses = versions, knobs, misuses

    def of_command(self, command: str, where: str) -> Iterator[Misuse]:
        """What a launch line says in vain."""
        for word in pasted_dashes(command):
            name = re.sub(r"^\W+", "", word)
            why = N_(
                "The dashes are not ASCII: a shell hands them on as plain words, so the program does not see an option "
                "there. Everything here reads them as --"
            )
            yield Misuse(word, "refused", why, N_("Write it with two ASCII hyphens"), (f"--{name}",), where)
        for word in command.split():
            name, found, value = word.partition("=")
            if found and name in ALLOCATOR_VARIABLES:
                yield from self.of_variable(name, value.strip("'\""), where)
            elif found and _VARIABLE.fullmatch(name):
                yield from self.of_name(name, value.strip("'\""), where)
        for program, options in server_options(command):
            for option, given in options if program in _ENGINES else ():
                misuse = self._option(program, option.replace("_", "-"), given, where)
                if misuse is not None:
                    yield misuse

    def _option(self, program: str, name: str, value: str | None, where: str) -> Misuse | None:
        """An option as this framework's versions know it: not at all, no longer, or not with this value."""
        what = f"--{name}" if value is None else f"--{name} {value}"
        version = self.versions.get(program)
        for known in self.misuses.known:
            if known.framework == program and known.option == name and known.may_be(version):
                return self._known(known, what, where) if not known.values or value in known.values else None
        options = self._options(program).get(name)
        if options is None:
            return self._stranger(program, name, what, where)
        here = [one for one in options if version is None or within(version, one.since, one.until)]
        knob = (here or options)[0].knob
        if not here:
            setting = self.knobs.spell(knob.id, value or "<N>", version)
            spans = " or ".join(sorted({one.versions for one in knob.spellings if f"--{name}" in one.form}))
            why = N_("{program} {version} has no such option; it exists {spans}").format(
                program=program, version=version, spans=spans
            )
            return Misuse(what, "refused", why, N_("There it is called") if setting.lines else "", setting.lines, where)
        if value is None or not here[0].takes_value:
            return None
        if (unfit := knob.no_number(value)) is not None:
            return Misuse(what, "refused", unfit, "", (), where)
        if knob.takes not in ("choice", "text") or not (refusal := knob.refusal(value, version)):
            return None  # `32k` and `auto` are numbers to some versions
        allowed = [item.values for item in knob.choices if version is None or within(version, item.since, item.until)]
        names = list(dict.fromkeys(value for values in allowed for value in values))
        some = ", ".join(names[:_MOST_VALUES]) + (" and others" if len(names) > _MOST_VALUES else "")
        of = f"{program} {version}" if version is not None else N_("some version of {program}").format(program=program)
        return Misuse(
            what,
            "refused",
            _plain(refusal, program, version),
            N_("{program} takes {values}").format(program=of, values=some),
            (),
            where,
        )

    def knows(self, program: str, option: str) -> bool:
        """Whether the tables speak of an option by this very name, so that it was judged."""
        return option in self._options(program) or any(
            known.framework == program and known.option == option for known in self.misuses.known
        )

    def _stranger(self, program: str, name: str, what: str, where: str) -> Misuse | None:
        """An option that is another framework's, or nearly one of this one's. Nothing is said of any other."""
        own = self._options(program)
        if any(known.startswith(name) for known in own):
            return None  # argparse takes a beginning that is unique
        for other in _ENGINES - {program}:
            for option in self._options(other).get(name, ()):
                counterpart = self.misuses.counterpart(option.knob.id, program, self.knobs)
                if counterpart is not None:
                    lines = self.knobs.spell(counterpart, "<N>", self.versions.get(program)).lines
                    why = N_(
                        "It is an option of {other}; none of {program} has this name, as far as is known here"
                    ).format(other=other, program=program)
                    return Misuse(what, "refused", why, N_("For the same purpose"), lines, where)
        near = _nearest(name, own)
        if near is None:
            return None
        why = N_("No option of {program} by this name is known here").format(program=program)
        return Misuse(what, "refused", why, N_("Did you mean --{near}?").format(near=near), (), where)

    def _options(self, framework: str) -> dict[str, list[_Option]]:
        found: dict[str, list[_Option]] = {}
        for knob in self.knobs.values():
            for spelling in knob.spellings if knob.framework == framework else ():
                for name, value in _OPTION.findall(spelling.form) if spelling.form.startswith("--") else ():
                    option = _Option(knob, value == "{value}", spelling.since, spelling.until)
                    found.setdefault(name, []).append(option)
        return found

    def of_variable(self, name: str, value: str, where: str) -> Iterator[Misuse]:
        """The allocator's settings: the variable itself, then each option of it."""
        version = self.versions.get("torch")
        parts = [part.strip() for part in re.split(r"(,(?![^\[]*\]))", value)]
        spelt = [self._with_colon(part) for part in parts]
        settings = read_allocator_settings("".join(spelt))
        least = least_split_size(settings)
        wrong = [misuse for setting in settings for misuse in self._allocator_setting(name, setting, where, least)]
        clean = not any(misuse.outcome == "refused" for misuse in wrong)
        if not clean:  # what merely looks careless matters no more
            wrong = [misuse for misuse in wrong if misuse.outcome == "refused"]
        right = (f"export PYTORCH_CUDA_ALLOC_CONF={''.join(spelt)}",) if clean else ()  # never one that is refused too
        for part, meant in zip(parts, spelt, strict=True):
            if part != meant:
                why = N_("A colon stands between an option and its value; with = the setting cannot be read")
                wrong.insert(0, Misuse(f"{name}={part}", "refused", why, "Write it with a colon", right, where))
        unread = [one for one in self.misuses.known if one.variable == name and one.may_be(version)]
        for known in unread:
            misuse = self._known(known, f"{name}={value}", where, right)
            if not clean:
                also = next(one for one in reversed(wrong) if one.outcome == "refused")
                misuse = replace(misuse, instead=N_("The value is wrong besides: {why}").format(why=also.why))
            yield misuse
        if unread and version is not None:
            return  # nobody reads the value, so nobody raises at it
        yield from wrong
        chosen = {setting.key: setting.text for setting in settings}
        for conflict in self.misuses.allocator_conflicts:
            for key in conflict.options if chosen.get(conflict.beside) == conflict.value else ():
                if key in chosen:
                    what = N_("{key}:{chosen} beside {beside}:{value}").format(
                        key=key, chosen=chosen[key], beside=conflict.beside, value=conflict.value
                    )
                    yield Misuse(what, "ignored", conflict.why, N_("Leave one of the two out"), (), where)

    def of_name(self, name: str, value: str, where: str) -> Iterator[Misuse]:
        """A variable whose name is nearly one that programs read: `PYTORCH_CUDA_ALOC_CONF`."""
        near = None if name in self.misuses.variables else _nearest(name, self.misuses.variables)
        if near is not None:
            why = N_("No program that is known here reads a variable of this name")
            line = f"export {near}={value}"
            yield Misuse(
                f"{name}={value}", "ignored", why, N_("Did you mean {near}?").format(near=near), (line,), where
            )

    def _with_colon(self, part: str) -> str:
        """`max_split_size_mb=512` as torch reads it: with a colon."""
        key, found, chosen = (text.strip() for text in part.partition("="))
        return f"{key}:{chosen}" if found and any(key == one.name for one in self.misuses.allocator_options) else part

    def _allocator_setting(self, name: str, setting: AllocatorSetting, where: str, least: int) -> Iterator[Misuse]:
        what = f"{name}={setting.written}"
        told = list(self._allocator_option(what, setting.key, setting.value, where, least))
        if setting.value is None and not told:
            why = N_(
                "torch reads an option, a colon and its value, and a comma before the next option. Here the text ends"
                " before a value, and torch raises at the first use of the device"
            )
            told = [Misuse(what, "refused", why, "", (), where)]
        elif not setting.separated and not told:
            why = N_(
                "Between option and value stands a colon, before the next option a comma; some torch raise at others"
            )
            told = [Misuse(what, "unsafe", why, "", (), where)]
        yield from told

    def _allocator_option(
        self, what: str, key: str, value: tuple[str, ...] | None, where: str, least: int = 20
    ) -> Iterator[Misuse]:
        """An option and the words of its value; of a value that is None nothing is said."""
        version = self.versions.get("torch")
        known = {one.name: one for one in self.misuses.allocator_options}
        chosen = "".join(value or ())
        ends = N_("torch raises 'Unrecognized CachingAllocator option' at the first use of the device")
        if key not in known:
            near = difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.8)
            why = N_("No torch that is known here has this option: {ends}").format(ends=ends)
            lines = _allocator_lines(near[0], chosen) if near else ()
            yield Misuse(
                what, "refused", why, N_("Did you mean {near}?").format(near=near[0]) if near else "", lines, where
            )
        elif version is not None and not within(version, known[key].since, None):
            why = N_("torch {version} does not know it yet (from {since}): {ends}").format(
                version=version, since=known[key].since, ends=ends
            )
            yield Misuse(what, "refused", why, "", (), where)
        elif value is None:
            return
        elif not known[key].accepts(value, least):
            why = N_("torch raises at the first use of the device: it takes no such value")
            yield Misuse(what, "refused", why, ALLOCATOR_VALUES[known[key].takes], (), where)
        else:
            knob = self.knobs.get(f"torch.{'allocator_backend' if key == 'backend' else key}")
            if knob is not None and knob.takes == "choice" and (refusal := knob.refusal(chosen, version)):
                instead = N_("It is one of {names}, in this spelling").format(names=", ".join(knob.choices[-1].values))
                yield Misuse(what, "refused", _plain(refusal, "torch", version), instead, (), where)

    def of_code(self, code: str, where: str) -> Iterator[Misuse]:
        """What a piece of Python does in vain."""
        yield from self.of_vllm_in_python(code, where)
        for known in self.misuses.known:
            if not known.may_be(self.versions.get(known.framework)):
                continue
            if known.assigns:
                found = re.search(rf"[\w.\[\]]{{0,80}}\.{re.escape(known.assigns)} ?=(?!=) ?[^#;]{{0,80}}", code)
                if found is not None:
                    yield self._known(known, found[0].strip(), where)
            elif known.call:
                arguments = _arguments(code, known.call)
                written = [_keyword(arguments, word) for word in known.keywords] if arguments is not None else [None]
                given = [one for one in written if one is not None]
                if len(given) == len(written) and _has_value(given, known.values):
                    yield self._known(known, f"{known.call}({', '.join(given)})", where)

    def of_vllm_in_python(self, code: str, where: str) -> Iterator[Misuse]:
        """`LLM(model=…, kv_cache_dtype="int8")`: its keywords are the server's options by other names."""
        arguments = _arguments(code, "LLM")
        version, options = self.versions.get("vllm"), self._options("vllm")
        for name, value in _KEYWORDS.findall(arguments or ""):
            option, given = name.replace("_", "-"), value.strip("'\"")
            of_vllm = (known for known in self.misuses.known if known.framework == "vllm")
            is_known = any(known.option == option and known.may_be(version) for known in of_vllm)
            if not is_known and all(one.knob.takes != "choice" for one in options.get(option, ())):
                continue  # of any other keyword nothing is said
            misuse = self._option("vllm", option, given, where)
            if misuse is not None:
                yield replace(misuse, what=f"LLM({name}={value})")

    def overruled(self, option: str, by: str, where: str) -> Iterator[Misuse]:
        """An option that a program says another one replaces."""
        for known in self.misuses.known:
            if set(known.keywords) == {option, by}:
                yield self._known(known, N_("{option} beside {by}").format(option=option, by=by), where)

    def refused(self, option: str, value: str | None, program: str, where: str) -> Misuse:
        """What a program says itself; what would be right is told where the tables know it."""
        name, what = option.lstrip("-").replace("_", "-"), option if value is None else f"{option} {value}"
        if program == "PYTORCH_CUDA_ALLOC_CONF":
            told = list(self._allocator_option(f"{program}={option}", option, None, where))
            if told:
                return told[0]
        for framework in sorted(_ENGINES):
            if framework.replace(".", "") in program or (framework == "vllm" and "api_server" in program):
                judged = self._option(framework, name, value, where)
                if judged is not None:
                    return judged
        return Misuse(
            what, "refused", N_("{program} says that it does not take this").format(program=program), "", (), where
        )

    def _known(self, known: KnownMisuse, what: str, where: str, lines: tuple[str, ...] = ()) -> Misuse:
        version = self.versions.get(known.framework)
        open_versions = bool(known.versions) and version is None
        span = f"{known.framework} {known.versions}: " if open_versions else ""
        if known.knob:
            lines = self.knobs.spell(known.knob, known.value, version).lines
        why, instead = f"{span}{known.why}", "Instead" if lines else ""
        return Misuse(what, known.outcome, why, instead, lines, where, open_versions)


def _plain(refusal: str, framework: str, version: str | None) -> str:
    """Why a value is refused, without the list of those that are not."""
    value, listed, _ = refusal.partition(" is not one of ")
    if listed:
        return (
            N_("{framework} {version} does not take {value}").format(framework=framework, version=version, value=value)
            if version
            else N_("No {framework} takes {value}").format(framework=framework, value=value)
        )
    return begun(refusal)


def _allocator_lines(key: str, value: str) -> tuple[str, ...]:
    return (f"export PYTORCH_CUDA_ALLOC_CONF={key}:{value or '<N>'}",)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is at most two letters away from a long one."""
    if len(name) < _SHORTEST_NAME:
        return None
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.9)
    return close[0] if close and _edits(name, close[0]) <= _MOST_EDITS else None


def _edits(first: str, second: str) -> int:
    blocks = difflib.SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return max(len(first), len(second)) - sum(block.size for block in blocks)


def _arguments(code: str, call: str) -> str | None:
    """What stands between the brackets of a call; None where there is none."""
    found = re.search(rf"(?:^|[^\w]){re.escape(call)}\(", code)
    if found is None:
        return None
    depth = 1
    for place in range(found.end(), len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return code[found.end() : place]
    return code[found.end() :]


def _keyword(arguments: str, keyword: str) -> str | None:
    """`keyword=value` as it is written among the arguments."""
    found = re.search(rf"(?:^|[\s,(]){re.escape(keyword)} ?= ?(?P<value>[^,)\s]{{1,80}})", arguments)
    return None if found is None else f"{keyword}={found['value']}"


def _has_value(given: list[str], values: tuple[str, ...]) -> bool:
    return not values or any(one.partition("=")[2].strip("'\"") in values for one in given)
