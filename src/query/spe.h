/* What the parts of query share: the engine, its profiles, and the table function over them. */
#ifndef QUERY_SPE_H
#define QUERY_SPE_H

#include "query/duckdb.h"
#include "query/query.h"

#include "export/texts.h"

#include <pthread.h>
#include <stdatomic.h>

/* A profile. A statement that reads it twice at the same time has two. */
struct query_profile {
    struct query_profile *next;
    char *path;
    struct spex_analysis *analysis;
    struct texts texts; /* what results point to: kept to the end */
    bool busy;
};

struct query {
    struct query_options options;
    struct duck_database *database;
    struct duck_connection *connection;
    pthread_mutex_t lock; /* of profiles */
    struct query_profile *profiles;
    atomic_bool interrupted;
    struct out error;
};

/* Adds function spe to the connection. */
bool spe_register(struct query *query);

#endif
