"""A server small enough for tests of everything around it. Speaks the real one's HTTP interface.

STUB_MODE in its environment makes it fail: dies, hangs, chat-500.
"""

import argparse
import http.server
import json
import os
import sys
import time

#: By thinking; the closed think block makes the prompt longer, as with the real template.
PROMPT_TOKENS = {True: 20, False: 24}


class Handler(http.server.BaseHTTPRequestHandler):
    thinking = True
    model = ""

    def do_GET(self):
        if self.path == "/health":
            return self.reply(200, {})
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        return self.reply(200, {"data": [{"id": self.model}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorised():
            return self.reply(401, {"error": "Unauthorized"})
        if os.environ.get("STUB_MODE") == "chat-500":
            return self.reply(500, {"error": "EngineDeadError"})
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--default-chat-template-kwargs", default="{}")
    options, _ = parser.parse_known_args()
    mode = os.environ.get("STUB_MODE")
    if mode == "dies":
        sys.exit("ValueError: the stub was told to die")
    if mode == "hangs":
        print("ERROR EngineCore failed to start.", file=sys.stderr, flush=True)
        time.sleep(600)
    Handler.model = options.served_model_name
    Handler.thinking = json.loads(options.default_chat_template_kwargs).get("enable_thinking", True)
    print("listening", file=sys.stderr, flush=True)
    http.server.ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
