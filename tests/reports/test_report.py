import inspect
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy import sparse
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atoll.core.labels import parse_labels
from atoll.diagnostics import summarise, verdict
from atoll.estimators import AtollClassifier, make_preprocessor
from atoll.estimators.explanation import Assumption, Explanation
from atoll.estimators.held_out import HeldOut, score
from atoll.plotting import letters
from atoll.reports import inference_section, report, words, write_report
from atoll.reports.advice import State, what_to_do_next
from atoll.reports.confusion import confusion_section
from atoll.reports.table import RowTable, SparseTable

pytestmark = pytest.mark.usefixtures("hurried")  # the classifiers are not on trial

SECTIONS = ["fitted", "classes", "calibration", "maps", "uncertain", "chains"]


class StandIn(ClassifierMixin, BaseEstimator):
    """Naive Bayes on the labelled rows, with the attributes of a sampled model."""

    def __init__(self, n_chains=4, checkpoint=None, unlabelled="auto", random_state=None):
        self.n_chains = n_chains
        self.checkpoint = checkpoint
        self.unlabelled = unlabelled
        self.random_state = random_state

    def fit(self, X, y):
        labels = parse_labels(y, unlabelled=self.unlabelled)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        values = np.asarray(X, dtype=float)[labels.is_labelled]
        self.model_ = GaussianNB(var_smoothing=0.1).fit(values, labels.codes[labels.is_labelled])
        self.classes_ = labels.classes
        self.kernel_ = 2.0 * RBF(1.5)
        rng = np.random.default_rng(self.random_state)
        self.draws_ = {
            "log_length_scale": rng.normal(size=(self.n_chains, 60, 2)),
            "log_likelihood": rng.normal(size=(self.n_chains, 60)),
        }
        summary = summarise(self.draws_)
        mixed, sentence = verdict(summary)
        self.diagnostics_ = {
            **summary,
            "acceptance": {"hmc": 0.71},
            "jitter": 1e-9,
            "n_chains": self.n_chains,
            "n_draws": 60,
            "interrupted": False,
            "mixed": mixed,
            "verdict": sentence,
        }
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(np.asarray(X, dtype=float))


class Page(HTMLParser):
    """The tags, attributes and text of a page, its heading structure checked on the way."""

    VOID = frozenset({"meta", "img", "br", "wbr", "link", "hr", "input"})

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(source)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.words.append(data)

    def values(self, name):
        return [value for _, attribute, value in self.attributes if attribute == name]


def problem(n_features=2, n_classes=2, n_per_class=25, n_labelled=6, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), n_per_class)
    centres = rng.normal(size=(n_classes, n_features)) * 3
    X = centres[truth] + rng.normal(size=(len(truth), n_features))
    names = np.array([f"kind {k}" for k in range(n_classes)], dtype=object)
    y = names[truth]
    y[np.arange(len(y)) % n_per_class >= n_labelled] = None
    return X, y


@pytest.fixture
def blank_pictures(monkeypatch):
    """Draw but do not render: for tests of the words alone."""
    for module in (report, inference_section):
        monkeypatch.setattr(module, "png_address", lambda figure: "data:image/png;base64,")


def write(tmp_path, model, X, y, **settings):
    path = tmp_path / "report.html"
    write_report(model, X, y, path, **settings)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("n_features", "n_classes"), [(1, 5), (2, 2), (13, 5)])
def test_report_has_every_section_and_every_picture_a_description(tmp_path, n_features, n_classes):
    X, y = problem(n_features, n_classes)
    page = Page(write(tmp_path, StandIn(random_state=0).fit(X, y), X, y))
    assert page.open == []
    assert [value for tag, name, value in page.attributes if (tag, name) == ("section", "id")] == (
        SECTIONS
    )
    assert page.tags.count("h1") == 1
    assert page.tags.count("img") == 6
    alternatives = page.values("alt")
    assert len(alternatives) == 6
    assert min(map(len, alternatives)) > 40
    assert ("The deeper the colour" in page.text) is (n_features == 2)  # more: dots on white
    assert ("The most probable class of each row" in page.text) is (n_features == 13)


