"""Names in Markdown stay text: GitHub makes no link, mention or markup of them."""

import re

import pytest

from traceroof.report.common import markdown

# What GitHub's renderer turns into links in plain text, escaped or not (GFM 6.9 and "Autolinked
# references and URLs" of GitHub's documentation).
_LINKS = re.compile(r"@\w|#\d|GH-\d|https?://|ftp://|mailto:\w|xmpp:\w|www\.", re.IGNORECASE)
_PAYLOADS = (
    "#1", "# a heading", "fix #123", "owner/repo#123", "GH-12", "gh-12", "@someone", "@org/team",
    "https://example.com/x", "HTTP://EXAMPLE.COM", "http://[::1]/", "www.example.com",
    "ftp://example.com", "mailto:a@b.example", "xmpp:a@b.example", "a@b.example",
    "[a](https://example.com)", "![a](https://example.com/x.png)", "<https://example.com>",
    "[a]: https://example.com", "*a*", "_a_", "~~a~~", "`a`", "``a`", "a|b", "$a$", "$$a$$",
    "<b>a</b>", "<!-- a -->", "</details>", "<script>a</script>", "<img src=x onerror=a>",
    "> a", "- a", "a\n# b", "a\r\n::error::b", "a\x1b[31mb", "a\x1b]8;;https://x\x07b",
    "a\u202eb", "a\x00b", "&lt;b&gt;",
)  # fmt: skip


@pytest.mark.parametrize("payload", _PAYLOADS)
def test_no_text_becomes_a_link(payload: str) -> None:
    """GIVEN a name that holds markup, links or control characters WHEN written as plain text THEN
    nothing in it links, every sign of markup is escaped, and it is one line of printable text."""
    written = markdown.text(payload)
    assert _LINKS.search(payload) is None or _LINKS.search(written) is None
    assert _LINKS.search(written) is None
    assert re.search(r"(?<!\\)[`*_\[\]<>#|$~]", written) is None
    assert all(sign.isprintable() or sign == "\u200b" for sign in written)


def test_ordinary_names_are_unchanged() -> None:
    """GIVEN names without markup WHEN written THEN nothing is put into them."""
    for name in ("sgemm 128x64", "width w:3", "step 12", "C# interop"):
        assert "\u200b" not in markdown.text(name)
