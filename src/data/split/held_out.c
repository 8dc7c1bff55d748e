/* See held_out.h. */
#include "data/split/held_out.h"

#include "base/print.h"
#include "base/status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A mark has 48 bits: of a million samples not one in a million looks like one of the known. */
enum { MARK_SHIFT = 16, MARK_DIGITS = 12 };

static const char by_content[] = "content", by_place[] = "place";

static uint64_t mark_of(uint64_t content) {
    uint32_t words[4];
    qn_rng_block(qn_rng_make(0, qn_hash_text("held out"), 0), content, words);
    return ((uint64_t)words[0] << 32 | words[1]) >> MARK_SHIFT;
}

static int compare_marks(const void *left, const void *right) {
    const uint64_t a = ((const qn_held_out_mark *)left)->mark;
    const uint64_t b = ((const qn_held_out_mark *)right)->mark;
    return (a > b) - (a < b);
}

static qn_status fail_damaged(const char *text) {
    return qn_fail(QN_ERROR_FORMAT,
                   "the checkpoint's text of held-out samples is damaged: '%.40s'; use another one",
                   text);
}

qn_status qn_held_out_parse(const char *text, qn_held_out *held) {
    memset(held, 0, sizeof *held);
    if (!text)
        return QN_OK;
    held->is_by_place = strcmp(text, by_place) == 0;
    if (held->is_by_place)
        return QN_OK;
    if (strncmp(text, by_content, strlen(by_content)) != 0)
        return fail_damaged(text);
    const char *at = text + strlen(by_content);
    while (*at == ' ' && held->n_known < QN_HELD_OUT_MARKS) {
        char *end;
        const uint64_t mark = strtoull(at + 1, &end, 16);
        if (strspn(at + 1, "0123456789abcdef") != MARK_DIGITS || end != at + 1 + MARK_DIGITS)
            return fail_damaged(text);
        held->known[held->n_known++] = (qn_held_out_mark){mark, -1};
        at = end;
    }
    qsort(held->known, (size_t)held->n_known, sizeof *held->known, compare_marks);
    return *at ? fail_damaged(text) : QN_OK;
}

/* Puts a mark into its place among the smallest, if it is one of them and not there yet. */
static void keep_least(qn_held_out *held, qn_held_out_mark mark) {
    int i = held->n_least;
    while (i > 0 && held->least[i - 1].mark > mark.mark)
        i--;
    if (i == QN_HELD_OUT_MARKS || (i > 0 && held->least[i - 1].mark == mark.mark))
        return;
    held->n_least += held->n_least < QN_HELD_OUT_MARKS;
    memmove(&held->least[i + 1], &held->least[i],
            (size_t)(held->n_least - 1 - i) * sizeof *held->least);
    held->least[i] = mark;
}

void qn_held_out_look(qn_held_out *held, int64_t index, uint64_t content) {
    const qn_held_out_mark mark = {mark_of(content), index};
    qn_held_out_mark *known = held->n_known == 0
                                  ? NULL
                                  : bsearch(&mark, held->known, (size_t)held->n_known,
                                            sizeof *held->known, compare_marks);
    if (known)
        known->index = index;
    keep_least(held, mark);
}

static bool is_held(const qn_holdout *test, int64_t index) {
    return test && test->held && (test->held[index / 64] >> (index % 64) & 1);
}

int qn_held_out_count_crossed(const qn_held_out *held, const qn_holdout *test) {
    int n = 0;
    for (int i = 0; i < held->n_known; i++)
        n += held->known[i].index >= 0 && is_held(test, held->known[i].index);
    return n;
}

qn_status qn_held_out_print(qn_arena *arena, const qn_held_out *held, const qn_holdout *test,
                            const char **text) {
    const size_t bytes = sizeof by_content + QN_HELD_OUT_MARKS * (MARK_DIGITS + 1);
    if (held->is_by_place) {
        *text = by_place;
        return QN_OK;
    }
    char *to = qn_arena_allocate(arena, bytes, 1);
    if (!to)
        return QN_ERROR_MEMORY;
    size_t n = (size_t)qn_print(to, bytes, "%s", by_content);
    for (int i = 0; i < held->n_least; i++)
        if (!is_held(test, held->least[i].index))
            n += (size_t)qn_print(to + n, bytes - n, " %0*" PRIx64, MARK_DIGITS,
                                  held->least[i].mark);
    *text = to;
    return QN_OK;
}