def test_text_in_pictures_has_nine_pixels_or_more_on_a_phone(tmp_path, monkeypatch):
    """Of 390 pixels, where pictures stand below one another."""
    shown = []
    for module in (report, inference_section):
        monkeypatch.setattr(module, "png_address", lambda figure: shown.append(figure) or "data:")
    X, y = problem(2, 3)
    model = StandIn(random_state=0).fit(X, y)
    model.objectives_ = np.linspace(-9.0, -1.0, 20)
    write(tmp_path, model, X, y)
    assert len(shown) == 7
    for figure in shown:
        pixels = (390 - 2 * 4) / (72 * figure.get_figwidth())  # of a point
        sizes = [t.get_size() for t in figure.findobj(Text) if t.get_text() and t.get_visible()]
        assert min(sizes) * pixels >= 9


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("n_labelled", [8, 25])
def test_cells_of_wide_tables_know_their_columns_as_cards_on_a_phone_show_them(
    tmp_path, n_labelled
):
    X, y = problem(9, n_labelled=n_labelled)
    source = write(tmp_path, StandIn().fit(X, y), X, y)
    tables = re.findall(r'<table class="\w+ stack".*?</table>', source, re.DOTALL)
    assert len(tables) == 2
    for table in tables:
        head, body = table.split("<tbody>")
        names = [re.sub("<[^>]*>", "", name) for name in re.findall(r"<th [^>]*>(.*?)</th>", head)]
        (row, *_) = re.findall(r"<tr role=\"row\">.*?</tr>", body, re.DOTALL)
        told = re.findall(r'data-name="([^"]*)"', row)
        assert len(told) == len(names) == len(re.findall("<t[dh] ", row))
        assert [name.removeprefix("predicted ").lower() for name in told] == [
            name.lower() for name in names
        ]
    assert "scroll sideways" not in source


def test_report_is_self_contained(tmp_path):
    X, y = problem()
    source = write(tmp_path, StandIn(random_state=0).fit(X, y), X, y)
    page = Page(source)
    assert "://" not in source
    assert all(value.startswith("data:image/png;base64,") for value in page.values("src"))
    assert all(value.startswith("#") for value in page.values("href"))
    targets = set(page.values("id"))
    assert all(value[1:] in targets for value in page.values("href"))
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "url(" not in source
    assert "@import" not in source


@pytest.mark.usefixtures("blank_pictures")
def test_report_says_what_was_fitted_on_what(tmp_path):
    X, y = problem(n_features=13, n_classes=3)
    model = make_pipeline(StandardScaler(), StandIn(random_state=17, n_chains=3)).fit(X, y)
    page = Page(
        write(tmp_path, model, X, y, title="Beans", about={"Data": "beans.csv", "Grown in": 1998})
    )
    for phrase in (
        "Beans",
        "StandIn",
        "StandardScaler()",
        "75, of which 18 labelled",
        "3: kind 0, kind 1, kind 2",
        "13: x0, x1",
        "Seed 17",
        "n_chains=3",
        "RBF(length_scale=1.5)",
        "Grown in 1998",
        "scikit-learn",
        "3 chains of 60 draws",
        "Acceptance, hmc 71%",
        "Largest jitter used 1.0e-09",
    ):
        assert phrase in page.text


def test_same_arguments_give_the_same_file(tmp_path):
    X, y = problem()
    model = StandIn(random_state=0).fit(X, y)
    assert write(tmp_path, model, X, y) == write(tmp_path, model, X, y)


def test_hostile_names_are_shown_as_text(tmp_path):
    hostile = "<script>alert('x')</script>\"&amp;$\\frac{"
    X, y = problem()
    y = np.array([None if label is None else label + hostile for label in y], dtype=object)
    frame = pd.DataFrame(X, columns=[hostile, "b" + hostile])
    frame.index = pd.Index([f"{i}<img src=x onerror=alert(1)>" for i in range(len(X))], name="<b>")
    model = StandIn().fit(frame, y)
    model.diagnostics_["verdict"] = hostile
    model.diagnostics_["r_hat"][hostile] = 1.0
    model.draws_[hostile] = np.zeros((4, 60))
    for about in (hostile, {hostile: hostile}):
        page = Page(write(tmp_path, model, frame, y, title=hostile, about=about))
        assert page.open == []
        assert page.tags.count("img") == 6
        assert not {"script", "b"} & set(page.tags)
        assert not [name for _, name, _ in page.attributes if name.startswith("on")]
        assert page.text.count("<script>alert('x')</script>") >= 5
        assert all(value.startswith("data:") for value in page.values("src"))


