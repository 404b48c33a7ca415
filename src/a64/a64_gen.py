"""Turns a64.def into the tables of a64.c: rows, each with the row of needs.def that names it, and
an index by bits 31:21.

Stops with a message for a pattern that is not 32 bits, an unknown word, a field
that is not in the pattern, two rows that overlap by accident, or a need that names no row.
"""
import re
import sys

FLAGS = {"load", "store", "atomic", "excl", "acqrel", "fp", "simd", "simdfp", "pred", "gather",
         "cond", "indirect", "link", "return", "gcs", "csync", "psb", "predicate_only",
         "contiguous", "pred_zeroing", "whole_za"}
SPELLING = {"simdfp": "SIMDFP_REG"}
FIXED = {"NZCV": "SPEX_REG_NZCV", "FFR": "SPEX_REG_FFR", "ZA": "SPEX_REG_ZA",
         "ZT0": "SPEX_REG_ZT0", "SP": "SPEX_REG_SP", "X15": "15", "X16": "16", "X17": "17",
         "X30": "30"}
CLASSES = {"X": "REG_X", "S": "REG_XSP", "V": "REG_V", "Z": "REG_V", "P": "REG_P", "N": "REG_PN",
           "W": "REG_W12"}


class Bad(Exception):
    pass


def bits(pattern, letter):
    """Positions of a letter, most significant first."""
    return [31 - i for i, c in enumerate(pattern) if c == letter]


def compact(pattern, letter):
    """A field for numbers: up to two runs of bits, joined."""
    at = bits(pattern, letter)
    if not at:
        raise Bad(f"no field '{letter}'")
    runs = []
    for b in at:
        if runs and runs[-1][1] == b + 1:
            runs[-1][1] = b
        else:
            runs.append([b, b])
    if len(runs) > 2:
        raise Bad(f"field '{letter}' is in {len(runs)} pieces")
    low = runs[-1]
    high = runs[0] if len(runs) == 2 else None
    f = [low[1], low[0] - low[1] + 1]
    f += [high[1], high[0] - high[1] + 1] if high else [0, 0]
    return "{%d, %d, %d, %d}" % tuple(f)


def register(pattern, word):
    if word in FIXED:
        return "{REG_FIXED, %s, 0, 0, 0}" % FIXED[word]
    m = re.fullmatch(r"([24]?)([XSVZPNW])([a-z])(?:\+(\d+))?", word)
    if not m:
        raise Bad(f"operand '{word}'")
    at = bits(pattern, m.group(3))
    if not at:
        raise Bad(f"operand '{word}' without a field '{m.group(3)}'")
    low = at[-1]
    mask = sum(1 << (b - low) for b in at)  # gaps stay gaps: strided vector lists
    if mask > 31:
        raise Bad(f"operand '{word}' is wider than five bits")
    scale = {"": 0, "2": 1, "4": 2}[m.group(1)]
    return "{%s, %d, %d, %d, %s}" % (CLASSES[m.group(2)], low, mask, scale, m.group(4) or 0)


def number(pattern, text):
    """N, a letter (1 << field), N<<letter, with *N: {base, field, times}."""
    m = re.fullmatch(r"(?:(\d+)<<)?([a-z]|\d+)(?:\*(\d+))?", text)
    if not m:
        raise Bad(f"size '{text}'")
    base, value, times = m.group(1), m.group(2), m.group(3) or "1"
    if value.isdigit():
        return "{%s, {0, 0, 0, 0}, %s}" % (value, times)
    return "{%s, %s, %s}" % (base or "1", compact(pattern, value), times)


NONE = "{0, {0, 0, 0, 0}, 0}"


def parse(line):
    head, _, operands = line.partition(" : ")
    if head.endswith(" :"):
        head = head[:-2]
    words = head.split()
    if len(words) < 4:
        raise Bad("too few words")
    name, pattern, kind, execution = words[:4]
    if len(pattern) != 32 or re.search(r"[^01.a-zAL]", pattern):
        raise Bad(f"pattern of {len(pattern)} characters")
    row = {"name": name, "pattern": pattern, "kind": kind.upper(), "exec": execution.upper(),
           "flags": [], "size": NONE, "total": NONE, "element": NONE,
           "vectors": "{1, {0, 0, 0, 0}, 1}", "extent": "EXTENT_PLAIN", "first": False,
           "mask": int("".join("1" if c in "01" else "0" for c in pattern), 2),
           "value": int("".join("1" if c == "1" else "0" for c in pattern), 2),
           "order": sum(1 << b for c in "AL" for b in bits(pattern, c))}
    for word in words[4:]:
        if word in FLAGS:
            row["flags"].append(SPELLING.get(word, word.upper()))
        elif word == "first":
            row["first"] = True
        elif word[0] == "x" and word[1:2].isdigit():
            row["vectors"] = number(pattern, word[1:])
        elif word in ("@vl", "@svl", "@pl", "@ld1", "@ld1r"):
            row["extent"] = "EXTENT_" + word[1:].upper()
            if word in ("@ld1", "@ld1r"):
                row["size"] = "{1, %s, 1}" % compact(pattern, "y")
        elif word == "tile=mask":
            row["extent"] = "EXTENT_TILE_MASK"
            row["size"] = "{1, %s, 1}" % compact(pattern, "k")
        elif word.startswith("tile="):
            row["extent"] = "EXTENT_TILE"
            row["element"] = number(pattern, word[5:])
        elif word[0] == "@" and "/" in word:
            memory, element = word[1:].split("/")
            row["extent"] = "EXTENT_ELEMENTS"
            row["size"], row["element"] = number(pattern, memory), number(pattern, element)
        elif word[0] == "@":
            row["size"] = number(pattern, word[1:])
        elif word[0] == "%":
            row["total"] = number(pattern, word[1:])
        else:
            raise Bad(f"unknown word '{word}'")
    destinations, _, sources = operands.partition("=")
    row["dst"] = [register(pattern, w) for w in destinations.split()]
    row["src"] = [register(pattern, w) for w in sources.split()]
    if len(row["dst"]) > 4 or len(row["src"]) > 5:
        raise Bad("more operands than struct spex_op holds")
    return row


