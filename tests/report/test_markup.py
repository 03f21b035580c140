from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sentemb_core.report.markup import Html, join, tag


class Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags, self.values = "", [], []

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.values += [value for _, value in attributes]

    def handle_data(self, data):
        self.text += data


@given(st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"])))
def test_a_text_comes_back_as_text_and_never_as_a_tag(text):
    parser = Texts()
    parser.feed(tag("p", text, title=text))
    parser.close()
    assert parser.text == text
    assert parser.tags == ["p"]
    assert parser.values == [text]


def test_markup_inside_markup_is_not_escaped_twice():
    assert tag("p", tag("b", "1 < 2"), " & ") == "<p><b>1 &lt; 2</b> &amp; </p>"


def test_attribute_names_are_written_as_html_spells_them():
    assert tag("td", class_="n", aria_label="x") == '<td class="n" aria-label="x"></td>'


def test_joined_markup_is_markup():
    assert isinstance(join(["a", Html("<br>")]), Html)
