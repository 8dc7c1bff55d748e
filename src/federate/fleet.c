/* See fleet.h. Many clients have days alike: at most OWNERS_OF_A_KIND people are replayed for each
 * kind of device, and clients share them. A day is replayed when a question first reaches it; of an
 * owner, the moments at which the rules begin and cease to hold are kept. */
#include "federate/fleet.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/heap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KINDS = 8, OWNERS_OF_A_KIND = 32, NAME_TEXT = 64, LONGEST_WAIT = 7 * QN_DAY_SECONDS };

/* The rules hold from changes[i] to changes[i + 1] for even i. */
typedef struct owner {
    const qn_allocator *allocator;
    qn_replay replay;
    int64_t *changes; /* (n), rising */
    size_t n, room;
    int64_t n_clients;
    qn_status status; /* of keeping the changes */
} owner;

typedef struct kind {
    const qn_learn_device *device;
    double until; /* sum of the weights up to this one, its own included, over all */
} kind;

struct qn_fleet {
    qn_fleet_options o;
    int n_kinds;
    kind kinds[MOST_KINDS];
    owner *owners; /* (n_owners): OWNERS_OF_A_KIND for each kind; null: no rules */
    size_t n_owners;
    int64_t n_days; /* that were replayed */
};

/* ---- kinds ---- */

static qn_status parse_kind(const char *text, size_t n, kind *k) {
    char name[NAME_TEXT];
    k->until = 1;
    if (n >= sizeof name)
        return qn_fail(QN_ERROR_ARGUMENT, "no device has a name as long as %.*s", (int)n, text);
    memcpy(name, text, n);
    name[n] = '\0';
    char *colon = strchr(name, ':');
    if (colon) {
        *colon = '\0';
        if (!qn_decimal_parse(colon + 1, &k->until) || !(k->until > 0) || k->until > 1e9)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s:%s: after the colon comes how many there are beside the other "
                           "kinds, as in snapdragon-phone:6,raspberry-pi-5:1",
                           name, colon + 1);
    }
    k->device = qn_learn_device_find(name);
    return k->device ? QN_OK : QN_ERROR_ARGUMENT;
}

static qn_status parse_kinds(qn_fleet *f) {
    double sum = 0;
    for (const char *at = f->o.kinds, *end;; at = end + 1) {
        end = at + strcspn(at, ",");
        if (f->n_kinds == MOST_KINDS)
            return qn_fail(QN_ERROR_ARGUMENT, "%s: more than %d kinds", f->o.kinds, MOST_KINDS);
        QN_TRY(parse_kind(at, (size_t)(end - at), &f->kinds[f->n_kinds]));
        sum += f->kinds[f->n_kinds].until;
        f->kinds[f->n_kinds++].until = sum;
        if (!*end)
            break;
    }
    for (int i = 0; i < f->n_kinds; i++)
        f->kinds[i].until /= sum;
    return QN_OK;
}

static int kind_of(const qn_fleet *f, int64_t client) {
    const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.kind"), 0);
    const double u = (double)qn_rng_word(rng, (uint64_t)client) * 0x1p-32;
    int i = 0;
    while (i < f->n_kinds - 1 && u >= f->kinds[i].until)
        i++;
    return i;
}

const qn_learn_device *qn_fleet_device(const qn_fleet *f, int64_t client) {
    return f->kinds[kind_of(f, client)].device;
}

static owner *owner_of(const qn_fleet *f, int64_t client) {
    return &f->owners[kind_of(f, client) * OWNERS_OF_A_KIND + client % OWNERS_OF_A_KIND];
}

/* ---- days ---- */

static void note_change(void *user, int64_t second, bool may_train, const char *why) {
    owner *o = user;
    (void)why;
    if (may_train == (o->n % 2 == 1) || o->status != QN_OK)
        return;
    o->status = qn_grow(o->allocator, &o->changes, &o->room, o->n + 1, sizeof *o->changes);
    if (o->status == QN_OK)
        o->changes[o->n++] = second;
}

/* Moments before this one are not asked for again. */
static void forget(owner *o, double second) {
    size_t n = 0;
    while (n + 2 < o->n && (double)o->changes[n + 1] <= second)
        n += 2;
    if (n == 0)
        return;
    o->n -= n;
    memmove(o->changes, o->changes + n, o->n * sizeof *o->changes);
}

/* Replays days until one begins after the moment. now: what is asked for begins there. */
static qn_status reach(qn_fleet *f, double now, double second) {
    for (; (double)f->n_days * QN_DAY_SECONDS <= second; f->n_days++) {
        for (size_t i = 0; i < f->n_owners; i++) {
            qn_replayed_day day;
            if (f->owners[i].n_clients == 0)
                continue;
            forget(&f->owners[i], now);
            qn_replay_next(&f->owners[i].replay, 0, &day);
            QN_TRY(f->owners[i].status);
        }
    }
    return QN_OK;
}

/* The first change after the moment; the rules hold at the moment if its index is odd. */
static size_t find_change(const owner *o, double second) {
    size_t i = 0;
    while (i < o->n && (double)o->changes[i] <= second)
        i++;
    return i;
}

