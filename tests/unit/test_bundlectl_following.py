import threading
import time

from bundlectl.following import follow, last_lines
from bundlectl.rotation import RotatingLog


def test_the_last_lines(tmp_path):
    path = tmp_path / "log"
    assert last_lines(path, 3) == []
    path.write_bytes(b"1\n2\n\xff\n4")
    assert last_lines(path, 3) == ["2", "\ufffd", "4"]


def test_every_line_is_followed_once_across_rotation(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("old\nlast\n")
    wanted = [f"line {number}\n" for number in range(200)]

    def write():
        log = RotatingLog(path, size=300, count=50)
        for line in wanted:
            log.write(line.encode())
            time.sleep(0.002)
        log.close()

    lines = follow(path, 1, poll=0.001)
    assert next(lines) == "last\n"
    writer = threading.Thread(target=write)
    writer.start()
    assert [next(lines) for _ in wanted] == wanted
    writer.join()
    assert path.with_name("server.log.4").exists()
    lines.close()


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path):
    path = tmp_path / "server.log"
    threading.Timer(0.1, path.write_text, ("first\n",)).start()
    lines = follow(path, 5, poll=0.01)
    assert next(lines) == "first\n"
    lines.close()
