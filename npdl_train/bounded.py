"""What a stranger's files have a library do, in a process with bounds of time and memory.

A tokenizer's rules and a chat template are programs: a few lines of them can run for ever, or fill
the memory. A library that runs them can't be stopped from outside, so a process runs it.

    rules = Bounded()
    rules(20.0, 1 << 30, "load", "file", path)          # a tokenizer.json
    ids = rules(20.0, 1 << 30, "encode", "some text", False)
"""

import datetime
import json
import os
import subprocess
import sys
import threading
import weakref

from npdl.errors import InputError
from npdl.files import reason
from npdl_train import tokenizer_rules
from npdl_train.process import confine, import_paths

LONGEST = 1 << 20           # characters of a rendered template


class Bounded:
    """A process that answers one request after the other; it starts with the first."""

    process = None

    def __call__(self, seconds, memory, what, *given):
        """What WORK[what](*given) returns there, given and returned as JSON has it. Raises
        InputError for what it raises, and when it needs more time or memory."""
        if self.process is None:
            command = [sys.executable, "-P", "-c", "from npdl_train.bounded import serve; serve()"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL, start_new_session=True, encoding="ascii",
                env={**os.environ, "PYTHONPATH": import_paths(), "RAYON_NUM_THREADS": "1"})
            weakref.finalize(self, _end, self.process)
        late = threading.Event()
        timer = threading.Timer(seconds, lambda: (late.set(), self.process.kill()))
        timer.start()
        answer = ""
        try:
            request = {"parent": os.getpid(), "memory": memory, "what": what, "given": given}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline(memory // 8)
        except OSError:                 # it has ended
            pass
        finally:
            timer.cancel()
            if not answer.endswith("\n"):           # Ctrl-C, too, leaves nothing half asked
                _end(self.process)
                self.process = None
        if self.process is None:
            raise InputError(f"it needs more than {seconds:.0f} seconds" if late.is_set() else
                             f"it needs more than {memory >> 20} MiB of memory, or crashes")
        answer = json.loads(answer)
        if "refused" in answer:
            raise InputError(answer["refused"])
        return answer["answer"]


def _end(process):
    process.kill()
    process.stdin.close()
    process.stdout.close()
    process.wait()


def serve():
    """Answer the requests of standard input, line by line, until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        confine(request["parent"], for_good=False, AS=request["memory"])
        try:
            answer = {"answer": WORK[request["what"]](*request["given"])}
        except BaseException as error:  # a panic of Rust's is no Exception
            answer = {"refused": reason(error)}
        print(json.dumps(answer), flush=True)


def _render(template, messages, special):
    """A conversation as a template writes it, in jinja's sandbox."""
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message):
        raise ValueError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    class Generation(Extension):
        """{% generation %} .. {% endgeneration %} marks the model's words; its body is kept."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=["jinja2.ext.loopcontrols", Generation])
    sandbox.filters["tojson"] = tojson
    sandbox.globals["raise_exception"] = refuse
    sandbox.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    text = sandbox.from_string(template).render(messages=messages, tools=None, documents=None,
                                                add_generation_prompt=True, **special)
    if len(text) > LONGEST:
        raise ValueError(f"it writes {len(text):,} characters, more than {LONGEST:,}")
    return text


WORK = {**tokenizer_rules.WORK, "render": _render}
