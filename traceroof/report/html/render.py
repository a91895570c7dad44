"""A diagnosis as one HTML page that needs nothing else: no network, no server, no other file.

Two doors carry all safety: Jinja escapes every value (autoescape is always on), and data for the
script is JSON in which no tag can end. Nothing that changes from run to run is in the page: no
time, no path beyond the names of the files, no user, no environment. The page's own policy (CSP)
lets only its three scripts and its one style sheet act, by their hashes, and forbids every request.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceroof.compare import Comparison
from traceroof.core.units import one_line, percent
from traceroof.diagnosis import caveats
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import HIDDEN_SHARE
from traceroof.kernels.bound_class import CLASSES
from traceroof.report.html import change_figures, figures, kernel_card, page, provenance
from traceroof.report.html.changes import Changes
from traceroof.report.html.chart import Chart
from traceroof.report.html.compared_card import compared_card
from traceroof.report.html.fixes import Fix, findings_of_kernels, that_fit
from traceroof.report.html.fixes import fixes as fixes_of
from traceroof.report.html.palette import COLORS
from traceroof.report.html.rank_map import rank_map
from traceroof.report.html.templates import asset, template_of
from traceroof.report.run import summary
from traceroof.report.run.source_lines import Sources
from traceroof.report.run.verdict import verdict

if TYPE_CHECKING:
    from jinja2 import Template

#: No page is larger, however many kernels ran and however long their names are. Plotly's bundle
#: takes 1.19 MB of it, the cards get what the rest leaves. The picture of many ranks and their table
#: come on top (``_of_ranks``).
MOST_BYTES = 1_600_000
# Ranks that a page holds within that, and what the row of another one takes.
_FEW_RANKS, _RANK_BYTES = 64, 330
# The cells that a row of a page with a base has more.
_CHANGE_BYTES = 120
# Counts in the text grow by a few digits when the cards are in.
_MARGIN = 1000

# Fixes in view, and how many of those whose saving nobody can say; the others are folded away.
_MOST_IN_VIEW, _WITHOUT_FIGURE = 10, 3

_BUNDLE = "plotly-basic.min.js"
# Plotly adds an empty style element and fills it by script: only the empty text needs leave.
_EMPTY = ""


def render(what: Diagnosis | Comparison, source_root: Path | None = None) -> str:
    """The page of a diagnosis; of a comparison, that of its head with every change from its base.

    source_root: folder with the source, whose hot lines then stand in the cards. The same input
    gives the same bytes.
    """
    template = template_of("report.html.j2")
    changes = Changes(what) if isinstance(what, Comparison) else None
    diagnosis = what.head if isinstance(what, Comparison) else what
    context = _context(diagnosis, changes)
    # First without cards: they get the room that is left.
    room = _room(template, context)
    while room < 0 and context["rows"]:
        # Long names of nothing but brackets and all lists full: fewer rows.
        context = _context(diagnosis, changes, most=len(context["rows"]) * 3 // 4)
        room = _room(template, context)
    cards, columns = _cards(diagnosis, changes, context, room, source_root)
    return template.render(context | _payload(context, cards, columns))


def _room(template: "Template", context: dict[str, Any]) -> int:
    """Bytes that a page without cards leaves."""
    bare = template.render(context | _payload(context, [], []))
    return MOST_BYTES + _of_ranks(context) - _MARGIN - len(bare.encode())


def _of_ranks(context: Mapping[str, Any]) -> int:
    """Bytes that many ranks may add to a page, so that their kernels keep their place."""
    beyond = max(len(context["ranks"]) - _FEW_RANKS, 0)
    picture = context["rank_map"].picture if beyond and context["rank_map"] else ""
    return beyond * _RANK_BYTES + len(picture)


def _payload(
    context: Mapping[str, Any], cards: Sequence[Any], columns: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The data of the page's script."""
    from markupsafe import Markup

    data = {
        "colors": {color: name for name, color in COLORS.items()},
        "charts": {name: _figure(chart) for name, chart in context["charts"].items() if chart},
        "cards": cards,
        "columns": columns,
        "classes": CLASSES,
        "names": context["names"][0],
        "nameOf": context["names"][1],
    }
    return {"data": Markup(json_for_script(data)), "cards": len(cards)}


def _figure(chart: Chart) -> Mapping[str, Any]:
    """The chart's figure, without a legend of its own where the page has one."""
    if not chart.legend:
        return chart.figure
    return {**chart.figure, "layout": {**chart.figure["layout"], "showlegend": False}}


