/* The kind pachinko (partition.h). Its file says which superclass each class belongs to: a line
 * CLASS,SUPERCLASS for each, in any order, the class by its name, or by its number where the data
 * have no names. Lines of classes that the data do not have are passed over. */
#include "federate/partition/divide.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/text/words.h"
#include "federate/partition/lines.h"

#include <stdio.h>
#include <string.h>

typedef struct hierarchy {
    int n_supers;
    int32_t *super_of;   /* (n_classes) */
    int64_t *first;      /* (n_supers + 1): its classes are from here on in members */
    int32_t *members;    /* (n_classes) */
    int64_t *left;       /* (n_classes): samples, in the order of members */
    int64_t *super_left; /* (n_supers) */
    /* of the client: */
    double *logarithms, *weights;             /* (n_classes), in the order of members */
    double *super_logarithms, *super_weights; /* (n_supers) */
} hierarchy;

/* ---- the file ---- */

static bool is_class(const qn_partition_classes *classes, int c, const char *name, size_t bytes) {
    char number[16];
    const char *own = number;
    snprintf(number, sizeof number, "%d", c);
    if (classes->names)
        own = classes->names[c];
    return strlen(own) == bytes && memcmp(own, name, bytes) == 0;
}

/* The class of a name, or -1; guess is tried first. */
static int find_class(const qn_partition_classes *classes, int guess, const char *name,
                      size_t bytes) {
    if (guess < classes->n_classes && is_class(classes, guess, name, bytes))
        return guess;
    for (int c = 0; c < classes->n_classes; c++) {
        if (is_class(classes, c, name, bytes))
            return c;
    }
    return -1;
}

/* Bytes before the last comma of a line; 0: there is nothing before or behind it. */
static size_t split_line(const char *line, size_t bytes) {
    size_t n = bytes;
    while (n > 0 && line[n - 1] != ',')
        n--;
    return n > 1 && n < bytes && !memchr(line, 0, bytes) ? n - 1 : 0;
}

/* Calls `see` with each class of the data that the file has, and its superclass. */
static qn_status walk(const qn_division *d, qn_lines lines,
                      qn_status (*see)(void *user, int c, const char *super, size_t bytes),
                      void *user) {
    const char *line;
    size_t bytes;
    int guess = 0;
    for (int64_t n = 1; qn_lines_next(&lines, &line, &bytes); n++) {
        const size_t name_bytes = split_line(line, bytes);
        if (name_bytes == 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %lld is not CLASS,SUPERCLASS", d->path,
                           (long long)n);
        const int c = find_class(d->classes, guess, line, name_bytes);
        if (c < 0)
            continue;
        guess = c + 1;
        QN_TRY(see(user, c, line + name_bytes + 1, bytes - name_bytes - 1));
    }
    return QN_OK;
}

static qn_status count_super(void *user, int c, const char *super, size_t bytes) {
    (void)c;
    return qn_word_table_add(user, super, bytes);
}

typedef struct naming {
    const qn_division *d;
    const qn_words *supers;
    hierarchy *h;
} naming;

