"""Several models in one installation: brought together or later, chosen by name, back by itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundlectl.api import Client
from bundler import tinymodel
from manifests import placement
from manifests.exitcodes import ExitCode
from tests.support import lora
from tests.support.small import bundle, control, environment, free_port, install
from tests.support.variants import manifest_of, variant
from tests.system.conftest import end_servers

A, B, LATER = "tiny-qwen3.5", "tiny-b", "tiny-later"
BROKEN = "tiny-broken"
PORT = free_port()


@pytest.fixture(scope="module")
def models(workplace):
    """Folders of models and adapters by name. `stub:` in a README is the stub server's order."""
    root = workplace.root / "further"
    folders = {A: workplace.model}
    for seed, (name, order) in enumerate(((B, ""), (LATER, ""), (BROKEN, "dies")), start=1):
        folders[name] = root / name
        tinymodel.make(folders[name], seed=seed)
        if order:
            with (folders[name] / "README.md").open("a") as card:
                card.write(f"\nstub: {order}\n")
    folders["style"] = lora.make(root / "style", rank=4)
    folders["poem"] = lora.make(root / "poem", rank=9, seed=1)
    return folders


@pytest.fixture(scope="module")
def two(workplace, models, tmp_path_factory):
    """A bundle with two models, and two adapters for the first."""
    words = ["--model", str(models[B]), "--lora", str(models["style"])]
    words += ["--lora", f"{models['poem']}=verse"]
    return workplace.create(tmp_path_factory.mktemp("two"), *words)


def addition(workplace, models, output, base, *names):
    """A bundle of models alone."""
    words = [word for name in names for word in ("--model", str(models[name]))]
    made = bundle(
        *("create", "--model-only", "--for", str(base), *words, "--output", str(output)),
        *("--stack", str(workplace.stack), "--cache", str(workplace.cache)),
        *("--find-links", str(workplace.links)),
    )
    assert made.returncode == 0, made.stderr
    (folder,) = output.iterdir()
    return folder


@pytest.fixture(scope="module")
def later(workplace, models, two, tmp_path_factory):
    """A bundle of models alone, one of them broken."""
    output = tmp_path_factory.mktemp("later")
    return addition(workplace, models, output, two, LATER, BROKEN)


@pytest.fixture(scope="module")
def served(two, later, tmp_path_factory):
    """An installation that serves, with the later models added."""
    root = tmp_path_factory.mktemp("host")
    prefix = root / "with space=and more"
    done = install(two, "--prefix", str(prefix), "--port", str(PORT))
    assert done.returncode == 0, done.stderr
    added = install(later, "--prefix", str(prefix))
    assert added.returncode == 0, added.stderr
    assert f"use {LATER}" in added.stdout
    yield prefix
    end_servers(root)


@pytest.fixture
def serving_a(served):
    """The installation with its first model in service."""
    status = told(served)
    if not status["running"] or status["model"] != A:
        done = control(served, "use", A)
        assert done.returncode == 0, done.stderr
    return served


def told(prefix):
    return json.loads(control(prefix, "status", "--json").stdout)


def chosen(prefix):
    listed = json.loads(control(prefix, "models", "--json").stdout)["models"]
    return [model["name"] for model in listed if model["chosen"]]


def client(prefix):
    return Client(told(prefix)["url"], (prefix / "etc/api-key").read_text().strip())


