"""The doctor's table is proven by its logs, and ranks by evidence."""

import bz2
import gzip
import io
import json
import lzma
import re
import shlex
import string
from graphlib import TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.doctor import Answer, diagnose, from_text, logfile, read
from manifests.doctor.lines import clean, shown
from manifests.doctor.ranking import CONFIRMED, CONTRADICTED, EARLIER, FOLLOWS, LIKELY, POSSIBLE
from manifests.doctor.rules import TOPICS, Rule, probes, rules
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from tests.support import sickness

CASES = sickness.by_rule()
IDS = [rule.id for rule in rules()]
BY_ID = {rule.id: rule for rule in rules()}
START = "(APIServer pid=41) INFO 11-30 12:00:02 [utils.py:233] non-default args: {'port': 8000}\n"
UP = "(APIServer pid=41) INFO:     Application startup complete.\n"


def hosts(*holding, **others):
    """A host where these probes hold, and `others` as given."""

    def ask(names):
        said = {name.replace("_", "-"): holds for name, holds in others.items()}
        return {
            name: Answer(True if name in holding else said.get(name), f"said of {name}")
            for name in names
        }

    return ask


def standings(diagnosis):
    return {one.match.rule.id: one.standing for one in diagnosis.findings}


# The table


def test_there_are_many_and_each_has_a_name_of_its_own():
    assert len(set(IDS)) == len(IDS) >= 75


def test_topics_are_files_and_files_are_topics():
    folder = sickness.DATA.parents[2] / "manifests/doctor"
    assert sorted([*TOPICS, "probes"]) == sorted(path.stem for path in folder.glob("*.toml"))


@pytest.mark.parametrize("rule", rules(), ids=IDS)
def test_a_rule_is_whole(rule):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert rule.patterns and rule.source
    assert rule.exit_code is not ExitCode.OK
    assert not rule.phase or rule.phase in ("start", "run")
    assert set(rule.asks) <= probes().keys() and len(set(rule.asks)) == len(rule.asks)
    assert all(probes()[name].lasting for name in rule.requires)
    assert set(rule.masks) <= set(IDS) - {rule.id}
    assert len(rule.cause) <= 250 and len(rule.mend) <= 360
    assert re.search(r"[\u4e00-\u9fff]", rule.cause_zh)
    assert rule.mend_zh
    groups = {name for pattern in rule.expressions for name in pattern.groupindex}
    for text in (rule.cause, rule.mend, rule.cause_zh, rule.mend_zh):
        named = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        assert named <= groups
        assert not re.search(r"https?://\w|www\.|\bpip install\b|\bwget\b|\bdownload\b", text)


def test_no_circle_of_rules_hides_all_of_them():
    TopologicalSorter({rule.id: rule.masks for rule in rules()}).prepare()


def test_every_probe_is_asked_by_a_rule():
    assert {name for rule in rules() for name in rule.asks} == probes().keys()


# Each rule is proven


def test_each_rule_has_a_case_and_each_case_a_rule():
    assert sorted(CASES) == sorted(IDS)


@pytest.mark.parametrize("rule", rules(), ids=IDS)
def test_a_rule_is_proven_by_its_logs(rule):
    unused = set(rule.patterns)
    for case in CASES[rule.id]:
        log = from_text("log", case.text)
        diagnosis = diagnose([log], hosts(*case.host))
        assert diagnosis.causes[0].match.rule is rule, standings(diagnosis)
        assert diagnosis.exit_code == rule.exit_code or rule.hint
        cause, mend = rule.words(diagnosis.causes[0].match.values)
        assert "…" not in cause + mend, "a name that this wording does not say"
        unused -= {p.pattern for p in rule.expressions if p.search(log.text)}
    assert not unused


@pytest.mark.parametrize(
    ("rule", "path"), tuple(sickness.whole_logs()), ids=lambda value: getattr(value, "name", "")
)
def test_whole_logs(rule, path):
    diagnosis = diagnose([read(path)])
    assert [one.match.rule.id for one in diagnosis.causes][:1] == ([rule] if rule else [])
    if not rule:
        assert not diagnosis.findings
        assert diagnosis.exit_code is ExitCode.OK
        assert not diagnosis.trouble


