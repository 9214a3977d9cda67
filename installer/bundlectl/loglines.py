"""Which lines of a server's log may be shown to others: lines of known shapes, without requests.

A prompt can be printed in any wording, by any library, over any number of lines, so nothing is kept
because it looks harmless: a line is kept because its shape is one that programs write, its source
is none that handles requests, and no field in it holds a request's words. What follows a line that
was taken out goes with it, until a program speaks again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

#: Kinds: why a line, or a part of one, was taken out.
REQUEST, CONTENT, DEBUG, SHAPE = "request-line", "request-content", "debug-line", "unknown-line"

#: Characters. The rest of a longer line is left away, from a blank on: half a secret is one, too.
_LONGEST = 16 << 10

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PROCESS = r"(?:\((?P<process>[\w -]{1,40}pid=\d+)\)\s*)*"
#: vllm/logging_utils/formatter.py: "INFO 11-30 15:14:13 [config/model.py:555] words", which since
#: 0.11 may follow "(EngineCore pid=769) "; the first word of a line of several is repeated.
_PREFIX = re.compile(r"(?:\([\w -]{1,40}pid=\d+\) ?)+")
_HEADER = re.compile(
    rf"{_PROCESS}(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \[(?P<source>[\w./<>-]{1,80}):\d+\] ?(?P<words>.*)"
)
#: Files of vLLM through whose hands requests go, from 0.6 to 0.20: what they say is shown only
#: where it begins as below.
_HANDLES_REQUESTS = re.compile(
    r"(?:^|/)(?:logger|request_logger|dump_input|serving\w*|chat_utils|protocol|preprocess|async_llm"
    r"|async_llm_engine|llm_engine|processor|input_processor|output_processor|client|middleware"
    r"|exception_handlers?|parser_manager|serve_utils|engine_serving|harmony_utils|api_router"
    r"|validators?|media|connector|sampling_params|backend_\w+|grammar\w*)\.py$"
    r"|(?:^|/)(?:tool_parsers?|reasoning|structured_output|renderers?|multimodal|openai|anthropic"
    r"|pooling|speech_to_text|responses|chat_completion|completion|generate|inputs)/"
)
_HARMLESS = re.compile(
    r"(?:Supported tasks?:|Supported_tasks|Using supplied chat template|Default vLLM sampling"
    r"|Chat template|Detected the chat template content format|\"auto\" tool choice|Enabling"
    r"|Starting vLLM|Available routes|Route:|Engine \d+:|Initializing|vLLM API server version"
    r"|AsyncLLM (?:loop|output_handler)|Engine core|EngineCore|EngineDeadError|Shutting down"
    r"|Error in \w+ Processing|Using default chat sampling params|Warming up|Readonly|Processed"
    r"|Traceback \(most recent call last\)|Overriding|All limits of multimodal"
    r"|Encoder cache|Engine loop|Loading|Waiting|init engine|# GPU blocks)"
)
#: Lines of requests, whoever writes them.
_OF_A_REQUEST = re.compile(
    r"(?:Received|Generated|Added|Aborted|Aborting|Finished|Rejected|Processing|Dumping)\b[^:]{0,60}"
    r"\b(?:request|response|input|output)|\b[Rr]equest (?:body|payload|data|content|headers)\b"
    r"|\b(?:cmpl|chatcmpl|chatcmpl-tool|resp|embd|score|rerank)-[0-9A-Za-z]"
    r"|\b(?:NewRequestData|EngineCoreRequest|RequestOutput|CompletionOutput|SamplingParams"
    r"|PoolingParams|SchedulerOutput|ChatCompletion\w*|CompletionRequest|TextPrompt|TokensPrompt"
    r"|ConversationMessage)\("
)
#: Fields that hold what somebody asked or was answered; the rest of the line goes with them, since
#: nothing says where free text ends.
_FIELD = re.compile(
    r"""(?<![\w-])\\*["']?(?:[\w.]*prompt(?:s|_text|_str|_logprobs)?|[\w.]*(?:token_?ids|tokens_list)"""
    r"""|messages?_?(?:content|list)?(?=\\*["']?\s*[:=]\s*[\[{("'])|content|text|texts|inputs?|input_value"""
    r"""|input_text|outputs?|output_text|query|queries|documents?|question|answer|completion|choices"""
    r"""|delta|reasoning|reasoning_content|tool_calls|arguments(?=\\*["'])|conversation|history|body|payload"""
    r"""|logit_bias|stop|bad_words|guided_\w+|structured_outputs|image_url|chat_template|suffix|user)"""
    r"""\\*["']?\s*(?:=(?!=)|:(?![:\\/]))\s*(?!None\b|null\b|\d+(?:\.\d+)?\b(?!\s*,\s*\d))(?=\S)"""
)
#: Words in quotes may be somebody's sentence; one word is a name.
_QUOTED = re.compile(r""""(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)*'(?!\w)""")
_NUMBERS = re.compile(r"[\[(]\s*\d{1,7}(?:\s*,\s*\d{1,7}){7,}[^\])]*[\])]?")