def test_one_bundle_two_models_there_and_back(serving_a):
    prefix = serving_a
    for name in (B, A):
        done = control(prefix, "use", name, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["model"] == name
        assert f'"model": "{name}"' in json.loads(done.stdout)["curl"]
        assert client(prefix).models(5)[0] == name
        assert chosen(prefix) == [name]
        restarted = control(prefix, "restart")
        assert restarted.returncode == 0, restarted.stderr
        assert told(prefix)["model"] == name
        assert control(prefix, "ask", "Hello").returncode == 0
    listed = control(prefix, "models").stdout
    assert f"* {A} " in listed
    assert "in service" in listed
    assert "with the adapter verse" in listed


def test_adapters_are_names_of_models(serving_a):
    asked = client(serving_a)
    assert asked.models(5) == (A, "style", "verse")
    assert told(serving_a)["adapters"] == ["style", "verse"]
    assert asked.chat("verse", "Hello", False, 8, 5).content == "Hi"
    pid = told(serving_a)["pid"]
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    # Ranks 4 and 9: the next one that vLLM takes.
    assert command[command.index("--max-lora-rank") + 1] == "16"
    control(serving_a, "use", B)
    assert client(serving_a).models(5) == (B,)


def test_a_model_that_does_not_answer_never_takes_the_place(serving_a):
    before = told(serving_a)
    done = control(serving_a, "use", BROKEN)
    assert done.returncode == ExitCode.SERVER
    assert "the stub was told to die" in done.stderr
    assert told(serving_a)["pid"] == before["pid"]  # never touched
    assert chosen(serving_a) == [A]


def test_what_served_before_comes_back_by_itself(serving_a):
    before = told(serving_a)
    done = control(serving_a, "use", BROKEN, "--stop-first")
    assert done.returncode == ExitCode.SERVER
    assert f"{A} of {before['release']} serves again" in done.stderr
    after = told(serving_a)
    assert after["running"]
    assert after["model"] == A
    assert after["pid"] != before["pid"]
    assert chosen(serving_a) == [A]
    assert control(serving_a, "ask", "Hello").returncode == 0


@pytest.mark.parametrize(
    "line", ['extra_arguments = ["--port", "1"]', '[environment]\nHF_HUB_OFFLINE = "0"']
)
def test_settings_that_are_refused_end_no_server(serving_a, line):
    before = told(serving_a)
    path = serving_a / "etc/serve.toml"
    text = path.read_text()
    key = line.split()[0]
    kept = [one for one in text.splitlines() if not one.startswith(key)]
    path.write_text("\n".join([*kept, line] if key.startswith("[") else [line, *kept]))
    try:
        for words in (("restart",), ("use", B, "--stop-first")):
            done = control(serving_a, *words)
            assert done.returncode == ExitCode.USAGE, done.stderr
            assert "mend:" in done.stderr
            assert told(serving_a)["pid"] == before["pid"]
    finally:
        path.write_text(text)


def test_a_return_that_fails_too_is_said_beside_the_first_cause(serving_a):
    (card,) = (serving_a / "models").glob(f"{A}@*/README.md")
    text = card.read_text()
    card.write_text(f"{text}\nstub: chat-500\n")
    try:
        done = control(serving_a, "use", BROKEN, "--stop-first")
        assert done.returncode == ExitCode.SERVER, done.stderr
        assert "the stub was told to die" in done.stderr
        assert f"{A} of " in done.stderr
        assert "does not start again (" in done.stderr
        assert "Traceback" not in done.stderr
        assert chosen(serving_a) == [A]
        # Its keeper goes on trying, and tells why.
        assert "HTTP 500" in control(serving_a, "status").stdout
    finally:
        card.write_text(text)
    assert control(serving_a, "restart").returncode == 0
    assert told(serving_a)["model"] == A


@pytest.mark.e2e
def test_models_that_came_later(served, two, later):
    done = control(served, "use", LATER)
    assert done.returncode == 0, done.stderr
    status = told(served)
    assert status["model"] == LATER
    # It serves under the release that was there; the bundle of models is no release to start.
    assert status["release"].startswith(two.name)
    assert placement.current_release(served).startswith(two.name)
    audited = control(served, "audit")
    assert audited.returncode == 0, audited.stdout
    for folder in (two, later):
        digest = manifest_of(folder)[1]
        assert digest in audited.stdout
    control(served, "stop")
    assert control(served, "start").returncode == 0
    assert told(served)["model"] == LATER
    (addition,) = (name for name in told(served)["releases"] if name.startswith(later.name))
    refused = control(served, "use", A, "--release", addition)
    assert refused.returncode == ExitCode.USAGE
    assert "holds models alone" in refused.stderr


def test_adding_models_twice_changes_nothing(serving_a, later):
    before = told(serving_a)
    again = install(later, "--prefix", str(serving_a))
    assert again.returncode == 0, again.stderr
    assert told(serving_a) | {"uptime": 0, "memory": 0} == before | {"uptime": 0, "memory": 0}


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nobody", ExitCode.USAGE, f"installed: {B}, {BROKEN}"),
        ("verse", ExitCode.USAGE, "is an adapter"),
    ],
)
def test_names_that_can_not_be_used(serving_a, name, code, words):
    done = control(serving_a, "use", name)
    assert done.returncode == code
    assert words in done.stderr


