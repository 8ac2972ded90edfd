"""Run folders from strangers: settings and records that were edited, not parameters alone."""

import json

from npdl.errors import NpdlError
from npdl_train.runs.run import load_run
from npdl_train.runs.summary import summarise

ODD = (None, True, False, -1, 0, 1, 1.5, 7, 1000, 10**6, 10**9, 10**30, 1e308, "", "x", "lstm",
       "float64", 10**400, "\ud800", [], [2], [2, 3], ["x"], {}, {"rank": 1},
       {"rank": 10**9, "bits": "x"}, [[[]]])
EXTRA = {"text": "/dev/zero", "sha256": "0" * 64, "characters": "ab", "block": 10**9,
         "numbers": 10**9, "adapters": {"rank": 1, "bits": 4}, "unheard_of": 1}

BOMBS = ({"layers": 1000}, {"width": 3000}, {"numbers": 900_000, "width": 200},
         {"model": "lstm", "width": 4000}, {"multiplier": 100_000, "width": 100},
         {"text": "x", "sha256": "x", "characters": "ab", "block": 10**8})


class Settings:
    """The config.json and metrics.jsonl of a run folder, and how they can be made strange."""

    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.good = {name: (folder / name).read_bytes() for name in ("config.json",
                                                                    "metrics.jsonl")}

    def spoil(self):
        """Write one strange file into the folder."""
        self.restore()
        kind = self.rng.choice((self.values, self.values, self.records, self.extras, self.bits,
                                self.garbage))
        name, content = kind()
        (self.folder / name).write_bytes(content)

    def enlarge(self, changes):
        """Settings of a model that is far larger than the checkpoint."""
        self.restore()
        saved = self._settings()
        saved["config"] |= {"heads": 1, **changes}
        (self.folder / "config.json").write_text(json.dumps(saved))

    def restore(self):
        for name, content in self.good.items():
            (self.folder / name).write_bytes(content)

    def _settings(self):
        return json.loads(self.good["config.json"])

    def values(self):
        """Settings of another type or size, or none."""
        saved = self._settings()
        for _ in range(self.rng.choice((1, 1, 2))):
            name = self.rng.choice(sorted(saved["config"]))
            if self.rng.random() < 0.1:
                saved["config"].pop(name)
            else:
                saved["config"][name] = self.rng.choice(ODD)
        return "config.json", json.dumps(saved).encode()

    def records(self):
        """A number of a record that is of another type or size, or none."""
        lines = self.good["metrics.jsonl"].decode().splitlines()
        at = self.rng.randrange(len(lines))
        record = json.loads(lines[at])
        name = self.rng.choice(sorted(record))
        if self.rng.random() < 0.1:
            record.pop(name)
        else:
            record[name] = self.rng.choice(ODD)
        lines[at] = json.dumps(record)
        return "metrics.jsonl", "".join(f"{line}\n" for line in lines).encode()

    def extras(self):
        """A text to read, adapters, and what no version knows."""
        saved = self._settings()
        for name in self.rng.sample(sorted(EXTRA), self.rng.choice((1, 2, 4))):
            saved["config"][name] = EXTRA[name]
        return "config.json", json.dumps(saved).encode()

    def bits(self):
        """A flipped bit, or a file cut short."""
        name = self.rng.choice(sorted(self.good))
        bad = bytearray(self.good[name])
        if self.rng.random() < 0.5:
            del bad[self.rng.randrange(len(bad)):]
        else:
            bad[self.rng.randrange(len(bad))] ^= 1 << self.rng.randrange(8)
        return name, bytes(bad)

    def garbage(self):
        name = self.rng.choice(sorted(self.good))
        deep = b"[" * 100_000
        return name, self.rng.choice((b"", b"\0" * 50, b"null", b"[]", b"{}", b'{"config": 3}\n',
                                      b'{"config": []}\n', deep, b'{"config": ' + deep,
                                      b'{"step": 1}\n', b'{"step": NaN}\n',
                                      self.rng.randbytes(100)))


def ask(lab, settings, changes=None):
    """Spoil the settings and load the run: "refused", or "harmless" with the same parameters.

    With `changes`, those settings are claimed.
    """
    if changes is None:
        settings.spoil()
    else:
        settings.enlarge(changes)
    try:
        run = load_run(settings.folder)
        if run.records:
            summarise(run.records)
    except NpdlError as error:
        message = str(error)
        assert "\n" not in message and ";" in message, message
        return "refused"
    loaded = run.model.state_dict()
    assert loaded.keys() == lab.parameters.keys() and all(
        loaded[name].tobytes() == array.tobytes() for name, array in lab.parameters.items()), \
        f"other parameters were loaded: {(settings.folder / 'config.json').read_text()}"
    return "harmless"
