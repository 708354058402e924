"""Replace every value that could be a secret or a buyer's by a stand-in of the same shape.

What is kept is listed; everything else is replaced. Structure, types, lengths, case and punctuation
stay, so a reply is still read the same way, and equal texts have equal stand-ins, so that rows
still refer to each other. Ids keep their order too: some lists are walked by it.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "123456789"
# How often another stand-in is tried if two texts would get the same.
TRIES = 50
KEPT_CHARS_MAX = 40
DEPTH_MAX, TOO_DEEP = 100, "..."
UNPRINTABLE = "\x7f"
# Numbers are dumped as texts that begin with this mark, and then lose their quotes. No stand-in
# contains it.
MARK = "\ue000"
MARKED = re.compile(r'"\\ue000([-+.0-9A-Za-z]+)"')
ID_NAME = re.compile(r"(?:.*_)?ids?|.*[a-z]Ids?")
# The name of a field; a token or a mail address is none.
KEY = re.compile(r"_?[a-z]+(?:[A-Z_][a-z]*)*[0-9]{0,2}")
NUMBER = re.compile(r"\s*-?[0-9]{1,20}(?:\.[0-9]{0,20})?\s*")
MANTISSA = re.compile(r"^-?[0-9]+(?:\.[0-9]+)?")
# A code in one word; people's names are written otherwise.
CODE = re.compile(r"[a-z]+(?:[_-][a-z]+)*[0-9]?|[A-Z]+(?:[_-][A-Z]+)*[0-9]?")
# Parts of a text that get a stand-in each. An entity that stands for punctuation is kept.
ENTITY = r"&(?:#0?3[489]|amp|quot|apos|lt|gt);"
PIECE = re.compile(rf"{ENTITY}|=|(?:(?!{ENTITY})[^=])+")
KEPT_PIECE = re.compile(rf"{ENTITY}|=")
WORD = re.compile(r"[^\W_]+")
# Fields with the platform's own sentences, in any provider's replies.
MESSAGES = frozenset(
    {"detail", "details", "error", "error_description", "errorMessage", "errors", "message"}
    | {"reason"}
)
# The words of such sentences that are kept; names and texts of people are none of them.
KNOWN_WORDS = """
a about access account active after again all allowed already an and any api app application are as
at authorization available be bearer been before between blank body by call cannot charset check
client cloudflare code completed content cost could couldn created credentials cursor customer
customers daily data day days deleted denied details div doctype does doesn due error errors exceed
exceeded exist exists expired failed failure field fields filter first for forbidden format found
from gateway get grant greater h1 h2 has have head header hour html http https id idempotency in
inactive insufficient internal invalid inventory is it item items json key keystring large later
less limit limited line link list listing listings locked long maximum message meta method min
minimum minute missing modified moment more must name no not null number oauth of offset on one only
or order orders other overload p page parameter part parts path payment per permission price product
products progress provided publications quantity query rate reached read receipt refresh refused
request requests required resource response retry returned revoked same sanctioned scope scopes
script search second seconds secret server service shared shop should size sku something span state
status stock store style supplier support suspended syntax t team temporarily temporary than that
the then there this throttled time timeout title to token too top transactions try type unable
unauthenticated unauthorized unavailable unexpected unique unknown until update updated url used
user utf valid value variable variant version was were when while window with within write wrong you
your
"""
WORDS = frozenset(KNOWN_WORDS.split())


class JsonNumber(str):
    """A number of a JSON text, with its digits as they are written."""

    __slots__ = ()

    def __new__(cls, value: object) -> Self:
        """Make one of a number or of its digits."""
        return super().__new__(cls, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripRule:
    """What is kept of a provider's replies.

    `kept` are names of fields whose amounts, counts, instants and codes are kept. `codes` are the
    known values of fields that have a fixed set of them; a new one is kept if it is a single word
    that no replaced text contains, unless the field is one of `ambiguous`, which also hold other
    things. Fields called `id` and the like, and those in `ids`, hold ids; `id_prefix` is a pattern
    for what stands before their digits.
    """

    kept: frozenset[str] = frozenset()
    codes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    id_prefix: str = ""

    def is_code(self, name: str, value: str) -> bool:
        """Return True if a field may have this value."""
        return value.strip().casefold() in self.codes.get(name, ())


class StandIns:
    """The stand-ins of one recording; first everything is learned, then it is stripped."""

    def __init__(self, rule: StripRule, *, salt: str) -> None:
        self._rule = rule
        self._salt = salt
        self._id = re.compile(f"((?:{rule.id_prefix})?)(0*)([1-9][0-9]{{0,39}})")
        self._ids: dict[int, set[int]] = defaultdict(set)
        self._id_stand_ins: dict[str, str] = {}
        self._replaced_words: set[str] = set()
        self._texts: dict[str, int] = {}
        self._taken: set[str] = set()

    def learn(self, value: object, name: str = "", depth: int = DEPTH_MAX) -> None:
        """Remember the ids in a value, and the words that will be replaced."""
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else ((name, item) for item in value)
            for key, item in items if depth else ():
                self.learn(item, key, depth - 1)
        elif isinstance(value, str):
            if (inner := _inner(value)) is not None:
                self.learn(inner, name, depth - 1 if depth else 0)
            elif match := self._find_id(value, name):
                self._ids[len(match[3])].add(int(match[3]))
            elif not isinstance(value, JsonNumber) and name not in self._rule.codes:
                self._replaced_words.update(map(str.casefold, WORD.findall(value)))

    def strip(self, value: Any, name: str = "", depth: int = DEPTH_MAX) -> Any:  # noqa: ANN401 - JSON
        """Return a value with stand-ins for what is not kept."""
        if isinstance(value, dict | list) and not depth:
            return TOO_DEEP
        if isinstance(value, dict):
            return {self._key(key): self.strip(item, key, depth - 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.strip(item, name, depth - 1) for item in value]
        if isinstance(value, JsonNumber):
            return JsonNumber(self._number(value, name))
        return self._text(value, name, depth) if isinstance(value, str) else value

    def message(self, text: str) -> str:
        """Return a sentence of the platform; only well-known words are kept."""
        return WORD.sub(
            lambda word: word[0] if word[0].casefold() in WORDS else self._stand_in(word[0]),
            "".join(_plain(char) for char in text),
        )

    def _key(self, key: str) -> str:
        known = key in self._rule.kept or key in self._rule.codes
        return key if known or KEY.fullmatch(key) else self._stand_in(key)

    def _number(self, number: JsonNumber, name: str) -> str:
        if match := self._find_id(number, name):
            return self._id_stand_in(match[3])
        is_kept = name in self._rule.kept and len(number) <= KEPT_CHARS_MAX
        return number if is_kept else MANTISSA.sub(lambda part: self._stand_in(part[0]), number)

    def _text(self, text: str, name: str, depth: int) -> str:
        if match := self._find_id(text, name):
            return match[1] + match[2] + self._id_stand_in(match[3])
        if self._is_kept(text, name):
            return text
        if (inner := _inner(text)) is not None:
            return dump_json(self.strip(inner, name, depth - 1 if depth else 0))
        if name in MESSAGES:
            return self.message(text)
        return PIECE.sub(
            lambda piece: piece[0] if KEPT_PIECE.fullmatch(piece[0]) else self._stand_in(piece[0]),
            text,
        )

    def _is_kept(self, text: str, name: str) -> bool:
        rule, word = self._rule, text.strip()
        if rule.is_code(name, text):
            return True
        if len(text) > KEPT_CHARS_MAX or name in rule.ambiguous:
            return False
        if name in rule.codes:
            return CODE.fullmatch(word) is not None and word.casefold() not in self._replaced_words
        has_value = NUMBER.fullmatch(text) or _is_instant(text) or CODE.fullmatch(word)
        return name in rule.kept and bool(has_value)

    def _find_id(self, text: str, name: str) -> re.Match[str] | None:
        match = self._id.fullmatch(text)
        is_id = ID_NAME.fullmatch(name) or name in self._rule.ids
        return match if match and (is_id or match[1]) else None

    def _id_stand_in(self, digits: str) -> str:
        """Return the id at the same place among as many that are spread evenly."""
        if digits not in self._id_stand_ins:
            ids = self._ids[len(digits)]
            first, span = 10 ** (len(digits) - 1), 9 * 10 ** (len(digits) - 1)
            has_room = span > (len(ids) + 2) ** 2
            for place, own in enumerate(sorted(ids), start=1):
                stand_in = first + place * span // (len(ids) + 1)
                while has_room and stand_in in ids:
                    stand_in += 1
                self._id_stand_ins[str(own)] = str(stand_in)
        return self._id_stand_ins[digits]

    def _stand_in(self, text: str) -> str:
        """Return a text in which every letter and every digit but zero is another one."""
        own = text.strip().casefold()
        if own not in self._texts:
            for attempt in range(TRIES):
                stand_in = self._scrambled(own, own, attempt)
                if stand_in not in self._taken:
                    break
            self._texts[own] = attempt
            self._taken.add(stand_in)
        return self._scrambled(text, own, self._texts[own])

    def _scrambled(self, text: str, own: str, attempt: int) -> str:
        offset = len(text) - len(text.lstrip())
        seed = f"{self._salt}:{attempt}:{own}".encode(errors="surrogatepass")
        noise = hashlib.shake_256(seed).digest(max(len(text) - offset, 1))
        return text[:offset] + "".join(
            _other(char, noise[place]) for place, char in enumerate(text[offset:])
        )


def _other(char: str, noise: int) -> str:
    if char.isalpha():
        letters = LETTERS.replace(char.lower(), "")
        letter = letters[noise % len(letters)]
        return letter.upper() if char.isupper() else letter
    if char.isdigit():
        digits = DIGITS.replace(char, "")
        return "0" if char == "0" else digits[noise % len(digits)]
    return _plain(char)


def _plain(char: str) -> str:
    """Return ASCII as it is; any other sign, or one that cannot be shown, as one of its kind."""
    if char.isascii() or char.isalnum():
        return char
    if "\ud800" <= char <= "\udfff":
        return "\ud800"
    return "?" if char.isprintable() else UNPRINTABLE


def _is_instant(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _inner(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the object or list that a text holds as JSON, if it does."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return None


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a JSON text, its numbers with their digits; raises ValueError."""
    return json.loads(text, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber)


def is_deeper(value: object, depth: int) -> bool:
    """Return True if objects and lists are nested deeper than this."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return not depth or any(is_deeper(item, depth - 1) for item in items)


def dump_json(value: object) -> str:
    """Return the JSON of a value that was parsed here, or stripped."""
    return MARKED.sub(r"\1", json.dumps(_marked(value)))


def _marked(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return MARK + value if isinstance(value, JsonNumber) else value
