"""Malformed checkpoints of many kinds, made out of a good one."""

import hashlib
import io
import pickle
import re
import zipfile

import numpy as np

from npdl.training import checkpoint

DIGEST = 64


class Trap:
    """An object whose unpickling would leave a mark."""

    path = ""

    def __reduce__(self):
        return open, (self.path, "w")


def sealed(body):
    """`body` with the digest at its end made right again."""
    return body[:-DIGEST] + hashlib.sha256(body[:-DIGEST]).hexdigest().encode()


def saved(tmp, arrays, meta):
    """The bytes of a checkpoint that save itself wrote."""
    path = tmp / "made.npz"
    checkpoint.save(path, arrays, meta)
    return path.read_bytes()


def archive(members):
    """A sealed archive of (name, bytes), as anyone can make it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members:
            file.writestr(zipfile.ZipInfo(name, checkpoint.EPOCH), data)
        file.comment = b"0" * DIGEST
    return sealed(buffer.getvalue())


def npy(descr, shape, data, order="False"):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


class Forger:
    """Makes malformed files out of a good one; each method is a kind of damage."""

    def __init__(self, good, other, tmp, rng):
        self.good, self.other, self.tmp, self.rng = good, other, tmp, rng
        self.arrays, self.meta = checkpoint.load(tmp / "run/checkpoint.npz")
        with zipfile.ZipFile(io.BytesIO(good)) as file:
            self.members = [(info.filename, file.read(info)) for info in file.infolist()]

    def bit_flips(self):
        bad = bytearray(self.good)
        for _ in range(self.rng.choice((1, 1, 1, 2, 8))):
            bad[self.rng.randrange(len(bad))] ^= 1 << self.rng.randrange(8)
        return bytes(bad)

    def truncations(self):
        cut = self.rng.choice((self.rng.randrange(len(self.good)), -self.rng.randrange(1, 200)))
        return self.good[:cut]

    def tails(self):
        tail = self.rng.choice((b"\0", b"\n", self.rng.randbytes(self.rng.randrange(1, 200)),
                                self.good, self.good[-DIGEST:]))
        return self.rng.choice((self.good + tail, tail + self.good))

    def resealed_edits(self):
        """Bytes of headers and structure changed under a digest that is right again."""
        bad = bytearray(self.good)
        places = [self.good.find(mark, self.rng.randrange(len(bad)))
                  for mark in (b"PK\x03\x04", b"PK\x01\x02", b"\x93NUMPY", b"PK\x05\x06")]
        place = self.rng.choice([place for place in places if place >= 0])
        for _ in range(self.rng.choice((1, 2, 4))):
            position = min(place + self.rng.randrange(100), len(bad) - DIGEST - 1)
            bad[position] = self.rng.randrange(256)
        return sealed(bytes(bad))

    def shapes_and_dtypes(self):
        name = self.rng.choice(sorted(self.arrays))
        array = self.arrays[name]
        changes = [array[None], array.ravel()[:-1], array.astype("float64"), array.astype("int32"),
                   array.astype(">f4"), array.astype("float16"), np.ravel(array)[:0],
                   np.concatenate([array, array])]
        changes += [array.T] if array.T.shape != array.shape else []
        return saved(self.tmp, {**self.arrays, name: self.rng.choice(changes)}, self.meta)

    def names(self):
        name = self.rng.choice(sorted(self.arrays))
        arrays = dict(self.arrays)
        kind = self.rng.randrange(3)
        if kind != 0:
            arrays[f"{self.rng.choice(('param', 'm', 'x'))}/more"] = np.ones(2, "float32")
        if kind != 1:
            arrays[name + self.rng.choice((" ", ".0", "x"))] = arrays.pop(name)
        return saved(self.tmp, arrays, self.meta)

    def other_models(self):
        return self.rng.choice(self.other)

    def numbers_that_are_none(self):
        """NaN or infinity in an array, under right CRCs and a right digest."""
        floats = [i for i, (name, _) in enumerate(self.members) if name.endswith(".npy")]
        chosen = self.rng.choice(floats)
        bad = self.rng.choice((np.nan, np.inf, -np.inf))
        data = bytearray(self.members[chosen][1])
        data[-4:] = np.float32(bad).tobytes()
        members = list(self.members)
        members[chosen] = (members[chosen][0], bytes(data))
        return archive(members)

    def pickles(self):
        payload = pickle.dumps(np.array([Trap()], object), protocol=self.rng.choice((2, 4)))
        kind = self.rng.randrange(4)
        name = self.rng.choice([name for name, _ in self.members if name.endswith(".npy")])
        forged = {0: payload, 1: npy("'|O'", (1,), payload), 2: npy("[('a', '|O')]", (1,), payload)}
        if kind == 3:
            return payload
        return archive([(n, forged[kind] if n == name else data) for n, data in self.members])

    def claims_of_ten_gigabytes(self):
        """Small files that say they are large: in an array's header, or in the archive's."""
        name = self.rng.choice([name for name, _ in self.members if name.endswith(".npy")])
        count = self.rng.randrange(2_500_000_000, 5_000_000_000)
        shape = self.rng.choice(((count,), (count // 64, 64), (2**40, 2**20), (2**62, 4)))
        huge = npy("'<f4'", shape, b"\0" * self.rng.randrange(64))
        if self.rng.random() < 0.5:
            return archive([(n, huge if n == name else data) for n, data in self.members])
        bad = bytearray(self.good)
        entries = [match.start() for match in re.finditer(b"PK\x01\x02", self.good)]
        entry = self.rng.choice(entries)
        size = self.rng.randrange(2**31, 2**32 - 1).to_bytes(4, "little")
        bad[entry + 20:entry + 28] = size * 2
        return sealed(bytes(bad))

    def metadata(self):
        """A JSON value that is not that of a checkpoint of this run."""
        meta = dict(self.meta)
        key = self.rng.choice(("step", "updates", "seconds"))
        value = self.rng.choice((None, -1, "3", True, [], {}, 0.5 if key != "seconds" else "x",
                                 10**18 if key != "seconds" else -2.0))
        if self.rng.random() < 0.3:
            meta.pop(key)
        else:
            meta[key] = value
        return saved(self.tmp, self.arrays, meta)

    def garbage(self):
        size = self.rng.choice((0, 1, 21, 22, 85, 86, 87, self.rng.randrange(5000)))
        junk = self.rng.randbytes(size)
        return self.rng.choice((junk, b"PK\x05\x06" + junk, sealed(junk + b"PK\x05\x06" + b"\0" * 16
                                                                   + b"\x40\0" + b"0" * DIGEST)))


KINDS = [name for name, value in vars(Forger).items() if not name.startswith("_")]
