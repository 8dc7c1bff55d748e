/* What names are worth: in the middle of a stream its user names the classes that a labeller asks
 * for, and the labels of the second half are compared with the true classes. For comparison: names
 * from as many samples drawn at random, and, without any, the best matching of found classes with
 * new ones, one to one. */
#ifndef QN_LABEL_BENCH_NAMING_H
#define QN_LABEL_BENCH_NAMING_H

#include "quern/label.h"

enum { QN_NAMING_ANSWERS = 10, QN_NAMING_MOST = 320 /* classes */ };

/* Right labels of the second half, in per cent. */
typedef struct qn_naming_score {
    double matched, asked, drawn;
} qn_naming_score;

typedef struct qn_naming {
    int n_known, n_stream, n;
    int32_t *class_of; /* (n_stream) */
    int64_t *label;    /* (n_stream) */
    int32_t *count;    /* (QN_NAMING_MOST, QN_NAMING_MOST) */
    int64_t asked[QN_NAMING_ANSWERS], drawn[QN_NAMING_ANSWERS]; /* labels */
    int32_t asked_name[QN_NAMING_ANSWERS], drawn_name[QN_NAMING_ANSWERS];
    int n_asked, n_drawn;
} qn_naming;

qn_status qn_naming_init(qn_naming *naming, const qn_allocator *allocator, int n_known,
                         int n_stream);
void qn_naming_deinit(qn_naming *naming, const qn_allocator *allocator);

/* Notes a sample that was labelled, and asks in the middle. */
qn_status qn_naming_add(qn_naming *naming, const qn_labeller *labeller, int class,
                        const qn_label_answer *answer);

/* At the end. */
qn_naming_score qn_naming_judge(const qn_naming *naming);

#endif
