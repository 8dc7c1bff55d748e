/* Which budgets an engine accepts. A larger budget is never refused if a smaller one is accepted:
 *
 *     a budget is accepted  <=>  the usual plans fit into it, or those of a rung of the ladder do,
 *                                up to the first rung above the budget
 *
 * The ladder is one list of budgets for all engines, about 2 % apart, and the memory of a rung's
 * plans depends on the rung alone. A refusal names the memory, to the KiB, of plans that were
 * really made; it calls this the minimum only if a budget one KiB smaller was tried and refused. */
#include "base/status.h"
#include "base/text.h"
#include "os/os.h"
#include "run/planning/planning.h"

#include <stdio.h>

enum {
    FIRST_RUNG = 16384,
    RUNG_PART = 50,
    MOST_RAISES = 8,
    MOST_LOWERINGS = 16,
    MOST_PROOFS = 16,
    MOST_KNOWN = 64,
    KIB = 1024
};
static const int64_t most_lowering_ns = 20000000000;

/* What a rung came to. */
typedef struct known_rung {
    size_t rung, needed_bytes, used;
    bool is_hopeless;
} known_rung;

/* The rungs that were tried for an engine: each is tried once. */
typedef struct ladder {
    qn_engine *engine;
    int n_known;
    known_rung known[MOST_KNOWN];
} ladder;

static size_t round_to_kib(size_t bytes) {
    return (bytes + KIB - 1) / KIB * KIB;
}

/* In whole MiB, or, if it is small, in less. */
static size_t round_up(size_t bytes) {
    const size_t mib = (size_t)1 << 20;
    const size_t unit = bytes < 4 * mib ? mib / 64 : bytes < 64 * mib ? mib / 8 : mib;
    return (bytes + unit - 1) / unit * unit;
}

static size_t next_rung(size_t rung) {
    return round_up(rung + rung / RUNG_PART);
}

/* The highest rung that is not above so many bytes; 0: there is none. */
static size_t rung_below(size_t bytes) {
    size_t rung = FIRST_RUNG;
    if (bytes < rung)
        return 0;
    while (next_rung(rung) <= bytes)
        rung = next_rung(rung);
    return rung;
}

/* The lowest rung that is not below so many bytes. */
static size_t rung_above(size_t bytes) {
    const size_t rung = rung_below(bytes);
    return rung == bytes ? rung : rung == 0 ? FIRST_RUNG : next_rung(rung);
}

/* Plans within a rung; f->needed_bytes is 0 where there are some, and says what would be needed
 * else. Meanwhile as much may be held as every budget has that comes to this rung first: what is
 * found depends on the rung alone. */
static qn_status plan_rung(qn_engine *e, qn_fit *f, size_t rung) {
    const size_t below = rung_below(rung - 1);
    *f = (qn_fit){
        .total = rung, .most = below > 0 ? below : rung, .before = f->before, .is_rough = true};
    return qn_fit_within(e, f);
}

static const known_rung *find_known(const ladder *l, size_t rung) {
    for (int i = 0; i < l->n_known; i++) {
        if (l->known[i].rung == rung)
            return &l->known[i];
    }
    return NULL;
}

/* Whether a rung has plans that take at most so many bytes; *f says what they take, or what would
 * be needed. The plans are there only where it was not known. */
static qn_status try_rung(ladder *l, qn_fit *f, size_t rung, size_t most) {
    const known_rung *known = find_known(l, rung);
    if (known) {
        *f = (qn_fit){.total = rung,
                      .before = f->before,
                      .needed_bytes = known->needed_bytes,
                      .used = known->used,
                      .is_hopeless = known->is_hopeless};
    } else {
        QN_TRY(plan_rung(l->engine, f, rung));
        if (l->n_known < MOST_KNOWN)
            l->known[l->n_known++] = (known_rung){rung, f->needed_bytes, f->used, f->is_hopeless};
    }
    if (f->needed_bytes == 0 && f->used > most)
        f->needed_bytes = f->used;
    return QN_OK;
}

/* The highest rung whose plans take no more than the budget; 0: there is none. The rest of *f is of
 * the last that was tried. */
