import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import procfs
from bundlectl.layout import Layout
from bundlectl.process import SLOTS, Service, Supervisor, in_service, put_in_service
from manifests.errors import ServerError, UsageError
from tests.support.small import environment, free_port

STUB = Path(__file__).with_name("stub_server.py")
KEY = "0123456789abcdef0123"
ENVIRONMENT = {"VLLM_API_KEY": KEY, "PATH": "/usr/bin:/bin"}


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "my prefix")
    layout.create()
    return layout


@pytest.fixture
def supervisor(layout):
    supervisor = Supervisor(layout)
    yield supervisor
    supervisor.stop(0)


def start(supervisor, mode="ok"):
    port = free_port()
    command = [sys.executable, str(STUB), "--port", str(port), "--mode", mode]
    return supervisor.start(command, ENVIRONMENT, Service("127.0.0.1", port, "tiny", "r1"))


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def ours(layout):
    """Processes of servers of an installation, found without the code under test."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            alive = entry.name.isdigit() and (entry / "cmdline").read_bytes()
            if alive and os.fsencode(layout.prefix) in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def test_start_status_stop(supervisor, layout):
    record = start(supervisor)
    assert os.getsid(record.pid) == os.getpgid(record.pid) == record.pid
    until(lambda: b"listening" in supervisor.log.read_bytes())
    status = supervisor.status()
    assert (status.running, status.pid, status.processes) == (True, record.pid, 1)
    assert status.service.model == "tiny"
    assert status.memory > 1 << 20
    assert 0 <= status.uptime < 60
    assert supervisor.stop(10) is True
    assert supervisor.log.read_text().endswith("ended well\n")
    assert not supervisor.status().running
    assert ours(layout) == []


def test_another_command_line_can_stop_what_this_one_started(supervisor, layout):
    start(supervisor)
    other = Supervisor(layout)
    assert other.alive()
    assert other.stop(10) is True
    assert other.exit_status() is None  # not its child
    assert not supervisor.alive()


def test_our_own_child_lives_whatever_became_of_its_record(supervisor, layout):
    record = start(supervisor)
    (layout.run / "server-1.json").unlink()
    assert supervisor.alive()
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not supervisor.alive())  # not even a zombie is left


def test_stop_of_nothing_is_fine(supervisor):
    assert supervisor.stop() is False
    start(supervisor)
    assert supervisor.stop(10) is True
    assert supervisor.stop(10) is False


def test_a_second_start_is_refused_and_harms_nothing(supervisor, layout):
    record = start(supervisor)
    with pytest.raises(UsageError, match=str(record.pid)):
        start(Supervisor(layout))
    assert supervisor.alive()


def test_two_starts_at_once_make_one_server(layout):
    errors = []

    def one(supervisor):
        try:
            start(supervisor, "mute")
        except UsageError as error:
            errors.append(error)

    both = [Supervisor(layout), Supervisor(layout)]
    threads = [threading.Thread(target=one, args=(supervisor,)) for supervisor in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(errors) == 1
        assert len(ours(layout)) == 1
    finally:
        for supervisor in both:
            supervisor.stop(0)


def test_a_trial_beside_the_server_is_another_one(supervisor, layout):
    start(supervisor)
    trial = Supervisor(layout, "trial")
    start(trial)
    assert trial.log != supervisor.log
    assert trial.stop(10) is True
    assert supervisor.alive()


@pytest.mark.parametrize("mode", ["family", "deaf"])
def test_no_process_is_left_however_they_ignore_signals(supervisor, layout, mode):
    start(supervisor, mode)
    until(lambda: supervisor.log.read_bytes().count(b"child") == 2)
    assert supervisor.status().processes == 3
    assert len(ours(layout)) == 3
    assert supervisor.stop(0.6) is True
    assert ours(layout) == []


def test_children_of_a_killed_leader_are_ended_by_the_next_start(supervisor, layout):
    first = start(supervisor, "family")
    until(lambda: supervisor.log.read_bytes().count(b"child") == 2)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not supervisor.alive())
    status = supervisor.status()
    assert (status.running, status.processes) == (False, 2)
    assert status.service.model == "tiny"
    second = Supervisor(layout)
    record = start(second)
    try:
        assert ours(layout) == [record.pid]
    finally:
        second.stop(0)


def test_a_server_whose_record_was_never_written_is_found(supervisor, layout):
    start(supervisor, "mute")
    (layout.run / "server-1.json").write_text("{ half")
    assert not Supervisor(layout).alive()
    assert Supervisor(layout).stop(0.3) is True
    assert ours(layout) == []


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_process_that_got_the_servers_old_pid_is_never_touched(supervisor, layout, change):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        real = procfs.read(stranger.pid)
        service = {"host": "127.0.0.1", "port": 1, "model": "m", "release": "r"}
        record = {"pid": stranger.pid, "started": real.started, "boot": procfs.boot_id()}
        path = layout.run / "server-1.json"
        path.write_text(json.dumps(record | change | {"service": service}))
        assert not supervisor.status().running
        assert not supervisor.alive()
        assert supervisor.stop(0.3) is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_the_log_of_the_run_before_is_kept(supervisor):
    start(supervisor, "dies")
    until(lambda: supervisor.exit_status() == 3)
    start(supervisor)
    until(lambda: b"listening" in supervisor.log.read_bytes())
    assert b"ValueError" in supervisor.log.with_name("server.log.1").read_bytes()
    assert supervisor.log.stat().st_mode & 0o077 == 0


def test_the_key_is_in_no_command_line(supervisor):
    record = start(supervisor)
    assert KEY.encode() not in Path(f"/proc/{record.pid}/cmdline").read_bytes()


def test_nothing_of_ours_leaks_into_the_server(supervisor, layout):
    code = "import os, time; print(os.listdir('/proc/self/fd'), os.getcwd(), os.umask(0)); "
    supervisor.start(
        [sys.executable, "-u", "-c", code + "time.sleep(60)"],
        ENVIRONMENT,
        Service("127.0.0.1", 1, "m", "r"),
    )
    until(lambda: b"\n" in supervisor.log.read_bytes())
    text = supervisor.log.read_text()
    assert text.startswith("['0', '1', '2', '3']")  # 3 is the listing itself
    assert str(layout.run) in text
    assert text.endswith(f"{0o077}\n")


def test_a_program_that_cannot_be_started(supervisor, layout):
    with pytest.raises(ServerError, match="No such file") as caught:
        supervisor.start(["/nowhere/python"], {}, Service("127.0.0.1", 1, "m", "r"))
    assert "audit" in caught.value.mend
    assert supervisor.stop() is False


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another account")
def test_another_accounts_server_is_a_usage_error(supervisor, layout):
    record = start(supervisor, "mute")
    supervisor._layout.prefix.chmod(0o755)
    import bundlectl.process as process

    member = procfs.read(record.pid)
    pid = os.fork()
    if pid == 0:
        os.setuid(123456)
        try:
            process._signal(member, signal.SIGTERM)
        except UsageError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("localhost", "http://localhost:8000"),
    ],
)
def test_addresses_for_clients(host, url):
    assert Service(host, 8000, "m", "r").url == url


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=15))
def test_a_stat_line_is_read_whatever_the_name(name):
    fields = " ".join(str(number) for number in range(4, 53))
    process = procfs.parse_stat(f"42 ({name}) S {fields}\n")
    assert process == procfs.Process(42, "S", session=6, started=22)


def test_processes_that_are_gone_are_none():
    child = subprocess.Popen(["true"])
    child.wait()
    assert procfs.read(child.pid) is None
    assert procfs.environment(child.pid) == ()
    assert procfs.memory(child.pid) == 0


def test_our_own_process_is_known():
    me = procfs.read(os.getpid())
    assert me in list(procfs.everyone())
    assert 0 < procfs.uptime(me) < 3600 * 24


def test_what_writes_to_a_pipe_outlives_its_reader(supervisor, layout):
    """The keeper that reads may be killed: the server must not end by SIGPIPE."""
    pipe = layout.run / "server-1.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    code = "import time\nwhile True: print('x', flush=True); time.sleep(0.01)"
    service = Service("127.0.0.1", 1, "m", "r")
    supervisor.start([sys.executable, "-c", code], ENVIRONMENT, service, pipe)
    assert os.read(reader, 2) == b"x\n"
    os.close(reader)
    time.sleep(0.2)
    assert supervisor.alive()


def test_the_slot_in_service_is_the_default(layout):
    assert in_service(layout) == SLOTS[0]
    put_in_service(layout, SLOTS[1])
    assert Supervisor(layout).name == in_service(layout) == SLOTS[1]
    (layout.run / "in-service").write_text("nonsense")
    assert Supervisor(layout).name == SLOTS[0]


def test_a_process_enrols_itself(layout):
    """A keeper in the foreground: in a session that is not its own."""
    code = (
        "import sys, time; from pathlib import Path; from bundlectl.layout import Layout; "
        "from bundlectl.process import Service, Supervisor; "
        "Supervisor(Layout(Path(sys.argv[1])), 'keeper').enrol(Service('', 0, '', 'r')); "
        "print('here', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(layout.prefix)],
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"here\n"
    keeper = Supervisor(layout, "keeper")
    assert keeper.status().pid == child.pid
    threading.Thread(target=child.wait).start()
    assert keeper.stop(5) is True
    assert child.wait() == -signal.SIGTERM
    child.stdout.close()