def _context(
    diagnosis: Diagnosis, changes: Changes | None, most: int | None = None
) -> dict[str, Any]:
    from markupsafe import Markup

    from traceroof import __version__

    all_fixes = fixes_of(diagnosis)
    fixes = that_fit(all_fixes)
    rows, unlisted = page.rows(diagnosis, fixes, each=_CHANGE_BYTES if changes else 0, most=most)
    charts = change_figures.charts(changes) if changes else figures.charts(diagnosis)
    script, style, bundle = asset("report.js"), asset("report.css"), asset(_BUNDLE)
    if changes:
        style += asset("changes.css")
    # Markup is what this package wrote; everything else is escaped where it is shown.
    return {
        "policy": _policy(scripts=(bundle, script), styles=(style, _EMPTY)),
        "style": Markup(style),
        "script": Markup(script),
        "bundle": Markup(bundle),
        "licence": Markup(asset("plotly.LICENSE.txt")),
        "version": __version__,
        "run": diagnosis.run_name,
        "about": summary.about(diagnosis),
        "beside": [*summary.settings(diagnosis), *summary.clocks(diagnosis)],
        "verdict": verdict(diagnosis),
        "whole_words": summary.whole_words(diagnosis),
        "changes": changes,
        "care": caveats.care(diagnosis),
        "fixes": fixes,
        "fixes_open": _in_view(fixes),
        "fixes_left": len(all_fixes) - len(fixes),
        "hidden": diagnosis.hidden_findings,
        "hidden_share": percent(HIDDEN_SHARE),
        "charts": charts,
        "to_place": None if charts["roofline"] else page.roofline_command(diagnosis),
        "rows": rows,
        "names": page.name_pool(diagnosis, rows),
        "unlisted": unlisted,
        "times": page.times(diagnosis),
        "categories": sorted({row.category for row in rows}),
        "classes": sorted({row.primary_class for row in rows}),
        "gaps": page.gaps(diagnosis),
        "ranks": page.ranks(diagnosis),
        "rank_map": rank_map(diagnosis),
        "slow_ranks": page.slow_ranks(diagnosis),
        "rank_words": page.rank_words(diagnosis),
        "not_judged": [one for one in (diagnosis.not_judged,) if one],
        "sources": provenance.sources(diagnosis),
        "devices": provenance.devices(diagnosis),
        "ceilings": diagnosis.ceilings,
        "likely": summary.ceilings(diagnosis),
        "notes": provenance.notes(diagnosis),
    }


def _in_view(fixes: Sequence[Fix]) -> int:
    with_figure = sum(bool(fix.bound) for fix in fixes)
    return min(with_figure, _MOST_IN_VIEW) or _WITHOUT_FIGURE


def _cards(
    diagnosis: Diagnosis,
    changes: Changes | None,
    context: Mapping[str, Any],
    room: int,
    source_root: Path | None,
) -> tuple[list[Any], list[tuple[str, str]]]:
    """The cards of the kernels with the most time, as many as ``room`` bytes hold."""
    findings = findings_of_kernels(diagnosis, context["fixes"])
    columns = kernel_card.Columns()
    texts = Sources(source_root) if source_root else None
    cards: list[Any] = []
    for index in range(len(context["rows"])):
        made = kernel_card.card(
            diagnosis, index, columns, findings.get(index, ()), named=page.NAMED, texts=texts
        )
        if changes:
            made = _with_base(changes, index, columns, made)
        room -= len(json_for_script(made).encode()) + 1
        if room < len(json_for_script(columns.listed())):
            break
        cards.append(made)
    return cards, columns.listed()


def _with_base(
    changes: Changes, index: int, columns: kernel_card.Columns, made: dict[str, Any]
) -> dict[str, Any]:
    """The card of a kernel with the figures of the one that it is compared with."""
    base, group = None, changes.base_of(index)
    if group:
        run = changes.comparison.base
        at = changes.index("base", group)
        base = kernel_card.card(run, at, columns, (), named=page.NAMED)
    return compared_card(changes, index, made, base)


def json_for_script(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(
        _clean(value), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {one_line(str(key)): _clean(entry) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [_clean(entry) for entry in value]
    return value


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The content security policy: what may act, by hash; nothing may be fetched."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(_hash(text) for text in scripts),
        "style-src": " ".join(_hash(text) for text in styles),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