static qn_status find_rung(ladder *l, qn_fit *f, size_t budget, size_t *rung) {
    size_t needed = 0;
    for (*rung = rung_above(budget); *rung >= f->before && *rung > 0;
         *rung = rung_below(*rung - 1)) {
        QN_TRY(try_rung(l, f, *rung, budget));
        if (f->needed_bytes == 0)
            return QN_OK;
        needed = needed > 0 ? needed : f->needed_bytes;
        if (f->is_hopeless)
            break;
    }
    f->needed_bytes = needed;
    *rung = 0;
    return QN_OK;
}

/* Whether a budget is accepted; *f says what its plans take, or a guess of what would do. *rung: of
 * the plans; 0: the usual ones. */
static qn_status try_budget(ladder *l, qn_fit *f, size_t budget, bool *is_accepted, size_t *rung) {
    *f = (qn_fit){.total = budget, .most = budget, .before = f->before};
    *rung = 0;
    QN_TRY(qn_fit_usual(l->engine, f));
    *is_accepted = f->needed_bytes == 0;
    if (*is_accepted)
        return QN_OK;
    QN_TRY(find_rung(l, f, budget, rung));
    *is_accepted = *rung > 0;
    return QN_OK;
}

/* Faster plans within all of the budget, or at least those of the rung. */
static qn_status plan_from(qn_engine *e, qn_fit *f, size_t rung) {
    const size_t budget = e->options.memory_budget_bytes;
    *f = (qn_fit){.total = budget, .most = budget, .before = f->before};
    QN_TRY(qn_fit_within(e, f));
    return f->needed_bytes == 0 ? QN_OK : plan_rung(e, f, rung);
}

/* ---- what is said where nothing fits ---- */

/* What was held before planning is not the same to the byte in another run: no less is named. */
static size_t least_before(const qn_fit *f) {
    return round_up(f->before + round_up(1));
}

/* The least that is accepted for the plans of a rung: what they take, but above the rung before it;
 * for the usual plans (0) what they take. */
static size_t accepted(const qn_fit *f, size_t rung) {
    const size_t below = rung > 0 ? rung_below(rung - 1) : 0, used = round_to_kib(f->used);
    const size_t least = used > below ? used : below + KIB;
    return least > least_before(f) ? least : least_before(f);
}

/* Plans within a rung above the budget; f->total is what would be accepted then. */
static qn_status try_higher(ladder *l, qn_fit *f, size_t rung) {
    *f = (qn_fit){.total = rung, .most = rung, .before = f->before};
    QN_TRY(qn_fit_usual(l->engine, f));
    if (f->needed_bytes == 0) {
        f->total = accepted(f, 0);
        return QN_OK;
    }
    QN_TRY(try_rung(l, f, rung, rung));
    f->total = f->needed_bytes == 0 ? accepted(f, rung) : rung;
    return QN_OK;
}

/* Goes up, in larger and larger steps, until a rung is accepted, at last so far that the usual
 * plans fit; needed: a guess. *low is the highest that is known not to be. */
static qn_status raise(ladder *l, qn_fit *f, size_t needed, size_t *low) {
    for (int i = 0; i < MOST_RAISES; i++) {
        const size_t step = rung_above(*low + (*low / RUNG_PART << i) + 1);
        const size_t rung = rung_above(needed);
        QN_TRY(try_higher(l, f, rung > step ? rung : step));
        if (f->needed_bytes == 0)
            return QN_OK;
        *low = f->total;
        needed = f->needed_bytes;
    }
    return try_higher(l, f, SIZE_MAX / 4);
}

/* Between what is refused and what is accepted: where the last refusal says that plans may be, or
 * the middle; at least the next rung. */
static size_t next_lower(const qn_fit *f, size_t low, size_t guess) {
    const size_t guessed = rung_above(guess), middle = rung_below(low + (f->total - low) / 2);
    if (guess > low && guessed < f->total)
        return guessed;
    return middle > low ? middle : rung_above(low + 1);
}

/* Goes down from what is accepted, while rungs are accepted. Ends early after a while: what is
 * named then works, and less may. */
