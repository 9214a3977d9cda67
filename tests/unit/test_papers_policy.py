import datetime
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.papers import licences, policy, policy_file
from bundler.papers.bill import PROVIDED
from bundler.papers.policy import ALLOW, ASK, DENY
from manifests.errors import UsageError
from tests.support import bills
from tests.support.licencetexts import TEXTS


def judged(component, content: str, today: str = "2026-01-01"):
    rules = policy_file.parse(content.encode(), "p.toml")
    report = licences.read(bills.bill(components=(component,)))
    (finding,) = policy.judge(report, rules, datetime.date.fromisoformat(today))
    return finding


def wheel(declared: str = "", *found: str):
    texts = tuple(bills.text(f"licenses/{name}", TEXTS[name]) for name in found)
    return bills.wheel("a", declared=declared, texts=texts)


@pytest.mark.parametrize(
    ("declared", "verdict"),
    [
        ("MIT", ALLOW),  # by its family
        ("mpl-2.0", ALLOW),  # by its identifier, without regard to case
        ("GPL-3.0-only", DENY),
        ("GPL-2.0-only", ASK),  # no list names it
        ("GPL-3.0-only WITH GCC-exception-3.1", ALLOW),  # more exact than GPL-3.0-*
        ("GPL-3.0-only OR MIT", ALLOW),  # the mildest choice
        ("GPL-3.0-only AND MIT", DENY),
        ("(GPL-3.0-only OR LGPL-2.1-only) AND MIT", ASK),
        ("BSD License", ALLOW),  # words: by their family
        ("NVIDIA Proprietary Software", ASK),
        ("", ASK),
        (bills.PROSE, ASK),
        ("MIT AND Something", ASK),
    ],
)
def test_what_a_component_declares_is_judged(declared, verdict):
    rules = """
    allow = ["permissive", "MPL-*", "GPL-3.0-* WITH GCC-exception-*"]
    deny = ["GPL-3.0-*"]
    """
    assert judged(wheel(declared), rules).verdict == verdict


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ('allow = ["wheel/a"]\ndeny = ["MIT", "permissive"]', ALLOW),
        ('allow = ["wheel/*"]\ndeny = ["wheel/a"]', DENY),
        ('allow = ["permissive"]\ndeny = ["wheel/a@1.*"]', DENY),
        ('allow = ["permissive"]\ndeny = ["wheel/a@2.*"]', ALLOW),
        ('allow = ["permissive"]\ndeny = ["conda/a"]', ALLOW),
        ('allow = ["permissive"]\nask = ["MIT"]', ASK),
        ('allow = ["MIT"]\ndeny = ["permissive"]', ALLOW),
        ('allow = ["MIT"]\nask = ["M*"]\ndeny = ["MIT"]', DENY),
        ('allow = ["*"]', ALLOW),
    ],
)
def test_the_more_exact_rule_counts_then_the_stricter(rules, verdict):
    assert judged(wheel("MIT"), rules).verdict == verdict


def test_a_text_that_nobody_declares_counts_too():
    rules = 'allow = ["permissive"]\ndeny = ["GPL-3.0-only"]'
    assert judged(wheel("MIT", "MIT"), rules).verdict == ALLOW
    finding = judged(wheel("MIT", "MIT", "GPL-3.0"), rules)
    assert finding.verdict == DENY
    assert policy.reason(finding, "en") == "GPL-3.0 (in licenses/GPL-3.0): deny has 'GPL-3.0-only'"
    # A choice that is declared stays one, though the texts of both are there.
    assert judged(wheel("MIT OR GPL-3.0-only", "MIT", "GPL-3.0"), rules).verdict == ALLOW


def test_texts_answer_for_what_is_not_declared_and_not_for_prose():
    rules = 'allow = ["permissive"]\ndeny = ["unknown"]'
    assert judged(wheel("", "MIT"), rules).verdict == ALLOW
    assert judged(wheel("", "MIT", "GPL-3.0"), rules).verdict == ASK
    assert judged(wheel(bills.PROSE, "MIT"), rules).verdict == DENY


