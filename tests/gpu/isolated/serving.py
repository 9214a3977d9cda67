"""Steps with a server: starts taken apart, throughput, what a rehearsal keeps, the end."""

import hashlib
import os
import shutil
import time
from pathlib import Path

from tests.gpu.fit import gpus
from tests.gpu.isolated import byhand, load, outbound
from tests.gpu.isolated.asking import ask_all
from tests.gpu.isolated.bench import Bench, Record
from tests.gpu.isolated.coldstart import split
from tests.gpu.isolated.commands import Failed, need
from tests.gpu.isolated.fitted import compare
from tests.gpu.isolated.load import Target
from tests.gpu.isolated.setting_up import audit

#: Bytes of a piece of the caches, and pieces that are handed back at a time.
PIECE, PIECES = 15 << 20, 4


def started(bench: Bench, label: str, model: str, *, fresh: bool, eager: bool) -> Record:
    """Start, take the start apart, ask everything, stop."""
    site = bench.site
    site.stop()
    if fresh:
        site.forget_compiled()
    eagerly = '["--enforce-eager"]' if eager else None
    with site.settings(extra_arguments=eagerly):
        before, begun = outbound.counters(), time.time()
        done = site.serve(model, 330)
        ended = time.time()
        log = bench.keep_log(label)
        record: Record = {"model": model, "fresh": fresh, "eager": eager, "start": done.record()}
        record |= split(log, begun, ended)
        try:
            if done.code != 0:
                record["doctor"] = site.control("doctor", limit=60).record()
                raise Failed("it did not come up", record)
            record["asked"] = ask_all(site, model)
            record["outbound"] = outbound.between(before, outbound.counters())
            if bench.gpu:
                record["fit"] = fitted(bench, model, record, log)
            record["caches"] = site.caches()
        finally:
            bench.keep_log(label)
            record["stop"] = site.stop().record()
    if record["asked"]["wrong"]:
        raise Failed("; ".join(record["asked"]["wrong"]), record)
    if record["outbound"]["attempts"]:
        raise Failed("it tried to reach something outside", record)
    return record


def fitted(bench: Bench, model: str, record: Record, log: str) -> Record:
    present = gpus()
    words = server_words(record["asked"]["status"].get("pid", 0))
    if not present:
        return {"why": "no nvidia-smi"}
    return compare(bench.site.models()[model], words, log, present[0][1])


def server_words(pid: int) -> list[str]:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def throughput(bench: Bench) -> Record:
    """Tokens per second with the shipped defaults, against the same vLLM started by hand.

    Both at once on one GPU, each with 45 per cent of its memory and idle while the other is
    measured, so that heat and clocks are the same for both.
    """
    site, model = bench.site, bench.large
    site.stop()
    share = "45" if bench.gpu else None
    also = [*(["--gpu-memory-utilization", "0.45"] if bench.gpu else []), *bench.by_hand]
    with site.settings(gpu_memory_utilization=share):
        before = outbound.counters()
        try:
            ours = need(site.serve(model, 330), "our start")
            folder, home = site.models()[model], bench.work / "by-hand"
            with byhand.server(site, folder, site.port + 7, also, home, seeded=True) as (hand, how):
                targets = {"ours": Target("127.0.0.1", site.port, model, site.key), "by_hand": hand}
                readings = load.interleaved(
                    targets, bench.streams, bench.rounds, bench.clock.left(), answer=bench.answer
                )
        finally:
            if (log := bench.work / "by-hand/server.log").exists():
                shutil.copyfile(log, bench.work / "logs/by-hand.log")
            bench.keep_log("throughput")
            site.stop()
    return {
        "model": model,
        "ours_seconds": ours.seconds,
        "by_hand": how,
        "median": load.medians(readings),
        "outbound_of_both": outbound.between(before, outbound.counters()),
        "readings": readings,
    }


def rehearse(bench: Bench) -> Record:
    """A rehearsal that keeps what it compiled, for the next bundle."""
    file = bench.work / "caches.tar"
    file.unlink(missing_ok=True)
    words = ["rehearse", "--model", bench.large, "--keep-caches", file]
    done = need(bench.site.control(*words, limit=330), "rehearse --keep-caches")
    return {**done.record(), **pieces(bench)}


def pieces(bench: Bench) -> Record:
    """Hand back a few pieces of the caches: `cat caches.* > caches.tar` puts them together."""
    file = bench.work / "caches.tar"
    data = file.read_bytes()
    whole = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
    chosen_ones = range(bench.piece, min(len(whole), bench.piece + PIECES))
    for number in chosen_ones:
        if bench.hand_back is None:
            break
        (bench.hand_back / f"caches.{number:03}").write_bytes(whole[number])
    return {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "pieces": len(whole),
        "handed_back": list(chosen_ones),
    }


def end(bench: Bench) -> Record:
    """Stop, audit all of it once more, and look for what is left."""
    bench.site.stop()
    left = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            words = server_words(int(folder.name))
            if words and words[0].startswith(f"{bench.site.prefix}/"):
                left[folder.name] = " ".join(words)[:200]
    record = {**audit(bench), "left": left, "gpus": gpus()}
    if left:
        raise Failed("processes are left", record)
    return record
