"""Descriptions from templates: the operator's HTML, the supplier's plain text."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.catalog.description_template import DEFAULT, PLACEHOLDERS, check_template, render
from headway.errors import InvalidError

VALUES = dict.fromkeys(PLACEHOLDERS, "")


def test_the_default_is_the_suppliers_description_as_plain_text() -> None:
    check_template(DEFAULT)
    assert render(DEFAULT, VALUES | {"description": "5 < 6"}) == "5 &lt; 6"
    assert render(DEFAULT, VALUES) == ""


def test_a_line_of_which_every_value_is_empty_is_left_out() -> None:
    template = "<p>Always</p>\n<p>Condition: {condition}</p>\n<p>{name} {origin}</p>"
    assert render(template, VALUES | {"origin": "US"}) == "<p>Always</p>\n<p> US</p>"


def test_doubled_braces_are_braces() -> None:
    check_template("{{name}} {sku} &lt; &amp;")
    assert render("{{name}} {sku}", VALUES | {"sku": "A"}) == "{name} A"


@pytest.mark.parametrize(
    ("template", "reason"),
    (
        ("{nmae}", "unknown placeholder {nmae}; known: {name}, {description}"),
        ("{}", "unknown placeholder {}"),
        ("{0}", "unknown placeholder {0}"),
        ("{name.__class__}", "unknown placeholder {name.__class__}"),
        ("{name[0]}", "unknown placeholder {name[0]}"),
        ("{name!r}", "unknown placeholder {name}"),
        ("{name:>9999}", "unknown placeholder {name}"),
        ("{name", "unbalanced braces"),
        ("name}", "unbalanced braces"),
        ('<a href="{name}">x</a>', "between tags, not inside one"),
        ("<a title=\"a>b\" href='{name}'>x</a>", "between tags, not inside one"),
        ("<{name}>", "between tags, not inside one"),
        ("</{name}>", "between tags, not inside one"),
        ("<!-- {name} -->", "between tags, not inside one"),
        ('<a href="{name}', "a < without its > on the same line"),
        ("<b\n>{name}</b>\n{description}", "a < without its > on the same line"),
        ("5 < {name}", "write &lt; for the character"),
        ("<script>{name}</script>", "must not contain <script>"),
        ("<STYLE>p {{}}</STYLE>", "must not contain <script> or <style>"),
        ("x" * 5001, "up to 5,000 characters"),
        ("a\0b", "up to 5,000 characters"),
    ),
)
def test_a_template_that_cannot_be_used_is_refused_with_the_reason(
    template: str, reason: str
) -> None:
    with pytest.raises(InvalidError) as raised:
        check_template(template)
    assert reason in str(raised.value)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.names.append(tag)


@given(
    value=st.text() | st.sampled_from(["<script>", "{name}", "</p><b>", "{0.__class__}", "&lt;"])
)
def test_no_value_becomes_a_tag_or_a_placeholder(value: str) -> None:
    template = "<p>{name}</p><ul><li>{description}</li></ul>"
    check_template(template)
    parser = Tags()
    parser.feed(render(template, dict.fromkeys(PLACEHOLDERS, value or "x")))
    assert parser.names == ["p", "ul", "li"]
