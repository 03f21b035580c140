import pytest

from sentemb_core.formats import (
    are,
    change,
    count,
    counted,
    decimal,
    duration,
    letters,
    nearest,
    percent,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "\N{EN DASH}"),
        (0.418, "0.42 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 00 s"),
        (200.0, "3 min 20 s"),
        (3599.7, "1 h 00 min"),
        (7500.0, "2 h 05 min"),
    ],
)
def test_durations_read_as_people_say_them(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(None, "\N{EN DASH}"), (0.0, "0 %"), (0.004, "0.4 %"), (0.214, "21 %"), (1.0, "100 %")],
)
def test_shares_are_per_cent(share, words):
    assert percent(share) == words


def test_numbers_keep_their_sign_and_their_thousands():
    assert decimal(-1.5) == "\N{MINUS SIGN}1.500"
    assert change(0.0567) == "+0.057"
    assert count(12_345) == "12,345"


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "stage", "0 stages"),
        (1, "finished stage", "1 finished stage"),
        (2, "query", "2 queries"),
        (1, "query", "1 query"),
        (12_345, "vector", "12,345 vectors"),
    ],
)
def test_one_thing_is_no_plural(number, noun, words):
    assert counted(number, noun) == words
    assert are(number) == ("is" if words.startswith("1 ") else "are")


def test_clusters_are_named_beyond_the_alphabet():
    assert [letters(i) for i in (0, 25, 26, 51, 52, 702)] == ["A", "Z", "AA", "AZ", "BA", "AAA"]


def test_a_name_that_is_not_known_is_told_the_one_most_like_it_or_all():
    assert nearest("stsb", ["SICK-R", "STS-B"]) == "; did you mean 'STS-B'?"
    assert nearest("trec", ["SICK-R", "STS-B"]) == "; known: SICK-R, STS-B"