static qn_status lower(ladder *l, qn_fit *f, size_t low) {
    const int64_t until_ns = qn_clock_ns() + most_lowering_ns;
    size_t guess = 0;
    for (int i = 0; i < MOST_LOWERINGS && qn_clock_ns() < until_ns; i++) {
        const size_t next = next_lower(f, low, guess);
        if (next >= f->total)
            return QN_OK;
        qn_fit tried = {.before = f->before};
        QN_TRY(try_higher(l, &tried, next));
        if (tried.needed_bytes == 0)
            *f = tried;
        else
            low = next;
        guess = tried.needed_bytes;
    }
    return QN_OK;
}

/* What was found is tried as if it had been given, and then less, until a KiB less than what is
 * accepted is refused: *is_least. Without time for all of that, f->total is still accepted; 0: what
 * was found was not. */
static qn_status prove(ladder *l, qn_fit *f, bool *is_least) {
    const int64_t until_ns = qn_clock_ns() + most_lowering_ns;
    size_t budget = f->total, works = 0;
    *is_least = false;
    for (int i = 0; i < MOST_PROOFS && (works == 0 || qn_clock_ns() < until_ns); i++) {
        qn_fit tried = {.before = f->before};
        bool is_accepted;
        size_t rung;
        QN_TRY(try_budget(l, &tried, budget, &is_accepted, &rung));
        *is_least = !is_accepted && budget + KIB == works;
        if (*is_least || (is_accepted && budget <= least_before(f))) {
            works = is_accepted ? budget : works;
            break;
        }
        if (is_accepted) {
            works = budget;
            budget = accepted(&tried, rung) < works ? accepted(&tried, rung) : works - KIB;
        } else {
            budget = works > 0 ? works - KIB : rung_above(budget + 1);
        }
    }
    f->total = works;
    return QN_OK;
}

/* Exact, and so that it is read again. */
static const char *print_option(size_t bytes, char text[QN_SIZE_TEXT]) {
    const bool is_whole = bytes % ((size_t)1 << 20) == 0;
    snprintf(text, QN_SIZE_TEXT, "%zu%s", bytes >> (is_whole ? 20 : 10), is_whole ? "M" : "K");
    return text;
}

static qn_status refuse(ladder *l, qn_fit *f) {
    char named[QN_SIZE_TEXT], given[QN_SIZE_TEXT], option[QN_SIZE_TEXT];
    bool is_least = false;
    const qn_engine_options *options = &l->engine->options;
    size_t low = options->memory_budget_bytes;
    const size_t needed = f->needed_bytes > f->before ? f->needed_bytes : f->before;
    qn_text_print_size(options->memory_budget_bytes, given);
    f->needed_bytes = 1;
    if (!options->no_least) {
        QN_TRY(raise(l, f, needed, &low));
        if (f->needed_bytes == 0)
            QN_TRY(lower(l, f, low));
        if (f->needed_bytes == 0)
            QN_TRY(prove(l, f, &is_least));
    }
    if (f->needed_bytes > 0 || f->total == 0)
        return qn_fail(QN_ERROR_MEMORY, "a budget of %s is too small; lower --batch", given);
    qn_text_print_size(f->total, named);
    print_option(f->total, option);
    if (!is_least)
        return qn_fail(QN_ERROR_MEMORY,
                       "a budget of %s is too small: %s is enough, less may be; lower --batch, or "
                       "use --memory %s",
                       given, named, option);
    return qn_fail(
        QN_ERROR_MEMORY,
        "a budget of %s is too small: the minimum is %s; lower --batch, or use --memory %s", given,
        named, option);
}

static qn_status plan_within(qn_engine *e, qn_fit *f) {
    ladder l = {.engine = e};
    bool is_accepted;
    size_t rung;
    QN_TRY(try_budget(&l, f, e->options.memory_budget_bytes, &is_accepted, &rung));
    if (!is_accepted)
        return refuse(&l, f);
    return rung > 0 ? plan_from(e, f, rung) : QN_OK;
}

qn_status qn_engine_plan_budget(qn_engine *e) {
    const size_t own = sizeof *e + e->counter.peak_bytes + e->memory.outside_bytes;
    qn_fit f = {.before = e->planning.noted_bytes > own ? e->planning.noted_bytes : own};
    e->planning.is_within = true;
    const qn_status status = plan_within(e, &f);
    qn_fit_end(e);
    e->planning.is_within = false;
    return status;
}
