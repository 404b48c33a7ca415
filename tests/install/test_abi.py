"""
The libraries keep what programs were built for (spec/abi), and the comparison notices each kind of
break: the newest description is changed as a careless edit would change the interface.
"""
import os, re, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import abi

for name in abi.LIBRARIES:
    old = open(os.path.join(abi.KEPT, abi.newest(), f"{name}.txt")).read()
    new = abi.describe(os.path.join(BUILD, f"{name}.so"))
    wrong = list(abi.broken(old, new, abi.nodes_of(old), abi.library_made()))
    check(f"{name} has what programs built for {abi.newest()} use", old and not wrong,
          "\n".join(wrong))

kept = open(os.path.join(abi.KEPT, abi.newest(), "libspex.txt")).read()
NODES = abi.nodes_of(kept)


def breaks(what, pattern, becomes, says):
    """The description with one change; None: no complaint."""
    text, count = re.subn(pattern, becomes, kept, count=1, flags=re.M)
    found = list(abi.broken(kept, text, NODES, {"spex_violation"}))
    check(what, count == 1 and (len(found) == 1 and says in found[0] if says else not found),
          (count, found))


breaks("a function that is gone", r"^function spex_packet_text\n.*\n", "", "is gone")
breaks("a parameter of another type", r"(spex_packet_text\(.*)size_t", r"\1uint32_t", "was SPEX_1")
breaks("a function in another node", r"SPEX_1 (.*spex_packet_text)", r"SPEX_2 \1", "was SPEX_1")
breaks("a new function in an old node", r"\Z",
       "function spex_new\n    SPEX_1 void spex_new(void)\n", "which was released without it")
breaks("a new function in a node of its own", r"\Z",
       "function spex_new\n    SPEX_1_9 void spex_new(void)\n", None)
breaks("a member that moved", r"^(struct spex_spu_config\n(?:.*\n)*?    )64 features",
       r"\g<1>128 features", "at bit 64")
breaks("a member of another type", r"^(struct spex_spu_config\n.*\n    0 size) .*", r"\1 int",
       "was size_t")
breaks("options may grow at the end", r"^(struct spex_spu_config\n    size )(\d+)((?:\n    .*)*)",
       lambda m: f"{m[1]}{int(m[2]) + 8}{m[3]}\n    {int(m[2]) * 8} more uint64_t", None)
breaks("what the library makes may grow at the end",
       r"^(struct spex_violation\n    size )(\d+)((?:\n    .*)*)",
       lambda m: f"{m[1]}{int(m[2]) + 8}{m[3]}\n    {int(m[2]) * 8} more uint64_t", None)
breaks("plain data may not", r"^(struct spex_op\n    size )(\d+)((?:\n    .*)*)",
       lambda m: f"{m[1]}{int(m[2]) + 8}{m[3]}\n    {int(m[2]) * 8} more uint64_t", "bytes, had")
breaks("a value that changed", "SPEX_OP_CSEL 1", "SPEX_OP_CSEL 7", "was 1, is 7")
breaks("a value that is gone", "^    SPEX_OP_CSEL 1\n", "", "is gone")
breaks("a new value before _COUNT", r"SPEX_OP_KIND_COUNT (\d+)",
       lambda m: f"SPEX_OP_NEW {m[1]}\n    SPEX_OP_KIND_COUNT {int(m[1]) + 1}", None)
zeros = re.search(r"^(struct \w+\n(?:    .*\n)*?    )(\d+) zero (\w+)", kept, re.M)
breaks("what takes the place of a zero", re.escape(zeros[0]),
       f"{zeros[1]}{zeros[2]} named {zeros[3]}", None)
done()