# Ranking


def test_what_the_host_confirms_comes_before_what_came_first():
    log = from_text(
        "log",
        f"{START}RuntimeError: can't start new thread\nOSError: [Errno 98] Address already in use",
    )
    assert diagnose([log]).causes[0].match.rule.id == "threads-limited"
    confirmed = diagnose([log], hosts("port-taken"))
    assert confirmed.causes[0].match.rule.id == "port-taken"
    assert confirmed.causes[0].standing == CONFIRMED
    assert "said of port-taken" in confirmed.text()


def test_what_the_host_contradicts_comes_last_and_says_why():
    log = from_text("log", f"{START}ImportError: libcuda.so.1: cannot open shared object file\n")
    diagnosis = diagnose([log], hosts(driver_missing=False, libcuda_missing=False))
    assert standings(diagnosis)["driver-missing"] == CONTRADICTED
    assert "said of driver-missing" not in diagnosis.text()
    assert "does not agree: said of driver-missing" in diagnosis.text(everything=True)
    one = diagnose([log], hosts(driver_missing=False))
    assert standings(one)["driver-missing"] == LIKELY  # the library may be what is missing


def test_what_holds_on_half_of_all_hosts_confirms_nothing():
    log = from_text("log", f"{START}LocalEntryNotFoundError: x\n")
    diagnosis = diagnose([log], hosts("no-route"))
    assert standings(diagnosis) == {"offline-repository": LIKELY}
    assert "agrees: said of no-route" in diagnosis.text()


def test_what_passes_by_itself_does_not_contradict():
    log = from_text("log", f"{START}OSError: [Errno 98] Address already in use\n")
    diagnosis = diagnose([log], hosts(port_taken=False))
    assert standings(diagnosis) == {"port-taken": LIKELY}


def test_a_cause_comes_before_what_follows_from_it():
    (case,) = (one for one in CASES["bfloat16-unsupported"])
    diagnosis = diagnose([from_text("log", case.text)])
    assert standings(diagnosis) == {"bfloat16-unsupported": LIKELY, "engine-failed": FOLLOWS}
    assert "follows from bfloat16-unsupported" in diagnosis.text(everything=True)


def test_an_earlier_start_is_past_once_the_server_has_come_up():
    broken = f"{START}OSError: [Errno 98] Address already in use\n"
    assert standings(diagnose([from_text("log", broken + START)]))["port-taken"] == LIKELY
    healed = diagnose([from_text("log", broken + START + UP)])
    assert standings(healed) == {"port-taken": EARLIER}
    assert healed.exit_code is ExitCode.OK
    assert "earlier start" in healed.text(everything=True)


def test_memory_at_the_start_and_memory_at_work_are_two_things():
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert standings(diagnose([from_text("log", START + line)])) == {
        "gpu-out-of-memory-start": LIKELY
    }
    assert standings(diagnose([from_text("log", START + UP + line)])) == {
        "gpu-out-of-memory-run": LIKELY
    }


def test_a_request_that_was_refused_is_no_illness_of_the_server():
    diagnosis = diagnose([from_text("log", f"{START}{UP}The model `x` does not exist.\n")])
    assert standings(diagnosis) == {"request-names-other-model": POSSIBLE}
    assert diagnosis.exit_code is ExitCode.OK


def test_a_killed_engine_is_not_taken_for_an_orderly_stop():
    dead = "(APIServer pid=41) ERROR 11-30 18:00:00 [a.py:1] x.EngineDeadError: gone\n"
    stop = (
        "(EngineCore pid=769) INFO 11-30 18:00:00 [core.py:1210] Shutdown initiated (timeout=0)\n"
    )
    assert standings(diagnose([from_text("log", START + UP + dead)])) == {"engine-gone": LIKELY}
    assert not diagnose([from_text("log", START + UP + stop + dead)]).findings


