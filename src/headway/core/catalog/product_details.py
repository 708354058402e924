"""Product details: what a supplier provides for a new product besides its price and stock.

A detail that is missing is left out. One that makes no sense is left out too, and the reason is
kept for people: no part fails because of its weight. Nothing here may become HTML.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar
from urllib.parse import urlsplit

from headway.core.catalog.change_detection import plain
from headway.core.catalog.listings import Quote

T = TypeVar("T")

# Units of weight that a shop knows, and how suppliers write them.
WEIGHT_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("KG", "KGS", "KGM", "KILOGRAM", "KILOGRAMS"), "KILOGRAMS"),
    **dict.fromkeys(("G", "GM", "GMS", "GRM", "GRAM", "GRAMS"), "GRAMS"),
    **dict.fromkeys(("LB", "LBS", "LBR", "POUND", "POUNDS"), "POUNDS"),
    **dict.fromkeys(("OZ", "OZS", "ONZ", "OUNCE", "OUNCES"), "OUNCES"),
}
WEIGHT_MAX, WEIGHT_STEP = Decimal(100_000), Decimal("0.000001")
# ISO 3166-1, as far as shops know it.
CODES = """
AC AD AE AF AG AI AL AM AN AO AR AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS
BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE
EG EH ER ES ET FI FJ FK FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GW GY HK HM HN HR
HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK
LR LS LT LU LV LY MA MC MD ME MF MG MK ML MM MN MO MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG
NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PS PT PY QA RE RO RS RU RW SA SB SC SD SE SG
SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TA TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ
UA UG UM US UY UZ VA VC VE VG VN VU WF WS XK YE YT ZA ZM ZW
"""
COUNTRIES = frozenset(CODES.split())
# The first six digits are the same in every country; a supplier's other digits are its country's.
TARIFF_DIGITS, TARIFF_DIGITS_MAX = 6, 13
TARIFF_MARKS = re.compile(r"[.\s-]")
# Chapters that a country defines for itself, so that they mean nothing elsewhere.
NATIONAL = ("00", "77", "98", "99")
LABEL = re.compile(r"[\w .+/&()-]{1,40}")
IMAGE_CHARS_MAX = 2000
VALUE_CHARS_SHOWN = 40
NO_BRACKETS = str.maketrans("<>", "()")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductDetails:
    """Details of a new product in the form that shops accept, empty where there is none.

    The weight is that of a pack, as the shop sells it. `left_out` says what was not usable.
    """

    weight: Decimal | None = None
    weight_unit: str = ""
    origin: str = ""
    tariff_code: str = ""
    condition: str = ""
    unit: str = ""
    image: str = ""
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "ProductDetails":
        """Return the details as they were stored."""
        weight, left_out = stored.get("weight"), stored.get("left_out", ())
        weight = None if weight is None else Decimal(weight)
        return cls(**{**stored, "weight": weight, "left_out": tuple(left_out)})

    @property
    def tags(self) -> list[str]:
        """The tags of the product."""
        labels = {"Condition": self.condition, "Unit": self.unit}
        return [f"{name}: {value}" for name, value in labels.items() if value]

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each detail that there is."""
        if self.weight is not None:
            yield "weight", f"{plain(self.weight)} {self.weight_unit.lower()}"
        texts = {
            "origin": self.origin,
            "tariff_code": self.tariff_code,
            "tags": ", ".join(self.tags),
            "image": self.image,
        }
        yield from ((name, text) for name, text in texts.items() if text)


@dataclass(slots=True)
class _Reader:
    """Reads details, and collects why some are left out."""

    left_out: list[str] = field(default_factory=list)

    def take(self, name: str, read: Callable[..., T], text: str, *more: Any) -> T | None:  # noqa: ANN401
        """Return a detail; None if there is none, or none that can be used."""
        if not text:
            return None
        try:
            return read(text, *more)
        except ValueError as error:
            shown = text if len(text) <= VALUE_CHARS_SHOWN else f"{text[:VALUE_CHARS_SHOWN]}…"
            self.left_out.append(f"{name} {shown!r}: {error}")
            return None


def read_details(quote: Quote, *, images: bool) -> ProductDetails:
    """Return the details of a quote that can be used; the image only if images are allowed."""
    supplied, reader = quote.details, _Reader()
    weight = reader.take("weight", _weight, supplied.weight, supplied.weight_unit, quote.minimum)
    amount, unit = weight or (None, "")
    return ProductDetails(
        weight=amount,
        weight_unit=unit,
        origin=reader.take("country of origin", _origin, supplied.origin) or "",
        tariff_code=reader.take("tariff code", _tariff_code, supplied.tariff_code) or "",
        condition=reader.take("condition", _label, supplied.condition) or "",
        unit=reader.take("unit", _label, quote.unit) or "",
        image=(reader.take("image", _image, supplied.image) if images else None) or "",
        left_out=tuple(reader.left_out),
    )


def without_brackets(text: str) -> str:
    """Return a text without angle brackets: some themes show a title as if it were HTML."""
    return text.translate(NO_BRACKETS)


def _weight(text: str, unit: str, units: int) -> tuple[Decimal, str] | None:
    """Return the weight of so many units and its unit; zero is how "unknown" is written."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError("not a number")
    if number == 0:
        return None
    known = WEIGHT_UNITS.get(unit.strip().rstrip(".").upper())
    if known is None:
        raise ValueError(
            f"{unit[:VALUE_CHARS_SHOWN]!r} is no known unit of weight"
            if unit
            else "no unit of weight"
        )
    if number < 0 or number > WEIGHT_MAX or number * units > WEIGHT_MAX:
        raise ValueError(f"not from 0 to {WEIGHT_MAX:,}")
    weight = (number * units).quantize(WEIGHT_STEP)
    if not weight:
        raise ValueError("too small")
    return weight.normalize(), known


def _origin(text: str) -> str:
    code = text.upper()
    if code not in COUNTRIES:
        raise ValueError("not a country code of two letters, such as US")
    return code


def _tariff_code(text: str) -> str:
    digits = TARIFF_MARKS.sub("", text)
    is_code = digits.isascii() and digits.isdigit()
    if not is_code or not TARIFF_DIGITS <= len(digits) <= TARIFF_DIGITS_MAX:
        raise ValueError(f"not {TARIFF_DIGITS} to {TARIFF_DIGITS_MAX} digits")
    if digits.startswith(NATIONAL):
        raise ValueError("a code of one country alone")
    return digits[:TARIFF_DIGITS]


def _label(text: str) -> str:
    """Return a short text that is safe as a tag, where a comma would separate two."""
    if not LABEL.fullmatch(text):
        raise ValueError("not a short plain text")
    return text


def _image(text: str) -> str:
    try:
        address = urlsplit(text)
        host, has_user = address.hostname or "", "@" in address.netloc
    except ValueError:
        raise ValueError("not an address") from None
    if address.scheme.lower() != "https":
        raise ValueError("not an https address")
    is_sound = text.isascii() and text.isprintable() and not re.search(r"[\s<>\"'`\\]", text)
    if not is_sound or "." not in host or has_user or len(text) > IMAGE_CHARS_MAX:
        raise ValueError("not a public address")
    return text
