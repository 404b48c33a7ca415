"""Random runs, printed as scripts, play on `spex spu run` with the naive unit's expectations."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from support.tap import *

model = sys.argv[1]
bad = []
for seed in range(1, 41):
    _, script, _ = run(model, seed, 1, 120, "script")
    code, _, err = spex("spu", "run", "-", stdin=script)
    if code:
        bad.append(f"seed {seed}: {err.splitlines()[:1]}")
check("a random run as a script ends as the naive unit does", not bad, "\n".join(bad))

# One expectation changed: the script must notice.
_, script, _ = run(model, 1, 1, 120, "script")
code, _, err = spex("spu", "run", "-",
                    stdin=script.replace(b"get PMSICR_EL1 expect 0x", b"get PMSICR_EL1 expect 0x7"))
check("a wrong expectation in such a script fails", code == 1 and "PMSICR_EL1" in err, err)
done()
