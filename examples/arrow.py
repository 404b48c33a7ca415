"""The samples of a profile by the Arrow C stream interface, read with nothing but ctypes.

    python3 arrow.py perf.data [LIBRARY]     prints the samples of each function

Where pyarrow is there, pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream)) takes
the stream instead of rows() below.
"""
import collections
import contextlib
import ctypes as c
import sys


class Schema(c.Structure):
    pass


class Array(c.Structure):
    pass


class Stream(c.Structure):
    pass


Schema._fields_ = [("format", c.c_char_p), ("name", c.c_char_p), ("metadata", c.c_char_p),
                   ("flags", c.c_int64), ("n_children", c.c_int64),
                   ("children", c.POINTER(c.POINTER(Schema))), ("dictionary", c.c_void_p),
                   ("release", c.CFUNCTYPE(None, c.POINTER(Schema))), ("private", c.c_void_p)]
Array._fields_ = [("length", c.c_int64), ("null_count", c.c_int64), ("offset", c.c_int64),
                  ("n_buffers", c.c_int64), ("n_children", c.c_int64),
                  ("buffers", c.POINTER(c.c_void_p)), ("children", c.POINTER(c.POINTER(Array))),
                  ("dictionary", c.c_void_p), ("release", c.CFUNCTYPE(None, c.POINTER(Array))),
                  ("private", c.c_void_p)]
Stream._fields_ = [("get_schema", c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Schema))),
                   ("get_next", c.CFUNCTYPE(c.c_int, c.POINTER(Stream), c.POINTER(Array))),
                   ("get_last_error", c.CFUNCTYPE(c.c_char_p, c.POINTER(Stream))),
                   ("release", c.CFUNCTYPE(None, c.POINTER(Stream))), ("private", c.c_void_p)]
TABLES = {"samples": 0, "files": 1, "threads": 2}
NUMBERS = {b"L": c.c_uint64, b"i": c.c_int32, b"S": c.c_uint16}


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("offset", c.c_uint64), ("text", c.c_char * 240)]


class Options(c.Structure):  # its first members: the others keep their defaults
    _fields_ = [("size", c.c_size_t), ("want", c.c_uint)]


def values(array, format):
    """A column as a list, None for null."""
    valid = c.cast(array.buffers[0], c.POINTER(c.c_uint8)) if array.buffers[0] else None
    numbers = c.cast(array.buffers[1], c.POINTER(NUMBERS.get(format, c.c_int32)))
    for i in range(array.offset, array.offset + array.length):
        if valid and not valid[i // 8] >> i % 8 & 1:
            yield None
        elif format == b"u":
            yield c.string_at(array.buffers[2] + numbers[i], numbers[i + 1] - numbers[i]).decode()
        else:
            yield numbers[i]


def rows(path, table="samples", library="libspex-profile.so"):
    """Each row of a table as a dict."""
    lib = c.CDLL(library)
    lib.spex_analysis_close.argtypes = [c.c_void_p]
    profile, stream, error = c.c_void_p(), Stream(), Error()
    with contextlib.ExitStack() as stack:
        options = Options(c.sizeof(Options), 0)
        if lib.spex_analysis_open(path.encode(), c.byref(options), c.byref(profile),
                                  c.byref(error)):
            raise OSError(error.text.decode())
        stack.callback(lib.spex_analysis_close, profile)
        if table != "samples" and lib.spex_analysis_run(profile, None, None, c.byref(error)):
            raise OSError(error.text.decode())
        if lib.spex_arrow_stream(profile, TABLES[table], c.byref(stream), c.byref(error)):
            raise OSError(error.text.decode())
        stack.callback(lambda: stream.release(c.byref(stream)))
        schema, array = Schema(), Array()
        if stream.get_schema(c.byref(stream), c.byref(schema)):
            raise OSError(stream.get_last_error(c.byref(stream)).decode())
        fields = [schema.children[i].contents for i in range(schema.n_children)]
        fields = [(f.name.decode(), bytes(f.format)) for f in fields]
        schema.release(c.byref(schema))
        while not (code := stream.get_next(c.byref(stream), c.byref(array))) and array.release:
            columns = [list(values(array.children[i].contents, format))
                       for i, (_, format) in enumerate(fields)]
            array.release(c.byref(array))
            yield from (dict(zip((name for name, _ in fields), row)) for row in zip(*columns))
        if code:
            raise OSError(stream.get_last_error(c.byref(stream)).decode())


if __name__ == "__main__":
    counts = collections.Counter(row["symbol"] or "?" for row in rows(sys.argv[1], "samples",
                                                                      *sys.argv[2:]))
    for symbol, samples in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(samples, symbol)