@pytest.mark.e2e
def test_models_for_another_stack_are_refused(later, two, serving_a, tmp_path):
    other = variant(later, tmp_path, name="other", stack="another-stack")
    for prefix in (serving_a, tmp_path / "empty"):
        done = install(other, "--prefix", str(prefix))
        assert done.returncode == ExitCode.TARGET
        assert "another-stack (only)" in done.stderr
    assert not (tmp_path / "empty").exists()
    refused = install(other, "--prefix", str(serving_a))
    assert f"{two.name}-{manifest_of(two)[1][:12]}: small (only)" in refused.stderr
    assert "other" not in " ".join(placement.installed_releases(serving_a))


@pytest.mark.e2e
def test_the_audit_reads_every_model_and_adapter(two, later, tmp_path):
    prefix = tmp_path / "host"
    for folder in (two, later):
        done = install(folder, "--prefix", str(prefix), "--no-start", "--ignore", "port")
        assert done.returncode == 0, done.stderr
    for pattern in (f"{B}@*/model.safetensors", "verse@*/adapter_model.safetensors"):
        (path,) = (prefix / "models").glob(pattern)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    (extra,) = (prefix / "models").glob(f"{LATER}@*")
    (extra / "surprise").touch()
    done = control(prefix, "audit", "--json")
    assert done.returncode == ExitCode.INTEGRITY
    found = {(f["problem"], Path(f["path"]).name) for f in json.loads(done.stdout)["findings"]}
    assert found == {
        ("altered", "model.safetensors"),
        ("altered", "adapter_model.safetensors"),
        ("extra", "surprise"),
    }
    # The same bundle again takes just what is wrong.
    again = install(two, "--prefix", str(prefix), "--no-start", "--ignore", "port")
    assert again.returncode == 0, again.stderr
    (extra / "surprise").unlink()
    assert control(prefix, "audit").returncode == 0


def test_a_model_cut_short_is_not_started(served):
    control(served, "use", A)
    before = told(served)
    (path,) = (served / "models").glob(f"{B}@*/model.safetensors")
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    try:
        done = control(served, "use", B)
    finally:
        path.write_bytes(data)
    assert done.returncode == ExitCode.INTEGRITY
    assert "model.safetensors" in done.stderr
    assert told(served)["pid"] == before["pid"]


#: Runs `bundlectl` from here, and kills it before a step that changes something.
_KILLED = """
import os, signal, sys
from bundlectl.cli import main
step, count = int(sys.argv[1]), 0
CHANGES = {"os.rename", "os.remove", "os.symlink", "subprocess.Popen", "os.kill"}
def hook(event, arguments):
    global count
    writes = event in CHANGES
    if event == "open" and isinstance(arguments[2], int):
        writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    count += bool(writes)
    if writes and count == step:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
status = main(sys.argv[2:])
print(count)
sys.exit(status)
"""


