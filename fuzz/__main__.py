"""Run cases and count their outcomes: ``python -m fuzz --cases 20000 --seed 1``."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy: cases run side by side

import numpy as np  # noqa: E402

from fuzz import crowds, files, fits, processes  # noqa: E402
from fuzz.judging import DEFECT, Outcome, judged  # noqa: E402

KINDS = {
    "fit": (0.60, fits.attack),
    "model": (0.10, files.attack_model),
    "table": (0.10, files.attack_table),
    "recipe": (0.07, files.attack_recipe),
    "run": (0.04, files.attack_run),
    "image": (0.08, files.attack_image),
    "kill": (0.005, processes.attack_kill),
    "full disk": (0.0015, processes.attack_full_disk),
    "read-only": (0.0015, processes.attack_read_only),
    "twice": (0.0015, processes.attack_twice),
    "soak": (0.0004, crowds.attack_soak),
    "cluster": (0.0003, crowds.attack_cluster),
}
"""Share of the cases and the attack, by kind."""
BATCH = 20


def cases(n_cases: int, kinds: list[str]) -> list[tuple[str, int]]:
    """Kinds and numbers of that many cases; of each kind that is asked for at least one."""
    total = sum(KINDS[kind][0] for kind in kinds)
    return [
        (kind, number)
        for kind in kinds
        for number in range(max(1, round(n_cases * KINDS[kind][0] / total)))
    ]


def run_case(kind: str, number: int, seed: int) -> dict:
    """Run one case; everything random in it follows from its name."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    started = time.perf_counter()
    outcome = judged(lambda: KINDS[kind][1](rng))
    return _record(kind, number, seed, outcome, time.perf_counter() - started)


def _record(kind, number, seed, outcome, seconds):
    return {
        "kind": kind,
        "number": number,
        "seed": seed,
        "verdict": outcome.verdict,
        "note": outcome.note,
        "seconds": round(seconds, 3),
    }


def run_batch(batch: list[tuple[str, int]], seed: int) -> list[dict]:
    """Run some cases in one process."""
    return [run_case(kind, number, seed) for kind, number in batch]


def run(pending: list, seed: int, n_jobs: int, report) -> None:
    """Run cases in processes of their own; one that dies is a defect of its case."""
    # Long cases are spread over the whole run, so that no process works alone at the end.
    order = np.random.default_rng(seed).permutation(len(pending))
    shuffled = [pending[i] for i in order]
    batches = [shuffled[i : i + BATCH] for i in range(0, len(shuffled), BATCH)]
    while batches:
        broken = []
        with ProcessPoolExecutor(n_jobs) as pool:
            waiting = {pool.submit(run_batch, batch, seed): batch for batch in batches}
            for future in as_completed(waiting):
                try:
                    records = future.result()
                except BrokenProcessPool:
                    broken.append(waiting[future])
                else:
                    for record in records:
                        report(record)
        # Of batches that were under way one has the fault: case by case it is found.
        if broken and all(len(batch) == 1 for batch in broken[:n_jobs]):
            for kind, number in broken.pop(0):
                report(_record(kind, number, seed, Outcome(DEFECT, "the process died"), 0.0))
        batches = [[case] for batch in broken[:n_jobs] for case in batch] + broken[n_jobs:]


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for and print the counts; the status tells whether there are defects."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None, help="by default the time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="repeatable")
    parser.add_argument("--output", type=Path, default=Path("fuzz.jsonl"))
    parser.add_argument("--case", nargs=2, metavar=("KIND", "NUMBER"), help="one case alone")
    options = parser.parse_args(arguments)
    known = _read(options.output)
    seed = options.seed
    if seed is None:
        seed = known[-1]["seed"] if known else int(time.time())
    if options.case:
        kind, number = options.case
        print(json.dumps(run_case(kind, int(number), seed), indent=1))
        return 0
    done = {(r["kind"], r["number"]): r for r in known if r["seed"] == seed}
    wanted = cases(options.cases, options.kind or list(KINDS))
    pending = [case for case in wanted if case not in done]
    found = [done[case] for case in wanted if case in done]
    print(f"Seed {seed}: {len(wanted)} cases, {len(found)} of them done before.", flush=True)
    started = time.monotonic()
    _end_line(options.output)
    with options.output.open("a", encoding="utf-8") as file:

        def report(record):
            found.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()
            if record["verdict"] == DEFECT:
                print(f"{record['kind']} {record['number']}: {record['note']}", flush=True)

        run(pending, seed, options.jobs, report)
    counts = Counter((r["kind"], r["verdict"]) for r in found)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:10} {verdict:8} {count}")
    n_defects = sum(r["verdict"] == DEFECT for r in found)
    print(f"{len(found)} cases, {n_defects} defects, {time.monotonic() - started:.0f} s.")
    return min(n_defects, 1)


def _read(path):
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _end_line(path):
    """End the line that a killed run left unfinished."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
