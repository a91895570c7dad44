"""The templates of the page, and the one door that text from files goes through."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from traceroof.core import regex
from traceroof.core.units import one_line
from traceroof.report.run import summary

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_UNIT = regex.compile(r"(?<=\d) (?=%|[num\u00b5]?s\b)")


@cache
def template_of(name: str) -> "Template":
    """A template of the page: every value is escaped, and one that is missing is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    environment.filters["prose"] = prose
    environment.filters["whole"] = whole
    environment.filters["lack"] = summary.lack
    return environment.get_template(name)


def finalize(value: Any) -> Any:
    """Text from a file comes without control characters, surrogates and marks of direction."""
    return one_line(value) if type(value) is str else value


def prose(text: str) -> "Markup":
    """Prose of ours: `x` becomes code, and no line ends between a number and its unit."""
    from markupsafe import Markup, escape

    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(_UNIT.sub("\u00a0", part))
        for at, part in enumerate(parts)
    )


def whole(text: str) -> "Markup":
    """The text with what stands in brackets, ``[0-23]``, on one line."""
    from markupsafe import Markup, escape

    return Markup(_BRACKETS.sub(r'<span class="nb">\g<0></span>', str(escape(one_line(text)))))


_BRACKETS = regex.compile(r"\[[0-9,…-]{2,24}\]")


@cache
def asset(name: str) -> str:
    """The text of a file of the page."""
    return (files("traceroof.report.html") / "assets" / name).read_text("utf-8")