def test_nothing_is_written_when_drawing_fails(tmp_path, monkeypatch):
    def broken(*args, **settings):
        raise RuntimeError("no ink")

    monkeypatch.setattr(report, "entropy_map", broken)
    X, y = problem()
    model = StandIn().fit(X, y)
    with pytest.raises(RuntimeError, match="no ink"):
        write_report(model, X, y, tmp_path / "new.html", cross_validate=False)
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "old.html").write_text("<html>what stood here</html>")
    with pytest.raises(RuntimeError, match="no ink"):
        write_report(model, X, y, tmp_path / "old.html", cross_validate=False)
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"]
    assert (tmp_path / "old.html").read_text() == "<html>what stood here</html>"


def test_a_folder_that_is_missing_is_found_out_before_the_long_work(tmp_path, monkeypatch):
    def refit(*args, **settings):
        raise AssertionError("refitted before looking at the path")

    monkeypatch.setattr(report, "held_out_probabilities", refit)
    X, y = problem()
    with pytest.raises(ValueError, match="does not exist"):
        write_report(StandIn().fit(X, y), X, y, tmp_path / "nowhere" / "report.html")


def test_an_estimator_that_is_not_fitted_or_no_classifier_is_refused(tmp_path):
    X, y = problem()
    with pytest.raises(ValueError, match="LinearRegression, which has no class probabilities"):
        write_report(LinearRegression(), X, y, tmp_path / "report.html")
    with pytest.raises(NotFittedError):
        write_report(StandIn(), X, y, tmp_path / "report.html")


@pytest.mark.usefixtures("blank_pictures")
def test_report_says_why_other_commands_may_have_other_scores_and_rows(tmp_path):
    X, y = problem()
    source = write(tmp_path, StandIn().fit(X, y), X, y)
    said = " ".join(source.split())
    assert "<code>atoll compare</code> holds the same rows out" in said
    assert "did not go through <code>make_preprocessor</code>. Otherwise they may differ" in said
    assert "<code>atoll next</code> may list others: it mixes in rows drawn at random" in said


@pytest.mark.usefixtures("blank_pictures")
def test_the_menu_has_the_words_of_the_headings(tmp_path):
    X, y = problem()
    source = write(tmp_path, StandIn().fit(X, y), X, y)
    menu = dict(re.findall(r'<a href="#(\w+)">(.*?)</a>', source))
    for name, heading in re.findall(r'<section id="(\w+)">\s*<h2>(.*?)</h2>', source):
        assert menu[name] == heading


@pytest.mark.usefixtures("blank_pictures")
def test_mostly_blank_rows_are_not_asked_for_but_named(tmp_path):
    X, y = problem(n_features=3)
    free = np.flatnonzero([label is None for label in y])
    shown = pd.DataFrame(X.copy(), columns=list("abc"))
    shown.loc[free[2:], ["a", "b"]] = np.nan  # most of the table: that is how it is
    table = RowTable(shown.copy(), first=0)
    model = StandIn().fit(X, y)
    told = Page(write(tmp_path, model, X, y, cross_validate=False, table=table)).text
    assert "left to the end" not in told
    shown.loc[free[5:], ["a", "b"]] = 1.0
    table = RowTable(shown, first=0)
    source = write(tmp_path, model, X, y, cross_validate=False, table=table)
    blank = free[2:5].tolist()
    assert not set(blank) & {int(cells[0]) for cells in uncertain_rows(source)}
    assert f"Rows {blank[0]}, {blank[1]} and {blank[2]} are left to the end" in Page(source).text


@pytest.mark.usefixtures("blank_pictures")
def test_report_works_without_chains(tmp_path):
    X, y = problem()
    labelled = np.array([label is not None for label in y])
    model = GaussianNB().fit(X[labelled], y[labelled].astype(str))
    page = Page(write(tmp_path, model, X, y, cross_validate=False))
    assert "chain" not in page.text  # it has none, and nothing is said of them
    assert page.values("id") == [name for name in SECTIONS if name != "chains"]
    assert "Cross-validation was turned off" in page.text
    assert page.tags.count("img") == 3