STRICT = 'allow = ["permissive"]\ndeny = ["proprietary", "strong copyleft"]'


@pytest.mark.parametrize(
    "declared",
    [
        "Other/Proprietary License",
        "Proprietary",
        "Commercial EULA",
        "GNU General Public License v3 (GPLv3) and MIT License",
    ],
)
def test_a_text_does_not_answer_for_words_that_ask_more(declared):
    finding = judged(wheel(declared, "MIT"), STRICT)
    assert (finding.verdict, finding.ruling.by) == (DENY, "declared")


def test_a_text_answers_for_words_of_its_own_family():
    eula = "LicenseRef-NVIDIA-End-User-License-Agreement"
    rules = 'allow = ["LicenseRef-NVIDIA-*"]'
    assert judged(wheel("Other/Proprietary License", eula), rules).verdict == ALLOW
    assert judged(wheel("Proprietary, of Acme", eula), rules).verdict == ASK


@pytest.mark.parametrize(
    "declared",
    [
        "Apache 2.0 unless you are a bank",
        "BSD-like",
        "MIT (see our website for what else is needed)",
        "Apache-2.0 WITH Something",
        "Permission is hereby granted, free of charge, to everybody who does not work at a bank "
        "and is kind to the authors.",
        "!!!",
    ],
)
def test_words_that_say_more_than_a_licence_s_name_are_to_be_asked_about(declared):
    assert judged(wheel(declared), 'allow = ["permissive"]').verdict == ASK
    assert judged(wheel(declared, "MIT"), 'allow = ["permissive"]').verdict == ASK
    assert judged(wheel(declared), 'allow = ["permissive"]\ndeny = ["unknown"]').verdict == DENY


@pytest.mark.parametrize(
    "declared",
    [
        "Apache Software License and BSD License",
        "3-Clause BSD License",
        "Apache License, Version 2.0",
        "Apache License v2.0 with LLVM Exceptions",
        "ISC License (ISCL)",
        "The Unlicense (Unlicense)",
        "Python Software Foundation License",
        "Historical Permission Notice and Disclaimer (HPND)",
        TEXTS["MIT"],
        TEXTS["Apache-2.0"],
    ],
)
def test_names_in_words_and_whole_texts_are_judged_by_their_family(declared):
    assert judged(wheel(declared), STRICT).verdict == ALLOW


def test_a_clause_in_a_text_that_forbids_to_sell_counts():
    clause = (
        "\u201cCommons Clause\u201d License Condition v1.0\n\nThe Software is provided to you by "
        "the Licensor under the License, as defined below, subject to the following condition."
    )
    texts = (bills.text("LICENSE", f"{clause}\n\n{TEXTS['MIT']}"),)
    assert judged(bills.wheel("a", declared="MIT", texts=texts), STRICT).verdict == DENY


