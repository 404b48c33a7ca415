"""The samples of a profile by the Arrow C stream interface, read with nothing but ctypes.

    python3 arrow.py perf.data [LIBRARY]     prints the samples of each function

pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(s)) takes what opened() yields, too.
"""
import collections
import contextlib
import ctypes as c
import sys

TABLES = {"samples": 0, "files": 1, "threads": 2}
NUMBERS = {b"L": c.c_uint64, b"i": c.c_int32, b"S": c.c_uint16}
# these point to each other: their members follow
Schema, Array, Stream = (type(name, (c.Structure,), {}) for name in ("Schema", "Array", "Stream"))


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("offset", c.c_uint64), ("text", c.c_char * 240)]


class Options(c.Structure):  # its first members: the others keep their defaults
    _fields_ = [("size", c.c_size_t), ("want", c.c_uint)]


def function(result, *takes):
    return c.CFUNCTYPE(result, *map(c.POINTER, takes))


Schema._fields_ = [("format", c.c_char_p), ("name", c.c_char_p), ("metadata", c.c_char_p),
                   ("flags", c.c_int64), ("n_children", c.c_int64),
                   ("children", c.POINTER(c.POINTER(Schema))), ("dictionary", c.c_void_p),
                   ("release", function(None, Schema)), ("private", c.c_void_p)]
Array._fields_ = [(name, c.c_int64) for name in ("length", "null_count", "offset", "n_buffers",
                                                 "n_children")] + [
    ("buffers", c.POINTER(c.c_void_p)), ("children", c.POINTER(c.POINTER(Array))),
    ("dictionary", c.c_void_p), ("release", function(None, Array)), ("private", c.c_void_p)]
Stream._fields_ = [("get_schema", function(c.c_int, Stream, Schema)),
                   ("get_next", function(c.c_int, Stream, Array)),
                   ("get_last_error", function(c.c_char_p, Stream)),
                   ("release", function(None, Stream)), ("private", c.c_void_p)]


@contextlib.contextmanager
def opened(path, table="samples", library="libspex-profile.so"):
    """The stream of a table, for as long as the block runs."""
    lib = c.CDLL(library)
    lib.spex_analysis_close.argtypes = [c.c_void_p]
    profile, stream, error = c.c_void_p(), Stream(), Error()
    options = Options(c.sizeof(Options), 0)
    try:
        if (lib.spex_analysis_open(path.encode(), c.byref(options), c.byref(profile),
                                   c.byref(error)) or
            table != "samples" and lib.spex_analysis_run(profile, None, None, c.byref(error)) or
            lib.spex_arrow_stream(profile, TABLES[table], c.byref(stream), c.byref(error))):
            raise OSError(error.text.decode())
        yield stream
    finally:
        if stream.release:
            stream.release(c.byref(stream))
        lib.spex_analysis_close(profile)


def values(array, kind):
    """A column, None for null."""
    valid = c.cast(array.buffers[0], c.POINTER(c.c_uint8)) if array.buffers[0] else None
    numbers = c.cast(array.buffers[1], c.POINTER(NUMBERS.get(kind, c.c_int32)))
    for i in range(array.offset, array.offset + array.length):
        if valid and not valid[i // 8] >> i % 8 & 1:
            yield None
        elif kind == b"u":
            yield c.string_at(array.buffers[2] + numbers[i], numbers[i + 1] - numbers[i]).decode()
        else:
            yield numbers[i]


def rows(path, table="samples", library="libspex-profile.so"):
    """Each row of a table as a dict."""
    with opened(path, table, library) as stream:
        schema, array = Schema(), Array()
        code = stream.get_schema(c.byref(stream), c.byref(schema))
        fields = [schema.children[i].contents for i in range(schema.n_children)]
        fields = [(f.name.decode(), bytes(f.format)) for f in fields]
        schema.release and schema.release(c.byref(schema))
        while not code and not (code := stream.get_next(c.byref(stream), c.byref(array))) and (
                array.release):
            columns = [list(values(array.children[i].contents, kind))
                       for i, (_, kind) in enumerate(fields)]
            array.release(c.byref(array))
            yield from (dict(zip((name for name, _ in fields), row)) for row in zip(*columns))
        if code:
            raise OSError(stream.get_last_error(c.byref(stream)).decode())


if __name__ == "__main__":
    counts = collections.Counter(row["symbol"] or "?" for row in rows(sys.argv[1], "samples",
                                                                      *sys.argv[2:]))
    for symbol, samples in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(samples, symbol)
