"""A spex with capabilities keeps them for recording; whoever reads with it, and names a
library to load, gets none."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import *

work = tempfile.TemporaryDirectory(prefix="spex-privileges-")
WORK = work.name
os.chmod(WORK, 0o755)
mine = os.path.join(WORK, "spex")
shutil.copy(SPEX, mine)
if os.geteuid() or not shutil.which("setcap") or run("setcap", "cap_perfmon,cap_sys_ptrace=ep",
                                                     mine)[0]:
    skip("capabilities", "not root, no setcap (package libcap2-bin), or a file system without them",
         machine=os.geteuid() != 0 or bool(shutil.which("setcap")))
    done()
with open(os.path.join(WORK, "library.c"), "w") as f:
    f.write("""
    #include <stdio.h>
    #include <string.h>
    __attribute__((constructor)) static void tell(void)
    {
        char line[256];
        FILE *f = fopen("/proc/self/status", "r");
        while (f && fgets(line, sizeof line, f))
            if (!strncmp(line, "CapEff", 6) || !strncmp(line, "CapPrm", 6))
                fputs(line, stderr);
    }
    """)
library = os.path.join(WORK, "library.so")
equal("the library is built", run("gcc", "-shared", "-fPIC", "-o", library, library[:-3] + ".c")[0],
      0)
code, out, err = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", mine, "query",
                     "SELECT 1", env={"SPEX_DUCKDB": library})
check("a library that the user names is loaded", "CapEff" in err, err)
equal("without the capabilities of the file",
      [l.split()[1] for l in err.splitlines() if l.startswith("Cap")],
      ["0" * 16] * 2)
done()
