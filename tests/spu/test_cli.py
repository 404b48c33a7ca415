"""spex spu: what people see."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

GOOD = b"""boot
write PMSIRR_EL1 INTERVAL=1
read PMSIRR_EL1 expect 0x100
expect enabled 0
"""

def play(text, *args):
    code, out, err = spex("spu", "run", *args, "-", stdin=text)
    return code, out.decode(), err

equal("a script that holds", play(GOOD), (0, "standard input: 3 checks hold\n", ""))
code, out, err = play(b"boot\nwrite PMSIRR_EL1 0x200\n"
                      b"read PMSIRR_EL1 expect INTERVAL=1\nexpect irq 1\n")
equal("expectations that fail: exit status 1", code, 1)
equal("they name line, expected and got", err.splitlines(),
      ["spex spu: standard input:3: PMSIRR_EL1 (INTERVAL=1): expected 0x100 (256), got 0x200 (512)",
       "spex spu: standard input:4: irq: expected 0x1 (1), got 0x0 (0)"])
for text, word in [(b"jump\n", "unknown command 'jump'"),
                   (b"write NOREG 1\n", "unknown register 'NOREG'"),
                   (b"write PMSCR_EL1 XX\n", "PMSCR_EL1 has no field 'XX'"),
                   (b"features v9\n", "unknown feature 'v9'"),
                   (b"choice x=1\n", "unknown choice 'x'"),
                   (b"boot\nop unicorn\n", "unknown operation 'unicorn'"),
                   (b"boot\nop load colour=3\n", "no 'colour="),
                   (b"boot\nexpect rain 1\n", "cannot expect 'rain'"),
                   (b"boot\nexpect record colour=1\n", "got nothing"), (b"ops\n", "ops NUMBER"),
                   (b"boot\nops 1000000000000\n", "at most"), (b"state el=9\n", "state has no"),
                   (b"boot\ncomplete a other\n", "nothing of that name"), (b"\0\n", "not text"),
                   (b"boot\nfeatures min\n", "before anything"),
                   (b"boot\nrestore\n", "nothing saved")]:
    code, out, err = play(text)
    check(f"an error names its reason: {word}",
          code == 1 and word in err and "standard input:" in err, err)
code, out, err = play(b"boot\nwrite PMBSR_EL1 S\n", "--trace")
check("trace tells what happens",
      "standard input:2: irq 1" in out and "write PMBSR_EL1 0x20000" in out, out)
code, out, err = play(b"test one\nspec SMP-26\nboot\nexpect irq 0\ntest two\nboot\nexpect irq 1\n",
                      "--tap")
equal("tap", out.splitlines(),
      ["# SPEC one SMP-26", "ok 1 one", "# standard input:7: irq: expected 0x1 (1), got 0x0 (0)",
       "not ok 2 two", "1..2"])
equal("tap with a failure: exit status", code, 1)
code, out, err = spex("spu", "choices")
check("choices lists every row",
      code == 0 and out.decode().count("=") > 90 and "in_flight=1" in out.decode())
names = [l.split("(", 1)[1].split(",")[0] for l in open(os.path.join(SOURCE, "src/spu/choices.def"))
         if l.startswith("CHOICE(")]
check("and each by its name", names and all(f"\n{n}=" in "\n" + out.decode() for n in names), names)
for args in [(), ("fly",), ("choices", "x")]:
    code, out, err = spex("spu", *args)
    check(f"usage: spu {' '.join(args)}", code == 2 and "run FILE" in err, err)
code, out, err = spex("spu", "run", "/does/not/exist")
check("a file that is not there", code == 1 and "/does/not/exist" in err, err)
page = open(os.path.join(SOURCE, "docs/spu-script.md")).read()
example = page[page.index("# first.spu"):page.index("```", page.index("# first.spu"))]
equal("the example of docs/spu-script.md holds", play(example.encode())[0], 0)
done()
