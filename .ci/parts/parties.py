"""Drives the release binary against model servers that nobody here wrote. Run by parties.sh.

    parties.py port                                       prints a free port
    parties.py wait PORT SECONDS                          waits until something listens there
    parties.py steps BINARY FOLDER MODEL BASE JOURNAL     a five-step task; JOURNAL may be "-"
    parties.py faults BINARY FOLDER MODEL BASE ADMIN      every fault of the list
    parties.py window BINARY FOLDER MODEL BASE            a prompt that the server calls too long
    parties.py quota BINARY FOLDER MODEL BASE             a quota that is used up
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

POLICY = """version: 1
exec: { allow: ["sh check.sh", "cat ..."] }
files: { read: ["**"], write: ["**"] }
"""


def main():
    command, *words = sys.argv[1:]
    done = {
        "port": port, "wait": wait, "steps": steps, "faults": faults, "window": window,
        "quota": quota,
    }[command](*words)
    sys.exit(done or 0)


def port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        print(sock.getsockname()[1])


def wait(number, seconds):
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with socket.socket() as sock:
            sock.settimeout(1)
            if sock.connect_ex(("127.0.0.1", int(number))) == 0:
                return 0
        time.sleep(0.1)
    print(f"nothing listens on port {number} after {seconds} s")
    return 1


def call(url, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


class Run:
    """One run of the binary in a folder of its own."""

    def __init__(self, binary, folder, model, base, task, more=""):
        self.place = pathlib.Path(tempfile.mkdtemp(dir=folder))
        for name in ("ws", "home"):
            (self.place / name).mkdir()
        self.write("ws/greeting.txt", "hello wrld\n")
        self.write("ws/check.sh", "grep -q 'hello world' greeting.txt && echo good\n")
        self.write("policy.yaml", POLICY)
        self.write("spec.yaml", f"""version: 1
