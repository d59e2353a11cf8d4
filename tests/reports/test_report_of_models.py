import html

import numpy as np
import pytest

from atoll.datasets import hide_labels, make_crescents
from atoll.estimators import MODELS, DPMixtureClassifier, GraphGPClassifier, ProbitGPClassifier
from atoll.plotting import decision_map, entropy_map
from atoll.reports import figures, inference_section, report, write_report
from walking import short

# Chains this short do not mix, and the models say so; here only the report is on trial.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("hurried"),  # the classifiers are not on trial
]

# One with chains, one with an ascent, one with neither.
RENDERED = (ProbitGPClassifier, DPMixtureClassifier, GraphGPClassifier)


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request):
    X, truth = make_crescents(24, random_state=0)[:2]
    y = hide_labels(truth, per_class=4, random_state=0)
    model = short(MODELS[request.param], unlabelled=-1)
    return model.fit(X, y), X, y


def test_every_model_can_be_reported(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MAP_RESOLUTION", 10)
    monkeypatch.setattr(figures, "DOTS_PER_INCH", 30)
    model, X, y = fitted
    if not isinstance(model, RENDERED):  # for the others, drawing without rendering will do
        for module in (report, inference_section):
            monkeypatch.setattr(module, "png_address", lambda figure: "data:image/png;base64,")
    path = tmp_path / "report.html"
    write_report(model, X, y, path, n_splits=2)
    page = html.unescape(path.read_text(encoding="utf-8"))
    assert f"{type(model).__name__} on 24 rows" in page
    assert "24, of which 8 labelled" in page
    assert "Scores on 8 held-out labelled rows" in page
    first, *points = model.diagnostics_["verdict"].split("\n")
    assert f"<strong>{first}</strong>" in page
    for point in points:
        assert f"<li>{point.removeprefix('- ')}</li>" in page
    for name in model.draws_:
        assert f"<code>{name}</code>" in page
    # Only chains that were compared with one another are asked whether they mixed.
    assert ("Did the chains mix?" in page) == bool(model.diagnostics_.get("r_hat"))
    # Chains and ascents have a picture of their own; a model of neither kind has none.
    n_traces = sum(int(np.prod(np.shape(values)[2:])) for values in model.draws_.values())
    n_paths = min(n_traces, 2) if model.draws_ else int(hasattr(model, "objectives_"))
    assert page.count("<img ") == 4 + n_paths  # traces stand in two columns


def test_every_model_can_be_mapped(fitted):
    model, X, y = fitted
    for draw in (decision_map, entropy_map):
        (image,) = draw(model, X, y, resolution=8).images
        assert np.isfinite(image.get_array()).all()
