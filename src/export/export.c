#include "export.h"

const struct export_format *const export_formats[] = {
#define FORMAT(name) &export_##name,
#include "export/formats.def"
    NULL,
};

const char *const export_weight_names[] = {"samples", "time", "latency", "misses", NULL};

unsigned export_format_wants(const struct export_format *format,
                             const struct export_settings *settings)
{
    bool time = format->weights && settings->weight == EXPORT_WEIGHT_TIME;
    return format->want | (time ? SPEX_WANT_SPENT : 0);
}

void export_begin(const struct export_format *format, struct export_job *job)
{
    export_source_init(&job->source, job->analysis);
    if (job->settings->host)
        job->source.host = job->settings->host;
    job->source.boot = job->settings->boot;
    out_init(&job->notes, -1);
    format->begin(job);
}

enum spex_status export_end(const struct export_format *format, struct export_job *job)
{
    enum spex_status status = format->end(job);
    export_source_fini(&job->source);
    return status;
}
