"""The description of a new product, made from a template.

The template is HTML of the operator's; what a supplier writes is put into it as plain text.
"""

from collections.abc import Iterator, Mapping
from html import escape
from html.parser import HTMLParser
from string import Formatter

from headway.errors import InvalidError

DEFAULT = "{description}"
PLACEHOLDERS = ("name", "description", "sku", "vendor", "condition", "unit", "pack", "origin")
CHARS_MAX = 5000
# Elements whose text is not shown but interpreted: nothing of a supplier may stand there.
ACTIVE = frozenset({"script", "style"})
# Stands for a value while a template is checked; after a < it would be read as an element.
MARK = "headway-value"


class _Outline(HTMLParser):
    """Collects the text of a template, outside of its tags, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.text, self.elements = "", set[str]()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def check_template(template: str) -> None:
    """Raise InvalidError if a description cannot be made from a template."""
    if len(template) > CHARS_MAX or "\0" in template:
        raise InvalidError(f"must be a text of up to {CHARS_MAX:,} characters")
    for line in template.splitlines():
        _check_line(line)


def _check_line(line: str) -> None:
    """Raise InvalidError if a value could become more than text; any line may be left out."""
    outline = _Outline(render(line, dict.fromkeys(PLACEHOLDERS, MARK)))
    if outline.elements & ACTIVE:
        raise InvalidError("must not contain <script> or <style>")
    if "<" in outline.text:
        raise InvalidError("has a < without its > on the same line; write &lt; for the character")
    if outline.text.count(MARK) != sum(name is not None for _, name in _pieces(line)):
        raise InvalidError("must have its placeholders between tags, not inside one")


def render(template: str, values: Mapping[str, str]) -> str:
    """Return the HTML of a description; a line of which every value is empty is left out."""
    lines = []
    for line in template.splitlines():
        pieces = list(_pieces(line))
        names = [name for _, name in pieces if name is not None]
        if not names or any(values[name] for name in names):
            lines.append(
                "".join(text + escape(values[name] if name else "") for text, name in pieces)
            )
    return "\n".join(lines)


def _pieces(line: str) -> Iterator[tuple[str, str | None]]:
    """Yield each text with the placeholder that follows it, if one does; raises InvalidError."""
    try:
        pieces = list(Formatter().parse(line))
    except ValueError as error:
        raise InvalidError(f"has unbalanced braces ({error}); write {{{{ for a brace") from None
    for text, name, form, conversion in pieces:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            raise InvalidError(f"has an unknown placeholder {{{name[:40]}}}; known: {known}")
        yield text, name
