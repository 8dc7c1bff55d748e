/* What a checkpoint keeps of how its samples were held out: a text with the rule's name and, by
 * content, with the marks of a few of the samples that it was trained on, so that a later run is
 * told if some of them have become test samples. A mark is a hash that depends on the content
 * alone; from it no content can be made again. */
#ifndef QN_DATA_SPLIT_HELD_OUT_H
#define QN_DATA_SPLIT_HELD_OUT_H

#include "base/memory.h"
#include "data/split/holdout.h"

enum { QN_HELD_OUT_MARKS = 128 };

typedef struct qn_held_out_mark {
    uint64_t mark;
    int64_t index; /* of the sample in the set; -1: not found */
} qn_held_out_mark;

typedef struct qn_held_out {
    bool is_by_place;
    int n_known, n_least;
    qn_held_out_mark known[QN_HELD_OUT_MARKS]; /* by mark: of the checkpoint's training samples */
    qn_held_out_mark least[QN_HELD_OUT_MARKS]; /* by mark: the smallest of this set */
} qn_held_out;

/* text: as qn_held_out_print made it; null: there is none, and samples are held out by content. */
qn_status qn_held_out_parse(const char *text, qn_held_out *held);

/* To be told of every sample that is looked at, any number of times. */
void qn_held_out_look(qn_held_out *held, int64_t index, uint64_t content);

/* Those of the known training samples that were found held out. */
int qn_held_out_count_crossed(const qn_held_out *held, const qn_holdout *test);

/* The text for checkpoints, in the arena; *text null where memory is out. test null: no test
 * samples were held out of this set, all that was looked at is of training. */
qn_status qn_held_out_print(qn_arena *arena, const qn_held_out *held, const qn_holdout *test,
                            const char **text);

#endif