def use_killed(prefix, step, name):
    command = [sys.executable, "-c", _KILLED, str(step), "use", name, "--prefix", str(prefix)]
    return subprocess.run(
        [*command, "--json"], env=environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.e2e
def test_a_kill_at_any_step_leaves_what_can_be_started(serving_a):
    for name in (B, A):  # the first time there is more to be asked, and to be remembered
        assert control(serving_a, "use", name).returncode == 0
    whole = use_killed(serving_a, 0, B)
    assert whole.returncode == 0, whole.stderr
    steps = int(whole.stdout.split()[-1])
    # Within the trial, and each step of the end, where the switch is.
    tried = (steps // 2, *range(steps - 2, steps + 1))
    outcomes = set()
    for step in tried:
        if chosen(serving_a) != [A]:
            assert control(serving_a, "use", A).returncode == 0
        assert use_killed(serving_a, step, B).returncode == -9
        (name,) = chosen(serving_a)
        outcomes.add(name)
        assert name in (A, B)
        restarted = control(serving_a, "restart")
        assert restarted.returncode == 0, (step, restarted.stderr)
        assert told(serving_a)["model"] == name
    assert A in outcomes


# The connected side


def test_a_bundle_says_what_it_holds(two, later, workplace):
    text = bundle("inspect", str(two)).stdout
    assert f"and  {B} from folder:{B}" in text
    assert f"verse for {A} from folder:poem" in text
    assert f"models/{B}/, 6 files" in text
    alone = json.loads(bundle("inspect", str(later), "--json").stdout)
    assert [model["name"] for model in alone["others"]] == [BROKEN]
    assert "env.tar.zst" not in [member["path"] for member in alone["members"]]
    assert bundle("audit", str(two)).returncode == 0
    assert bundle("audit", str(later)).returncode == 0
    changed = bundle("diff", str(two), str(later)).stdout
    assert f"models/{B}/model.safetensors" in changed


def test_a_plan_and_a_lock_name_all_of_them(workplace, models, tmp_path):
    flags = [*workplace.flags(), "--model", str(models[B]), "--lora", str(models["style"])]
    lock = tmp_path / "bundle.lock"
    made = bundle("lock", *flags, "--lock", str(lock))
    assert "2 models, 1 adapter" in made.stdout
    follow = ("--lock", str(lock), "--output", str(tmp_path))
    planned = bundle("plan", *flags, *follow, "--html", str(tmp_path / "plan.html"))
    assert planned.returncode == 0, planned.stderr
    assert f"and  {B} from folder:{B}" in planned.stdout
    assert f"{B}: needs" in planned.stdout
    assert f"adapter of rank 4 for {A}" in planned.stdout
    assert B in (tmp_path / "plan.html").read_text()
    done = bundle("create", *workplace.flags(), *follow)
    assert done.returncode == ExitCode.USAGE
    assert f"folder:{A}, folder:{B}, folder:style" in done.stderr
    assert bundle("create", *flags, *follow, "--quiet").returncode == 0


def test_models_may_stand_in_a_file(workplace, models, tmp_path):
    listed = json.dumps([str(models[A]), str(models[B])])
    (tmp_path / "bundle.toml").write_text(f"model = {listed}\nlora = ['{models['style']}']\n")
    flags = workplace.flags(model=None)
    done = bundle("create", *flags, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"and  {B} from" in done.stdout
    (tmp_path / "bundle.toml").write_text(f"model = '{models[B]}'\n")
    assert f"model  {B} from" in bundle("create", *flags, "--dry-run", cwd=tmp_path).stdout
    (tmp_path / "bundle.toml").write_text("model = 3\n")
    done = bundle("create", *flags, "--dry-run", cwd=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "a text in quotes or a list of texts" in done.stderr


def test_what_can_not_go_together(workplace, models, later, tmp_path):
    twin = shutil.copytree(models[B], tmp_path / A.upper())
    pickled = shutil.copytree(models["style"], tmp_path / "pickled")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    named = f"{models['style']}={A}"
    refusals = {
        (*workplace.flags(), "--model", str(twin)): f"two models or adapters are called {A}",
        (*workplace.flags(), "--lora", named): f"two models or adapters are called {A}",
        (*workplace.flags(), "--lora", str(pickled)): "adapter_model.bin: a pickle",
        (*workplace.flags(), "--lora", "./nothing"): "no such folder",
        (*workplace.flags(), "--model-only"): "--model-only and --for belong together",
        (*workplace.flags(), "--model-only", "--for", str(later)): "--gpu: not with --model-only",
        (
            *workplace.flags(gpu=None),
            *("--model-only", "--for", str(later)),
        ): "it holds models alone",
    }
    for words, why in refusals.items():
        done = bundle("create", *words, "--output", str(tmp_path / "out"))
        assert done.returncode == ExitCode.USAGE, words
        assert why in done.stderr
