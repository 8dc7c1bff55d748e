/* A row of a parsed table as the features of a network, by what its columns were understood as; the
 * same columns give the same features, wherever the new table has them. */
#ifndef QN_DATA_TABLE_ENCODE_H
#define QN_DATA_TABLE_ENCODE_H

#include "base/memory.h"
#include "data/table/table.h"

/* A column of the file, as it is written into a sample. */
typedef struct qn_csv_place {
    const qn_table_column *column; /* null: a target, or nothing */
    int target;                    /* or the target's number */
    size_t feature;                /* the first */
    const int32_t *category;       /* (n_categories of the file) of the table's, -1: unknown */
    int64_t n_categories;
} qn_csv_place;

typedef struct qn_csv_encoder {
    size_t n_features, n_places;
    qn_csv_place *places; /* (n_places) in the order of a row */
    bool *are_marks;      /* (n_features) 0 or 1 */
} qn_csv_encoder;

/* What a file's columns are called and which texts they have. */
typedef struct qn_csv_names_of {
    const char *name, *left_out;
    const char **texts; /* (n_texts) */
} qn_csv_names_of;

/* Lays a table's columns out over a file's; unknown counts texts that the table does not have. All
 * memory is the arena's. */
qn_status qn_csv_encoder_make(qn_arena *arena, const qn_table *table, const qn_csv_record *records,
                              const qn_csv_names_of *names, size_t n_columns,
                              qn_csv_encoder *encoder);

/* Writes the value of a place into a sample. */
void qn_csv_encode(const qn_csv_place *place, float value, float *sample);

#endif
