/* The features that a column of a table is to a network: how many, and whose a feature is. */
#ifndef QN_DATA_COLUMNS_H
#define QN_DATA_COLUMNS_H

#include "quern/data.h"

enum {
    QN_TABLE_DATE = 7,   /* features of a date */
    QN_TABLE_HASHES = 64 /* of a column of too many texts */
};

/* Without the one of gaps, and with it. */
int64_t qn_table_value_count(const qn_table_column *column);
int64_t qn_table_feature_count(const qn_table_column *column);

/* The column whose value is this feature, by itself; -1: the feature is one of several of its
 * column, as of dates and texts. */
int qn_table_column_of(const qn_table *table, int64_t feature);

#endif
