/* What was understood of a data set, and what was left out of it. Each format fills what it knows
 * while it opens, in the source's arena, whatever looks at it later: quern inspect, the lines
 * before training. What can be counted from the samples themselves is not here. Lists grow with the
 * kinds of things, never with the samples. */
#ifndef QN_DATA_FACTS_H
#define QN_DATA_FACTS_H

#include "base/memory.h"
#include "quern/data.h"

typedef enum qn_target_kind {
    QN_TARGET_CLASSES, /* one of each sample */
    QN_TARGET_NUMBERS, /* n_targets of each sample */
    QN_TARGET_LABELS,  /* any number of each sample */
    QN_TARGET_NONE
} qn_target_kind;

typedef enum qn_answer { QN_NOT_ASKED, QN_ANSWER_NO, QN_ANSWER_YES } qn_answer;

/* So many of a kind: pictures of a format ("PNG") or a size ("640x480"), files that were left out
 * ("Thumbs.db", why "no picture"). */
typedef struct qn_count_fact {
    const char *kind;
    const char *why;     /* what was done with them; null: nothing to say */
    const char *example; /* the first of them; may be null */
    int64_t n;
} qn_count_fact;

typedef struct qn_count_facts {
    qn_count_fact *list; /* (n) of capacity */
    size_t n, capacity;
} qn_count_facts;

/* A column of a table. */
typedef struct qn_column_fact {
    const char *name; /* of the header, or "3" for the third */
    const char *kind; /* "numbers", "texts", "dates", "target" */
    int64_t n_missing;
    int64_t n_values;     /* distinct ones, where they were counted; else 0 */
    const char *left_out; /* why it is not used; null: it is */
} qn_column_fact;

typedef struct qn_data_facts {
    /* texts and tables */
    const char *encoding; /* "UTF-8"; null: no text */
    char separator;       /* ';'; 0: not a table */
    char decimal;         /* '.' or ',' */
    qn_answer has_header;
    qn_column_fact *columns; /* (n_columns), in the file's order */
    size_t n_columns, column_capacity;
    /* arrays */
    const char *element; /* of the file: "float64" */
    const char *axes;    /* "nhwc", "ntc" */
    bool are_windows;    /* samples are windows over rows */
    /* what is to be predicted */
    const char *target; /* its column, file or folder level: "the last column, price" */
    qn_target_kind target_kind;
    const char *target_why; /* "412 different whole numbers"; may be null */
    /* pictures */
    qn_count_facts formats, sizes;
    /* the rest */
    const char *split_by; /* "the folders train and val", "a hash of each sample" */
    qn_count_facts dropped;
    const char **notes; /* (n_notes): whole sentences without a full stop */
    size_t n_notes, note_capacity;
} qn_data_facts;

struct qn_source_base;

/* Texts are copied. Each fails only where memory is out. */
qn_status qn_data_facts_set(struct qn_source_base *base, const char **fact, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
qn_status qn_data_facts_note(struct qn_source_base *base, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Counts n more of a kind; why and example may be null, and are kept of the first. */
qn_status qn_data_facts_count(struct qn_source_base *base, qn_count_facts *facts, const char *kind,
                              const char *why, const char *example, int64_t n);

/* Adds a column; its texts are copied. */
qn_status qn_data_facts_add_column(struct qn_source_base *base, const qn_column_fact *column);

/* Gives back what grew beside the arena. */
void qn_data_facts_deinit(struct qn_source_base *base);

/* "classes", "numbers", "labels", "none" */
const char *qn_target_kind_name(qn_target_kind kind);

#endif
