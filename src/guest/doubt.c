/*
 * Instructions that QEMU's CPU may lack. Such an instruction is the last of its block and kills a
 * program that has no handler, and no callback reports that. So a note is made before it is
 * executed and removed if the thread goes on.
 */
#include <spex/a64.h>
#include "a64/needs.h"
#include "plugin.h"

#include <string.h>

static __thread struct vcpu *doubtful; /* the task with such a note */
static const char *proven[64];         /* features that QEMU has */

void doubt_ends(void)
{
    if (doubtful)
        doubtful->task.shared->illegal_pc = 0;
    doubtful = NULL;
}

void doubt_note(unsigned vcpu, void *data)
{
    const struct insn *insn = data;
    struct vcpu *v = plugin.hot[vcpu].vcpu;
    v->task.shared->illegal = insn->block->words[insn->index];
    v->task.shared->illegal_pc = pc_of(insn);
    doubtful = v;
}

static bool is_proven(const char *feature)
{
    for (size_t i = 0; i < sizeof proven / sizeof *proven && proven[i]; i++)
        if (proven[i] == feature)
            return true;
    return false;
}

/* The thread has continued, and not in a handler: the CPU has the feature that was in doubt. */
static void prove(void)
{
    struct a64_need need;
    size_t n = 0;
    if (a64_needs(doubtful->task.shared->illegal, &need) && !is_proven(need.feature)) {
        while (n < sizeof proven / sizeof *proven - 1 && proven[n])
            n++;
        proven[n] = need.feature;
    }
}

bool doubt_begins(uint32_t word, bool handler)
{
    struct a64_need need;
    const char *name = spex_a64_name(word);
    if (doubtful && !handler)
        prove();
    doubt_ends();
    if (!name || !strcmp(name, "UDF"))
        return true;
    return a64_needs(word, &need) && !is_proven(need.feature);
}
