"""HTML from Python: text is escaped unless it is markup."""

from __future__ import annotations

from eagerstream._support.markup import Markup, element, ends, joined, plain


def test_only_markup_is_markup() -> None:
    """Texts and values of attributes are escaped, whatever they hold; None and False are nothing."""
    made = element("p", "<b>&", Markup("<i>x</i>"), None, title='"<\x00>"', class_="a", hidden=False, open=True)
    assert made == '<p title="&quot;&lt;&gt;&quot;" class="a" open>&lt;b&gt;&amp;<i>x</i></p>'
    assert isinstance(made, Markup)
    assert joined("a\nb", made).startswith("a b<p")
    assert plain("abcdef", 4) == "abc…"
    assert ends("abcdefghij", 10) == "abcdefghij"
    assert ends("abcdefghij", 7) == "ab…ghij"
    assert plain("\ud800\ufffe\x9b1mx") == "\ufffd\ufffdx"
