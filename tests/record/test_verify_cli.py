"""spex verify and spex generate from outside: output, exit codes, vectors, documentation."""
import json, os, re, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

VECTORS = os.path.join(SOURCE, "tests/vectors")
dir = tempfile.mkdtemp()


def path(name, data=None):
    p = os.path.join(dir, name)
    if data is not None:
        open(p, "wb").write(data)
    return p


warned = set()  # rules that are warnings


def verify(data, *args):
    """Violations as (offset, record, rule), exit code, summary."""
    code, out, err = spex("verify", "--raw", "--format", "json", *args, "-", stdin=data)
    rows = [json.loads(l) for l in out.decode().splitlines()]
    for row in rows:
        warned.update([row["rule"]] if row["warning"] else [])
    return [(r["offset"], r["record"], r["rule"]) for r in rows], code, err


# ---- the violation vectors, as installed for others ----
made = subprocess.run([os.path.join(BUILD, "tests/record/violations-json")],
                      stdout=subprocess.PIPE).stdout
stored = open(os.path.join(VECTORS, "violations.json"), "rb").read()
check("violations.json is what violations.def says", made == stored,
      "run build/tests/record/violations-json > tests/vectors/violations.json")
wrong = []
for v in json.loads(stored):
    got, code, err = verify(bytes.fromhex(v["bytes"]), "--features", v["features"])
    if [(o, r) for o, _, r in got] != [(v["offset"], v["rule"])] or \
            code != (v["rule"] not in warned):
        wrong.append((v, got, code))
    got, code, err = verify(bytes.fromhex(v["repaired"]), "--features", v["features"])
    if got or code != 0:
        wrong.append((v, got, code))
check("the command finds each violation and passes each repaired stream", not wrong, wrong[:3])

# ---- hardware and third-party bytes; docs/deviations.md explains the last ones ----
N1 = "neoverse-n1"
HISI = "v1p0,no-lds,no-fds,countsize=2,maxsize=6,align=2"
for name, features, want in [
    ("spe-b1-ts0", N1 + ",no-ts", []),
    ("spe-b1-ts1", N1, []),
    ("quipper_n1_2rec", N1, []),
    ("kunpeng920_branch_a", HISI, []),
    ("kunpeng920_branch_b", HISI, []),
    # two whole records; the third is cut
    ("vspe_kvm_guest", HISI, [(0x4c, "record-unclosed")]),
    # the tail of one record and the head of another
    ("altra_issue123", N1 + ",align=0", [(0, "pc-missing"), (0x2d, "record-unclosed")]),
    # the Timestamp of a record before, and a record without its end
    ("spe_parser_frame", N1 + ",align=0", [(0, "record-empty"), (9, "record-unclosed")]),
    # a software model of 2018
    ("fvp_model_2018", "v1p0,no-lds,no-fds",
     [(0x19, "address-zero"), (0x19, "pc-level"), (0, "issue-missing")]),
]:
    data = open(os.path.join(VECTORS, name + ".spe"), "rb").read()
    got, code, err = verify(data, "--features", features)
    got = [(o, r) for o, _, r in got]
    equal(f"{name} with {features}", sorted(got), sorted(want))
    got, code, err = verify(data)
    check(f"{name} without features: no more than with them",
          {(o, r) for o, _, r in got} <= set(want), got)

# ---- generated streams through the pipe, every preset and layout ----
for features in ["neoverse-n1", "neoverse-v1", "neoverse-n2", "neoverse-v2", "neoverse-v3",
                 "ampereone", "kunpeng-920", "max", "min"]:
    for layout in ["compact", "n1", "hisi"]:
        code, data, err = spex("generate", "--seed", 42, "--records", 2000, "--features", features,
                               "--layout", layout)
        got, vcode, verr = verify(data, "--features", features)
        check(f"generate {features} {layout} passes", code == 0 and vcode == 0 and got == [] and
              "2000 records, 0 violations" in verr, (got[:3], verr))
same = [spex("generate", "--seed", s)[1] for s in (5, 5, 6)]
check("the same seed gives the same bytes, another one others", same[0] == same[1] != same[2])
code, data, err = spex("generate", "--features", "max", "--align", "6", "--records", 100)
code2, data2, err = spex("generate", "--features", "max", "--align", "64", "--records", 100)
check("--align as log2 and in bytes", data == data2 and len(data) % 64 == 0)
got, code, err = verify(data, "--features", "max,align=6")
equal("an aligned stream passes its alignment", got, [])
code, data, err = spex("generate", "--ops", "load,store", "--records", 200, "--layout", "n1",
                       "--features", "neoverse-n1")
code, out, err = spex("dump", "--raw", "--format", "json", "-", stdin=data)
classes = {json.loads(l)["index"] for l in out.splitlines() if b"operation-type" in l}
equal("--ops load,store", classes, {1})

