"""Speaks just enough of the server's HTTP interface, and fails in the ways that the real one does.

Run as a program: stub_server.py --port N [--model NAME] [--mode MODE]; the key is in VLLM_API_KEY.
"""

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODES = {
    "ok": "answers",
    "dies": "writes an error and ends with status 3",
    "hangs": "writes that its engine failed, then ignores SIGTERM",
    "chat-500": "is healthy, but its first chat fails",
    "engine-dies-in-chat": "is healthy; the first chat hangs after the words of a dead engine",
    "slow": "says 503 three times first",
    "family": "has two children that ignore SIGTERM",
    "mute": "is alive and never listens",
    "deaf": "as family, and ignores SIGTERM itself",
    "no-json": "answers chats with text",
}
TEMPLATE = {True: [1, 2, 3, 4], False: [1, 2, 3, 4, 5, 6]}  # prompt tokens


class Handler(http.server.BaseHTTPRequestHandler):
    options: argparse.Namespace
    unready = 0

    def do_GET(self):
        if self.path == "/health":
            if Handler.unready > 0:
                Handler.unready -= 1
                return self.reply(503, {})
            return self.reply(200, {})
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        return self.reply(200, {"data": [{"id": self.options.model}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        mode = self.options.mode
        if mode == "chat-500":
            key = os.environ["VLLM_API_KEY"]
            log(f"ERROR EngineCore: FileNotFoundError: 'ninja' Authorization: Bearer {key}")
            return self.reply(500, {"error": f"engine dead, key {key}"})
        if mode == "engine-dies-in-chat":
            log("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue")
            time.sleep(600)
        if mode == "no-json":
            return self.reply(200, None)
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        tokens = TEMPLATE[thinking]
        message = (
            {"content": None, "reasoning": "Hm."}
            if thinking
            else {"content": "Hi", "reasoning": None}
        )
        return self.reply(
            200,
            {
                "choices": [{"message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": len(tokens), "completion_tokens": 1},
                "prompt_token_ids": tokens if body.get("return_token_ids") else None,
            },
        )

    def authorised(self):
        return self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"

    def reply(self, status, value):
        data = b"<html>" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def log(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def ignore_and_sleep():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--mode", choices=MODES, default="ok")
    Handler.options = options = parser.parse_args()
    mode = options.mode
    if mode == "dies":
        log(f"ValueError: no such flag; key {os.environ['VLLM_API_KEY']}")
        return 3
    if mode == "hangs":
        log("INFO loading")
        log("ERROR EngineCore failed to start.")
        ignore_and_sleep()
    if mode == "mute":
        time.sleep(600)
    if mode in ("family", "deaf"):
        code = "import stub_server; stub_server.log('child'); stub_server.ignore_and_sleep()"
        here = Path(__file__).resolve().parent
        for own_session in (False, True):
            subprocess.Popen([sys.executable, "-c", code], cwd=here, start_new_session=own_session)
    if mode == "deaf":
        ignore_and_sleep()
    Handler.unready = 3 if mode == "slow" else 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True

    def end(*_):
        log("ended well")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    log("listening")
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