@pytest.mark.parametrize(
    ("declared", "denied"),
    [
        ("AGPL-3.0-only", "AGPL-3.0"),
        ("AGPL-3.0-or-later", "agpl-3.0"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("GPL-2.0-or-later", "GPL-2.0+"),
        ("GPL-2.0+", "GPL-2.0"),
        ("GPL-3.0", "GPL-3.0-only"),
        ("GPL-2.0+ WITH Classpath-exception-2.0", "GPL-2.0-or-later WITH Classpath-*"),
    ],
)
def test_older_and_newer_spellings_of_a_licence_are_one(declared, denied):
    rules = f'allow = ["permissive", "strong copyleft"]\n{{}} = ["{denied}"]'
    assert judged(wheel(declared), rules.format("deny")).verdict == DENY
    assert judged(wheel(declared), rules.format("ask")).verdict == ASK


def test_a_bare_licence_in_allow_does_not_allow_later_versions():
    assert judged(wheel("GPL-2.0-or-later"), 'allow = ["GPL-2.0"]').verdict == ASK
    assert judged(wheel("GPL-2.0-only"), 'deny = ["GPL-2.0-or-later"]').verdict == ASK


@pytest.mark.parametrize("declared", ["", bills.PROSE, "Dual License", "MIT", "MIT AND Something"])
def test_everything_is_everything(declared):
    assert judged(wheel(declared), 'allow = ["permissive"]\ndeny = ["*"]').verdict == DENY
    assert judged(wheel(declared), 'allow = ["*"]').verdict == ALLOW
    assert judged(wheel(declared), 'allow = ["*"]\ndeny = ["*"]').verdict == DENY


@pytest.mark.parametrize(
    ("one", "pattern"),
    [
        (bills.wheel("evil-pad", declared="MIT"), "wheel/Evil_Pad"),
        (bills.wheel("evil-pad", declared="MIT"), "w*/evil.pad@1.*"),
        (bills.conda("_evil_mutex", declared="MIT"), "conda/_Evil_mutex"),
        (bills.model(declared="MIT"), "model/Qwen3.5-*"),
    ],
)
def test_names_are_compared_as_their_index_does(one, pattern):
    assert judged(one, f'allow = ["permissive"]\ndeny = ["{pattern}"]').verdict == DENY
    pardoned = f'deny = ["*"]\n[exceptions."{pattern}"]\nreason = "agreed"'
    assert judged(one, pardoned).verdict == ALLOW


def test_names_of_models_and_versions_are_taken_as_they_are():
    assert judged(bills.model(declared="MIT"), 'deny = ["model/qwen3.5-*"]').verdict == ASK
    assert judged(wheel("MIT"), 'deny = ["wheel/a@1-0"]').verdict == ASK


def test_what_the_host_has_already_is_nobody_s_to_let_in():
    one = bills.wheel("a", scope=PROVIDED, declared="GPL-3.0-only")
    finding = judged(one, 'deny = ["strong copyleft"]')
    assert finding.verdict == ALLOW
    assert "host" in policy.reason(finding, "en")


EXCEPTION = """
allow = ["permissive"]
deny = ["strong copyleft"]
[exceptions."wheel/a*"]
reason = "agreed"
until = 2026-06-30
"""


def test_an_exception_has_a_last_day():
    last = judged(wheel("GPL-3.0-only"), EXCEPTION, "2026-06-30")
    assert (last.verdict, last.pardon and last.pardon.reason) == (ALLOW, "agreed")
    over = judged(wheel("GPL-3.0-only"), EXCEPTION, "2026-07-01")
    assert (over.verdict, over.pardon) == (DENY, None)
    assert policy.reason(over, "en").endswith("its exception ended on 2026-06-30")
    assert "2026-06-30" in policy.reason(over, "zh")


def test_the_day_is_that_of_the_bundle_unless_told():
    rules = policy_file.parse(EXCEPTION.replace("2026-06-30", "2025-11-30").encode(), "p")
    bill = bills.bill(components=(wheel("GPL-3.0-only"),))  # of 2025-12-01
    (finding,) = policy.judge(licences.read(bill), rules)
    assert finding.verdict == DENY
    (finding,) = policy.judge(licences.read(bill), rules, datetime.date(2025, 11, 30))
    assert finding.verdict == ALLOW


def test_an_exception_that_nothing_needs_is_told():
    rules = policy_file.parse(EXCEPTION.encode(), "p")
    for declared, count in (("MIT", 1), ("GPL-3.0-only", 0)):
        bill = bills.bill(components=(wheel(declared),))
        assert len(policy.unused(policy.judge(licences.read(bill), rules), rules)) == count


def test_enforcing_stops_with_every_finding_and_the_mend():
    rules = policy_file.parse(b'allow = ["permissive"]\ndeny = ["proprietary"]', "p")
    with pytest.raises(UsageError, match="1 denied, 4 to be asked about") as caught:
        policy.enforce(bills.bill(), rules)
    first, *others = caught.value.findings
    assert first.startswith("deny: wheel nvidia-cublas-cu12 12.8.4.1: ")
    assert len(others) == 4 and all(one.startswith("ask: ") for one in others)
    assert "--accept-licences" in caught.value.mend
    with pytest.raises(UsageError, match=r"1 denied$") as caught:
        policy.enforce(bills.bill(), rules, accepted=True)
    assert "--accept-licences" not in caught.value.mend


def test_enforcing_lets_pass_what_fits_or_was_accepted():
    rules = policy_file.parse(b'allow = ["permissive"]', "p")
    findings = policy.enforce(bills.bill(), rules, accepted=True)
    assert len(findings) == len(bills.components())
    assert {one.verdict for one in findings} == {ALLOW, ASK}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('allow = ["MIT" "ISC"]', "line 1"),
        ('allow = ["MIT"]\nallow = []\n', "line 2"),
        ("", "none of them names anything"),
        ("allow = []\ndeny = []", "none of them names anything"),
        ('allow = "MIT"', "allow: a list"),
        ("deny = [1]", "deny: a list"),
        ('permit = ["MIT"]', "permit: unknown key"),
        ('allow = ["permisive"]', "allow: 'permisive' fits no licence"),
        ('allow = ["GPL-3.0-only WITH nothing-*"]', "fits no licence"),
        ('allow = ["MIT"]\nexceptions = 1', "exceptions: a table"),
        ('allow = ["MIT"]\n[exceptions."torch"]\nreason = "r"', "exceptions.'torch': names no"),
        ('deny = ["wheels/evil"]', "deny: 'wheels/evil' fits no component"),
        ('deny = ["Wheel/evil"]', "deny: 'Wheel/evil' fits no component"),
        ('allow = ["wheel/"]', "allow: 'wheel/' fits no component"),
        ('ask = ["wheel/@1.0"]', "ask: 'wheel/@1.0' fits no component"),
        (
            'allow = ["MIT"]\n[exceptions."wheels/a"]\nreason = "r"',
            "'wheels/a': names no component",
        ),
        ('allow = ["MIT"]\n[exceptions."wheel/a"]', "exceptions.'wheel/a'.reason"),
        (f"allow = [{'9' * 5000}]", "no TOML"),
        (f"allow = {'[' * 3000}", "no TOML"),
        (
            f'allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = "r"\nuntil = 0x{"f" * 5000}',
            "no date: int",
        ),
        (
            f'allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = "r"\nuntil{".a" * 3000} = 1',
            "no date: dict",
        ),
        ('allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = " "', "exceptions.'wheel/a'.reason"),
        (
            'allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = "r"\nuntil = "soon"',
            "no date: 'soon'",
        ),
        (
            'allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = "r"\nuntil = 2026-01-01T00:00:00Z',
            "exceptions.'wheel/a'.until",
        ),
        ('allow = ["MIT"]\n[exceptions."wheel/a"]\nreason = "r"\nby = "x"', "nothing else"),
    ],
)
def test_a_wrong_policy_names_the_line_or_the_key(tmp_path, content, told):
    path = tmp_path / "policy.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        policy.load(path)
    assert caught.value.what.startswith(f"{path}: ")
    assert told in caught.value.what
    assert caught.value.mend


def test_a_policy_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        policy.load(tmp_path / "none.toml")
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no TOML"):
        policy.load(tmp_path / "odd")


RULES = ("*", "MIT", "GPL-*", "GPL-3.0-only", "permissive", "strong copyleft", "unknown", "wheel/a")


REPORTS = [
    licences.read(bills.bill(components=(wheel(declared),)))
    for declared in ("MIT", "GPL-3.0-only", "")
]


@given(*(st.sets(st.sampled_from(RULES)) for _ in range(3)), st.sampled_from(REPORTS))
def test_adding_to_deny_never_lets_more_in(allow, ask, deny, report):
    weights = []
    for denied in itertools.accumulate([(), *((one,) for one in sorted(deny))]):
        (finding,) = policy.judge(report, policy.Policy(tuple(allow), tuple(ask), denied))
        weights.append((ALLOW, ASK, DENY).index(finding.verdict))
    assert weights == sorted(weights)
