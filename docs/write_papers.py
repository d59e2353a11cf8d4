"""Write docs/papers/ and docs/results/ from finished cells.

    python docs/write_papers.py FOLDER                        # every section
    python docs/write_papers.py FOLDER rogers-fig15 dpem-rings  # these, and leave the others
    python docs/write_papers.py                               # the text, from docs/results/ alone

FOLDER is the `--out` of `atoll reproduce`, whose cache holds the cells. Nothing is run here: each
section shows the cells that the cache has, and says how many of the full experiment they are, and
the commit that ran them: `--commit`, or the present one.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

import atoll
from atoll.core.files import atomic_path
from atoll.reproductions import find_experiment
from atoll.reproductions.cache import cell_identity, cell_path, load_values
from atoll.reproductions.engine import Result, csv_text

DOCS = Path(__file__).parent
ROOT = DOCS.parent
MOST_BYTES = 100_000  # of a picture
WIDEST = 1400
# Arrays of cells that a comparison reads, by the name of the cells; docs/results/ keeps them, so
# that every number of a section follows from files there.
ARRAYS = {
    "archipelago-fig4": ("trace",),
    "rogers-fig21": ("probabilities",),
    "ssgp-curves": (
        "evidence", "cv", "ssgp_test", "ssgp_unlabelled", "svm_test", "svm_unlabelled",
    ),
    "ssgp-fig6": ("areas", "evidence"),
}  # fmt: skip
ALL_DIGITS = {
    "archipelago-table1",
    "ncnm-fig4",
    "rogers-fig21",
    "rogers-fig22",
}  # where those shown hang on more

PAPERS = {
    "archipelago": (
        "Adams & Ghahramani 2009",
        """R. P. Adams and Z. Ghahramani, *Archipelago: nonparametric Bayesian semi-supervised
learning*, ICML 2009. The model: [`ArchipelagoClassifier`](../models/archipelago.md).

Islands of data: rows are proposals that a softmax over functions accepts into a class or rejects,
so that the functions describe the density as well as the classes. Figure 2 of the paper explains a
move of its sampler and shows no result.""",
        ("archipelago-fig1", "archipelago-fig3", "archipelago-table1", "archipelago-fig4"),
    ),
    "null-category": (
        "Lawrence & Jordan 2005",
        """N. D. Lawrence and M. I. Jordan, *Semi-supervised learning via Gaussian processes*, NIPS,
2005. The models: [`NullCategoryClassifier`](../models/null_category.md) and
[`InformativeVectorClassifier`](../models/informative_vector.md).

No row lies between the classes: a category that is never seen keeps the boundary where the rows are
few. Figure 2 of the paper is the graph of the model and shows no result.""",
        ("ncnm-fig1", "ncnm-fig3", "ncnm-fig4", "ncnm-fig5"),
    ),
    "ssgp": (
        "Sindhwani, Chu & Keerthi 2007",
        """V. Sindhwani, W. Chu and S. S. Keerthi, *Semi-supervised Gaussian process classifiers*,
IJCAI 2007. The model: [`SSGPClassifier`](../models/ssgp.md).

The graph of all rows warps the kernel, and the evidence of the labels chooses its scales. The paper
prints no number of its results; table 1 lists its data sets, of which REUTERS is lost.""",
        ("ssgp-fig1", "ssgp-fig2", "ssgp-fig3", "ssgp-fig4", "ssgp-fig5", "ssgp-fig6"),
    ),
    "dp-mixture": (
        "Kimura, Nakada, Doucet & Matsumoto 2009",
        """T. Kimura, Y. Nakada, A. Doucet and T. Matsumoto, *Semi-supervised learning scheme using
Dirichlet process EM-algorithm*, 2009. The model: [`DPMixtureClassifier`](../models/dp_mixture.md).

Each class is a mixture of Gaussians with as many components as it needs, found by EM. The paper
prints no number of its results, but says how its data are made; table 1 lists sizes.""",
        ("dpem-rings", "dpem-spirals", "dpem-unlabelled"),
    ),
    "auxiliary-variables": (
        "Rogers 2014",
        """S. Rogers, *GPs for classification and ordinal regression via the auxiliary variable
