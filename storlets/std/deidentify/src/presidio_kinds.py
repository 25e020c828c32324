"""Kinds of values that the recognisers of Microsoft Presidio find, such as numbers of passports.

A recogniser has patterns, each with a score, a check of what they match, and context words.  A
value counts if its score, or that with a context word near it, is at least ``least``.  Recognisers
that need a trained model are left out, and so is spaCy: a module of empty classes replaces the part
of Presidio that imports it.

Presidio continues after a failure: it logs a warning when a pattern takes too long, and its result
has no match of it.  Here each warning is an error of the run.  No message has a part of the text.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from contract import ContractError
from packages import loaded
from parameters import shown
from text_kinds import Kind

PARAMETER = "presidio"
#: Some patterns need a time that is quadratic in the length of a text, and the search for phone
#: numbers gives up without a word after 65535 candidates.
MOST_CHARACTERS = 64 * 1024
#: For one pattern in one text.
MOST_SECONDS = 5
#: The group of the recognisers that no country has.
GENERIC = "generic"
#: Presidio finds them with a trained model only.
OF_MODELS = ("LOCATION", "NRP", "ORGANIZATION", "PERSON")
#: The names that other modules of Presidio import from the part that needs spaCy.
ENGINE = "presidio_analyzer.nlp_engine"
ENGINE_NAMES = (
    "NerModelConfiguration", "NlpArtifacts", "NlpEngine", "NlpEngineProvider", "NoOpNlpEngine",
    "SpacyNlpEngine", "StanzaNlpEngine", "TransformersNlpEngine", "device_detector",
)  # fmt: skip
#: Context words are searched among this number of words before a value, and from its start on.
WORDS_BEFORE, WORDS_BEHIND = 10, 5
CHARACTERS_BEFORE, CHARACTERS_BEHIND = 200, 200
TOKEN = re.compile(r"\w+|[^\w\s]")


class Unreliable(Exception):
    """Presidio has logged a warning: its result may lack values."""


@dataclass(frozen=True)
class Words:
    """The words around a value, in the form in which Presidio's search for context reads them."""

    tokens: list[str]
    tokens_indices: list[int]
    lemmas: list[str]
    keywords: list[str]


class Warnings(logging.Handler):
    """Raises an error for each warning."""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[0] if record.exc_info else None
        if cause is not None and issubclass(cause, TimeoutError):
            raise Unreliable(f"a pattern took more than {MOST_SECONDS} seconds")
        raise Unreliable("Presidio gave a warning")


def presidio_kinds(text: str, least: float) -> tuple[Kind, ...]:
    """The kinds of a list of entities and countries.

    :raises ContractError: with every fault.
    :raises PackageError: the sandbox image has no Presidio.
    """
    groups = recognizers()
    entities = {name: found for group in groups.values() for name, found in group.items()}
    wanted: dict[str, list[Any]] = {}
    faults = []
    for name in (each.strip() for each in text.split(",")):
        if name in groups:
            wanted |= groups[name]
        elif name in entities:
            wanted[name] = entities[name]
        elif name in OF_MODELS:
            faults.append(f"{PARAMETER}: {name} needs a trained model, which is not supported")
        else:
            faults.append(f"{PARAMETER}: {shown(name)} is unknown: {hint(name, groups, entities)}")
    if faults:
        raise ContractError("; ".join(faults[:20]))
    search = Search(least)
    return tuple(search.kind(name, found) for name, found in wanted.items())


def hint(name: str, groups: Iterable[str], entities: Iterable[str]) -> str:
    known = {each.lower(): each for each in (*groups, *entities)}
    if near := difflib.get_close_matches(name.lower(), known, 1):
        return f"did you mean {known[near[0]]}?"
    return f"want entities of Presidio such as US_SSN, or of {', '.join(sorted(groups))}"


def recognizers() -> dict[str, dict[str, list[Any]]]:
    """Country -> entity -> its recognisers."""
    found: dict[str, dict[str, list[Any]]] = {}
    package = library()
    for name, each in sorted(vars(package).items()):
        module = str(getattr(each, "__module__", ""))
        if not isinstance(each, type) or not module.startswith(
            (f"{package.__name__}.generic.", f"{package.__name__}.country_specific.")
        ):
            continue
        one: Any = each()
        group = found.setdefault(one.COUNTRY_CODE or GENERIC, {})
        group.setdefault(one.supported_entities[0], []).append(one)
    return {country: dict(sorted(group.items())) for country, group in sorted(found.items())}


def library() -> ModuleType:
    """Presidio's own recognisers.

    :raises PackageError: the image does not have the package.
    """
    if ENGINE not in sys.modules:
        os.environ["REGEX_TIMEOUT_SECONDS"] = str(MOST_SECONDS)
        engine = ModuleType(ENGINE)
        vars(engine).update({name: type(name, (), {}) for name in ENGINE_NAMES})
        sys.modules[ENGINE] = engine
    loaded("the parameter presidio", "presidio_analyzer")
    package = loaded("the parameter presidio", "presidio_analyzer.predefined_recognizers")
    domains = loaded("the parameter presidio", "tldextract")
    # The list of public suffixes in the package.  By default, another one would be fetched.
    domains.extract = domains.TLDExtract(suffix_list_urls=(), cache_dir=None)
    logger = logging.getLogger("presidio-analyzer")
    logger.handlers, logger.propagate, logger.disabled = [Warnings()], False, False
    logger.setLevel(logging.WARNING)
    return package


class Search:
    """Finds values whose score is high enough, with the context words near them."""

    def __init__(self, least: float) -> None:
        self._least = least
        package = loaded("the parameter presidio", "presidio_analyzer.context_aware_enhancers")
        self._context = package.LemmaContextAwareEnhancer(
            context_prefix_count=WORDS_BEFORE, context_suffix_count=WORDS_BEHIND
        )

    def kind(self, name: str, found: Sequence[Any]) -> Kind:
        def spans(text: str) -> Iterator[tuple[int, int]]:
            if len(text) > MOST_CHARACTERS:
                raise ContractError(
                    f"has {len(text)} characters: Presidio searches at most {MOST_CHARACTERS}"
                )
            try:
                return iter(sorted(set(self._places(text, found))))
            except Unreliable as error:
                raise ContractError(f"the search for {name} failed: {error}") from None
            except MemoryError:
                raise
            except Exception as error:
                # Exceptions of Presidio may have values in them.
                cause = type(error).__name__
                raise ContractError(f"the search for {name} failed: {cause}") from None

        return Kind(name, spans, PARAMETER)

    def _places(self, text: str, found: Sequence[Any]) -> Iterator[tuple[int, int]]:
        for recognizer in found:
            for result in recognizer.analyze(text, recognizer.supported_entities, None):
                if result.score >= self._least or self._has_context(text, result, recognizer):
                    yield result.start, result.end

    def _has_context(self, text: str, result: Any, recognizer: Any) -> bool:
        if not recognizer.context:
            return False
        words = words_around(text, result.start)
        (better,) = self._context.enhance_using_context(text, [result], words, [recognizer])
        return bool(better.score >= self._least)


def words_around(text: str, place: int) -> Words:
    """The search is linear in the number of these words, so they are not all of the text."""
    first = max(place - CHARACTERS_BEFORE, 0)
    matches = list(TOKEN.finditer(text, first, place + CHARACTERS_BEHIND))
    tokens = [match[0] for match in matches]
    lemmas = [token.lower() for token in tokens]
    keywords = [each for each in lemmas if each[0].isalnum()]
    return Words(tokens, [match.start() for match in matches], lemmas, keywords)
