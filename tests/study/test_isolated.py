"""A sealed process can only compute, and its answers are read with distrust."""

import io
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from npdl_study.homework import isolated
from npdl_train.process import SEALS

pytestmark = pytest.mark.skipif((sys.platform, platform.machine()) not in SEALS,
                                reason="needs Linux's seccomp")
ROOT = Path(__file__).parents[2]

SEALED = """
import ctypes, errno, os, socket, sys, threading
from npdl_train import process
libc = ctypes.CDLL(None, use_errno=True)
def libcs(name, *given):
    if getattr(libc, name)(*given) == -1:
        raise OSError(ctypes.get_errno(), name)
process.seal()
print(sum(bytearray(1 << 20)), os.urandom(1) is None)       # what it may do
for attack in sys.argv[1:]:
    try:
        exec(attack)
    except OSError as error:
        print(error.errno == errno.EPERM)
    except RuntimeError as error:
        print(str(error) == "can't start new thread")
    else:
        print("done")
"""
ATTACKS = [
    "open(process.__file__)", "open('/tmp/npdl-written', 'w')", "os.mkdir('/tmp/npdl-written')",
    "os.listdir('.')", "os.fork()", "threading.Thread(target=print).start()", "socket.socket()",
    "os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 0)", "os.open('/proc/self/mem', os.O_RDWR)",
    "libcs('prctl', 1, 0, 0, 0, 0)", "libcs('shmget', 1, 4096, 0o1666)",
    "libcs('semget', 1, 1, 950)", "libcs('msgget', 1, 0o1666)",
    "libcs('mq_open', b'/npdl', 0o102, 0o666, None)",
    "libcs('unshare', 1 << 28)", "libcs('ptrace', 16, 1, 0, 0)", "libcs('syscall', 250, 0, 0)",
    "libcs('fcntl', 1, 8, 1)", "libcs('memfd_create', b'x', 0)",
    "libcs('prlimit', 0, 7, None, None)", "libcs('madvise', None, 4096, 100)",
]


def test_a_sealed_process_can_only_compute(tmp_path):
    ran = subprocess.run([sys.executable, "-c", SEALED, *ATTACKS], text=True, timeout=60,
                         stdout=subprocess.PIPE, cwd=tmp_path,
                         env={**os.environ, "PYTHONPATH": str(ROOT)})
    first, *found = ran.stdout.splitlines()
    assert first == "0 False" and ran.returncode == 0
    assert dict(zip(ATTACKS, found, strict=True)) == dict.fromkeys(ATTACKS, "True")


def test_answers_are_read_with_distrust():
    def packed(**arrays):
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    large = io.BytesIO()
    with zipfile.ZipFile(large, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\0v\0{'descr': '<f8', 'fortran_order': False, "
                         b"'shape': (9999999999999,), }".ljust(128) + b"\n")
    kinds = {"s/output/y": np.ones(3), "s/gradient/x": np.array("x"), "s/after/x": np.ones(3, int),
             "s/error": np.array("x"), "refused": np.ones(3)}
    assert list(isolated._unpacked(packed(**kinds))) == ["s/output/y", "s/error"]
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("s/error", b"no array")
    text = np.frombuffer(b"\xff\xff\xff\x7f", "<U1")        # of no letter
    for said in (b"", b"x", packed(a=np.ones(3))[:-9], packed(a=np.zeros(1 << 20)),
                 packed(a=np.array([{}], object)), large.getvalue(), other.getvalue(),
                 packed(a=text)):
        assert isolated._unpacked(said) == {}
