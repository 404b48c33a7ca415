#include "host.h"

#include <stdlib.h>
#include <string.h>

void host_init(struct host *host)
{
    static const uint8_t some[] = {0x37, 0x00, 0xff, 0x80, 0x01, 0x5a};
    memset(host, 0, sizeof *host);
    host->counter_on = true;
    host->time = 1000;
    host->random = some;
    host->random_count = sizeof some;
}

void host_fini(struct host *host)
{
    free(host->log);
    host->log = NULL;
}

void host_clear(struct host *host)
{
    host->count = 0;
}

static void keep(struct host *host, uint64_t address, uint8_t byte)
{
    if (host->count == host->capacity) {
        host->capacity = host->capacity ? 2 * host->capacity : 4096;
        host->log = realloc(host->log, host->capacity * sizeof *host->log);
        if (!host->log)
            abort();
    }
    host->log[host->count++] = (struct written){address, byte};
}

/* True if all went well; an asynchronous abort lets the byte pass and speaks later. */
static bool store_byte(struct host *host, uint64_t address, uint8_t byte,
                       struct spex_spu_stop *stop)
{
    const struct plan *plan = &host->plan;
    if (plan->stop.kind && address >= plan->low && address < plan->high) {
        *stop = plan->stop;
        if (stop->flags & SPEX_STOP_ASYNC) /* nobody knows yet */
            keep(host, address, byte);
        else
            host->lost += stop->kind == SPEX_STOP_ABORT;
        return false;
    }
    keep(host, address, byte);
    return true;
}

static void on_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct host *host = user;
    host->store_flags = store->flags;
    host->store = *store;
    host->store.bytes = NULL;
    struct spex_spu_stop late = {0};
    for (size_t i = 0; i < store->count; i++) {
        struct spex_spu_stop one = {0};
        if (store_byte(host, store->address + i, store->bytes[i], &one))
            continue;
        if (one.flags & SPEX_STOP_ASYNC) { /* the run goes on; told at its end */
            late = one;
            late.written = store->count;
            continue;
        }
        *stop = one;
        stop->written = i;
        return;
    }
    *stop = late;
}

static void on_byte(void *user, uint64_t address, uint8_t byte, struct spex_spu_stop *stop)
{
    store_byte(user, address, byte, stop);
}

static bool on_counter(void *user, uint64_t *count)
{
    struct host *host = user;
    *count = host->time;
    return host->counter_on;
}

static uint8_t on_random(void *user)
{
    struct host *host = user;
    uint8_t byte = host->random[host->random_at++ % host->random_count];
    return byte;
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct host *host = user;
    host->pmu[naive_pmu_index(event)] += count;
}

static void on_trigger(void *user)
{
    ((struct host *)user)->triggers++;
}

static void on_serror(void *user, uint64_t address)
{
    ((struct host *)user)->serrors++;
}

static void on_irq(void *user, bool level)
{
    struct host *host = user;
    host->irq_edges += host->irq != level;
    host->irq = level;
}

static void on_exception(void *user, const struct spex_spu_exception *exception)
{
    ((struct host *)user)->exception = *exception;
}

struct spex_spu_host host_callbacks(struct host *host)
{
    return (struct spex_spu_host){
        .user = host,
        .write = on_write,
        .counter = on_counter,
        .pmu = on_pmu,
        .trigger = on_trigger,
        .serror = on_serror,
        .irq = on_irq,
        .exception = on_exception,
        .random = on_random,
    };
}

struct naive_world host_world(struct host *host)
{
    return (struct naive_world){
        .user = host, .write = on_byte, .counter = on_counter, .random = on_random};
}

size_t host_bytes(const struct host *host, uint8_t *bytes, size_t capacity)
{
    for (size_t i = 0; i < host->count; i++) {
        if (i && host->log[i].address != host->log[i - 1].address + 1)
            return 0;
        if (i < capacity)
            bytes[i] = host->log[i].byte;
    }
    return host->count;
}