@pytest.mark.usefixtures("blank_pictures")
def test_chains_that_did_not_mix_are_marked(tmp_path):
    X, y = problem()
    model = StandIn(random_state=0).fit(X, y)
    model.diagnostics_["r_hat"]["log_likelihood"] = 1.31
    model.diagnostics_["r_hat"]["log_length_scale"] = 1.0
    model.diagnostics_["ess_bulk"]["log_likelihood"] = float("nan")
    model.diagnostics_.update(mixed=False, verdict="They disagree.", interrupted=True)
    source = write(tmp_path, model, X, y, cross_validate=False)
    page = Page(source)
    assert "not mixed" in page.text
    assert "They disagree." in page.text
    assert "Sampling was interrupted" in page.text
    assert "▲ 1.310" in page.text
    assert "▲ undefined" in page.text
    assert "▲ 1.000" not in page.text
    assert page.text.index("1.310") < page.text.index("1.000")  # the worst first


def test_marks_and_verdict_share_their_limits():
    defaults = inspect.signature(verdict).parameters
    assert defaults["r_hat_limit"].default == inference_section.R_HAT_LIMIT
    assert defaults["ess_limit"].default == inference_section.ESS_LIMIT


@pytest.mark.parametrize(
    ("flags", "status", "tone"),
    [
        ({}, "settled", "good"),
        ({"few_draws": True}, "rough", ""),
        ({"troubled": True}, "settled", ""),
        ({"tells_little": True}, "settled", ""),
    ],
)
def test_how_sampling_went_is_read_from_flags_whatever_words_the_verdict_has(flags, status, tone):
    said = "Beware: probabilities are rough. Fix: a larger n_draws." if not flags else "It went so."
    model = SimpleNamespace(diagnostics_={"mixed": True, "verdict": said, **flags})
    found = inference_section.inference_section(model)
    assert (found["status"], found["tone"]) == (status, tone)
    assert found["trust"] == ("bad" if "tells_little" in flags else tone)


@pytest.mark.parametrize(("columns", "said"), [((), "column 1 alone"), (("a", "b"), "b alone")])
def test_a_column_alone_has_the_name_that_the_page_knows(columns, said):
    assumptions = (Assumption("column 1", 0.7, 5.0), Assumption("nothing", 0.3, 0.0))
    verdict = {"verdict": 'The labels follow "column 1 alone".'}
    model = SimpleNamespace(explanation_=Explanation(assumptions, 20), diagnostics_=verdict)
    found = inference_section.inference_section(model, columns)
    assert said in found["verdict"]
    assert said in found["assumptions"]["headline"]
    assert found["assumptions"]["rows"][0][2] == said


def test_columns_that_the_fit_has_named_keep_their_names():
    assumptions = (Assumption("column 0", 0.7, 5.0), Assumption("nothing", 0.3, 0.0))
    explanation = Explanation(assumptions, 20, columns=("column 1", "b"))
    verdict = {"verdict": 'The labels follow "column 1 alone".'}
    model = SimpleNamespace(explanation_=explanation, diagnostics_=verdict)
    found = inference_section.inference_section(model, ["column 1", "b"])
    assert '"column 1 alone"' in found["verdict"]
    assert found["assumptions"]["rows"][0][2] == "column 1 alone"


@pytest.mark.usefixtures("blank_pictures")
def test_very_many_recorded_values_do_not_swell_the_page(tmp_path):
    X, y = problem()
    model = StandIn(random_state=0).fit(X, y)
    model.draws_["many"] = np.zeros((4, 60, 500))
    for key in ("r_hat", "ess_bulk", "ess_tail"):
        model.diagnostics_[key] |= {f"many[{i}]": 1.0 for i in range(500)}
    page = Page(write(tmp_path, model, X, y, cross_validate=False))
    assert "472 more with a lower R-hat" in page.text
    assert "491 more recorded values are not drawn" in page.text