/* How long the rules hold from a moment on, at most so long. */
static qn_status measure_free(qn_fleet *f, int64_t client, double second, double most,
                              double *seconds) {
    *seconds = most;
    if (!f->owners)
        return QN_OK;
    for (double end = second;; end += QN_DAY_SECONDS) {
        const owner *o = owner_of(f, client);
        QN_TRY(reach(f, second, end));
        const size_t i = find_change(o, second);
        if (i % 2 == 0)
            *seconds = 0;
        else if (i < o->n)
            *seconds = fmin((double)o->changes[i] - second, most);
        if (i % 2 == 0 || i < o->n || (double)f->n_days * QN_DAY_SECONDS - second >= most)
            return QN_OK;
    }
}

qn_status qn_fleet_is_free(qn_fleet *f, int64_t client, double second, bool *is_free) {
    double seconds;
    QN_TRY(measure_free(f, client, second, 1, &seconds));
    *is_free = seconds > 0;
    return QN_OK;
}

static int64_t count_free(const qn_fleet *f, double second) {
    int64_t n = 0;
    for (size_t i = 0; i < f->n_owners; i++)
        n += find_change(&f->owners[i], second) % 2 == 1 ? f->owners[i].n_clients : 0;
    return n;
}

qn_status qn_fleet_wait(qn_fleet *f, int64_t n_clients, double second, double *found) {
    const double end = second + LONGEST_WAIT;
    int64_t most = 0;
    *found = second;
    if (!f->owners)
        return QN_OK;
    for (; *found < end; *found = (floor(*found / 60) + 1) * 60) {
        QN_TRY(reach(f, second, *found + 60));
        const int64_t n = count_free(f, *found);
        if (n >= n_clients)
            return QN_OK;
        most = n > most ? n : most;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "a round asks %lld clients, and at most %lld of %lld may train together (%s) in "
                   "a simulated week; ask fewer, or allow more",
                   (long long)n_clients, (long long)most, (long long)f->o.n_clients, f->o.when);
}

/* ---- work ---- */

static double transfer_seconds(int64_t bytes, double mbit) {
    return (double)bytes * 8e-6 / mbit;
}

static qn_status check_memory(const qn_learn_device *d, int64_t bytes) {
    const double mib = (double)bytes / 1048576;
    if (mib <= d->memory_mib)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "training takes %.0f MiB, and a %s has %.0f MiB free; a smaller --batch or "
                   "--memory makes it fit",
                   mib, d->name, d->memory_mib);
}

qn_status qn_fleet_take_part(qn_fleet *f, int64_t client, double second, const qn_fleet_work *work,
                             double deadline, qn_fleet_turn *turn) {
    const qn_learn_device *d = qn_fleet_device(f, client);
    const double receive = transfer_seconds(work->bytes_down, f->o.down_mbit);
    const double train = work->flops / d->flops;
    const double send = transfer_seconds(work->bytes_up, f->o.up_mbit);
    const double all = receive + train + send;
    double most;
    QN_TRY(check_memory(d, work->memory_bytes));
    QN_TRY(measure_free(f, client, second, fmin(all, deadline), &most));
    turn->is_done = all <= most;
    turn->seconds = fmin(all, most);
    /* a turn that is cut off had its parts in this order */
    const double trained = fmin(fmax(most - receive, 0), train);
    const double radio = turn->seconds - trained;
    turn->joules = radio * f->o.radio_watts + trained * d->train_w;
    return QN_OK;
}

/* ---- creation ---- */

static qn_status begin_owners(qn_fleet *f) {
    f->n_owners = (size_t)f->n_kinds * OWNERS_OF_A_KIND;
    QN_TRY(qn_allocate(f->o.allocator, f->n_owners, sizeof *f->owners, &f->owners));
    for (size_t i = 0; i < f->n_owners; i++) {
        owner *o = &f->owners[i];
        const qn_learn_device *d = f->kinds[i / OWNERS_OF_A_KIND].device;
        const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.owner"), i);
        qn_replay_options options = {
            .device = d, .seed = rng.key ^ rng.step, .user = o, .decided = note_change};
        o->allocator = f->o.allocator;
        QN_TRY(qn_policy_parse(f->o.when, d->cool_celsius, &options.policy));
        qn_replay_init(&options, &o->replay);
    }
    for (int64_t i = 0; i < f->o.n_clients; i++)
        owner_of(f, i)->n_clients++;
    return QN_OK;
}

static qn_status begin(qn_fleet *f) {
    if (!(f->o.down_mbit > 0) || !(f->o.up_mbit > 0) || !(f->o.radio_watts >= 0))
        return qn_fail(QN_ERROR_ARGUMENT, "a network needs a speed above 0 in both directions");
    QN_TRY(parse_kinds(f));
    return f->o.when && f->o.when[0] ? begin_owners(f) : QN_OK;
}

qn_status qn_fleet_create(const qn_fleet_options *options, qn_fleet **fleet) {
    qn_fleet *f;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *f, &f));
    f->o = *options;
    f->o.allocator = allocator;
    const qn_status status = begin(f);
    if (status != QN_OK) {
        qn_fleet_destroy(f);
        return status;
    }
    *fleet = f;
    return QN_OK;
}

void qn_fleet_destroy(qn_fleet *f) {
    if (!f)
        return;
    const qn_allocator *a = f->o.allocator;
    for (size_t i = 0; f->owners && i < f->n_owners; i++)
        qn_release(a, f->owners[i].changes, f->owners[i].room, sizeof *f->owners[i].changes);
    qn_release(a, f->owners, f->n_owners, sizeof *f->owners);
    qn_release(a, f, 1, sizeof *f);
}
