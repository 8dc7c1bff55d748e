/* A machine as a text, a fact a line:
 *
 *     cores NAME COUNT GFLOPS GBPS WATTS    a kind of cores, and what one does and takes
 *     memory GBPS                           all cores together
 *     cache MB                              of an operation that its core's caches keep; optional
 *     idle WATTS                            the machine when nothing works
 *     level SPEED POWER                     all cores at a lower frequency: parts of the full one's
 *     overhead CALL THREAD WAIT             nanoseconds; optional
 *
 * The kind that curves are measured on, the fastest, comes first. Empty lines and what follows #
 * are skipped. Nothing is trusted. */
#include "base/decimal.h"
#include "base/status.h"
#include "plan/schedule/cores.h"

#include <string.h>

enum { MOST_WORDS = 8, LINE = 160 };

typedef struct line {
    char text[LINE];
    int number, n_words;
    char *words[MOST_WORDS];
} line;

/* Takes the next line apart; false: it is too long, or has too many words. */
static bool take_line(const char **text, const char *end, line *l) {
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    const char *next = stop ? stop + 1 : end;
    size_t length = (size_t)((stop ? stop : end) - *text);
    const char *comment = memchr(*text, '#', length);
    length = comment ? (size_t)(comment - *text) : length;
    l->number++;
    l->n_words = 0;
    if (length >= sizeof l->text)
        return false;
    memcpy(l->text, *text, length);
    l->text[length] = 0;
    *text = next;
    if (strlen(l->text) != length)
        return false;
    for (char *rest = NULL, *word = strtok_r(l->text, " \t\r", &rest); word;
         word = strtok_r(NULL, " \t\r", &rest)) {
        if (l->n_words == MOST_WORDS)
            return false;
        l->words[l->n_words++] = word;
    }
    return true;
}

/* Words from one on as numbers of a range. */
static qn_status take_numbers(const line *l, int first, int n, double least, double *numbers) {
    if (l->n_words != first + n)
        return qn_fail(QN_ERROR_FORMAT, "line %d: %s has %d words; %d were expected", l->number,
                       l->words[0], l->n_words, first + n);
    for (int i = 0; i < n; i++) {
        const char *word = l->words[first + i];
        if (!qn_decimal_parse(word, &numbers[i]) || !(numbers[i] >= least) || numbers[i] > 1e6)
            return qn_fail(QN_ERROR_FORMAT, "line %d: %.40s is no number from %g to 1e6", l->number,
                           word, least);
    }
    return QN_OK;
}

static qn_status take_kind(const line *l, qn_cores *c) {
    double n[4] = {0};
    if (c->n_kinds == QN_MAX_CORE_KINDS)
        return qn_fail(QN_ERROR_FORMAT, "line %d: there may be %d kinds of cores", l->number,
                       QN_MAX_CORE_KINDS);
    QN_TRY(take_numbers(l, 2, 4, 0, n));
    if (n[0] < 1 || n[0] != (int)n[0] || c->n + n[0] > QN_MAX_CORES)
        return qn_fail(QN_ERROR_FORMAT, "line %d: a kind has a whole number of cores; a machine %d",
                       l->number, QN_MAX_CORES);
    if (n[1] < 1e-3 || n[2] < 1e-3)
        return qn_fail(QN_ERROR_FORMAT, "line %d: a core of 0 FLOP/s or 0 byte/s does nothing",
                       l->number);
    if (strlen(l->words[1]) >= QN_CORE_NAME)
        return qn_fail(QN_ERROR_FORMAT, "line %d: a kind's name has at most %d letters", l->number,
                       QN_CORE_NAME - 1);
    qn_core_kind *kind = &c->kinds[c->n_kinds++];
    *kind =
        (qn_core_kind){.n = (int)n[0], .flops_per_ns = n[1], .bytes_per_ns = n[2], .watts = n[3]};
    memcpy(kind->name, l->words[1], strlen(l->words[1]) + 1);
    c->n += kind->n;
    return QN_OK;
}

static qn_status take_level(const line *l, qn_cores *c) {
    double n[2] = {0};
    QN_TRY(take_numbers(l, 1, 2, 1e-3, n));
    if (c->n_levels == QN_MAX_CORE_LEVELS || n[0] >= 1 || n[1] > 1)
        return qn_fail(QN_ERROR_FORMAT,
                       "line %d: there may be %d levels, of a speed below 1 and a power of at most "
                       "1",
                       l->number, QN_MAX_CORE_LEVELS);
    c->levels[c->n_levels++] = (qn_core_level){.speed = n[0], .watts = n[1]};
    return QN_OK;
}

static qn_status take_cache(const line *l, qn_cores *c) {
    double megabytes;
    QN_TRY(take_numbers(l, 1, 1, 0, &megabytes));
    c->near_bytes = megabytes * 1e6;
    return QN_OK;
}

static qn_status take_overhead(const line *l, qn_cores *c) {
    double n[3] = {0};
    QN_TRY(take_numbers(l, 1, 3, 0, n));
    c->call_ns = n[0];
    c->thread_ns = n[1];
    c->wait_ns = n[2];
    return QN_OK;
}

static qn_status take_fact(const line *l, qn_cores *c) {
    if (l->n_words == 0)
        return QN_OK;
    if (strcmp(l->words[0], "cores") == 0 && l->n_words > 1)
        return take_kind(l, c);
    if (strcmp(l->words[0], "memory") == 0)
        return take_numbers(l, 1, 1, 1e-3, &c->bytes_per_ns);
    if (strcmp(l->words[0], "cache") == 0)
        return take_cache(l, c);
    if (strcmp(l->words[0], "idle") == 0)
        return take_numbers(l, 1, 1, 0, &c->idle_watts);
    if (strcmp(l->words[0], "level") == 0)
        return take_level(l, c);
    if (strcmp(l->words[0], "overhead") == 0)
        return take_overhead(l, c);
    return qn_fail(QN_ERROR_FORMAT,
                   "line %d: %.40s is no fact of a machine; cores, memory, cache, idle, level "
                   "and overhead are",
                   l->number, l->words[0]);
}

qn_status qn_cores_parse(const char *text, size_t bytes, qn_cores *cores) {
    const char *end = text + bytes;
    qn_cores made = qn_cores_typical(1);
    line l = {.number = 0};
    made.n = made.n_kinds = 0;
    made.bytes_per_ns = made.near_bytes = 0;
    while (text < end) {
        if (!take_line(&text, end, &l))
            return qn_fail(QN_ERROR_FORMAT, "line %d: it is longer than any fact of a machine",
                           l.number);
        QN_TRY(take_fact(&l, &made));
    }
    if (made.n == 0 || made.bytes_per_ns <= 0)
        return qn_fail(QN_ERROR_FORMAT, "the machine has no %s; add a line \"%s\"",
                       made.n == 0 ? "cores" : "memory",
                       made.n == 0 ? "cores NAME COUNT GFLOPS GBPS WATTS" : "memory GBPS");
    *cores = made;
    return QN_OK;
}