static qn_status note_super(void *user, int c, const char *super, size_t bytes) {
    const naming *n = user;
    if (n->h->super_of[c] >= 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: class %d has two lines", n->d->path, c);
    n->h->super_of[c] = qn_words_find(n->supers, super, bytes) - QN_FIRST_WORD;
    return QN_OK;
}

static qn_status check_complete(const qn_division *d, const hierarchy *h) {
    char number[16];
    for (int c = 0; c < d->classes->n_classes; c++) {
        snprintf(number, sizeof number, "%d", c);
        if (h->super_of[c] < 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s has no line for class %.60s; a line is CLASS,SUPERCLASS", d->path,
                           d->classes->names ? d->classes->names[c] : number);
    }
    return QN_OK;
}

static qn_status read_supers(qn_division *d, hierarchy *h, qn_lines lines, qn_words *supers) {
    qn_word_table counted = {.arena = &d->arena};
    qn_status status = walk(d, lines, count_super, &counted);
    if (status == QN_OK)
        status = qn_words_choose(&d->arena, &counted, INT32_MAX, 1, supers);
    qn_word_table_deinit(&counted);
    QN_TRY(status);
    h->n_supers = supers->n - QN_FIRST_WORD;
    h->super_of = qn_arena_allocate(&d->arena, (size_t)d->classes->n_classes, sizeof(int32_t));
    if (!h->super_of)
        return QN_ERROR_MEMORY;
    memset(h->super_of, 0xff, (size_t)d->classes->n_classes * sizeof(int32_t));
    naming n = {d, supers, h};
    QN_TRY(walk(d, lines, note_super, &n));
    return check_complete(d, h);
}

/* ---- clients ---- */

static qn_status reserve(qn_division *d, hierarchy *h) {
    const size_t n_classes = (size_t)d->classes->n_classes, n_supers = (size_t)h->n_supers;
    h->first = qn_arena_allocate(&d->arena, n_supers + 1, sizeof *h->first);
    h->members = qn_arena_allocate(&d->arena, n_classes, sizeof *h->members);
    h->left = qn_arena_allocate(&d->arena, n_classes, sizeof *h->left);
    h->super_left = qn_arena_allocate(&d->arena, n_supers, sizeof *h->super_left);
    h->logarithms = qn_arena_allocate(&d->arena, n_classes, sizeof(double));
    h->weights = qn_arena_allocate(&d->arena, n_classes, sizeof(double));
    h->super_logarithms = qn_arena_allocate(&d->arena, n_supers, sizeof(double));
    h->super_weights = qn_arena_allocate(&d->arena, n_supers, sizeof(double));
    return h->first && h->members && h->left && h->super_left && h->logarithms && h->weights &&
                   h->super_logarithms && h->super_weights
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static void group(const qn_division *d, hierarchy *h) {
    int64_t n = 0;
    for (int s = 0; s < h->n_supers; s++) {
        h->first[s] = n;
        h->super_left[s] = 0;
        for (int c = 0; c < d->classes->n_classes; c++) {
            if (h->super_of[c] != s)
                continue;
            h->members[n] = c;
            h->left[n] = d->begins[c + 1] - d->begins[c];
            h->super_left[s] += h->left[n++];
        }
    }
    h->first[h->n_supers] = n;
}

static void weigh_super(const hierarchy *h, int64_t s) {
    const int64_t at = h->first[s];
    qn_weigh(h->logarithms + at, h->left + at, h->first[s + 1] - at, h->weights + at);
}

static void draw_client(qn_division *d, const hierarchy *h) {
    for (int s = 0; s < h->n_supers; s++) {
        h->super_logarithms[s] = qn_draws_log_gamma(&d->draws, d->numbers[0]);
        for (int64_t i = h->first[s]; i < h->first[s + 1]; i++)
            h->logarithms[i] = qn_draws_log_gamma(&d->draws, d->numbers[1]);
        weigh_super(h, s);
    }
    qn_weigh(h->super_logarithms, h->super_left, h->n_supers, h->super_weights);
}

/* What is used up is left out from there on. */
static int64_t draw_sample(qn_division *d, const hierarchy *h) {
    const int64_t s = qn_draws_choose(&d->draws, h->super_weights, h->n_supers);
    const int64_t at = h->first[s];
    const int64_t i = at + qn_draws_choose(&d->draws, h->weights + at, h->first[s + 1] - at);
    const int64_t sample = d->order[d->begins[h->members[i]] + --h->left[i]];
    if (h->left[i] == 0)
        weigh_super(h, s);
    if (--h->super_left[s] == 0)
        qn_weigh(h->super_logarithms, h->super_left, h->n_supers, h->super_weights);
    return sample;
}

qn_status qn_divide_pachinko(qn_division *d) {
    hierarchy h = {0};
    qn_lines lines;
    qn_words supers = {0};
    if (!(d->numbers[0] > 0) || !(d->numbers[1] > 0))
        return qn_fail(QN_ERROR_ARGUMENT, "partition '%.60s': the concentrations are above 0",
                       d->specification);
    QN_TRY(qn_lines_read(&d->arena, d->path, &lines));
    const qn_status status = read_supers(d, &h, lines, &supers);
    qn_words_deinit(&supers);
    QN_TRY(status);
    QN_TRY(reserve(d, &h));
    qn_divide_equally(d->p);
    qn_divide_by_class(d);
    group(d, &h);
    for (int64_t client = 0; client < d->p->n_clients; client++) {
        draw_client(d, &h);
        for (int64_t i = d->p->first[client]; i < d->p->first[client + 1]; i++)
            d->p->samples[i] = draw_sample(d, &h);
    }
    return QN_OK;
}