def test_the_first_log_is_the_most_telling():
    logs = [
        from_text("newer", f"{START}OSError: [Errno 28] No space left on device\n"),
        from_text("older", f"OSError: [Errno 98] Address already in use\n{START}"),
    ]
    assert diagnose(logs).causes[0].match.rule.id == "disk-full"


# Honesty


def test_what_nobody_knows_is_said_with_its_lines():
    log = from_text("log", f"{START}Traceback (most recent call last):\nOddError: the moon\nx: y\n")
    diagnosis = diagnose([log])
    assert not diagnosis.known
    assert diagnosis.exit_code is ExitCode.SERVER
    assert "not known" in diagnosis.text() and "the moon" not in str(diagnosis.findings)
    assert diagnosis.as_record()["unexplained"]


def test_what_is_contradicted_is_not_explained():
    log = from_text("log", "sh: python: cannot execute binary file: Exec format error\n")
    diagnosis = diagnose([log], hosts(machine_mismatch=False))
    assert diagnosis.exit_code is ExitCode.SERVER
    assert "not known" in diagnosis.text()


def test_a_consequence_alone_is_not_called_known():
    diagnosis = diagnose([from_text("log", CASES["engine-failed"][0].text)])
    assert not diagnosis.known
    assert "the moon is in the wrong phase" in diagnosis.text()


def test_nothing_is_nothing():
    diagnosis = diagnose([from_text("log", "")])
    assert diagnosis.exit_code is ExitCode.OK
    assert "nothing known to be wrong" in diagnosis.text()
    assert diagnose([]).exit_code is ExitCode.OK


def test_values_of_the_log_stand_in_the_mend():
    newer, older = (CASES["context-too-long"][0], CASES["context-too-long"][1])
    assert "max_model_len = 75696" in diagnose([from_text("log", newer.text)]).text()
    assert "max_model_len = 24320" in diagnose([from_text("log", older.text)]).text()


def test_another_hosts_log_gets_the_commands_to_look_with():
    text = diagnose([from_text("log", CASES["uvm-missing"][0].text)]).text()
    assert "look: ls -l /dev/nvidia-uvm" in text


def test_in_chinese():
    log = from_text("log", CASES["custom-code"][0].text)
    assert "trust_remote_code = true" in diagnose([log], language="zh").text()
    assert "自带 Python 代码" in diagnose([log], language="zh").text()


def test_secrets_are_not_shown():
    line = "error: unrecognized arguments: --api-key very-secret --token hf_abcdefghijklmnop\n"
    diagnosis = diagnose([from_text("log", line)], hide=lambda text: text.replace("very", "no"))
    for text in (diagnosis.text(everything=True), json.dumps(diagnosis.as_record())):
        assert "hf_abcdefghijklmnop" not in text and "very-secret" not in text


# Lines


@pytest.mark.parametrize(
    ("raw", "text", "level"),
    [
        (
            "\x1b[0;36m(EngineCore_DP0 pid=68)\x1b[0;0m ERROR 02-06 16:34:06 [core.py:936] x",
            "x",
            "ERROR",
        ),
        (
            "(APIServer pid=1) (EngineCore pid=8) (Worker_TP0 pid=9) INFO 02-06 16:34:06 [a:1] x",
            "x",
            "INFO",
        ),
        ("(VllmWorker rank=0 pid=71558) ERROR 07-31 08:44:05 [m.py:594]   File", "  File", "ERROR"),
        ("(RayWorkerWrapper pid=4009, ip=10.0.0.9) [rank1]: x", "x", ""),
        ("vllm-1  | INFO 01-01 00:00:00 [a.py:1] x", "x", "INFO"),
        ("Aug 19 18:34:27 gpu01 vllm[8727]: (EngineCore pid=8727) x", "x", ""),
        ("2026-11-30T12:00:00.123Z x", "x", ""),
        ("[2026-11-30 12:00:00,123] x", "x", ""),
        ("Loading:   0%|\rLoading: 100%|done\r\n", "Loading: 100%|done", ""),
        ("\x1b]0;title\x07x", "x", ""),
        ("INFO:     Application startup complete.", "INFO:     Application startup complete.", ""),
        ("plain (pid=3) text", "plain (pid=3) text", ""),
    ],
)
def test_decoration_is_taken_off(raw, text, level):
    assert clean(raw) == (text, level)