task: {json.dumps(task)}
workspace: ws
policy: policy.yaml
model:
  use: {model}
  base_url: {base}
  key: {{ env: PARTY_KEY }}
  timeouts: {{ idle: 2s, first_byte: 20s }}
  retries: {{ attempts: 4, total_wait: 40s }}
{more}""")
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.place / "home"),
            "PARTY_KEY": os.environ.get("PARTY_KEY", "sk-nobody-checks-this"),
        }
        done = subprocess.run(
            [binary, "exec", "--spec", "spec.yaml", "--artifacts", "out"], cwd=self.place,
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=180,
        )
        self.status, self.stderr = done.returncode, done.stderr
        result = self.place / "out/result.json"
        self.result = json.loads(result.read_text()) if result.exists() else {}

    def write(self, name, text):
        (self.place / name).write_text(text)

    def read(self, name):
        return (self.place / name).read_text()

    def records(self, kind):
        lines = self.read("out/rollout.jsonl").splitlines()
        return [record for record in map(json.loads, lines) if record["type"] == kind]

    def fault(self, status, reason):
        """What is not as it should be, in one line; none where all is."""
        found = (self.status, self.result.get("reason"))
        return None if found == (status, reason) else f"{found} instead of {(status, reason)}"


def steps(binary, folder, model, base, journal):
    """Reads a file, sees the check fail, patches, sees it pass, ends: five requests."""
    before = call(f"{journal}/__aimock/journal") if journal != "-" else []
    run = Run(binary, folder, model, base, "Fix the greeting.",
              "verify: { checks: [ { name: good, run: sh check.sh } ] }\n")
    faults = [run.fault(0, "completed")]
    kinds = [record["item"]["result"] for record in run.records("item")
             if record["item"]["kind"] == "tool_result"]
    if kinds != ["ok", "failed", "ok", "ok"]:
        faults.append(f"the results of the calls were {kinds}")
    if run.read("ws/greeting.txt") != "hello world\n":
        faults.append("the patch did not arrive")
    if len(run.records("step_started")) != 5:
        faults.append(f"{len(run.records('step_started'))} steps")
    if journal != "-":
        seen = call(f"{journal}/__aimock/journal")[len(before):]
        if len(seen) != 5:
            faults.append(f"the server saw {len(seen)} requests")
    faults = [fault for fault in faults if fault]
    print(f"{model} at {base}: {'; '.join(faults) or 'five steps, patched and verified'}")
    if faults:
        print(run.stderr)
    return len(faults)


def fail(status, times=1, **more):
    return {"type": "fail", "status": status, "times": times, **more}


def broken(kind, after=2, **more):
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


READ = {"type": "reply", "tool_calls": [{"name": "read_file", "arguments": {"path": "greeting.txt"}}]}
# Long enough that a client which hangs up in the middle is noticed before the end.
TEXT = {"type": "reply", "text": "All is well, and there is nothing more to do here. " * 3, "times": None}

# What is put in, how the run must end, and how many requests it may take.
FAULTS = {
    "nothing": ([TEXT], 0, "completed", 1),
    "429 and when to come back": ([fail(429, 2, retry_after=1), TEXT], 0, "completed", 3),
    **{str(status): ([fail(status), TEXT], 0, "completed", 2)
       for status in (408, 409, 500, 502, 503, 504, 529)},
    "400": ([fail(400), TEXT], 13, "model.invalid_request", 1),
    "401": ([fail(401), TEXT], 13, "model.auth", 1),
    "403": ([fail(403), TEXT], 13, "model.auth", 1),
    "404": ([fail(404), TEXT], 13, "model.invalid_request", 1),
    "422": ([fail(422), TEXT], 13, "model.invalid_request", 1),
    "the provider is down": ([fail(503, None)], 13, "model.overloaded", 4),
    "a slow answer": ([{"type": "delay", "seconds": 1.5}, TEXT], 0, "completed", 1),
    "a slow first piece": ([{"type": "slow_first_token", "seconds": 1}, TEXT], 0, "completed", 1),
    **{f"a stream that is cut after {after}": ([broken("truncate", after, times=2), TEXT], 0, "completed", 3)
       for after in (0, 1, 3)},
    "a connection that drops": ([broken("disconnect"), TEXT], 0, "completed", 2),
    "a piece that is no JSON": ([broken("malformed"), TEXT], 0, "completed", 2),
    "a stream that hangs": ([broken("stall", stall_seconds=30), TEXT], 0, "completed", 2),
    "a call, and the stream is cut": ([broken("truncate", 3), {**READ, "times": 2}, TEXT], 0, "completed", 3),
    "a call": ([READ, TEXT], 0, "completed", 2),
    "arguments that are no JSON": ([READ, {"type": "tool_fault", "kind": "malformed_arguments"}, TEXT], 0, "completed", 2),
    "a tool that nobody offered": ([{"type": "tool_fault", "kind": "unknown_tool"}], 0, "completed", 2),
}


def faults(binary, folder, model, base, admin):
    wrong = 0
    for name, (behaviours, status, reason, requests) in FAULTS.items():
        call(f"{admin}/_llmock/scenario", method="DELETE")
        call(f"{admin}/_llmock/scenario", {"behaviors": behaviours})
        before = len(call(f"{admin}/_llmock/requests")["requests"])
        # The judge takes equal bodies for one call: each fault has a task of its own.
        run = Run(binary, folder, model, base, f"Say that all is well ({name}).")
        made = len(call(f"{admin}/_llmock/requests")["requests"]) - before
        found = run.fault(status, reason)
        if not found and made != requests:
            found = f"{made} requests instead of {requests}"
        if found:
            wrong += 1
            print(f"{model}: {name}: {found}\n{run.stderr}")
    print(f"{model}: {len(FAULTS)} faults, {wrong} not taken as they should be")
    return wrong


def window(binary, folder, model, base):
    task = "Say that all is well (the window). " + "And again. " * 500
    run = Run(binary, folder, model, base, task)
    found = run.fault(13, "model.context_exceeded")
    print(f"{model}: {found or 'a prompt that is too long is told as that'}")
    if found:
        print(run.stderr)
    return bool(found)


def quota(binary, folder, model, base):
    """More requests than the quota has: the last one is refused, waits as told, and is answered."""
    for number in range(4):
        run = Run(binary, folder, model, base, f"Say that all is well (quota {number}).")
        found = run.fault(0, "completed")
        if found:
            print(f"{model}: request {number}: {found}\n{run.stderr}")
            return 1
    waited = run.records("retry")
    print(f"{model}: a quota of three was waited for ({len(waited)} retries)")
    return 0 if waited else 1


main()
