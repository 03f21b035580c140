from rich.console import Console

from sentemb_core.console import terminal_table


def shown(width: int, *, folded: bool = False) -> list[str]:
    rows = [["our[bold]model", "0.5"], ["other", "12.25"]]
    console = Console(width=width)
    with console.capture() as captured:
        console.print(terminal_table(["model", "R@5"], rows, [1], folded=folded))
    return [line.strip() for line in captured.get().splitlines()]


def test_numbers_stand_on_the_right_and_a_bracket_is_no_markup():
    assert shown(40) == [
        "model             R@5",
        "our[bold]model    0.5",
        "other           12.25",
    ]


def test_a_long_word_is_cut_or_goes_on_below():
    assert shown(18)[1].split() == ["our[bold…", "0.5"]
    whole = "".join(line.split()[0] for line in shown(18, folded=True)[1:-1])
    assert whole == "our[bold]model"
