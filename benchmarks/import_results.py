"""Import the tables of the former RESULTS.md as rows, with their commit as the source.

    git show e44cff9:RESULTS.md | python -m benchmarks.import_results FOLDER

The script ran once, for results/*.json; it stays because it shows how a printed cell became a row.
Notes and caveats were written afterwards.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results_pages import save
from tasks.claims import CLAIMS
from tasks.results import Pivot, ResultRow, ResultTable, heading

SOURCE = {"commit": "e44cff9", "document": "RESULTS.md"}

KEYS = {
    "s000": "mutual",
    "s001": "infocse",
    "s002": "product_thesis",
    "s003": "declutr",
    "s004": "hicl",
}

CORPORA = {
    "blog": "blog_usgov",
    "demo": "blog_usgov, the demo's sample",
    "short": "blog_usgov, 1,000 posts of 8 sentences",
    "sessions": "session_mixed_titles",
    "reuters": "news_reuters21578",
    "Reuters": "news_reuters21578",
    "arxiv": "sci_arxiv_cs",
    "arXiv": "sci_arxiv_cs",
}
STARTS = {"static": "static", "two layers": "transformer", "MiniLM": "minilm"}

USUAL_SEEDS = (42, 43, 44)
"""Of a cell with a deviation, where its table names no seeds."""

Fields = Mapping[str, object]
Grid = list[list[str]]

# --- cells ---

NUMBER = r"[+-]?(?:\d[\d,]*)?\.?\d+(?:e-\d+)?"
CELL = re.compile(
    rf"(?P<value>{NUMBER})(?: (?:MB|%))?(?: ± (?P<spread>{NUMBER}))?"
    rf"(?: \((?P<low>{NUMBER}) to (?P<high>{NUMBER})\))?(?: \[(?P<paper>{NUMBER})\])?"
)
COUNT = re.compile(r"(?P<value>\d+) of (?P<units>\d+)")


def number(text: str) -> float:
    """Return a printed number: .820, +1,000, 1e-05."""
    return float(text.replace(",", ""))


def numbers(text: str) -> list[Fields]:
    """Return the fields of a cell's rows; some cells list one number per annotation."""
    text = text.replace("**", "").strip()
    if not text:
        return []
    if match := COUNT.fullmatch(text) or CELL.fullmatch(text):
        return [{name: number(part) for name, part in match.groupdict().items() if part}]
    parts = text.split(", ")
    if len(parts) > 1 and all(map(CELL.fullmatch, parts)):
        return [one for part in parts for one in numbers(part)]
    return [{"note": text}]


def rows_of(text: str, fields: Fields) -> Iterator[ResultRow]:
    """Yield the rows of one cell; of several numbers each is an annotation's, in order."""
    found = numbers(text)
    for place, one in enumerate(found, start=1):
        factors = dict[str, str](fields.get("factors", {}))  # type: ignore[call-overload]
        if len(found) > 1:
            factors["annotation"] = str(place)
        usual = {"seeds": USUAL_SEEDS} if "spread" in one else {}
        row = ResultRow.model_validate({**usual, **fields, **one, "factors": factors})
        if text.startswith("**") and row.baseline and not row.is_significant:  # rounded to 0
            row = row.model_copy(update={"factors": factors | {"significant": "yes"}})
        yield row


# --- headings ---

STS = {"STS-B dev": ("STS-B", "dev"), "SICK-R test": ("SICK-R", "test")}
PROBES = ("MR", "CR", "SST2", "MRPC", "SICK-E", "IMDB", "books", "kitchen")
HEADINGS = (
    r"both, minus “(?P<baseline>.*)” \(95 %\)",
    r"(?P<direction>.*→.*), minus (?P<baseline>.*) \(95 %\)",
    r"(?P<system>.*) less (?P<baseline>.*) \(95 %\)",
    r"(?P<direction>.*→.*) (?P<metric>R@\d+)",
    r"(?P<task>.+) (?P<metric>R@\d+|R_cap@10|nDCG@10)",
)


def place_of(heading: str, headings: Sequence[str] = ()) -> dict[str, object]:
    """Return task, direction, metric and baseline of a column, as far as its heading has them."""
    if heading in STS:
        task, split = STS[heading]
        return {"task": task, "split": split, "metric": "Spearman"}
    if re.match(r"STS|SICK-R", heading):
        return {"task": heading, "metric": "Spearman"}
    if heading in PROBES:
        return {"task": heading, "metric": "accuracy"}
    if heading == "average":
        metrics = {str(place_of(one)["metric"]) for one in headings if one != "average"}
        return {"task": "average", "metric": metrics.pop() if len(metrics) == 1 else "score"}
    for pattern in HEADINGS:
        if match := re.fullmatch(pattern, heading):
            return {name: part for name, part in match.groupdict().items() if part}
    return {"metric": heading}


