"""How results show themselves in a notebook.

Results know nothing of renderers: what draws them is looked up by its name when a notebook asks, like a
plug-in.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceroof.core.units import no_commands, one_line

if TYPE_CHECKING:
    from collections.abc import Callable


class Displayed:
    """A result that a notebook shows as HTML, and whose charts are Plotly figures.

    Classes say in ``said`` what they are in one line: a notebook keeps that line beside the HTML.
    """

    @property
    def said(self) -> str:
        """The result in one line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {no_commands(one_line(self.said))}>"

    def _repr_html_(self) -> str:
        made: str = _renderer("html_of")(self)
        return made

    @property
    def figures(self) -> Any:
        """The charts of the report as Plotly figures: ``figures.roofline()`` and so on; ``dir`` lists
        them. Of a run, those of its diagnosis."""
        return _renderer("figures_of")(self)


def _renderer(name: str) -> "Callable[[Displayed], Any]":
    found: Callable[[Displayed], Any] = getattr(
        import_module("traceroof.report.html.notebook"), name
    )
    return found
