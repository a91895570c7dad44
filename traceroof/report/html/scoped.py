"""The style of the page for a part of another page, such as the output of a notebook.

The rules are those of ``assets/report.css``, within one element; its colours follow the theme of the
notebook where it tells one, else the browser's.
"""

import re
from collections.abc import Mapping
from functools import cache

from traceroof.report.html.templates import asset

#: The class of the element that the style is for.
SCOPE = "traceroof"

_VARIABLE = re.compile(r"(--[\w-]+): ([^;]+);")
_DARK = re.compile(r':root\[data-theme="dark"\] \{([^}]*)\}')
# What a part of a page has no use for: what scripts need, printing, the page itself.
_UNUSED = re.compile(
    r"^(#table|\.filters|\.skip|\.top|nav|dialog|\.keys|\.noscript|button|kbd|html|\[hidden\]|:root"
    r"|section|:focus|\.fold\.more|\.chart|@page)"
)
# Themes as the notebooks tell them: JupyterLab and Notebook 7, VS Code, Colab.
_LIGHT_IN = ('body[data-jp-theme-light="true"]', "body.vscode-light", 'html[theme="light"]')
_DARK_IN = (
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    "body.vscode-high-contrast",
    'html[theme="dark"]',
)


@cache
def colors(*, dark: bool) -> Mapping[str, str]:
    """The colours of the page by name, without the dashes."""
    found: dict[str, str] = {}
    for name in ("report.css", "changes.css"):
        css = asset(name)
        blocks = (
            _DARK.findall(css) if dark else re.findall(r"^:root \{([^}]*)\}", css, re.MULTILINE)
        )
        for block in blocks:
            found |= {key[2:]: value for key, value in _VARIABLE.findall(block)}
    return found


@cache
def style() -> str:
    """The style sheet of a part of a page."""
    light, dark = (_block(colors(dark=one)) for one in (False, True))
    element = f".{SCOPE}"
    return "\n".join(
        [
            f"{element} {{{light} color-scheme: light;}}",
            f"@media (prefers-color-scheme: dark) {{{element} {{{dark} color-scheme: dark;}}}}",
            f"{_within(_LIGHT_IN)} {{{light} color-scheme: light;}}",
            f"{_within(_DARK_IN)} {{{dark} color-scheme: dark;}}",
            f"@scope ({element}) {{",
            *_rules(asset("report.css")),
            *_rules(asset("changes.css")),
            asset("notebook.css"),
            "}",
        ]
    )


def _block(values: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def _within(themes: tuple[str, ...]) -> str:
    return ", ".join(f"{one} .{SCOPE}" for one in themes)


def _rules(css: str) -> list[str]:
    """The rules on one line each that are of use; ``body`` is the element itself."""
    kept, depth = [], 0
    for rule in re.split(r"(?<=\})\s*\n", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)):
        opened = rule.count("{") - rule.count("}")
        # Rules for other widths and for paper are of the page.
        if not depth and opened == 0 and not _UNUSED.match(rule.strip()):
            kept.append(re.sub(r"\s+", " ", rule.replace("body {", ":scope {")).strip())
        depth = max(depth + opened, 0)
    return [one for one in kept if one]