trick*, lecture 4 of *Non-parametric Bayesian methods in machine learning*, 2014. The models:
[`ProbitGPClassifier`](../models/probit_gp.md), [`OrdinalGPClassifier`](../models/ordinal_gp.md),
[`NullCategoryClassifier`](../models/null_category.md).

A label says where z = f + noise lies, and Gibbs sampling does the rest. The lecture prints no
number, and its data are lost: each experiment makes similar rows with known class probabilities, so
that what a picture shows can be measured.""",
        ("rogers-fig15", "rogers-fig16", "rogers-fig20", "rogers-fig21", "rogers-fig22"),
    ),
}  # fmt: skip


def finished(experiment, cache, *, quick=False):
    """The experiment's cells, and results of those that the cache has."""
    name = experiment.cells_name or experiment.name
    cells = experiment.cells(quick, 0)
    found = []
    for cell in cells:
        identity = cell_identity(name, experiment.version, cell)
        values = load_values(cell_path(cache, name, identity), identity)
        if values is not None:
            found.append(Result(cell, values))
    return cells, found


def rounded(text):
    """The CSV with six digits a number, which are more than its standard errors bear out."""
    lines = list(csv.reader(io.StringIO(text)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in lines:
        writer.writerow([_shorter(field) for field in line])
    return out.getvalue()


def _shorter(field):
    return f"{float(field):.6g}" if re.fullmatch(r"-?\d+\.\d{5,}(e-?\d+)?", field) else field


def keep_cells(name, results):
    """Write the cells to docs/results/: a table, and the arrays that the comparison reads."""
    table = DOCS / "results" / f"{name}.csv"
    text = csv_text([r.cell for r in results], [r.values for r in results])
    with atomic_path(table) as temporary:
        temporary.write_text(text if name in ALL_DIGITS else rounded(text), encoding="utf-8")
    kept = {}
    for what in ARRAYS.get(name, ()):
        numbers = [i for i, result in enumerate(results) if what in result.values]
        arrays = [np.asarray(results[i].values[what]) for i in numbers]
        kept[f"{what} cells"] = numbers
        kept[f"{what} shapes"] = [array.shape for array in arrays]
        kept[what] = smallest(np.concatenate([array.ravel() for array in arrays]))
    if kept:
        with atomic_path(table.with_suffix(".npz")) as temporary, open(temporary, "wb") as out:
            np.savez_compressed(out, **kept)
    return table


def smallest(values):
    """The array as small integers where nothing is lost by it, else in single precision."""
    with np.errstate(invalid="ignore"):
        small = values.astype(np.int16)
    return small if np.array_equal(small, values) else values.astype(np.float32)


def kept_results(name):
    """The cells that docs/results/ has, with the arrays that the comparison reads."""
    path = DOCS / "results" / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    at = list(lines[0]).index("status")
    arrays = kept_arrays(path.with_suffix(".npz"), len(lines))
    for line, of_cell in zip(lines, arrays):
        cells = [(key, value_of(cell)) for key, cell in line.items()]
        values = {key: value for key, value in cells[at + 1 :] if value is not None}
        yield Result(dict(cells[:at]), values | of_cell)


def kept_arrays(path, n):
    """The arrays that are kept beside a table of n cells, cell by cell."""
    found = [{} for _ in range(n)]
    if path.exists():
        with np.load(path) as kept:
            for what in (name for name in kept if not name.endswith((" cells", " shapes"))):
                shapes = kept[f"{what} shapes"]
                parts = np.split(kept[what], np.cumsum(shapes.prod(axis=1))[:-1])
                for cell, part, shape in zip(kept[f"{what} cells"], parts, shapes):
                    found[cell][what] = part.reshape(shape).astype(float)
    return found


def value_of(cell):
    """What a cell of a CSV was written from."""
    if cell in ("true", "false"):
        return cell == "true"
    if cell[:1] in ("{", "["):
        return json.loads(cell)
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell or None


def text_from_files(name):
    """What a section says of its cells, between its picture and its command."""
    experiment = find_experiment(name)
    results = list(kept_results(experiment.cells_name or name))
    return demoted(experiment.comparison(results).strip())


def with_texts_from_files(page, names):
    """The page with the text of every section written from docs/results/."""
    for name in names:
        text = text_from_files(name)
        first = re.escape(text.splitlines()[0])
        start = rf"(^## {re.escape(heading(find_experiment(name)))}\n.*?)^{first}$.*?"
        end = rf"(?=^`atoll reproduce {name}\b|^```sh)"
        page, n = re.subn(
            start + end, lambda m, text=text: f"{m[1]}{text}\n\n", page, flags=re.M | re.S
        )
        if n != 1:
            raise SystemExit(f"{name}: its section is found {n} times.")
    return page


def shrink(path):
    """Fewer colours, then fewer pixels, until the picture is small."""
    image = Image.open(path).convert("RGB")
    width = min(image.width, WIDEST)
    colours = 128
    while True:
        size = (width, round(image.height * width / image.width))
        small = image.resize(size, Image.Resampling.LANCZOS) if width < image.width else image
        # Widest coverage keeps the colours of thin lines, which are few pixels.
        kept = small.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        kept.save(path, optimize=True)
        if path.stat().st_size <= MOST_BYTES:
            return
        colours, width = (64, width) if colours > 64 else (64, int(0.9 * width))


def demoted(text):
    """Markdown with every heading one level further down."""
    return re.sub(r"^(#+ )", r"#\1", text, flags=re.M)


def heading(experiment):
    """The title without the paper's name, which the page has."""
    said = experiment.title.split(": ", 1)
    where = re.search(r"(figures?|table|example) [\d, and]*\d", said[0])
    return f"{where.group(0).capitalize()}: {said[-1]}" if where else said[-1]


def section(experiment, cache, commit):
    """A section of a paper's page; writes the picture and the table of its cells as well."""
    cells, results = finished(experiment, cache)
    top = f"## {heading(experiment)}\n\n**What the paper shows.** {experiment.claim}\n"
    command = f"`atoll reproduce {experiment.name}`"
    if not results:
        cells, results = finished(experiment, cache, quick=True)
        command = f"`atoll reproduce {experiment.name} --quick`, the smaller version"
    if not results:
        raise SystemExit(f"{experiment.name}: {cache} has none of its {len(cells)} cells.")
    picture = DOCS / "results" / f"{experiment.name}.png"
    with atomic_path(picture) as temporary:
        experiment.draw(results, temporary)
        shrink(temporary)
    table = keep_cells(experiment.cells_name or experiment.name, results)
    share = "all" if len(results) == len(cells) else f"{len(results)} of the"
    return f"""{top}
![{experiment.title}](../results/{picture.name})

{demoted(experiment.comparison(results).strip())}

{command} · {share} {len(cells)} cells · atoll {atoll.__version__}, commit {commit}
· {{download}}`every cell <../results/{table.name}>`
"""


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def section_on_page(page, experiment):
    """The section of an experiment as it stands."""
    return re.search(
        rf"^## {re.escape(heading(experiment))}\n.*?(?=^## |\Z)",
        page.read_text(encoding="utf-8"),
        re.M | re.S,
    ).group(0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--commit", default=git("rev-parse", "--short", "HEAD"))
    options = parser.parse_args()
    pages = DOCS / "papers"
    if options.folder is None:
        for stem, (_, _, names) in PAPERS.items():
            page = pages / f"{stem}.md"
            text = with_texts_from_files(page.read_text(encoding="utf-8"), names)
            with atomic_path(page) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return
    for folder in (pages, DOCS / "results"):
        folder.mkdir(exist_ok=True)
    for stem, (title, introduction, names) in PAPERS.items():
        page = pages / f"{stem}.md"
        parts = [
            section(find_experiment(name), options.folder / "cache", options.commit)
            if name in (options.names or names)
            else section_on_page(page, find_experiment(name))
            for name in names
        ]
        body = "\n\n".join([f"# {title}", introduction, *parts])
        text = re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"
        with atomic_path(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"{stem}.md: {', '.join(n for n in names if n in (options.names or names))}")


if __name__ == "__main__":
    main()
