/* A folder of tables, each a recording, as one table: tables in class folders, or beside each other
 * with a column for the class. Columns are matched by the names of the first file. In front of them
 * is "(file)", which groups the rows unless options name another group, or none; behind them, where
 * files lie in class folders and nothing names a target, "(folder)". Files are in the order of
 * their names. The parsed table is kept in the cache folder, as that of a file is, while no file is
 * added, changed or removed. Memory grows with the number of files alone. */
#ifndef QN_DATA_TABLE_JOIN_H
#define QN_DATA_TABLE_JOIN_H

#include "data/table/scan.h"

typedef struct qn_csv_joined {
    qn_file *file;         /* what qn_csv_convert makes of all */
    const int64_t *starts; /* (n_starts) the first row of each recording, in the arena */
    size_t n_starts;
    char separator; /* of the files */
    qn_encoding encoding;
    const char *group; /* the column of groups; null: as options say */
} qn_csv_joined;

/* label: a target that the data's name has, or null; variant: all else that the parsed table
 * depends on. Failures name the file. What fails leaves nothing to close. */
qn_status qn_csv_join(qn_source_base *base, const char *folder, const char *label,
                      const char *variant, qn_csv_joined *joined);

#endif
