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
    size,
)

DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("format_", "value", "text"),
    [
        (duration, None, DASH),
        (duration, 0.418, "0.42 s"),
        (duration, 12.34, "12.3 s"),
        (duration, 59.96, "1 min 00 s"),
        (duration, 200.0, "3 min 20 s"),
        (duration, 3599.7, "1 h 00 min"),
        (duration, 7500.0, "2 h 05 min"),
        (size, 0, "0 bytes"),
        (size, 999, "999 bytes"),
        (size, 40_000, "40.0 kB"),
        (size, 999_960, "1.0 MB"),
        (size, 43_300_000_000, "43.3 GB"),
        (size, 5_000_000_000_000, "5,000.0 GB"),
        (percent, None, DASH),
        (percent, 0.0, "0 %"),
        (percent, 0.004, "0.4 %"),
        (percent, 0.214, "21 %"),
        (percent, 1.0, "100 %"),
        (decimal, -1.5, "\N{MINUS SIGN}1.500"),
        (change, 0.0567, "+0.057"),
        (count, 12_345, "12,345"),
    ],
)
def test_numbers_as_text(format_, value, text):
    assert format_(value) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "stage", "0 stages"),
        (1, "finished stage", "1 finished stage"),
        (2, "query", "2 queries"),
        (1, "query", "1 query"),
        (12_345, "vector", "12,345 vectors"),
    ],
)
def test_a_noun_agrees_with_its_number(number, noun, text):
    assert counted(number, noun) == text
    assert are(number) == ("is" if number == 1 else "are")


def test_clusters_are_named_beyond_the_alphabet():
    assert [letters(i) for i in (0, 25, 26, 51, 52, 702)] == ["A", "Z", "AA", "AZ", "BA", "AAA"]


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    assert "'STS-B'" in nearest("stsb", ["SICK-R", "STS-B"])
    assert "SICK-R" not in nearest("stsb", ["SICK-R", "STS-B"])
    assert "SICK-R, STS-B" in nearest("trec", ["SICK-R", "STS-B"])