# --- tables ---


@dataclass
class Block:
    """A Markdown table, its headings, and the text and commands that belong to it."""

    mark: str
    headings: tuple[str, ...]
    table: list[str] = field(default_factory=list[str])
    text: list[str] = field(default_factory=list[str])
    command: list[str] = field(default_factory=list[str])

    @property
    def grid(self) -> Grid:
        """The cells, the head first."""
        cells = [
            [keyed(one.strip()) for one in line.strip()[1:-1].split("|")] for line in self.table
        ]
        return [cells[0], *cells[2:]]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the text names, or that the name counts."""
        if match := re.search(r", (\d) seeds$", self.mark):
            return tuple(range(42, 42 + int(match[1])))
        for line in self.text:
            if match := re.search(r"[Ss]eeds? (4\d(?:, 4\d)*)", line):
                return tuple(map(int, match[1].split(", ")))
        return ()


def blocks(document: str) -> Iterator[Block]:
    """Yield every table; text and commands up to the next table or heading belong to it."""
    mark, headings, block, fenced = "", ["", "", ""], None, False
    for line in document.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            if block:
                block.command.append(line)
        elif match := re.fullmatch(r"<!-- (.*):(begin|end) -->", line):
            mark = match[1] if match[2] == "begin" else ""
        elif match := re.match(r"(#{2,4}) (.*)", line):
            if block:
                yield block
            level = len(match[1]) - 2
            headings[level:] = [match[2], *[""] * (2 - level)]
            block = None
        elif line.startswith("|"):
            if block and (block.text or block.command or block.mark != mark):
                yield block
                block = None
            block = block or Block(mark, tuple(headings))
            block.table.append(line)
        elif line and block:
            block.text.append(line)
    if block:
        yield block


def table_rows(
    grid: Grid, common: Fields, places: Sequence[Fields], lines: Sequence[str]
) -> list[ResultRow]:
    """Return the rows of a table.

    Args:
        grid: Its cells.
        common: Fields of every row.
        places: Fields of each column of numbers.
        lines: Field or factor that each leading column of texts stands for.
    """
    rows: list[ResultRow] = []
    for line in grid[1:]:
        known = dict(zip(lines, line, strict=False))
        factors = {k: v for k, v in known.items() if k not in ResultRow.model_fields}
        fields = {k: v for k, v in known.items() if k not in factors}
        factors |= dict(common.get("factors", {}))  # type: ignore[call-overload]
        for place, text in zip(places, line[len(lines) :], strict=True):
            rows += rows_of(text, {**fields, **common, **place, "factors": factors})
    return rows


def decimals(grid: Grid, places: Sequence[Fields], lines: int) -> dict[str, int]:
    """Return metric -> decimals, where a table prints other than three."""
    shown: dict[str, int] = {}
    for column, place in enumerate(places, start=lines):
        texts = (
            match for line in grid[1:] if (match := re.match(NUMBER, line[column].lstrip("*")))
        )
        digits = (len(match[0].partition(".")[2]) for match in texts)
        metric = str(place["metric"])
        shown[metric] = max(shown.get(metric, 0), *digits, 0)
    return {metric: digits for metric, digits in shown.items() if digits != 3}


TITLES = ("document → title", "title → document")
PLAIN: Mapping[str, tuple[str, str, Sequence[str], Sequence[Fields]]] = {
    "The corpora": (
        "main_job", "corpora", ("system", "documents", "content", "licence"), (),
    ),
    "A corpus larger than memory": (
        "main_job", "memory", ("system",), (
            {"task": "0.4 GB", "metric": "peak memory, MB"},
            {"task": "4 GB", "metric": "peak memory, MB"},
            {"task": "4 GB", "metric": "growth, %"},
            {"task": "4 GB", "metric": "seconds"},
        ),
    ),
    "Learning rates of the presets": (
        "main_job", "learning rates", ("system", "learning rate"), (
            {"split": "validation", "metric": "R@5"},
            {"split": "test", "metric": "R@5"},
        ),
    ),
    "Every method, equal budget": (
        "methods", "larger budget", ("system",), (
            {"task": "200 steps of 64", "metric": "R@5"},
            {"task": "1,000 steps of 256", "metric": "R@5"},
            {"task": "1,000 steps of 256", "metric": "R@5", "baseline": "start encoder"},
            {"task": "1,000 steps of 256", "metric": "seconds"},
        ),
    ),
    "Behind a map: a whitening after the training, or in place of it": (
        "adaptation", "maps behind trainings", ("system",), tuple(
            {"task": task, "direction": way, "metric": "R@5"}
            for task in ("blog_usgov", "news_reuters21578")
            for way in TITLES
        ),
    ),
}  # fmt: skip
"""Heading of a table without marks -> its page, id, leading columns, and columns of numbers."""


def titles_place(heading: str) -> Fields:
    """Return a column of the table of methods that titles judge."""
    titles = {"direction": TITLES[0], "split": "test"}
    if "less" in heading:
        return titles | {"metric": "R@5", "baseline": "start encoder"}
    return titles | {"metric": heading}


def imported(block: Block) -> tuple[str, ResultTable]:
    """Return a table and the name of its page."""
    grid, id, seeds = block.grid, keyed(block.mark), block.seeds
    heads, family = grid[0], block.mark.partition(" ")[0]
    rest = block.mark.partition(" ")[2]
    named = block.mark and family != "methods-small"
    common: dict[str, object] = {"seeds": seeds} if seeds and named else {}
    lines: Sequence[str] = ("system",)
    columns: tuple[str, ...] = ("task", "direction", "split", "metric")
    page = KEYS.get(family.partition(".")[0], "")
    places = [place_of(head, heads[1:]) for head in heads[1:]]
    title = block.headings[2] or block.headings[1] or block.headings[0]
    if not block.mark:
        page, id, lines, places = PLAIN[block.headings[0]]
        title = id = f"{id}, {grid[1][0]}" if id == "learning rates" else id
        if id == "corpora":
            grid = [heads, *([a.strip("`"), c.replace("**", ""), d, b] for a, b, c, d in grid[1:])]
            lines, places = ("system", "content", "licence"), ({"metric": "documents"},)
    elif family == "main-job":
        page, corpus = "main_job", rest.split()[0]
        common |= {"task": CORPORA[corpus], "split": "test"}
        options = rest.partition(" ")[2]
        title = f"{CORPORA[corpus]}: {f'`{options}`' if options else 'the defaults'}"
    elif family == "annotation":
        page = "annotation"
        corpus, start = rest.split(maxsplit=1)
        common |= {"task": corpus, "factors": {"start": start.partition(",")[0]}}
        metric = str(places[0]["metric"])
        places = [
            {**one, "direction": "both directions", "metric": metric} if "baseline" in one else one
            for one in places
        ]
        title = f"{corpus}: from {start}"
    elif family == "adaptation":
        page, common = "adaptation", {**common, "task": CORPORA[rest]}
        metric = str(places[1]["metric"])
        places = [{"metric": metric} | one for one in places]
        title = f"adaptation: {CORPORA[rest]}"
    elif family == "methods-small":
        page, lines = "methods", ("corpus", "start", "system")
        places = [titles_place(head) if head[:2] == "R@" else place_of(head) for head in heads[3:]]
        columns = ("task", "split", "metric") if "STS-B dev" in heads else ("metric",)
        title = f"methods-small: {rest}"
    elif family == "maps":
        page, columns = "adaptation", ("system",)
        grid = [["task", *heads], *([*line[0].split(", "), *line[1:]] for line in grid[1:])]
        lines = ("task", "metric")
        common = {"direction": "both directions", "factors": {"start": rest}}
        places = [place_of(one) if " less " in one else {"system": one} for one in heads[1:]]
        title = f"maps: {rest}"
    elif family == "own-vectors":
        page, title = "methods", f"own-vectors: {rest}"
    elif family == "condenser":
        page, places, title = "methods", [{"metric": "nats a token"}], "Condenser stage"
    if block.headings[0].startswith("Behind a map"):
        page = "adaptation"
    rows = table_rows(grid, common, places, lines)
    digits = {} if family == "maps" else decimals(grid, places, len(lines))
    columns = tuple(name for name in columns if name not in common)
    corner = lines[0] if len(lines) > 1 else heads[0] or "system"
    pivot = Pivot(rows=tuple(lines), columns=columns, corner=corner, digits=digits)
    if family == "annotation":
        stubs = (ResultRow.model_validate({"system": "", **place}) for place in places)
        pivot = pivot.model_copy(update={"headings": tuple(heading(one, pivot) for one in stubs)})
    command = keyed("\n".join(block.command)).replace(" --markdown RESULTS.md", "")
    table = ResultTable(
        id=id, title=title, rows=tuple(rows), pivot=pivot, command=command.replace(" --write", "")
    )
    return page, table


# --- claims, and the summary of the study of annotation ---

CLAIM = re.compile(
    r"- \*\*(?P<verdict>[^*]+)\*\*: (?P<claim>.*?)\. (?P<sides>(?:(?!\. ).)*?)"
    rf"(?: \(of (?P<rivals>\d+) the one that decides\))?: (?P<value>{NUMBER}) "
    rf"\((?P<low>{NUMBER}) to (?P<high>{NUMBER})(?P<range> over the seeds)?\)"
    rf", above(?: (?P<margin>{NUMBER}))? in (?P<above>\d+ of \d+) seeds"
    r"(?:, equal in (?P<equal>\d+))?\."
)


def claims(lines: Sequence[str], experiment: str) -> Iterator[ResultRow]:
    """Yield one row for each claim listed below an experiment's table."""
    for line in lines:
        if match := CLAIM.fullmatch(line):
            sides = re.sub(r", [^,]*$", "", match["sides"]) if match["range"] else match["sides"]
            better, _, rival = sides.partition(" less ")
            factors = {
                "claim": match["claim"],
                "verdict": match["verdict"],
                "seeds above": match["above"],
                "margin": match["margin"],
                "seeds equal": match["equal"],
                "rivals": match["rivals"] or "1",
                "interval": "range over the seeds" if match["range"] else None,
            }
            yield ResultRow(
                system=better, baseline=rival, task=experiment, metric="difference",
                value=number(match["value"]), low=number(match["low"]), high=number(match["high"]),
                factors={name: value for name, value in factors.items() if value},
            )  # fmt: skip


