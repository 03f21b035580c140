"""Import the tables of the former RESULTS.md as rows, with their commit as the source.

    git show e44cff9:RESULTS.md | python -m benchmarks.import_results FOLDER

The script ran once, for results/*.json; it stays because it shows how a printed cell became a row.
Notes and caveats were written afterwards.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.results_pages import save
from tasks.claims import CLAIMS
from tasks.results import Pivot, ResultRow, ResultTable

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
    "arxiv": "sci_arxiv_cs",
}

NUMBER = r"[+-]?(?:\d[\d,]*)?\.?\d+(?:e-\d+)?"
CELL = re.compile(
    rf"(?P<value>{NUMBER})(?: (?:MB|%))?(?: ± (?P<spread>{NUMBER}))?"
    rf"(?: \((?P<low>{NUMBER}) to (?P<high>{NUMBER})\))?(?: \[(?P<paper>{NUMBER})\])?"
)
COUNT = re.compile(r"(?P<value>\d+) of (?P<units>\d+)")
MEASURED = re.compile(r"(.+) (R@\d+|R_cap@10|nDCG@10)")
SPEARMAN = re.compile(r"STS|SICK-R")
PROBES = ("MR", "CR", "SST2", "MRPC", "SICK-E", "IMDB", "books", "kitchen")
CLAIM = re.compile(
    r"- \*\*(?P<verdict>[^*]+)\*\*: (?P<claim>.*?)\. (?P<sides>(?:(?!\. ).)*?)"
    rf"(?: \(of (?P<rivals>\d+) the one that decides\))?: (?P<value>{NUMBER}) "
    rf"\((?P<low>{NUMBER}) to (?P<high>{NUMBER})(?P<range> over the seeds)?\)"
    rf"(?:, above(?: (?P<margin>{NUMBER}))? in (?P<seeds>\d+ of \d+) seeds"
    r"(?:, equal in (?P<equal>\d+))?|; (?P<reason>[^.]*))\.(?: (?P<rest>.*))?"
)

Grid = list[list[str]]


def number(text: str) -> float:
    """Return a printed number: .820, +1,000, 1e-05."""
    return float(text.replace(",", ""))


def numbers(text: str) -> list[dict[str, object]]:
    """Return the fields of a cell's rows; some cells list one number per annotation."""
    text = text.replace("**", "").strip()
    if not text:
        return []
    if count := COUNT.fullmatch(text):
        return [{"value": number(count["value"]), "units": int(count["units"])}]
    if match := CELL.fullmatch(text):
        return [{name: number(part) for name, part in match.groupdict().items() if part}]
    parts = text.split(", ")
    matches = [CELL.fullmatch(part) for part in parts]
    if len(parts) > 1 and all(matches):
        return [found for part in parts for found in numbers(part)]
    return [{"note": text}]


def rows_of(text: str, **fields: object) -> Iterator[ResultRow]:
    """Yield the rows of one cell; of several numbers each is an annotation's, in order."""
    found = numbers(text)
    factors = fields.pop("factors", {})
    for place, one in enumerate(found, start=1):
        own = {"annotation": str(place)} if len(found) > 1 else {}
        yield ResultRow.model_validate(fields | one | {"factors": {**factors, **own}})


def grid(lines: Sequence[str]) -> Grid:
    """Return the cells of a Markdown table, its head first."""
    cells = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def decimals(rows: Sequence[ResultRow], table: Grid) -> dict[str, int]:
    """Return metric -> decimals, where a table prints other than three."""
    shown: dict[str, int] = {}
    texts = {cell for line in table[1:] for cell in line}
    places: dict[float, int] = {}
    for text in texts:
        for match in re.finditer(NUMBER, text):
            part = match[0].partition(".")[2]
            if "e" not in match[0]:
                value = number(match[0])
                places[value] = max(places.get(value, 0), len(part))
    for row in rows:
        if row.value is not None and row.value in places:
            shown[row.metric] = max(shown.get(row.metric, 0), places[row.value])
    return {metric: digits for metric, digits in shown.items() if digits != 3}


# --- families of tables ---


def directed(head: str) -> dict[str, str]:
    """Return direction and metric of a heading as `document → counterpart R@5`."""
    way, _, metric = head.rpartition(" ")
    return {"direction": way, "metric": metric}


