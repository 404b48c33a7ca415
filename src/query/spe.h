/* Shared by the parts of query: the engine, its profiles, and the table function over them. */
#ifndef QUERY_SPE_H
#define QUERY_SPE_H

#include "query/duckdb.h"
#include "query/query.h"

#include "export/schema.h"
#include "export/texts.h"

#include <pthread.h>
#include <stdatomic.h>

/* A profile. A statement that reads it twice at the same time has two. */
struct query_profile {
    struct query_profile *next;
    char *path;
    struct spex_analysis *analysis;
    struct texts texts; /* texts that results point to: kept to the end */
    bool busy;
};

struct query {
    struct memory *account; /* the command's, in threads of DuckDB, too */
    struct query_options options;
    struct duck_database *database;
    struct duck_connection *connection;
    pthread_mutex_t lock; /* guards profiles */
    struct query_profile *profiles;
    atomic_bool interrupted;
    struct out error;
};

/* Adds function spe to the connection. */
bool spe_register(struct query *query);
/* Adds spe_files, spe_symbols, spe_stacks, spe_losses and spe_elapsed. */
bool spe_tables_register(struct query *query);

/* A profile for a pass; NULL if it cannot be read. Others may have it again afterwards. */
struct query_profile *spe_take_profile(struct query *query, const char *path,
                                       struct spex_error *error);
void spe_leave_profile(struct query *query, struct query_profile *profile);
/* The argument of a table function: the path of its profile, kept for its init. */
char *spe_bind_path(struct query *query, struct duck_bind *info);
int spe_type(enum export_type type, unsigned bits);

#endif
