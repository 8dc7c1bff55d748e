/* See merges.h. */
#include "data/tokens/merges.h"

#include "base/status.h"
#include "os/heap.h"

#include <stdlib.h>
#include <string.h>

/* A list of symbols; next is -1 at its end. A symbol that was merged into the one before has the
 * token -2. */
typedef struct qn_merge_symbol {
    int32_t token;
    int64_t before, next;
} symbol;

/* Two neighbours that can be merged, unless one of them has changed since. */
typedef struct qn_merge_candidate {
    int32_t rank, left, right, token;
    int64_t at; /* the left one */
} candidate;

enum { GONE = -2 };

void qn_merges_init(qn_merges *m, const qn_allocator *allocator, const qn_vocabulary *vocabulary) {
    *m = (qn_merges){.allocator = qn_allocator_or_default(allocator), .vocabulary = vocabulary};
}

void qn_merges_deinit(qn_merges *m) {
    qn_release(m->allocator, m->table, m->n_table, sizeof *m->table);
    qn_release(m->allocator, m->ranks, m->n_ranks, sizeof *m->ranks);
    qn_release(m->allocator, m->joined, m->n_joined, 1);
    qn_release(m->allocator, m->symbols, m->symbol_capacity, sizeof *m->symbols);
    qn_release(m->allocator, m->candidates, m->candidate_capacity, sizeof *m->candidates);
}

/* ---- which pairs there are ---- */

static qn_merge *find_slot(const qn_merges *m, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    for (size_t slot = hash & (m->n_table - 1);; slot = (slot + 1) & (m->n_table - 1)) {
        qn_merge *merge = &m->table[slot];
        if (merge->left < 0 || (merge->left == left && merge->right == right))
            return merge;
    }
}

qn_status qn_merges_reserve(qn_merges *m, size_t n) {
    m->n_table = 16;
    while (m->n_table < 2 * n)
        m->n_table *= 2;
    QN_TRY(qn_allocate(m->allocator, m->n_table, sizeof *m->table, &m->table));
    memset(m->table, 0xff, m->n_table * sizeof *m->table);
    return QN_OK;
}

void qn_merges_add(qn_merges *m, int32_t left, int32_t right, int32_t token) {
    qn_merge *merge = find_slot(m, left, right);
    if (merge->left < 0)
        *merge = (qn_merge){left, right, (int32_t)m->n++, token};
}

/* A token and its score, to be sorted. */
typedef struct scored {
    float score;
    int32_t token;
} scored;

static int compare_scores(const void *left, const void *right) {
    const scored *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

qn_status qn_merges_rank(qn_merges *m, const float *scores) {
    const size_t n = m->vocabulary->n;
    scored *order;
    m->n_joined = m->vocabulary->longest + 1;
    QN_TRY(qn_allocate(m->allocator, m->n_joined, 1, &m->joined));
    QN_TRY(qn_allocate(m->allocator, n, sizeof *m->ranks, &m->ranks));
    m->n_ranks = n;
    QN_TRY(qn_allocate(m->allocator, n, sizeof *order, &order));
    for (size_t i = 0; i < n; i++)
        order[i] = (scored){scores[i], (int32_t)i};
    if (n > 0)
        qsort(order, n, sizeof *order, compare_scores);
    for (size_t i = 0; i < n; i++)
        m->ranks[order[i].token] = (int32_t)i;
    qn_release(m->allocator, order, n, sizeof *order);
    return QN_OK;
}

/* What two tokens become, or -1. */
static int32_t find_merge(const qn_merges *m, int32_t left, int32_t right, int32_t *rank) {
    if (!m->ranks) {
        const qn_merge *merge = find_slot(m, left, right);
        *rank = merge->rank;
        return merge->left < 0 ? -1 : merge->token;
    }
    const qn_token *a = &m->vocabulary->list[left], *b = &m->vocabulary->list[right];
    const size_t bytes = (size_t)a->bytes + b->bytes;
    if (bytes > m->vocabulary->longest)
        return -1;
    memcpy(m->joined, a->text, a->bytes);
    memcpy(m->joined + a->bytes, b->text, b->bytes);
    const int32_t token = qn_vocabulary_find(m->vocabulary, m->joined, bytes);
    *rank = token < 0 ? 0 : m->ranks[token];
    return token;
}

/* ---- the heap: no candidate is before the one at (i - 1) / 2 ---- */

static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(qn_merges *m, size_t *n, candidate c) {
    size_t i = (*n)++;
    for (; i > 0 && is_before(&c, &m->candidates[(i - 1) / 2]); i = (i - 1) / 2)
        m->candidates[i] = m->candidates[(i - 1) / 2];
    m->candidates[i] = c;
}

static candidate pop(qn_merges *m, size_t *n) {
    const candidate first = m->candidates[0], last = m->candidates[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && is_before(&m->candidates[child + 1], &m->candidates[child]))
            child++;
        if (!is_before(&m->candidates[child], &last))
            break;
        m->candidates[i] = m->candidates[child];
    }
    m->candidates[i] = last;
    return first;
}

/* ---- merging ---- */

static void consider(qn_merges *m, size_t *n_heap, int64_t at) {
    candidate c = {.at = at};
    if (at < 0 || m->symbols[at].next < 0)
        return;
    c.left = m->symbols[at].token;
    c.right = m->symbols[m->symbols[at].next].token;
    if (c.left < 0 || c.right < 0)
        return;
    c.token = find_merge(m, c.left, c.right, &c.rank);
    if (c.token >= 0)
        push(m, n_heap, c);
}

static void merge(qn_merges *m, size_t *n_heap, const candidate *c) {
    symbol *left = &m->symbols[c->at];
    if (left->token != c->left || left->next < 0 || m->symbols[left->next].token != c->right)
        return;
    m->symbols[left->next].token = GONE;
    left->token = c->token;
    left->next = m->symbols[left->next].next;
    if (left->next >= 0)
        m->symbols[left->next].before = c->at;
    consider(m, n_heap, left->before);
    consider(m, n_heap, c->at);
}

/* Each merge adds two candidates at most and takes a symbol away. */
qn_status qn_merges_run(qn_merges *m, int32_t *symbols, size_t *n) {
    size_t n_heap = 0, n_left = 0;
    QN_TRY(qn_grow(m->allocator, &m->symbols, &m->symbol_capacity, *n, sizeof *m->symbols));
    QN_TRY(qn_grow(m->allocator, &m->candidates, &m->candidate_capacity, 3 * *n,
                   sizeof *m->candidates));
    for (size_t i = 0; i < *n; i++)
        m->symbols[i] = (symbol){symbols[i], (int64_t)i - 1, i + 1 < *n ? (int64_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < *n; i++)
        consider(m, &n_heap, (int64_t)i);
    while (n_heap > 0) {
        const candidate c = pop(m, &n_heap);
        merge(m, &n_heap, &c);
    }
    for (size_t i = 0; i < *n; i++) {
        if (m->symbols[i].token != GONE)
            symbols[n_left++] = m->symbols[i].token;
    }
    *n = n_left;
    return QN_OK;
}