def main_job(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Encoders of runs by direction and recall."""
    task = CORPORA[id.split()[1]]
    rows: list[ResultRow] = []
    for label, *cells in table[1:]:
        part = re.fullmatch(r"(.*) \((\d of \d seeds)\)", label)
        factors = {"seeds of": part[2]} if part else {}
        common = {"system": label, "task": task, "split": "test", "seeds": seeds}
        for head, text in zip(table[0][1:], cells, strict=True):
            rows += rows_of(text, **common, **directed(head), factors=factors)
    return rows, Pivot(rows=("system",), columns=("direction", "metric"), corner="encoder")


def annotation(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Ways to choose positives from one start, on one corpus."""
    _, corpus, start = id.removesuffix(" seeds").rpartition(",")[0].split(maxsplit=2)
    metric = table[0][1].rpartition(" ")[2]
    rows: list[ResultRow] = []
    for system, *cells in table[1:]:
        common = {"system": system, "task": corpus, "seeds": seeds, "factors": {"start": start}}
        for head, text in zip(table[0][1:], cells, strict=True):
            if baseline := re.fullmatch(r"both, minus “(.*)” \(95 %\)", head):
                place = {"direction": "both directions", "metric": metric, "baseline": baseline[1]}
            elif "→" in head:
                place = directed(head)
            else:
                place = {"metric": head}
            rows += rows_of(text, **common, **place)
    return rows, Pivot(rows=("system",), columns=("direction", "metric"), corner="positives")


def methods(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Methods at an equal budget."""
    rows: list[ResultRow] = []
    for corpus, start, system, *cells in table[1:]:
        common = {"system": system, "factors": {"corpus": corpus, "start": start}}
        for head, text in zip(table[0][3:], cells, strict=True):
            place: dict[str, object] = {"metric": head}
            if head.startswith("R@5 less"):
                place = {"metric": "R@5", "baseline": "start encoder"}
            elif task := {"STS-B dev": ("STS-B", "dev"), "SICK-R test": ("SICK-R", "test")}.get(
                head
            ):
                place = {"task": task[0], "split": task[1], "metric": "Spearman"}
            if head.startswith("R@"):
                place |= {"direction": "document → title", "split": "test"}
            if head not in ("steps", "batch"):
                place["seeds"] = seeds if "±" in text or not re.search(r"\d", text) else ()
            rows += rows_of(text, **common, **place)
    columns = ("task", "split", "metric") if "STS-B dev" in table[0] else ("metric",)
    return rows, Pivot(rows=("corpus", "start", "system"), columns=columns)


def adaptation(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Ways to adapt MiniLM in equal time."""
    task, rows = CORPORA[id.split()[1]], list[ResultRow]()
    metric = table[0][2].rpartition(" ")[2]
    for system, *cells in table[1:]:
        common = {"system": system, "task": task, "seeds": seeds}
        for head, text in zip(table[0][1:], cells, strict=True):
            if baseline := re.fullmatch(r"(.*), minus (.*) \(95 %\)", head):
                place = {"direction": baseline[1], "metric": metric, "baseline": baseline[2]}
            else:
                place = directed(head) if "→" in head else {"metric": head}
            if head == "trained" and text:
                rows.append(ResultRow.model_validate(common | place | {"note": text}))
            else:
                rows += rows_of(text, **common, **place)
    return rows, Pivot(rows=("system",), columns=("direction", "metric"), corner="way")


def maps(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Powers of a whitening by corpus."""
    rows: list[ResultRow] = []
    start = table[0][0]
    for place, *cells in table[1:]:
        task, _, metric = place.rpartition(", ")
        for head, text in zip(table[0][1:], cells, strict=True):
            system, _, baseline = head.removesuffix(" (95 %)").partition(" less ")
            rows += rows_of(
                text, system=system, baseline=baseline, task=task, metric=metric, seeds=seeds,
                direction="both directions", factors={"start": start},
            )  # fmt: skip
    return rows, Pivot(rows=("task", "metric"), columns=("system",))


def own_vectors(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Vectors that a method trained, and the mean that judges it elsewhere."""
    places = {
        "STS-B dev": {"task": "STS-B", "split": "dev"},
        "SICK-R test": {"task": "SICK-R", "split": "test"},
    }
    rows = [
        row
        for system, *cells in table[1:]
        for head, text in zip(table[0][1:], cells, strict=True)
        for row in rows_of(text, system=system, metric="Spearman", seeds=seeds, **places[head])
    ]
    return rows, Pivot(rows=("system",), columns=("task", "split", "metric"), corner="vector")


def paper(id: str, table: Grid, seeds: tuple[int, ...]) -> tuple[list[ResultRow], Pivot]:
    """Arms of a paper's experiment."""
    rows: list[ResultRow] = []
    for system, *cells in table[1:]:
        for head, text in zip(table[0][1:], cells, strict=True):
            rows += rows_of(text, system=system, seeds=seeds, **judged(head, table[0]))
    corner = table[0][0] or "system"
    return rows, Pivot(rows=("system",), columns=("task", "split", "metric"), corner=corner)


def judged(head: str, heads: Sequence[str]) -> dict[str, str]:
    """Return task, split and metric of a column of an experiment."""
    if match := MEASURED.fullmatch(head):
        return {"task": match[1], "metric": match[2]}
    if head == "STS-B dev":
        return {"task": "STS-B", "split": "dev", "metric": "Spearman"}
    if SPEARMAN.match(head) and not head.startswith("SICK-E"):
        return {"task": head, "metric": "Spearman"}
    if head in PROBES:
        return {"task": head, "metric": "accuracy"}
    if head == "average":
        metrics = {judged(one, ())["metric"] for one in heads[1:] if one != "average"}
        return {"task": "average", "metric": metrics.pop() if len(metrics) == 1 else "score"}
    return {"metric": head}


def plain(
    corner: str, columns: Sequence[Mapping[str, object]], table: Grid, **common: object
) -> tuple[list[ResultRow], Pivot]:
    """A table whose columns are given one by one; an empty one is a text that heads the line."""
    rows = [
        row
        for system, *cells in table[1:]
        for place, text in zip(columns, cells, strict=True)
        for row in rows_of(text, **({"system": system} | common | dict(place)))
    ]
    return rows, Pivot(
        rows=("system",), columns=("task", "direction", "split", "metric"), corner=corner
    )


LEARNING_RATES = (
    {"metric": "learning rate"},
    {"split": "validation", "metric": "R@5"},
    {"split": "test", "metric": "R@5"},
)
WHITENED = [
    {"task": task, "direction": way, "metric": "R@5"}
    for task in ("blog_usgov", "news_reuters21578")
    for way in ("document → title", "title → document")
]
MEMORY = (
    {"task": "0.4 GB", "metric": "peak memory, MB"},
    {"task": "4 GB", "metric": "peak memory, MB"},
    {"task": "4 GB", "metric": "growth, %"},
    {"task": "4 GB", "metric": "seconds"},
)
LARGER = (
    {"task": "200 steps of 64", "metric": "R@5", "seeds": (42, 43, 44)},
    {"task": "1,000 steps of 256", "metric": "R@5", "seeds": (42,)},
    {"task": "1,000 steps of 256", "metric": "R@5", "seeds": (42,), "baseline": "start encoder"},
    {"task": "1,000 steps of 256", "metric": "seconds", "seeds": (42,)},
)
STARTS = {"static": "static", "two layers": "transformer", "MiniLM": "minilm"}
SHORT = {
    "blog": "blog_usgov",
    "sessions": "session_mixed_titles",
    "Reuters": "news_reuters21578",
    "arXiv": "sci_arxiv_cs",
}


def corpora(table: Grid) -> tuple[list[ResultRow], Pivot]:
    """Corpora and their sizes; what they are stands in notes."""
    rows = [
        ResultRow(
            system=name.strip("`"), metric="documents", value=number(size),
            factors={"content": text.replace("**", ""), "licence": licence},
        )
        for name, size, text, licence in table[1:]
    ]  # fmt: skip
    return rows, Pivot(rows=("system", "content", "licence"), columns=("metric",), corner="corpus")


def summary(
    table: Grid, studies: Mapping[tuple[str, str], Sequence[ResultRow]]
) -> tuple[list[ResultRow], Pivot]:
    """Every way to choose positives less the better baseline, with intervals of its tables."""
    rows: list[ResultRow] = []
    for system, better, worse, *cells in table[1:]:
        rows += rows_of(better, system=system, metric="significantly better in")
        rows += rows_of(worse, system=system, metric="significantly worse in")
        for head, text in zip(table[0][3:], cells, strict=True):
            start, _, corpus = head.partition(", ")
            for row in rows_of(
                text, system=system, task=corpus, metric="difference", factors={"start": start}
            ):
                rows.append(with_interval(row, studies[STARTS[start], SHORT[corpus]]))
    columns = ("start", "task", "metric")
    return rows, Pivot(columns=columns, corner="positives", intervals="none")


def with_interval(row: ResultRow, study: Sequence[ResultRow]) -> ResultRow:
    """Return the summary's row with baseline and interval of the study that it was read from."""
    for one in study:
        same = one.system == row.system or (
            row.system.endswith("as long as an annotation takes")
            and "times the steps" in one.system
        )
        if same and one.baseline and one.value == row.value:
            update = {"baseline": one.baseline, "low": one.low, "high": one.high}
            return row.model_copy(update=update)
    return row


def claims(text: str, experiment: str) -> Iterator[ResultRow]:
    """Yield one row for each claim listed below an experiment's table."""
    for line in text.splitlines():
        if not line.startswith("- **"):
            continue
        match = CLAIM.fullmatch(line)
        if not match:
            raise ValueError(line)
        sides = re.sub(r", [^,]*$", "", match["sides"]) if match["range"] else match["sides"]
        better, _, rival = sides.partition(" less ")
        factors = {
            "claim": match["claim"], "verdict": match["verdict"],
            "seeds above": match["seeds"] or "", "margin": match["margin"] or "",
            "seeds equal": match["equal"] or "", "rivals": match["rivals"] or "1",
            "interval": "range over the seeds" if match["range"] else "",
        }  # fmt: skip
        yield ResultRow(
            system=better, baseline=rival, task=experiment, metric="difference",
            value=number(match["value"]), low=number(match["low"]), high=number(match["high"]),
            factors={name: value for name, value in factors.items() if value},
            note=" ".join(filter(None, (match["reason"], match["rest"]))),
        )  # fmt: skip


# --- the walk through the document ---

MARK = re.compile(r"<!-- (.*):(begin|end) -->")
FENCE = "```"


class Block:
    """A Markdown table, where it stands, and the text that belongs to it."""

    def __init__(self, mark: str, headings: Sequence[str]) -> None:
        self.mark = mark
        self.headings = tuple(headings)
        self.table: list[str] = []
        self.text: list[str] = []
        self.command: list[str] = []


def blocks(document: str) -> Iterator[Block]:
    """Yield every table; text and commands up to the next table or heading belong to it."""
    mark, headings, block, fenced = "", ["", "", ""], None, False
    for line in document.splitlines():
        if line.startswith(FENCE):
            fenced = not fenced
        elif fenced:
            if block:
                block.command.append(line)
        elif match := MARK.fullmatch(line):
            mark = match[1] if match[2] == "begin" else ""
        elif match := re.match(r"(#{2,4}) (.*)", line):
            if block:
                yield block
            level = len(match[1]) - 2
            headings[level:] = [match[2], *[""] * (2 - level)]
            block = None
        elif line.startswith("|"):
            if block and block.table and (block.text or block.command or block.mark != mark):
                yield block
                block = None
            block = block or Block(mark, headings)
            block.table.append(line)
        elif line and block:
            block.text.append(line if mark else f"~{line}")
    if block:
        yield block


def seeds_of(block: Block) -> tuple[int, ...]:
    """Return the seeds that a block names, or that its name counts."""
    if match := re.search(r", (\d) seeds$", block.mark):
        return tuple(range(42, 42 + int(match[1])))
    for line in block.text:
        if match := re.search(r"[Ss]eeds? (4\d(?:, 4\d)*)", line):
            return tuple(map(int, match[1].split(", ")))
    return ()


def keyed(text: str) -> str:
    """Return text with citation keys in place of the papers' former numbers."""
    for old, new in KEYS.items():
        text = re.sub(rf"\b{old}\b(?=\.)", new, text)
    return text


# --- pages ---

FAMILIES = {
    "main-job": ("main_job", main_job), "annotation": ("annotation", annotation),
    "methods-small": ("methods", methods), "adaptation": ("adaptation", adaptation),
    "maps": ("adaptation", maps), "own-vectors": ("methods", own_vectors),
}  # fmt: skip

PLAIN = {
    "A corpus larger than memory": ("main_job", "memory", "stage", MEMORY),
    "Every method, equal budget": ("methods", "larger budget", "method", LARGER),
    "Behind a map: a whitening after the training, or in place of it":
        ("adaptation", "maps behind trainings", "encoder", WHITENED),
    "Learning rates of the presets": ("main_job", "learning rates", "trained", LEARNING_RATES),
}  # fmt: skip


def main() -> None:
    """Read the document from stdin and write a file for each page into a folder."""
    stored: dict[str, list[ResultTable]] = {}
    claimed: dict[str, list[ResultRow]] = {}
    summary_cells: Grid = []
    for block in blocks(sys.stdin.read()):
        cells, name = (
            [list(map(keyed, line)) for line in grid(block.table)],
            block.mark.partition(" ")[0],
        )
        head, seeds = block.headings[0], seeds_of(block)
        if block.mark == "claims" or cells[0][0] in ("trained", "to learn"):
            continue
        key = KEYS.get(name.partition(".")[0])
        title, id = block.headings[2] or block.headings[1] or head, block.mark
        if key:
            page, (rows, pivot) = key, paper(block.mark, cells, seeds)
            id, title = keyed(block.mark), keyed(title)
            claimed.setdefault(key, []).extend(claims(keyed("\n".join(block.text)), id))
        elif block.mark == "annotation summary":
            page, (rows, pivot) = "annotation", ([], Pivot())  # made below, from the other tables
        elif name == "condenser":
            columns = ({"metric": "nats a token"},)
            page, (rows, pivot) = "methods", plain("predicted by", columns, cells)
        elif name in FAMILIES:
            page, family = FAMILIES[name]
            rows, pivot = family(block.mark, cells, seeds or (42, 43, 44))
            page = "adaptation" if head.startswith("Behind a map") else page
        elif head == "The corpora":
            page, id, (rows, pivot) = "main_job", "corpora", corpora(cells)
        else:
            page, id, corner, columns = PLAIN[head]
            rows, pivot = plain(corner, columns, cells)
            if id == "learning rates":
                id = f"{id}, {cells[1][0]}"
        pivot = pivot.model_copy(update={"digits": decimals(rows, cells)})
        command = keyed("\n".join(block.command)).replace(" --markdown RESULTS.md", "")
        table = ResultTable(
            id=id, title=title_of(id, title, cells), rows=tuple(rows), pivot=pivot, command=command,
        )  # fmt: skip
        if block.mark == "annotation summary":
            summary_cells = cells
        stored.setdefault(page, []).append(table)
    finish_summary(stored["annotation"], summary_cells)
    for key, rows in claimed.items():
        title = "Claims and verdicts"
        table = ResultTable(id=f"{key} claims", title=title, rows=tuple(rows), pivot=CLAIMS)
        stored[key].insert(0, table)
    for page, tables in stored.items():
        save(page, tables, SOURCE, Path(sys.argv[1]))


def finish_summary(tables: list[ResultTable], cells: Grid) -> None:
    """Replace the empty summary by rows with the intervals of the studies."""
    studies = {
        (row.factors["start"], row.task): table.rows
        for table in tables
        if table.id.endswith("3 seeds")
        for row in table.rows[:1]
    }
    rows, pivot = summary(cells, studies)
    pivot = pivot.model_copy(
        update={"digits": {"significantly better in": 0, "significantly worse in": 0}}
    )
    place = next(n for n, table in enumerate(tables) if not table.rows)
    tables[place] = tables[place].model_copy(update={"rows": tuple(rows), "pivot": pivot})


def title_of(id: str, title: str, cells: Grid) -> str:
    """Return the title of a table: its id in plain words, or the heading that it stood under."""
    family, _, rest = id.partition(" ")
    if family == "main-job":
        corpus, _, options = rest.partition(" ")
        return f"{CORPORA[corpus]}: {f'`{options}`' if options else 'the defaults'}"
    if family == "annotation" and rest != "summary":
        corpus, start = rest.split(maxsplit=1)
        return f"{corpus}: from {start}"
    if family in ("methods-small", "own-vectors", "adaptation", "maps"):
        return f"{family}: {CORPORA.get(rest, rest)}"
    return {
        "annotation summary": "All ways to choose positives",
        "condenser": "Condenser stage",
    }.get(id, title if "." in family else id.capitalize())


if __name__ == "__main__":
    main()
