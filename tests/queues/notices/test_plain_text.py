"""What users wrote is text, and nothing else, in each chat that reads the message."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from queues.notices.plain_text import INERT, JOINER, plain
from tests.support.cases import each_case
from tests.support.examples import examples

J = JOINER


@each_case(
    ("text", "shown"),
    [
        ("<!channel> <@U123> <#C1> <!subteam^S1>", f"‹!channel› ‹@{J}U123› ‹#{J}C1› ‹!subteam^S1›"),
        ("<https://evil.org|here>", f"‹https:{J}//evil.{J}org∣here›"),
        ("&lt;!here&gt; &amp;lt;", "＆lt;!here＆gt; ＆amp;lt;"),
        ("[log in](https://evil.org) @alice", f"［log in］(https:{J}//evil.{J}org) @{J}alice"),
        ("![x](x) [a]: javascript:alert(1)", f"!［x］(x) ［a］: javascript:{J}alert(1)"),
        ("@everyone @here @all @Channel", f"@{J}everyone @{J}here @{J}all @{J}Channel"),
        ("alice@example.com", f"alice@{J}example.{J}com"),
        ("**b** __u__ _i_ ~~s~~ ||spoiler|| `c`", "∗∗b∗∗ ˍˍuˍˍ ˍiˍ ∼∼s∼∼ ∣∣spoiler∣∣ ˋcˋ"),
        ("```js\ncode\n```", "ˋˋˋjs code ˋˋˋ"),
        ("alice_of_storage", "alice_of_storage"),
        ("\n# heading\n> quote\n- list", f" #{J} heading › quote - list"),
        ("a\u2028b\u2029c\r\nd\x85e", "a b c d e"),
        (":smile: :+1: :100: a:b :)", f":{J}smile: :{J}+{J}1: :{J}100: a:{J}b :{J})"),
        (
            "www.123.com evil.org/x v1.5 10.0.0.1 1.5Gi",
            f"www.{J}123.{J}com evil.{J}org/x v1.5 10.0.0.1 1.5Gi",
        ),
        ("#general $x^2$ \\*", f"#{J}general ＄x^2＄ ∖∗"),
        ("+491701234567 +(1)", f"+{J}491701234567 +{J}(1)"),
        ("z\u200bw\u202eltr\u2066\ufeff\x1b[31m\ue000", "zwltr［31m"),
        ("@\u200beveryone @\u2060here", f"@{J}everyone @{J}here"),
        ("\ud800", ""),
        ("until 2026-11-28T14:00:00Z", "until 2026-11-28T14:00:00Z"),
        ('queue "research": spec.stopPolicy by alice', 'queue "research": spec.stopPolicy by alice'),
        ("x-spec.com spec.state.evil.org", f"x-spec.{J}com spec.state.{J}evil.{J}org"),
    ],
)
def test_what_begins_a_mention_a_link_or_markup_is_text(text: str, shown: str) -> None:
    assert plain(text) == shown


_PARTS = st.sampled_from(
    [
        *("<", ">", "&", "[", "](", ")", "*", "**", "_", "__", "`", "```", "~", "~~", "||", "$", "\\", "@"),
        *("#", "!", ":", "+", ".", "/", "//", "\n", "\r", "\t", " ", "\u2028", "\u200b", "\u202e", "\u2060"),
        *("\ufeff", "http", "https://", "www.", "javascript:", "mailto:", "evil.org", "alice", "everyone"),
        *("here", "smile", "&lt;", "&#64;", "&commat;", "<@U1>", "<!here>", "<t:1>", "1.5", "14:00:00Z"),
        *("spec.state", "\ud800"),
    ]
)
#: What is left of each construct of the table of the module.
_ACTIVE = (
    re.compile(rf"[@#](?!{J})"),
    re.compile(r"[A-Za-z]://"),
    re.compile(r":[A-Za-z_+-][\w+-]*:"),
    re.compile(r"(?<![^\W_])_|_(?![^\W_])"),
    re.compile(r"[^\W\d_]\.\w|\w\.[^\W\d_]"),
    re.compile(r"\+\d"),
)


@examples(1000)
@given(st.one_of(st.lists(_PARTS, max_size=12).map("".join), st.text(max_size=30)))
def test_nothing_active_is_left_of_any_text(text: str) -> None:
    """What is left may be made plain again, and stays so."""
    shown = plain(text)
    assert not set(shown) & (set(INERT) | set("\n\r\v\f\x85\u2028\u2029"))
    seen = shown.replace(J, "")
    assert not [each for each in seen if unicodedata.category(each) in {"Cc", "Cf", "Co", "Cs"}]
    others = re.sub(r"\bspec\.state\b", "", shown)
    assert not [pattern.pattern for pattern in _ACTIVE if pattern.search(others)]
    assert plain(shown) == shown
    shown.encode()
