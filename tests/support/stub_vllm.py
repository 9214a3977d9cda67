"""A server small enough for tests of everything around it. Speaks the real one's HTTP interface.

STUB_MODE in its environment makes it fail: dies, hangs, chat-500. So does a line `stub: MODE` in
the model's README, for tests of one model beside another; `stub: dies-on PORT` spares other ports.
"""

import argparse
import http.server
import json
import os
import sys
import time
from pathlib import Path

#: By thinking; the closed think block makes the prompt longer, as with the real template.
PROMPT_TOKENS = {True: 20, False: 24}


class Handler(http.server.BaseHTTPRequestHandler):
    thinking = True
    models = ()
    mode = ""

    def do_GET(self):
        if self.path == "/health":
            return self.reply(200, {})
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        return self.reply(200, {"data": [{"id": name} for name in self.models]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        if self.mode == "chat-500":
            return self.reply(500, {"error": "EngineDeadError"})
        if body["model"] not in self.models:
            return self.reply(404, {"error": f"no model {body['model']}"})
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", self.thinking)
        message = {"content": None, "reasoning": "Hm."} if thinking else {"content": "Hi"}
        usage = {"prompt_tokens": PROMPT_TOKENS[thinking], "completion_tokens": 1}
        choice = {"message": message, "finish_reason": "stop"}
        return self.reply(200, {"choices": [choice], "usage": usage})

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


def mode_of(options):
    """What the model's README asks for."""
    try:
        with Path(options.model, "README.md").open() as card:
            asked = [line.split()[1:] for line in card if line.startswith("stub: ")]
    except (OSError, TypeError):
        return None
    mode, *ports = asked[0] if asked else [None]
    return "dies" if mode == "dies-on" and str(options.port) in ports else mode


FlexibleArgumentParser = argparse.ArgumentParser


def make_arg_parser(parser):
    """The module offers its parser as vLLM's does, for a check of arguments without a server."""
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--default-chat-template-kwargs", default="{}")
    parser.add_argument("--model")
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--lora-modules", nargs="+", default=[])
    parser.add_argument("--max-lora-rank", type=int)
    parser.add_argument("--max-model-len", type=int)
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
    adapters = [json.loads(text) for text in options.lora_modules if options.enable_lora]
    for adapter in adapters:
        Path(adapter["path"], "adapter_config.json").read_text()
    Handler.models = (options.served_model_name, *(adapter["name"] for adapter in adapters))
    Handler.mode = mode
    Handler.thinking = json.loads(options.default_chat_template_kwargs).get("enable_thinking", True)
    print("listening", *sys.argv[1:], file=sys.stderr, flush=True)
    http.server.ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