def summary(block: Block, tables: Sequence[ResultTable]) -> ResultTable:
    """Return every way to choose positives less the better baseline, with its interval."""
    grid, studies = block.grid, {table.id: table.rows for table in tables}
    rows: list[ResultRow] = []
    for system, *cells in grid[1:]:
        for head, text in zip(grid[0][1:], cells, strict=True):
            start, _, corpus = head.partition(", ")
            if not corpus:
                rows += rows_of(text, {"system": system, "metric": f"significantly {head} in"})
                continue
            fields = {"system": system, "task": corpus, "metric": "", "baseline": "better baseline"}
            study = studies[f"annotation {CORPORA[corpus]} {STARTS[start]}, 3 seeds"]
            for row in rows_of(text.replace("**", ""), {**fields, "factors": {"start": start}}):
                rows.append(with_interval(row, study, bold="**" in text))
    digits = {f"significantly {side} in": 0 for side in ("better", "worse")}
    columns = ("start", "task", "metric")
    pivot = Pivot(columns=columns, corner="positives", intervals="none", digits=digits)
    return ResultTable(
        id=block.mark, title="All ways to choose positives", rows=tuple(rows), pivot=pivot
    )


def with_interval(row: ResultRow, study: Sequence[ResultRow], *, bold: bool) -> ResultRow:
    """Return a row of the summary with the interval of its study."""
    longer = row.system.endswith("as long as an annotation takes")
    for one in study:
        same = one.system == row.system or (longer and "times the steps" in one.system)
        if one.baseline and one.value == row.value and same:
            factors = one.factors | row.factors
            row = row.model_copy(update={"low": one.low, "high": one.high, "factors": factors})
    if bold != row.is_significant:
        raise ValueError(row)
    return row


def keyed(text: str) -> str:
    """Return text with citation keys in place of the papers' former numbers."""
    for old, new in KEYS.items():
        text = re.sub(rf"\b{old}\b(?=\.)", new, text)
    return text


def main() -> None:
    """Read the document from stdin and write a file for each page into a folder."""
    stored: dict[str, list[ResultTable]] = {}
    verdicts: dict[str, list[ResultRow]] = {}
    overview: Block | None = None
    for block in blocks(sys.stdin.read()):
        if block.mark == "annotation summary":
            overview = block
        elif block.mark != "claims" and block.grid[0][0] not in ("trained", "to learn"):
            page, table = imported(block)
            stored.setdefault(page, []).append(table)
            found = claims([keyed(line) for line in block.text], table.id)
            verdicts.setdefault(page, []).extend(found)
    assert overview is not None
    stored["annotation"].insert(0, summary(overview, stored["annotation"]))
    for page, rows in verdicts.items():
        if rows:
            table = ResultTable(
                id=f"{page} claims", title="Claims and verdicts", rows=tuple(rows), pivot=CLAIMS
            )
            stored[page].insert(0, table)
    for page, tables in stored.items():
        save(page, tables, SOURCE, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
