/* See columns.h. */
#include "data/columns.h"

int64_t qn_table_value_count(const qn_table_column *column) {
    switch (column->kind) {
    case QN_COLUMN_CATEGORY:
        return column->n_texts;
    case QN_COLUMN_HASHED:
        return QN_TABLE_HASHES;
    case QN_COLUMN_DATE:
        return QN_TABLE_DATE;
    case QN_COLUMN_NUMBER:
    case QN_COLUMN_TRUTH:
        break;
    }
    return 1;
}

int64_t qn_table_feature_count(const qn_table_column *column) {
    return qn_table_value_count(column) + column->has_gaps;
}

int qn_table_column_of(const qn_table *table, int64_t feature) {
    int i = 0;
    while (i < table->n_columns && feature >= qn_table_feature_count(&table->columns[i]))
        feature -= qn_table_feature_count(&table->columns[i++]);
    const bool is_value =
        i < table->n_columns && feature == 0 && qn_table_value_count(&table->columns[i]) == 1;
    return is_value ? i : -1;
}
