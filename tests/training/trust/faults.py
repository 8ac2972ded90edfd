"""Calls to the file system that kill the process, or that the system refuses."""

import builtins
import errno
import json
import os
import signal


class Faults:
    """Counts the calls that change `folder`, and lets something happen at number `at`.

    what   "kill" (SIGKILL), a name of errno (that OSError), "vanish" (the folder is moved away)
    A write that is hit gets half of its bytes out first.
    log    a file that gets the names of all calls, if nothing is to happen
    """

    def __init__(self, folder, at=None, what=None, log=None):
        self.folder, self.at, self.what, self.log = folder, at, what, log
        self.calls, self.handles = [], {}

    def install(self):
        builtins.open = self._opening(builtins.open)
        for name in ("replace", "mkdir", "unlink"):
            setattr(os, name, self._calling(name, getattr(os, name)))
        os.open, os.fsync = self._opening_folder(os.open), self._syncing(os.fsync)

    def event(self, name, half=lambda: None):
        """Call this before the call `name`; `half` does half of it."""
        self.calls.append(name)
        if self.log:
            with self._plain_open(self.log, "w") as file:
                json.dump(self.calls, file)
        if len(self.calls) - 1 != self.at:
            return
        if self.what == "vanish":
            os.rename(self.folder, f"{self.folder}.moved")
            return
        half()
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.what)
        raise OSError(number, os.strerror(number))

    def _is_ours(self, path):
        return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self.folder)

    def _opening(self, original):
        self._plain_open = original

        def opened(path, mode="r", *rest, **how):
            if not self._is_ours(path) or not set(mode) & set("wax+"):
                return original(path, mode, *rest, **how)
            self.event(f"open {_name(path)}")
            file = original(path, mode, *rest, **how)
            self.handles[file.fileno()] = path
            return Writing(self, file, _name(path))

        return opened

    def _opening_folder(self, original):
        def opened(path, *rest, **how):
            if self._is_ours(path):
                self.event("open folder")
            handle = original(path, *rest, **how)
            self.handles[handle] = path
            return handle

        return opened

    def _calling(self, name, original):
        def called(path, *rest, **how):
            if self._is_ours(path):
                self.event(f"{name} {_name(path)}")
            return original(path, *rest, **how)

        return called

    def _syncing(self, original):
        def synced(handle):
            if handle in self.handles:
                self.event(f"fsync {_name(self.handles[handle])}")
            return original(handle)

        return synced


class Writing:
    """A file whose writes and flushes are events; everything else is the file's own."""

    def __init__(self, faults, file, name):
        self._faults, self._file, self._name = faults, file, name

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.__exit__(*error)

    def write(self, data):
        def half():
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._faults.event(f"write {self._name}", half)
        return self._file.write(data)

    def writelines(self, lines):
        self.write(b"".join(lines))

    def flush(self):
        self._faults.event(f"flush {self._name}")
        self._file.flush()


def _name(path):
    """The name of a file without what differs from process to process."""
    name = os.path.basename(os.fspath(path))
    return name.lstrip(".").rsplit(".", 2)[0] if name.endswith(".tmp") else name