def uncertain_rows(source):
    """Cells of the table of the least certain rows, as lists of text."""
    section = source[source.index('id="uncertain"') : source.index('id="chains"')]
    body = section[section.index("<tbody>") : section.index("</tbody>")]
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in body.split("</tr>")
        if "<tr" in row
    ]


@pytest.mark.usefixtures("blank_pictures")
def test_rows_to_label_are_unlabelled_uncertain_and_all_different(tmp_path):
    X, y = problem(n_features=8, n_classes=3)
    free = np.flatnonzero([label is None for label in y])
    model = StandIn(random_state=0).fit(X, y)  # learns from labelled rows alone
    unsure = free[model.predict_proba(X[free]).max(axis=1).argmin()]
    X[free[1::2]] = X[unsure]  # half of the unlabelled rows are copies of the least certain one
    p = model.predict_proba(X)
    source = write(tmp_path, model, X, y, cross_validate=False)
    rows = uncertain_rows(source)
    listed = [int(cells[0]) for cells in rows]
    assert len(rows) == 10
    assert set(listed) <= set(free.tolist())
    assert len(np.unique(X[listed], axis=0)) == 10
    for cells, row in zip(rows, listed):
        assert cells[1] == f"kind {p[row].argmax()}"
        assert cells[2].replace("&gt;", ">") == words.probability(p[row].max())
        assert [float(cell) for cell in cells[4:]] == pytest.approx(X[row, :5], rel=1e-3)
    assert "the first 5 of your 8 columns are shown" in Page(source).text
    assert "10 rows, counted from 0" in Page(source).text


@pytest.mark.usefixtures("blank_pictures")
def test_rows_of_a_data_frame_are_named_by_their_index(tmp_path):
    X, y = problem()
    frame = pd.DataFrame(X, columns=["length", "width"])
    model = StandIn().fit(frame, y)
    plain = uncertain_rows(write(tmp_path, model, frame, y, cross_validate=False))
    frame.index = pd.Index([f"plant {i}" for i in range(len(X))], name="plant")
    source = write(tmp_path, model, frame, y, cross_validate=False)
    named = uncertain_rows(source)
    assert [cells[1] for cells in named] == [f"plant {cells[0]}" for cells in plain]
    assert '<th scope="col">plant</th>' in source


@pytest.mark.usefixtures("blank_pictures")
def test_rows_are_told_in_the_columns_and_numbers_of_the_users_own_table(tmp_path):
    X, y = problem()
    table = RowTable(
        pd.DataFrame({"mass in g": 1000 + 10 * X[:, 0], "site": ["Dream"] * len(X)}),
        np.array([f"P{i:03d}" for i in range(len(X))], dtype=object),
        "tag",
    )
    model = StandIn().fit(X, y)
    source = write(tmp_path, model, X, y, cross_validate=False, table=table)
    for cells in uncertain_rows(source):
        row = int(cells[0]) - 1
        assert cells[1] == f"P{row:03d}"
        assert float(cells[5]) == pytest.approx(1000 + 10 * X[row, 0], rel=1e-3)
        assert cells[6] == "Dream"
    assert "counted from 1 as in the file" in Page(source).text


@pytest.mark.usefixtures("blank_pictures")
def test_confusions_come_with_the_intervals_of_their_shares(tmp_path):
    X, y = problem(n_classes=3, n_labelled=6)
    model = StandIn(random_state=0).fit(X, y)
    page = Page(write(tmp_path, model, X, y, n_splits=2))
    assert "What is taken for what" in page.text
    found = confusion_section(np.eye(2)[[0, 0, 1, 0]], np.array([0, 0, 1, 1]), ["a", "b"])
    interval = binomtest(1, 2).proportion_ci(method="wilson")
    cell = found["matrix"][1]["cells"][0]
    assert (cell["n"], cell["share"]) == (1, "50%")
    assert cell["interval"] == f"{words.percent(interval.low)} to {words.percent(interval.high)}"