# ---- damage and its truth ----
for kind in ["truncate", "flip", "lose", "splice"]:
    f, t = path("damaged"), path("truth")
    whole = spex("generate", "--seed", 9, "--records", 300)[1]
    code, out, err = spex("generate", "--seed", 9, "--records", 300, "--damage", kind, "-o", f,
                          "--truth", t)
    data = open(f, "rb").read()
    truth = [json.loads(l) for l in open(t)]
    check(f"{kind}: truth lists intact bytes",
          code == 0 and data != whole and 0 < len(truth) < 300 and
          all(data[r["offset"]:][:r["size"]].hex() == r["bytes"] for r in truth), len(truth))
    got, code, err = verify(data, "--features", "max")
    if kind in ("truncate", "lose", "splice"):
        check(f"{kind}: verify reports it with its offset", code == 1 and got, got)
    check(f"{kind}: intact records pass", code in (0, 1) and all(
        verify(bytes.fromhex(r["bytes"]), "--features", "max")[0] == [] for r in truth[:20]))

# ---- the command itself ----
code, out, err = spex("verify", "--raw", "-", stdin=bytes.fromhex("42029800100163"))
check("text: offset, record, rule, what and why; summary on stderr", code == 1 and
      out.decode().splitlines()[0] == "0x00000000: record 0: pc-missing: no PC packet (the record "
      "of an executed operation holds its PC)" and
      "0x00000006: record 1: packet-truncated: bytes left: 1" in out.decode() and
      err == "spex: 1 record, 4 violations\n", (out, err))
code, out, err = spex("verify", "--raw", "--ignore", "pc-missing,op-missing,issue-missing", "-",
                      stdin=bytes.fromhex("420298001001"))
check("--ignore", code == 0 and out == b"", (out, err))
for args, text in [(("--ignore", "pc-mising", "--raw", "-"), "did you mean 'pc-missing'"),
                   (("--features", "v9", "--raw", "-"), "v9")]:
    code, out, err = spex("verify", *args, stdin=b"")
    check(f"usage: {' '.join(args)}", code == 2 and text in err, err)
for args, text in [(("--align", "3000"), "power of two"), (("--ops", "jump"), "load, store"),
                   (("--features", "min", "--align", "9"), "aligned to 2^9"),
                   (("--damage", "fire"), "truncate"), (("x",), "operand")]:
    code, out, err = spex("generate", *args)
    check(f"generate usage: {' '.join(args)}", code == 2 and text in err and out == b"", err)
code, out, err = spex("verify", path("none"))
check("no such file", code == 1 and "none" in err, err)
code, out, err = spex("verify", path("raw", bytes.fromhex("4202")))
check("a raw stream without --raw: told how", code == 1 and "--raw" in err, err)
code, out, err = spex("verify", "--raw", "-", stdin=b"")
check("an empty stream is fine", code == 0 and err == "spex: 0 records, 0 violations\n", err)
# a stream larger than one block, with one violation near the end
data = spex("generate", "--records", 40000)[1]
got, code, err = verify(data + bytes.fromhex("4200" "1f" "710000000000000000"), "--features", "max")
equal("blocks are joined", got, [(len(data) + 2, 40000, "header-reserved")])

# ---- perf.data ----
sys.path.insert(0, os.path.join(SOURCE, "tests/support"))
import perfdata
good = spex("generate", "--records", 500, "--features", "max,align=3")[1]
code, out, err = spex("verify", path("perf.data", perfdata.wrap(good)))
check("perf.data: clean", code == 0 and "500 records, 0 violations" in err, (out, err))
bad = good + bytes.fromhex("42001f01" "00000000")
code, out, err = spex("verify", path("perf.data", perfdata.wrap(bad)))
check("perf.data: violation with its queue", code == 1 and
      re.fullmatch(rf"(cpu|tid) -?\d+: 0x{len(good) + 2:08x}: record 500: header-reserved: .*\n",
                   out.decode()), (out, err))

# ---- documentation ----
doc = open(os.path.join(SOURCE, "docs/verify.md")).read()
code, rules, err = spex("verify", "--rules")
table = doc.split("<!-- spex verify --rules -->\n")[1].split("<!-- end -->")[0]
check("docs/verify.md has the current table of rules", table == rules.decode(),
      "paste: spex verify --rules")
known = {l.split("\t")[0] for l in open(os.path.join(SOURCE, "spec/requirements.tsv"))}
ids = set(re.findall(r"\b[A-Z]{3}-\d+\b", rules.decode()))
check("rules name existing requirements", ids and ids <= known, ids - known)
example = re.search(r"\$ printf '([^']*)' \| spex verify (.*) -\n(.*?)spex: 1 record", doc, re.S)
code, out, err = spex("verify", *example.group(2).split(), "-",
                      stdin=bytes.fromhex(example.group(1).replace("\\x", "")))
equal("docs/verify.md: the example is real output", out.decode(), example.group(3))
done()
