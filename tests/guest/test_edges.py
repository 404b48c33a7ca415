"""Calls between functions, exactly (record --truth -g --model full), as
callgrind_annotate reads them."""
from guest import *

need_engine("calls")
SOURCE_TEXT = """
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define F __attribute__((noinline, noclone)) long
static jmp_buf back;
F leaf(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
F twice(long n) { return leaf(n) + leaf(n + 1); }
F fact(long n) { return n < 2 ? 1 : n * fact(n - 1) + leaf(1); }
F leaves(long n) { leaf(n); longjmp(back, 1); return n; }
F tail(long n) { return leaf(n * 2); }
F pointer(long (*f)(long), long n) { return f(n) + 1; }
static void *thread(void *x) { leaf(5); return x; }
int main(void)
{
    long s = 0;
    pthread_t t[3];
    for (int i = 0; i < 100; i++)
        s += twice(10);
    for (int i = 0; i < 7; i++)
        s += fact(6);
    for (volatile int i = 0; i < 5; i++)
        if (!setjmp(back))
            leaves(20);
    for (int i = 0; i < 9; i++)
        s += tail(3) + pointer(fact, 3) + abs((int)i - 4);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, thread, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    if (!fork()) {
        leaf(50);
        _exit(0);
    }
    wait(NULL);
    printf("%ld\\n", s);
    return 0;
}
"""
# function -> function: calls, by the text above; tail() goes on in leaf() without a call
WANT = {("main", "twice"): 100, ("twice", "leaf"): 200, ("main", "fact"): 7,
        ("fact", "fact"): 35 + 18,
        ("fact", "leaf"): 35 + 18, ("main", "leaves"): 5, ("leaves", "leaf"): 5,
        ("main", "tail"): 9,
        ("main", "pointer"): 9, ("pointer", "fact"): 9, ("thread", "leaf"): 3, ("main", "leaf"): 1}
EVENTS = 7


def read_callgrind(path):
    """By function: its own counts, and what it calls: (calls, counts)."""
    own, calls, function, callee, pending = {}, {}, None, None, 0
    for line in open(path):
        line = line.strip()
        if line.startswith("fn="):
            function = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            pending = int(line[6:].split()[0])
        elif line.startswith("0x"):
            counts = [int(n) for n in line.split()[2:]]
            to, key = (calls, (function, callee)) if pending else (own, function)
            n, sums = to.get(key, (0, [0] * EVENTS))
            to[key] = (n + pending, [a + b for a, b in zip(sums, counts)])
            pending = 0
    return own, calls


def check_program(name, *flags):
    source, program = os.path.join(WORK, "calls.c"), os.path.join(WORK, name)
    with open(source, "w") as f:
        f.write(SOURCE_TEXT)
    code, _, err = run(CC, "-O1", "-g", "-foptimize-sibling-calls", "-pthread", "-o", program,
                       source, *flags)
    equal(f"{name}: built", (code, err), (0, ""))
    code, out, err, path = record("--truth", "-g", "--model", "full", "--", program)
    equal(f"{name}: recorded", code, 0)
    grind = os.path.join(WORK, "callgrind.out")
    code, _, err = spex("export", "--to", "callgrind", "-i", path, "-o", grind)
    own, calls = read_callgrind(grind)
    found = {k: v[0] for k, v in calls.items() if k in WANT or
             (k[0] in dict(WANT) and k[1] in dict(WANT))}
    equal(f"{name}: as many calls as there are", found, WANT)
    # what a function calls that is not itself called by others below it: its own counts
    # and those of its callees
    for f in ("twice", "leaves", "pointer"):
        into = [sum(c) for c in zip(*(v[1] for k, v in calls.items() if k[1] == f))]
        below = [sum(c) for c in zip(own[f][1], *(v[1] for k, v in calls.items() if k[0] == f))]
        if f == "leaves":  # longjmp ends it in code that the function calls
            check(f"{name}: {f}: until it was left", into[0] >= own[f][1][0], (into, below))
        else:
            # cycles are rounded, in each row
            check(f"{name}: {f}: what calls of it count is its own and what it calls",
                  into[:-1] == below[:-1] and abs(into[-1] - below[-1]) <= 4, (into, below))
    total = [sum(c) for c in zip(*(v[1] for v in own.values()))]
    start = [v[1] for k, v in calls.items() if k[1] in ("main", "__wrap_main")]
    check(f"{name}: main has less than the whole",
          start and all(0 < a <= b for a, b in zip(start[0][:1], total)), (start, total))
    if shutil.which("callgrind_annotate"):
        code, out, err = run("callgrind_annotate", "--inclusive=yes", "--tree=caller", grind,
                             cwd="/")
        text = out.decode(errors="replace")
        check(f"{name}: callgrind_annotate reads it, callers too",
              code == 0 and "malformed" not in err and
              re.search(r"< .*:twice \(200x\)", text), (err[:300], text[:2000]))
    return path


path = check_program("calls-static", "-static")
rows = [l for l in open(path + ".truth") if l.startswith("#call")]
check("rows of calls are comments to those who do not know them",
      rows and all(len(l.split("\t")) == 13 for l in rows), rows[:2])
check_program("calls-dynamic", "-Wl,-z,now")
_, calls = read_callgrind(os.path.join(WORK, "callgrind.out"))
equal("a call through the PLT is one of the function",
      calls.get(("main", "pthread_create"), [0])[0], 3)
code, _, err, path = record("--truth", "-g", "--model", "none", "--",
                            os.path.join(WORK, "calls-static"))
check("without a model there are none",
      not any(l.startswith("#call") for l in open(path + ".truth")))
done()