def test_many_classes_have_a_list_of_confusions_instead_of_a_matrix():
    K, rng = 20, np.random.default_rng(0)
    codes = rng.integers(K, size=400)
    p = np.eye(K)[np.where(rng.random(400) < 0.3, (codes + 1) % K, codes)]
    found = confusion_section(p, codes, [f"c{k}" for k in range(K)])
    assert found["matrix"] is None
    counts = [row["n"] for row in found["listed"]]
    assert counts == sorted(counts, reverse=True)
    assert all(int(r["predicted"][1:]) == (int(r["truth"][1:]) + 1) % K for r in found["listed"])


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(
    ("n_labelled", "expected"),
    [(1, "Label at least two rows of every class"), (25, "Every row is labelled")],
)
def test_the_page_says_what_to_do_next_step_by_step(tmp_path, n_labelled, expected):
    X, y = problem(n_labelled=n_labelled)
    source = write(tmp_path, StandIn().fit(X, y), X, y, n_splits=2)
    box = re.search(r'<div class="note next">.*?</div>', source, re.DOTALL)[0]
    assert "What to do next." in box
    assert f"<li>{expected}" in box


def advice(n_right, n_rows, **changes):
    held = np.full((n_rows, 2), [0.9, 0.1])
    scores = score(held, (np.arange(n_rows) >= n_right).astype(int))
    counts, sure = np.array([n_rows // 2] * 2), np.array([[0.99, 0.01]] * 50)
    usual = State(True, "Fine.", scores, 1.0, counts, ["a", "b"], sure, 10)
    return " ".join(what_to_do_next(usual._replace(**changes)))


def test_advice_puts_first_what_matters_most():
    assert "too few to rely on" in advice(7, 8)
    assert "Label the 10 rows listed" in advice(7, 8)
    assert "more labels would add little" in advice(190, 200)
    assert "were not calibrated" in advice(190, 200, by_chance=0.0)
    unsure = np.array([[0.6, 0.4]] * 50)
    assert "0% of the unlabelled rows have a clear" in advice(190, 200, probabilities=unsure)
    assert "probabilities may be taken as they are" in advice(190, 200)
    assert "would show no more than a large fault" in advice(30, 30)
    nothing = advice(190, 200, tells_little=True)
    assert nothing.startswith("Do not rely on this fit yet")
    assert "would add little" not in nothing
    broken = advice(190, 200, went_well=False, verdict="The chains disagree.")
    assert broken.startswith("First see to the fit itself")
    assert "The chains disagree." in broken
    pointed = advice(190, 200, went_well=False, verdict="Do not.\n- They disagree.\n- All rows.")
    assert "provisional. They disagree." in pointed
    assert "All rows." not in pointed


@pytest.mark.usefixtures("blank_pictures")
def test_every_point_of_a_verdict_has_a_line_of_its_own(tmp_path):
    X, y = problem()
    model = StandIn().fit(X, y)
    model.diagnostics_["verdict"] = "Trust it.\n- The first.\n- The second."
    source = write(tmp_path, model, X, y, cross_validate=False)
    assert "<strong>Trust it.</strong>" in source
    assert "<li>The first.</li><li>The second.</li>" in source


@pytest.mark.usefixtures("blank_pictures")
def test_with_every_row_labelled_the_least_certain_show_their_labels(tmp_path):
    X, y = problem(n_labelled=25)
    source = write(tmp_path, StandIn().fit(X, y), X, y, cross_validate=False)
    page = Page(source)
    assert "Every row is labelled" in page.text
    assert "Label given" in page.text
    assert "Clear rows" not in page.text
    rows = uncertain_rows(source)
    assert [cells[1] for cells in rows] == [y[int(cells[0])] for cells in rows]


@pytest.mark.usefixtures("blank_pictures")
def test_few_labels_come_with_a_caution_and_many_without(tmp_path):
    X, y = problem(n_labelled=6)
    page = Page(write(tmp_path, StandIn().fit(X, y), X, y))
    assert "Caution: only 12 labelled rows." in page.text
    assert "95% interval" in page.text
    X, y = problem(n_per_class=40, n_labelled=30)
    page = Page(write(tmp_path, StandIn().fit(X, y), X, y))
    assert "Caution" not in page.text
    assert "Scores on 60 held-out labelled rows" in page.text


@pytest.mark.usefixtures("blank_pictures")
def test_a_class_with_one_label_is_explained_instead_of_scored(tmp_path):
    X, y = problem(n_labelled=1)
    page = Page(write(tmp_path, StandIn().fit(X, y), X, y))
    assert "not put to the test" in page.text
    assert "has 1 labelled row" in page.text
    assert "Held-out accuracy" not in page.text


@pytest.mark.usefixtures("blank_pictures")
def test_labels_of_minus_one_mean_what_they_meant_at_fit(tmp_path):
    X, y = problem()
    codes = np.array([-1 if label is None else int(label[-1]) for label in y])
    model = StandIn(unlabelled=-1).fit(X, codes)
    assert "50, of which 12 labelled" in Page(write(tmp_path, model, X, codes)).text
    signs = np.where(np.arange(50) < 25, -1, 1)
    model = StandIn().fit(X, signs)
    assert "50, of which 50 labelled" in Page(write(tmp_path, model, X, signs)).text


def test_letters_that_no_font_has_are_remarked_on_once_and_written_in_the_text(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(letters, "_installed", dict)
    monkeypatch.setattr(letters, "_TOLD", set("さ幅"))
    X, y = problem()
    y = np.array([None if label is None else f"類{label[-1]} 🐟" for label in y], dtype=object)
    with pytest.warns(UserWarning, match="No font has the letters") as warned:
        source = write(tmp_path, StandIn().fit(X, y), X, y, feature_names=["長さ", "幅"])
    said = [str(one.message).partition(":")[0] for one in warned]
    assert said == ["No font has the letters 類, 🐟", "No font has the letters 長"]
    assert "類0 🐟" in source
    assert "長さ" in source


@pytest.mark.usefixtures("blank_pictures")
def test_names_that_begin_alike_are_told_apart_in_every_table(tmp_path):
    X, y = problem(n_classes=3)
    begun = "a name whose beginning the classes share, for more than fifty characters, "
    y = np.array([None if name is None else begun + name for name in y], dtype=object)
    source = write(tmp_path, StandIn(random_state=0).fit(X, y), X, y)
    for section in ("classes", "calibration"):
        table = source[source.index(f'<section id="{section}"') :].split("</section>")[0]
        assert all(f"kind {k}</th>" in table or f"kind {k} <span" in table for k in range(3))
    assert all(re.search("….*kind [012]$", cells[1]) for cells in uncertain_rows(source))


@pytest.mark.usefixtures("blank_pictures")
def test_very_many_classes_have_no_endless_picture(tmp_path):
    X, y = problem(n_classes=60, n_per_class=4, n_labelled=2)
    source = write(tmp_path, StandIn(random_state=0).fit(X, y), X, y, cross_validate=False)
    assert "Bar chart" not in source
    assert "60 classes" in source


def test_the_verdict_on_calibration_says_whether_too_sure_or_not_sure_enough(monkeypatch):
    monkeypatch.setattr(report, "png_address", lambda figure: "")
    codes = np.arange(200) % 4 > 0  # three of four are of class 1
    for claimed, said in ((0.99, "too sure. They claim that 99%"), (0.55, "not sure enough.")):
        p = np.tile([1 - claimed, claimed], (200, 1))
        section = report._calibration(HeldOut(p, codes.astype(int), 5, "", ()), 0, ["a", "b"])
        assert said in section["verdict"]
        assert "and 75% were" in section["verdict"]


@pytest.mark.parametrize(("claimed", "is_sure"), [(0.99, True), (0.6, False)])
def test_only_sure_rows_are_said_to_have_been_given_to_a_wrong_class(
    tmp_path, monkeypatch, claimed, is_sure
):
    p, wrong = np.array([claimed, 1 - claimed]), np.arange(12) % 2
    held_out = HeldOut(np.where(wrong[:, None], p, p[::-1]), wrong, 5, "", ())
    monkeypatch.setattr(report, "held_out_probabilities", lambda *args, **kwargs: held_out)
    monkeypatch.setattr(report, "png_address", lambda figure: "")
    X, y = problem()
    told = Page(write(tmp_path, StandIn().fit(X, y), X, y)).text
    assert "log-loss is worse than that of predicting every row by the class shares" in told
    assert ("with much confidence" in told) == is_sure
    assert ("no more than how common each class is" in told) == (not is_sure)


@pytest.mark.usefixtures("blank_pictures")
def test_rows_with_blank_cells_are_reported_of_a_pipeline_that_fills_them(tmp_path):
    X, y = problem(n_features=3, n_labelled=24)  # one row of each class has no label
    y[-1] = "kind 1"
    X[24, 1] = np.nan
    model = make_pipeline(SimpleImputer(), StandIn()).fit(X, y)
    told = Page(write(tmp_path, model, X, y, cross_validate=False)).text
    assert "1 row, counted from 0" in told
    assert "3: x0, x1, x2" in told
    assert "A dash (–) is a blank cell" in told


def test_numbers_are_written_for_people():
    assert [words.number(value) for value in (0.12345, -1e-9, np.inf, np.nan)] == [
        "0.123",
        "0.000",
        "∞",
        "undefined",
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100%"),
        (0.99999, ">99.99%"),
        (0.9996, "99.96%"),
        (0.004, "0.40%"),
        (0.00001, "<0.01%"),
        (0.0, "0%"),
    ],
)
def test_percentages_round_to_all_and_none_only_when_exact(share, text):
    assert words.percent(share) == text


@pytest.mark.usefixtures("blank_pictures")
def test_sparse_rows_are_reported_without_being_made_dense(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    code = np.arange(40) % 2
    words = rng.poisson(0.4, (40, 30)) + 3.0 * (np.arange(30) % 2 == code[:, None])
    X = sparse.csr_array(words * (rng.random((40, 30)) < 0.4))
    y = np.where(np.arange(40) < 12, code, -1)
    model = make_pipeline(MultinomialNB()).fit(X[y >= 0], y[y >= 0])

    def refuse(*_, **__):
        raise AssertionError("made dense")

    monkeypatch.setattr(sparse.csr_array, "toarray", refuse)
    names = [f"word {j}" for j in range(30)]
    path = tmp_path / "words.html"
    write_report(model, X, y, path, feature_names=names, cross_validate=False)
    page = path.read_text(encoding="utf-8")
    assert "the ten main directions of the\n    30 sparse features" in page
    assert "Largest features" in page
    row = SparseTable(X, names).row(5, [0])
    largest = np.argsort(-X[[5]].tocoo().data, kind="stable")[:5]
    which = X[[5]].tocoo().col[largest]
    assert row["cells"][0]["text"] == ", ".join(f"word {j}" for j in which)


NOTES = [
    "The boat left the harbour <b>before</b> the storm & its crew never saw its pier again.",
    "Flour, water and salt make a bread that keeps for a week, if the crust is dark and not thin.",
    "A storm kept every boat in the harbour.",
    "Knead the bread with flour and water.",
    "The harbour lay behind the storm.",
    "Salt the water and add the flour.",
]


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("kind", ["list", "table"])
def test_rows_of_texts_are_shown_by_how_they_begin(tmp_path, kind):
    y = np.array(["sea", "kitchen", "sea", "kitchen", None, None], dtype=object)
    y[:2] = None
    step, X = TfidfVectorizer(), NOTES
    if kind == "table":
        step = make_preprocessor(texts=["note"])
        X = pd.DataFrame({"note": NOTES, "length": np.arange(6.0)})
    model = make_pipeline(step, AtollClassifier(metric="cosine", random_state=0)).fit(X, y)
    source = write(tmp_path, model, X, y, cross_validate=False)
    shown = Page(source).text
    assert f"{NOTES[0][:79]}…" in shown
    assert f"{NOTES[1][:79]}…" in shown
    assert "<b>before" not in source
    assert type(step).__name__ in shown  # what prepared the rows


def test_a_sparse_row_of_nothing_has_a_dash():
    assert SparseTable(sparse.csr_array((1, 3)), ["a", "b", "c"]).row(0, [0])["cells"][0] == {
        "text": "–",
        "word": True,
    }


def test_limits_of_a_share_have_as_many_digits_as_each_other():
    assert words.percents(0.911, 0.9971) == ("91.1%", "99.7%")
    assert words.percents(0.5, 1.0) == ("50%", "100%")
    assert words.percents(0.0, 0.004) == ("0.0%", "0.4%")
    assert words.percents(0.95, 0.99991) == ("95.00%", "99.99%")