def is_named(pattern, name):
    if pattern.startswith("*"):
        return name.endswith(pattern[1:])
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def is_scalable(row):
    """In SVE's or SME's part of the encodings (C4.1, top level)?"""
    if row["mask"] >> 25 & 15 != 15:
        return False
    group = row["value"] >> 25 & 15
    return group == 2 or (group == 0 and row["value"] >> 31 == 1)


def add_needs(source, rows):
    """Each row's need: the first of the file that names it, from 1; 0: none. SIMD has names of
    SVE's, too."""
    needs = re.findall(r'^NEED\("(\w+)", [^,]+, "([^"]*)"\)', open(source).read(), re.M)
    errors = [f"{source}: {pattern} names no row of a64.def" for _, names in needs
              for pattern in names.split() if not any(is_named(pattern, r["name"]) for r in rows)]
    for r in rows:
        r["need"] = next((i for i, (feature, names) in enumerate(needs, 1)
                          if any(is_named(p, r["name"]) for p in names.split()) and
                          (is_scalable(r) or not feature.startswith("FEAT_SVE"))), 0)
    return errors


def overlap(a, b):
    return not (a["value"] ^ b["value"]) & a["mask"] & b["mask"]


def main(source, needs, target):
    rows, errors = [], []
    for n, line in enumerate(open(source), 1):
        line = line.split(" #")[0].rstrip()
        if not line or line.startswith("#"):
            continue
        try:
            row = parse(line)
            row["line"] = n
            rows.append(row)
        except Bad as e:
            errors.append(f"{source}:{n}: {e}")
    for i, a in enumerate(rows):
        for b in rows[i + 1:]:
            if overlap(a, b) and not a["first"] and \
                    (a["mask"] & b["mask"] != b["mask"] or a["mask"] == b["mask"]):
                errors.append(f"{source}:{a['line']}: {a['name']} overlaps "
                              f"{b['name']}, line {b['line']}")
    errors += add_needs(needs, rows)
    if errors:
        sys.exit("\n".join(errors[:40]))

    lists, index = [], []
    seen = {}
    for top in range(2048):
        probe = {"mask": 0x7ff << 21, "value": top << 21}
        ids = tuple(i for i, r in enumerate(rows) if overlap(probe, r))
        if ids not in seen:
            seen[ids] = len(lists)
            lists.extend(ids)
            lists.append(0xffff)
        index.append(seen[ids])
    with open(target, "w") as out:
        out.write("/* Generated from a64.def by a64_gen.py. */\n"
                  "static const struct row rows[] = {\n")
        for r in rows:
            flags = " | ".join("SPEX_OPF_" + f for f in r["flags"]) or "0"
            out.write('    {"%s", 0x%08x, 0x%08x, 0x%08x, SPEX_OP_%s, SPEX_EXEC_%s, %s, %d,\n' %
                      (r["name"], r["mask"], r["value"], r["order"], r["kind"], r["exec"],
                       r["extent"], r["need"]))
            out.write("     %s, %s, %s, %s, %s,\n" % (flags, r["size"], r["total"], r["element"],
                                                      r["vectors"]))
            out.write("     {%s}, {%s}},\n" % (", ".join(r["dst"]) or "{0}",
                                               ", ".join(r["src"]) or "{0}"))
        out.write("};\n\nstatic const uint16_t lists[] = {")
        for i, v in enumerate(lists):
            out.write(("\n    " if i % 16 == 0 else " ") + "%d," % v)
        out.write("\n};\n\nstatic const uint32_t by_top[2048] = {")
        for i, v in enumerate(index):
            out.write(("\n    " if i % 16 == 0 else " ") + "%d," % v)
        out.write("\n};\n")


main(sys.argv[1], sys.argv[2], sys.argv[3])