#: What a traceback ends in: the class, and words that may be anybody's.
_EXCEPTION = re.compile(
    r"(?:^(?:[A-Za-z_]\w*\.)+[A-Z]\w*|\b[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Fail(?:ed|ure)))"
    r": (?P<words>.+)"
)
#: What the system, CUDA, PyTorch, NCCL and vLLM's engine say in one, as they begin. None of them
#: quotes a request.
_SYSTEM = re.compile(
    r"\[Errno \d+\] |CUDA (?:out of memory|[Ee]rror|driver|runtime)\b|CUBLAS_|CUDNN_"
    r"|cuda runtime error|NCCL (?:[Ee]rror|WARN)|\[enforce fail at |\[\.{0,2}/\S+:\d+\] "
    r"|DefaultCPUAllocator: |HIP "
    r"|Triton |PassManager::run failed|No module named '?[\w.]+'?$|cannot import name '\w+' from"
    r"|lib[\w.+-]+\.so[\w.]*: cannot open shared object file|/\S+\.so[\w.]*: (?:undefined|version)"
    r"|(?:GLIBC|GLIBCXX)_|out of memory$|Failed core proc|Unable to (?:find|open) /\S+$"
    r"|Engine(?:Core| core| loop| process)\b|Worker (?:proc|failed)|cancelled$"
    r"|unable to open shared memory"
    r"|(?:Cannot|Can't) (?:allocate memory|start new thread)|can't start new thread$|timed out\b"
    r"|No (?:available memory|space left|CUDA GPUs)|Free memory on device|To serve at least"
    r"|Failed to (?:find C compiler|initialize)|Connection (?:refused|reset|closed)|Broken pipe$"
)
#: Lines of other programs: what each looks like.
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        # Python: tracebacks and what they end in, warnings, faulthandler, argparse.
        r"(?:[\w .:|+-]*)Traceback \(most recent call last\):$",
        r'\s*File "[^"]+", line \d+(?:, in [\w.<>]+)?$',
        r"\s+[~^]+[~^ ]*$",
        r"(?:During handling of the above|The above exception was the direct)[\w ,]*:$",
        r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure)(?::.*)?$",
        r"/\S+\.py:\d+: \w*Warning: .*",
        r"(?:Fatal Python error|Python runtime state|Current thread|Thread 0x)\b.*",
        r"  Value error, .*|    For further information visit .*",
        r"(?:[a-z_]\w*\.)+[A-Z]\w+: .*|[A-Z]\w+(?:Compiler|Failed|File): .*",
        # argparse, compilers, linkers, builders, shells.
        r"[\w./+-]+(?::\d+){0,2}: (?:fatal )?error(?::| trying).*",
        r"\S*ld: cannot find .*|ninja: .*|FAILED: .*|(?:ba|da|a|)sh: .*",
        # Uvicorn: its own lines, and one for each request, which names no more than the path.
        r"(?:INFO|WARNING|ERROR|CRITICAL): {2,}.*",
        # PyTorch, NCCL, glog; glibc's loader and the kernel's last words, shells.
        r"\[?(?:rank\d+\]:?)?\s*\[?[IWEF]\d{4} [\d:.]+ .*",
        r"\[[WEI]\d{3,4} [\d:.]+ [\w./]+:\d+\] .*",
        r"\S+:\d+:\d+ \[\d+\] NCCL (?:INFO|WARN) .*|nccl\w+Error: .*|Last error:$",
        r"CUDA kernel errors might be |For debugging consider passing CUDA_LAUNCH_BLOCKING=1$",
        r"Compile with `TORCH_USE_CUDA_DSA` |Error while creating shared memory segment .*",
        r"Failed to initialize NVML: .*|NVML library version: .*|NVIDIA-SMI has failed .*",
        r"(?:double free|corrupted (?:size|double)|free\(\)|malloc\(\)|munmap_chunk\(\)).*",
        r"\S+: \S+: (?:error while loading shared libraries|cannot open shared object file).*",
        r"\S+: (?:error while loading shared libraries|symbol lookup error|relocation error):? .*",
        r"(?:terminate called|  what\(\):|\*\*\* |!!!!!!! |Killed|Aborted|Bus error).*",
        r"(?:Segmentation fault|Illegal instruction|Floating point exception|CUDA [Ee]rror).*",
        r"#?\s*frame #\d+: .*|#\d+ +0x[0-9a-f]+ .*",
        r"\[transformers\] .*|\[(?:W|E|I|bundlectl)\] .*",
        r"(?:Loading|Capturing|Profiling|Compiling)[\w ()=,/.-]*: +\d+%(?: Completed )?\|.*",
        r"(?:error|warning|note|  why|  mend|  -)\s?: .*",
    )
)
_SOURCE_FOLLOWS = re.compile(r'\s*File "[^"]+", line \d+|\S+\.py:\d+: \w*Warning: ')
#: What a server says when it starts, in the first lines of its log, and once it takes requests.
_STARTS = re.compile(r"non-default args: |vLLM API server version|█ +version \d|^usage: ")
_SERVES = re.compile(r"Application startup complete|Uvicorn running on|Started server process")
_BANNER = 50
#: Uvicorn's line of one request. A path that is none of the server's own may be somebody's words.
_ACCESS = re.compile(
    r'INFO: +[\w.:\[\]-]+ - "[A-Z]+ (?P<path>[^ "]*)(?P<rest>[^"]*)" \d{3}[A-Za-z -]*$'
)
_PATHS = re.compile(
    r"/(?:v1/)?(?:chat/completions|completions|responses|embeddings|models|score|rerank|pooling"
    r"|classify|messages|tokenize|detokenize|audio/\w{1,20}|health|metrics|ping|version|load|docs"
    r"|openapi\.json|server_info|is_sleeping|sleep|wake_up)?"
)
#: How a program speaks again after a line of no known shape.
_RESUMES = re.compile(
    r"INFO: |Traceback \(most recent|Fatal Python error: |Killed$|Aborted\b|Segmentation fault\b"
    r"|\[rank\d+\]:\[|\S+:\d+:\d+ \[\d+\] NCCL "
)


