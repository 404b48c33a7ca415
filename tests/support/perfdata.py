"""The smallest perf.data that Debian's perf dumps: one attr, one AUXTRACE buffer."""
import struct

PMU = 12


def record(kind, body=b"", misc=0):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def wrap(spe, midr=None):
    """A perf.data file around the bytes of one SPE buffer (padded to 8 with Padding packets), with
    the metadata of perf 6, or with those of perf 7 that name the core."""
    spe = spe + bytes(-len(spe) % 8)
    ids_at = 104
    attrs_at = ids_at + 8
    data_at = attrs_at + 144
    sample_type = 1 | 2 | 4 | 128 | 0x10000 | 0x8000  # IP TID TIME CPU IDENTIFIER DATA_SRC
    attr = struct.pack("<IIQQQQQ", PMU, 128, 0, 4096, sample_type, 0, 1 << 18)
    attr += bytes(128 - len(attr)) + struct.pack("<QQ", ids_at, 8)
    time_conv = struct.pack("<QQQQQBB6x", 24, 167772160, 0, 0, 0, 1, 0)
    data = record(79, time_conv)
    if midr is None:
        data += record(70, struct.pack("<IIQQ", 4, 0, PMU, 1))
    else:
        cpu = struct.pack("<QQQQQQQ", 0x1010101010101010, 0, 4, midr, PMU, 256, 0)
        data += record(70, struct.pack("<IIQQQQ", 4, 0, 2, 4, PMU, 1) + cpu)
    data += record(71, struct.pack("<QQQIIII", len(spe), 0, 0x1234, 0, 0xffffffff, 0, 0)) + spe
    header = struct.pack("<8sQQQQQQQ", b"PERFILE2", 104, 144, attrs_at, 144, data_at, len(data), 0)
    header += bytes(104 - len(header))
    return header + struct.pack("<Q", 7) + attr + data
