"""A server small enough for tests of everything around it. Speaks the real one's HTTP interface.

STUB_MODE in its environment makes it fail: dies, hangs, chat-500, silent, engine-dies; in the mode
`talks` it fills its log. So does a line `stub: MODE` in the model's README, for tests of one model
beside another. A request may ask it to be slow: with `"stub_seconds": S` the answer takes so long,
as a stream in that many tenths.
"""

import argparse
import http.server
import json
import os
import socketserver
import sys
import threading
import time
from pathlib import Path

#: By thinking; the closed think block makes the prompt longer, as with the real template.
PROMPT_TOKENS = {True: 20, False: 24}
TALK = 40_000  # lines
_PIECE = 0.1  # seconds between two pieces of a slow stream
_WELL = 2.0  # seconds until what goes wrong while it serves


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    thinking = True
    models = ()
    mode = ""
    begun = 0.0
    dead = False  # its engine

    def address_string(self):
        return "unix"

    def do_GET(self):
        if self.path == "/health":
            # Answers at first, so that it gets into service.
            if self.mode == "silent" and time.monotonic() - self.begun > _WELL:
                time.sleep(600)
            return self.reply(503 if self.dead else 200, {})
        if self.path == "/metrics":
            return self.reply(200, {"vllm:num_requests_running": 0})
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        return self.reply(200, {"data": [{"id": name} for name in self.models]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        if self.mode == "chat-500":
            return self.reply(500, {"error": "EngineDeadError"})
        # The load of a switch is answered whichever model serves.
        if body["model"] not in (*self.models, "any"):
            return self.reply(404, {"error": f"no model {body['model']}"})
        seconds = body.get("stub_seconds", 0)
        if body.get("stream"):
            return self.stream(int(seconds / _PIECE) + 1)
        time.sleep(seconds)
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", self.thinking)
        message = {"content": None, "reasoning": "Hm."} if thinking else {"content": "Hi"}
        usage = {"prompt_tokens": PROMPT_TOKENS[thinking], "completion_tokens": 1}
        choice = {"message": message, "finish_reason": "stop"}
        answer = {"choices": [choice], "usage": usage, "model": self.models[0]}
        return self.reply(200, answer)

    def stream(self, pieces):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(pieces):
            self.piece(f"data: {number}\n\n")
            time.sleep(_PIECE if pieces > 1 else 0)
        self.piece("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def piece(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))
        self.wfile.flush()

    def authorised(self):
        return self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


def engine_dies():
    time.sleep(_WELL)
    Handler.dead = True
    print("ERROR EngineDeadError: EngineCore encountered an issue", file=sys.stderr, flush=True)


def talks():
    for number in range(TALK):
        sys.stderr.write(f"line {number:>60}\n")


LATER = {"engine-dies": engine_dies, "talks": talks}


def compile_something():
    """Write into the caches as Triton and vLLM do, unless it is there."""
    triton = Path(os.environ["TRITON_CACHE_DIR"], "KERNEL")
    if (triton / "__grp__kernel.json").exists():
        children = json.loads((triton / "__grp__kernel.json").read_text())["child_paths"]
        if all(Path(path).exists() for path in children.values()):
            print("took a kernel from the cache", file=sys.stderr, flush=True)
            return
    print("compiled a kernel", file=sys.stderr, flush=True)
    triton.mkdir(parents=True, exist_ok=True)
    (triton / "kernel.cubin").write_bytes(b"\x7fELF")
    (triton / "lock").touch()
    group = {"child_paths": {"kernel.cubin": str(triton / "kernel.cubin")}}
    (triton / "__grp__kernel.json").write_text(json.dumps(group))
    graphs = Path(os.environ["VLLM_CACHE_ROOT"], "torch_compile_cache/0123456789/rank_0_0")
    graphs.mkdir(parents=True, exist_ok=True)
    (graphs / "model").write_bytes(b"graph")
    factors = {"env": {"VLLM_API_KEY": os.environ["VLLM_API_KEY"]}}
    (graphs / "cache_key_factors.json").write_text(json.dumps(factors))


def mode_of(options):
    """What the model's README asks for."""
    try:
        with Path(options.model, "README.md").open() as card:
            asked = [line.split()[1:] for line in card if line.startswith("stub: ")]
    except (OSError, TypeError):
        return None
    return asked[0][0] if asked else None


FlexibleArgumentParser = argparse.ArgumentParser


def make_arg_parser(parser):
    """The module offers its parser as vLLM's does, for a check of arguments without a server."""
    parser.add_argument("--uds", required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--default-chat-template-kwargs", default="{}")
    parser.add_argument("--model")
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--lora-modules", nargs="+", default=[])
    parser.add_argument("--max-lora-rank", type=int)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--tensor-parallel-size", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--load-format", choices=("auto", "dummy", "safetensors"))
    parser.add_argument("--compilation-config", type=compilation)
    return parser


def compilation(text):
    """A reader of values that only this parser has."""
    return {"level": int(text)}


def main():
    options = make_arg_parser(FlexibleArgumentParser()).parse_args()
    mode = os.environ.get("STUB_MODE") or mode_of(options)
    if mode == "dies":
        sys.exit("ValueError: the stub was told to die")
    if mode == "hangs":
        print("ERROR EngineCore failed to start.", file=sys.stderr, flush=True)
        time.sleep(600)
    if "TRITON_CACHE_DIR" in os.environ:  # bundlectl's start names the caches
        compile_something()
    adapters = [json.loads(text) for text in options.lora_modules if options.enable_lora]
    for adapter in adapters:
        Path(adapter["path"], "adapter_config.json").read_text()
    Handler.models = (options.served_model_name, *(adapter["name"] for adapter in adapters))
    Handler.mode = mode
    Handler.begun = time.monotonic()
    Handler.thinking = json.loads(options.default_chat_template_kwargs).get("enable_thinking", True)
    print("listening", *sys.argv[1:], file=sys.stderr, flush=True)
    if mode in LATER:
        threading.Thread(target=LATER[mode], daemon=True).start()
    Server(options.uds, Handler).serve_forever()


if __name__ == "__main__":
    main()
