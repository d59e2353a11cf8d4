"""The command `atoll label`: options, and what is said before the page opens."""

from __future__ import annotations

import os
import warnings
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.fit_commands import Unlabelled
from atoll.cli.fitting import about_repeated_names, markers_in, refuse_repeated
from atoll.cli.settings import choose
from atoll.cli.terminal import one_line_errors, speaker
from atoll.core.extras import import_extra

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from atoll.app import Features, LabelLog, Rows, Session

PASSWORD = "ATOLL_PASSWORD"

Data = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="Table, .csv, .tsv or .parquet, or a folder of pictures."),
]
Target = Annotated[
    str, typer.Option(metavar="COLUMN", help="Column of labels; blank cells are to be labelled.")
]
Classes = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Classes, in the order of their keys.")
]
Text = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of texts to show and to learn from.")
]
Image = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of paths of pictures.")]
Audio = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of paths of sounds.")]
Media = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of these files; that of the table by default."),
]
FeatureFile = Annotated[
    Path | None,
    typer.Option(
        "--features",
        metavar="FILE",
        help="Embedding to learn from, .npy or .parquet, a line per row.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column not to learn from; repeatable.")
]
Encode = Annotated[
    bool,
    typer.Option("--encode/--no-encode", help="Learn from columns of categories too, or not."),
]
ModelName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Name of a model, as in `atoll models`; the one of `atoll fit` and `atoll next` by "
        "default, graph-gp is quicker.",
    ),
]
TargetError = Annotated[
    float,
    typer.Option(
        metavar="SHARE", help="Share of wrong rows at which you may stop.", min=0.0001, max=0.5
    ),
]
Confidence = Annotated[
    float, typer.Option(metavar="SHARE", help="Of the limit of the error.", min=0.51, max=0.999)
]
AuditEvery = Annotated[
    int,
    typer.Option(
        metavar="N", help="Every N-th row is drawn at random, to measure the error.", min=2
    ),
]
Labels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File of answers; DATA.labels.jsonl by default.")
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export", metavar="FILE", help="Write the labels given so far to this table, and leave."
    ),
]
Port = Annotated[
    int, typer.Option(metavar="N", help="Port; 0 takes any that is free.", min=0, max=65535)
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen at.")]
AllowNetwork = Annotated[
    bool,
    typer.Option(
        "--allow-network",
        help=f"Let others reach the page at --host, by the password in {PASSWORD}.",
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of every random number.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the address.")]


@one_line_errors
def label(
    data: Data,
    target: Target,
    classes: Classes = None,
    unlabelled: Unlabelled = None,
    text: Text = None,
    image: Image = None,
    audio: Audio = None,
    media: Media = None,
    features: FeatureFile = None,
    drop: Drop = None,
    encode: Encode = True,
    model: ModelName = "atoll",
    target_error: TargetError = 0.05,
    confidence: Confidence = 0.95,
    audit_every: AuditEvery = 5,
    labels: Labels = None,
    export: Export = None,
    port: Port = 0,
    host: Host = "127.0.0.1",
    allow_network: AllowNetwork = False,
    no_browser: NoBrowser = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Label rows on a page in the browser, the most telling ones first.

    Every answer is kept in a file beside the data, which itself is never written; the same command
    goes on where it stopped. Ctrl-C ends it.
    """
    # Many parameters because a command's options are its parameters.
    from atoll.app import LabelLog, Session, make_features
    from atoll.app.export import check_export_path, default_export_path

    if export is None:
        import_extra("starlette")
        import_extra("uvicorn")
    say = speaker(quiet)
    password = os.environ.get(PASSWORD) or None
    view, column = _view(text, image, audio)
    rows = _read(data, target, classes, unlabelled, view, column, media)
    log_path = labels if labels is not None else data.parent / f"{data.name}.labels.jsonl"
    if export is not None:
        out = check_export_path(export, rows, [features, log_path])
        with LabelLog(log_path, rows.subject()) as log:
            _warn(log)
            _write_export(rows, log, out, say)
        return
    listener = _listen(host, port, allow_network, password)
    with listener:
        learner = _learner(
            model,
            classes=list(rows.given.classes) or None,
            audit_every=audit_every,
            target_error=target_error,
            confidence=confidence,
            unlabelled=None,
            random_state=seed,
        )
        made = make_features(rows, file=features, encode=encode, drop=drop or (), random_state=seed)
        out = check_export_path(default_export_path(data), rows, [features, log_path])
        with LabelLog(log_path, rows.subject()) as log:
            _warn(log)
            _describe(rows, made, log, say)
            session = Session(
                rows,
                made,
                learner,
                log,
                target_error=target_error,
                audit_every=audit_every,
                random_state=seed,
            )
            _serve(session, listener, host, password if allow_network else None, out, no_browser)
            _say_goodbye(session, say)


def _read(
    data: Path,
    target: str,
    classes: str | None,
    unlabelled: list[str] | None,
    view: str | None,
    column: str | None,
    folder: Path | None,
) -> Rows:
    from atoll.app import read_rows

    if data.is_file():
        refuse_repeated(data, data, target)
    names = [name for name in (classes or "").split(",") if name.strip()]
    markers = [None if word == "none" else word for word in markers_in(unlabelled)]
    return read_rows(
        data,
        target,
        view=view,
        column=column,
        folder=folder,
        classes=names,
        unlabelled=markers if len(markers) > 1 else markers[0],
    )


def _listen(host: str, port: int, allow_network: bool, password: str | None) -> socket.socket:
    from atoll.app.server import bind, check_address

    check_address(host, allow_network, password)
    return bind(host, port)


def _serve(
    session: Session,
    listener: socket.socket,
    host: str,
    password: str | None,
    out: Path,
    no_browser: bool,
) -> None:
    from sklearn.exceptions import ConvergenceWarning

    from atoll.app.server import make_app, make_door, serve

    port = listener.getsockname()[1]
    door = make_door(host, port, password)
    address = f"http://{host}:{port}/" + (f"?token={door.token}" if door.token else "")

    def announce() -> None:
        typer.echo(f"Open {address}")
        if password is not None:
            typer.echo("The connection is not encrypted: use it in a network that you trust.")
        if not no_browser:
            webbrowser.open(address)

    app = make_app(session, door, out)
    warnings.simplefilter("ignore", ConvergenceWarning)  # the next fit comes in a moment
    session.start()
    serve(app, listener, started=announce)


def _warn(log: LabelLog) -> None:
    if log.remark is not None:
        typer.echo(f"atoll: warning: {log.remark}", err=True)


def _view(text: str | None, image: str | None, audio: str | None) -> tuple[str | None, str | None]:
    given = {"text": text, "image": image, "audio": audio}
    named = [(kind, column) for kind, column in given.items() if column is not None]
    if len(named) > 1:
        raise ValueError(
            f"--{named[0][0]} and --{named[1][0]} cannot go together; rows are shown in one way."
        )
    return named[0] if named else (None, None)


def _learner(model: str, **settings: Any) -> Any:
    from atoll.active import ActiveLearner
    from atoll.estimators import CLASSIFIERS

    kind = choose(CLASSIFIERS, model, "model", "atoll models")
    return ActiveLearner(kind(), **settings)


def _describe(rows: Rows, features: Features, log: LabelLog, say: Callable[[str], None]) -> None:
    n, given = len(rows.frame), sum(label is not None for label in rows.given.labels)
    say(f"{rows.path}: {n} rows, {given} labelled in the file.")
    if not rows.is_folder:
        for line in about_repeated_names(rows.frame, rows.path, rows.path, rows.target):
            say(line)
    if rows.target not in rows.frame.columns and not rows.is_folder:
        say(f"The table has no column {rows.target!r} yet; it begins empty.")
    shown = {"table": "their cells", "text": "texts", "image": "pictures", "audio": "sounds"}
    by = f" of the column {rows.view.column!r}" if rows.view.column and not rows.is_folder else ""
    say(f"Rows are shown as {shown[rows.view.kind]}{by}; the model learns from {features.how}.")
    lost = {**rows.unseen, **features.lost}
    if lost:
        say(f"{len(lost)} of {n} rows are left out; the first: {next(iter(lost.values()))}.")
    kept = len(log.answers.given)
    say(f"Answers are kept in {log.path}" + (f"; {kept} are there already." if kept else "."))


def _write_export(rows: Rows, log: LabelLog, path: Path, say: Callable[[str], None]) -> None:
    from atoll.app.export import write_labels

    write_labels(rows, log.answers, path)
    n = sum(event.kind == "label" for event in log.answers.given.values())
    say(f"{len(rows.frame)} rows with {n} labels given here, saved in {path}.")


def _say_goodbye(session: Session, say: Callable[[str], None]) -> None:
    answers = session.log.answers
    session.close()
    n = sum(event.kind == "label" for event in answers.given.values())
    say(f"{n} labels are kept in {session.log.path}; the same command goes on from here.")
