"""Fonts for names in other scripts than that of matplotlib's own font."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from atoll.core.extras import import_extra
from atoll.core.remarks import warn_user

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

# Looked at before all others, since each has whole scripts and goes with a plain Latin font.
_FIRST = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
    "WenQuanYi Zen Hei",
)
_PLACEHOLDERS = "Last Resort High-Efficiency"  # matplotlib's, from 3.11 on: a box for any letter
_MOST_SHOWN = 8  # letters that a warning shows
_TOLD: set[str] = set()  # letters that a warning has named


def give_letters(texts: Iterable[Text]) -> None:
    """Give texts of a picture fonts that have their letters, and warn of letters that none has.

    The font that a text has stays for all letters that it has.
    """
    others = [text for text in texts if not text.get_text().isascii()]
    if not others:
        return
    own = _fonts_of(others[0].get_fontproperties())
    letters = dict.fromkeys("".join(text.get_text() for text in others))
    lacking = {x for x in letters if not any(_has(font, x) for font in own)}
    more = _fonts_with(lacking)
    lacking -= {x for font in more.values() for x in font}
    if lacking:
        _remark([x for x in letters if x in lacking])
        if _PLACEHOLDERS in _installed():
            more[_PLACEHOLDERS] = lacking
    for text in others if more else ():
        text.set_fontfamily([*text.get_fontfamily(), *more])


def _remark(letters: list[str]) -> None:
    """Warn of letters that no font has, once of each."""
    new = [x for x in letters if x not in _TOLD]
    if new:
        _TOLD.update(new)
        warn_user(
            f"No font has the letters {', '.join(new[:_MOST_SHOWN])}"
            f"{', …' * (len(new) > _MOST_SHOWN)}: pictures have boxes in their place. Install a "
            "font that has them, such as Noto Sans CJK for Chinese, Japanese and Korean.",
            UserWarning,
        )


def _fonts_with(letters: set[str]) -> dict[str, set[str]]:
    """Return the names of fonts that have the letters, as few as may be, and which each has."""
    paths = _installed()
    names = [*(name for name in _FIRST if name in paths), *sorted(paths.keys() - set(_FIRST))]
    has: dict[str, set[str]] = {}
    for name in names if letters else ():
        font = _opened(paths[name])  # and closed at once: a computer may have a thousand
        has[name] = {x for x in letters if name != _PLACEHOLDERS and _has(font, x)}
        if has[name] == letters:
            return {name: letters}
    found: dict[str, set[str]] = {}
    while has:
        best = max(has, key=lambda name: len(has[name] - set().union(*found.values())))
        if not has[best] - set().union(*found.values()):
            break
        found[best] = has[best]
    return found


def _fonts_of(wanted: FontProperties) -> list[Any]:
    """Return the fonts that matplotlib draws a text with, each for what those before it lack."""
    manager = import_extra("matplotlib.font_manager")
    found = []
    for family in wanted.get_family():
        one = wanted.copy()
        one.set_family([family])
        found.append(_opened(manager.findfont(one)))
    return found


def _installed() -> dict[str, str]:
    """Return the files of the fonts that matplotlib knows, by name, of each the upright one."""
    entries = import_extra("matplotlib.font_manager").fontManager.ttflist
    upright_last = sorted(entries, key=lambda entry: (entry.style == "normal", entry.weight == 400))
    return {entry.name: entry.fname for entry in upright_last}


def _opened(path: str) -> Any:
    """Return an opened font; None if it cannot be read, such as one deleted since."""
    try:
        return import_extra("matplotlib.ft2font").FT2Font(path)
    except (OSError, RuntimeError):
        return None


def _has(font: Any, letter: str) -> bool:
    return font is not None and (letter.isspace() or font.get_char_index(ord(letter)) > 0)
