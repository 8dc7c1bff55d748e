/* The classes of a data set by the names of a network's. Whatever was trained on named classes
 * meets the same classes in other data by their names: in any order, with some missing. This is the
 * only place where the two are matched. Names that differ in nothing but Unicode's form of accents
 * are one, unless the network knows both.
 *
 * Data without names (arrays of numbers) count the network's outputs. A network without names has
 * the names "0", "1" and so on. */
#ifndef QN_DATA_CLASSES_H
#define QN_DATA_CLASSES_H

#include "base/memory.h"
#include "quern/data.h"

typedef struct qn_class_matching {
    const qn_allocator *allocator; /* it outlives the source */
    const qn_log *log;             /* of missing and new classes; may be null */
    int n;                         /* classes of the network that are known by name */
    const char *const *names;      /* (n), null: numbers; they outlive the source */
    int n_outputs;                 /* classes that are new take the outputs from n on, if so many */
    const char *advice;            /* for a class that has no output: what to do */
} qn_class_matching;

/* Makes the source one whose classes are numbered as the network's outputs are: samples that it
 * reads, n_classes and class_names. QN_ERROR_FORMAT names the classes that have no output. On
 * failure the source is as it was. Closing it closes what it was made of. */
qn_status qn_classes_match(const qn_class_matching *matching, qn_data_source *source);

/* Classes of the data that the network knows by name. */
int qn_classes_count_known(const qn_class_matching *matching, const qn_data_source *source);

#endif
