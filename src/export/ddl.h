/*
 * ClickHouse statements for the tables of a fleet: samples, the ledger of what was sent, and
 * roll-ups by minute; on one server or on each server of a cluster. docs/fleet.md says more.
 */
#ifndef EXPORT_DDL_H
#define EXPORT_DDL_H

#include "base/out.h"

enum ddl_dialect {
    DDL_TODAY,
    DDL_18, /* Debian 12's 18.16: no TTL, no LowCardinality, no codecs, no row policies */
    DDL_DIALECTS
};

struct ddl {
    const char *database, *cluster; /* cluster NULL: one server */
    enum ddl_dialect dialect;
    unsigned days; /* samples are kept; roll-ups ten times as long */
};

void ddl_print(struct out *out, const struct ddl *ddl);

#endif
