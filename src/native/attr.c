/* What perf_event_open is asked for, by the options of a recording. */
#include "open.h"

#include "base/bits.h"

#include <string.h>

enum { CONFIG3 = 128, CONFIG4 = 136 }; /* after what Linux 6.1's headers have */

static void common(const struct native_options *o, union native_attr *attr)
{
    *attr = (union native_attr){
        .a = {.size = PERF_ATTR_SIZE_VER7,
              .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID,
              .read_format = PERF_FORMAT_ID,
              .disabled = 1,
              .inherit = !o->per_thread && !o->all_cpus,
              .sample_id_all = 1}};
    /* perf decodes records per thread only where no event has a time. */
    if (!o->per_thread)
        attr->a.sample_type |= PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
}

void native_attr_spe(const struct native_options *o, const struct native_event *e, bool user_only,
                     union native_attr *attr)
{
    enum { TS_ENABLE = 1, PA_ENABLE = 2 };
    const struct native_pmu *pmu = &o->machine->pmus[e->pmu];
    common(o, attr);
    attr->a.type = pmu->type;
    attr->a.config = e->terms.config[0];
    attr->a.config1 = e->terms.config[1];
    attr->a.config2 = e->terms.config[2];
    /* With a ring per CPU, times show whose records they are; perf asks for them, too. */
    if (!o->per_thread && !o->no_aux)
        attr->a.config |= TS_ENABLE;
    if (e->terms.config[3] || e->terms.config[4]) {
        attr->a.size = sizeof attr->bytes;
        memcpy(attr->bytes + CONFIG3, &e->terms.config[3], 8);
        memcpy(attr->bytes + CONFIG4, &e->terms.config[4], 8);
        if (!e->terms.config[4]) /* an older kernel knows config3 alone */
            attr->a.size = CONFIG4;
    }
    attr->a.sample_period = e->terms.period ? e->terms.period : o->period;
    attr->a.sample_type |= PERF_SAMPLE_DATA_SRC;
    if (e->terms.config[0] & PA_ENABLE)
        attr->a.sample_type |= PERF_SAMPLE_PHYS_ADDR;
    attr->a.exclude_user = e->terms.exclude_user;
    attr->a.exclude_kernel = e->terms.exclude_kernel || user_only;
    attr->a.exclude_hv = user_only;
    attr->a.enable_on_exec = o->argv && !o->delay && !o->all_cpus;
}

void native_attr_tracking(const struct native_options *o, unsigned level, union native_attr *attr)
{
    common(o, attr);
    attr->a.type = PERF_TYPE_SOFTWARE;
    attr->a.config = PERF_COUNT_SW_DUMMY;
    attr->a.sample_period = 1;
    attr->a.exclude_kernel = attr->a.exclude_hv = 1;
    attr->a.mmap = attr->a.mmap2 = attr->a.mmap_data = 1;
    attr->a.comm = attr->a.comm_exec = attr->a.task = 1;
    attr->a.context_switch = !o->per_thread;
    attr->a.watermark = 1;
    attr->a.wakeup_watermark = 64 << 10;
    attr->a.build_id = level < 2;
    attr->a.namespaces = level < 3;
    attr->a.ksymbol = attr->a.bpf_event = level < 1;
    attr->a.enable_on_exec = o->argv && !o->all_cpus;
}

void native_attr_stacks(const struct native_options *o, bool clock, bool user_only,
                        union native_attr *attr)
{
    common(o, attr);
    attr->a.type = clock ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE;
    attr->a.config = clock ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_HW_CPU_CYCLES;
    attr->a.freq = 1;
    attr->a.sample_freq =
        999; /* a number that is not in step with what happens a thousand times a second */
    attr->a.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_PERIOD;
    attr->a.exclude_kernel = attr->a.exclude_hv = user_only;
    attr->a.enable_on_exec = o->argv && !o->delay && !o->all_cpus;
}