@dataclass
class Sieve:
    """Lets lines pass, and counts by kind what does not. One for each log: it knows the past.

    Before a server takes requests (`serving`) nobody's words can be in its log: then lines of
    unknown shape are taken out one by one, and quotes are shown.
    """

    removed: Counter[str] = field(default_factory=Counter)
    serving: bool = True
    _silenced: bool = False  # a line that was taken out may go on in the next
    _code: bool = False  # the line quotes a program's source
    _before: str = ""

    def __call__(self, line: str) -> str | None:
        """The line as it may be shown, without its end; None where it may not."""
        text = bounded(_COLOUR.sub("", line).rstrip())
        kind = self._judge(text)
        if kind is not None:
            if text:
                self.removed[kind] += 1
                self._silenced |= self.serving and kind != DEBUG
            return None
        self.serving |= _SERVES.search(text) is not None
        if self._code or _SOURCE_FOLLOWS.search(text):
            return text
        shown = _without_content(text, self.serving)
        if shown != text:
            self.removed[CONTENT] += 1
            self._silenced |= self.serving
        return shown

    def _judge(self, text: str) -> str | None:
        """Why a line may not be shown; None where it may."""
        header = _HEADER.match(text)
        words = header["words"] if header else _PREFIX.sub("", text)
        was_source, self._code = _SOURCE_FOLLOWS.match(self._before) is not None, False
        self._before = words
        if header and header["level"] == "DEBUG":
            return DEBUG
        if _OF_A_REQUEST.search(words):
            return REQUEST
        if header is None and self._silenced and not _RESUMES.match(words):
            return SHAPE
        self._silenced = False
        self._code = was_source and words.startswith("  ")
        known = self._code or any(shape.match(words) for shape in _SHAPES)
        if header is None:
            return None if known else SHAPE
        harmless = not (self.serving and _HANDLES_REQUESTS.search(header["source"]))
        return None if harmless or known or _HARMLESS.match(words) else REQUEST


def starting(lines: Sequence[str]) -> bool:
    """Whether the first lines of a log are of a server that starts, not of one that serves."""
    for line in lines[:_BANNER]:
        if _OF_A_REQUEST.search(line) or _ACCESS.match(line):
            return False
        if _STARTS.search(line):
            return True
    return False


def _without_content(line: str, serving: bool) -> str:
    access = _ACCESS.fullmatch(line)
    if access:
        path = access["path"].partition("?")[0]
        if _PATHS.fullmatch(path):
            return line.replace(access["path"], path)
        return line.replace(access["path"], f"[removed:{CONTENT}]")
    found = _FIELD.search(line)
    if found:
        line = f"{line[: found.end()]}[removed:{CONTENT}]"
    if not serving:
        return line
    line = _without_message(line)
    line = _QUOTED.sub(_without_sentence, line)
    return _NUMBERS.sub(f"[removed:{CONTENT}]", line)


def _without_message(line: str) -> str:
    """An exception's line without its words, unless a program of the system chose them."""
    header = _HEADER.match(line)
    words = header["words"] if header else _PREFIX.sub("", line)
    found = _EXCEPTION.search(words)
    if found is None or _SYSTEM.match(found["words"]):
        return line
    return f"{line.removesuffix(found['words'])}[removed:{CONTENT}]"


def _without_sentence(quoted: re.Match[str]) -> str:
    words = quoted[0][1:-1].split()
    return f"[removed:{CONTENT}]" if len(words) > 1 else quoted[0]


def bounded(line: str) -> str:
    """A line of no more than some thousand characters; what is cut off starts at a blank."""
    if len(line) <= _LONGEST:
        return line
    return line[: max(0, line.rfind(" ", 0, _LONGEST))]


def shown(lines: Iterable[str], sieve: Sieve) -> Iterator[str]:
    """Lines as they may be shown; one in brackets stands where others were taken out."""
    missing = 0
    for line in lines:
        kept = sieve(line)
        if kept is None:
            missing += bool(line.strip())
            continue
        if missing:
            yield f"[{missing} lines removed]"
            missing = 0
        yield kept
    if missing:
        yield f"[{missing} lines removed]"