@given(st.text())
def test_a_line_stays_a_line(text):
    line, _ = clean(text)
    assert len(line) <= len(text)
    assert shown(line).isprintable()


# Logs as files

FAILURE = "OSError: [Errno 98] Address already in use"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_any_encoding_and_compression(tmp_path, pack, encoding):
    path = tmp_path / "log"
    path.write_bytes(pack(f"{START}{FAILURE}\n".encode(encoding)))
    diagnosis = diagnose([read(path)])
    assert standings(diagnosis) == {"port-taken": LIKELY}
    assert diagnosis.findings[0].match.line == 2


def test_a_compressed_log_that_is_cut_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "log.gz"
    noise = "".join(f"{number * 7919 % 10007}\n" for number in range(20_000))
    path.write_bytes(gzip.compress(f"{FAILURE}\n{noise}".encode())[:-500])
    diagnosis = diagnose([read(path)])
    assert "port-taken" in standings(diagnosis)
    assert "damaged or cut" in diagnosis.text()


def test_of_a_huge_log_both_ends_are_kept_and_lines_keep_their_numbers(tmp_path):
    path = tmp_path / "log"
    lines = ["first", *(f"noise {number}" for number in range(200_000)), FAILURE, "last"]
    path.write_text("\n".join(lines) + "\n")
    log = read(path, head=1000, tail=1000)
    assert sum(map(len, log.lines)) < 600_000  # a chunk or two
    assert log.lines[0] == "first"
    (finding,) = diagnose([log]).findings
    assert finding.match.line == lines.index(FAILURE) + 1
    assert "were left out" in log.notes[0]


@given(st.binary(max_size=3000), st.integers(0, 500), st.integers(0, 500))
def test_bytes_of_any_kind_never_crash(data, head, tail):
    log = logfile.read_stream("log", io.BytesIO(data), head=head, tail=tail)
    diagnosis = diagnose([log])
    json.dumps(diagnosis.as_record())
    assert diagnosis.text(everything=True)


@given(
    st.lists(st.sampled_from([case.text for group in CASES.values() for case in group]), max_size=3)
)
def test_failures_of_any_kind_together_never_crash(texts):
    diagnosis = diagnose([from_text("log", "".join(texts))], hosts(*probes()))
    assert bool(diagnosis.findings) == bool(texts)
    assert sorted(map(id, diagnosis.findings)) == sorted({id(one) for one in diagnosis.findings})


@pytest.mark.parametrize("name", ["missing", "."])
def test_no_log_is_the_callers_mistake(tmp_path, name):
    with pytest.raises(UsageError):
        read(tmp_path / name)


def test_a_rule_of_an_unknown_field_is_refused():
    with pytest.raises(TypeError):
        Rule(id="x", patterns=("x",), cause="", mend="", source="", colour="red")


@pytest.mark.parametrize("prefix", ["/srv/my models", "/srv/o'brien", "/srv/$(reboot)"])
def test_a_mend_can_be_pasted_whatever_the_prefix_is_called(prefix):
    """Where PREFIX stands within quotes in the table, quoting it once more would open them."""
    bare = shlex.quote(prefix)
    texts = [probe.command for probe in probes().values()]
    texts += [text for rule in rules() for text in (rule.mend, rule.mend_zh)]
    for text in filter(lambda text: "PREFIX" in text, texts):
        assert re.sub(r"'[^']*'", "", text).count("PREFIX") == text.count("PREFIX"), text
    found = diagnose([from_text("log", CASES["cache-damaged"][0].text)], prefix=prefix)
    assert f"rm -r {bare}/cache/*" in found.text(everything=True)
