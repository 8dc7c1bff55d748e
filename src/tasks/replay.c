/* See replay.h. The newest slot has an observation without an action yet, unless the last episode
 * is over and the next has not begun. */
#include "tasks/replay.h"

#include "base/rng.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

enum {
    FIRST = 1,    /* of an episode: a stack goes no further back */
    TERMINAL = 2, /* what came after the action is worth nothing */
    LAST = 4,     /* nothing was done in it: not to be drawn */
    ALL_MARKS = FIRST | TERMINAL | LAST,
};

enum { MAX_DEPTH = 8, TRIES = 64 };

typedef struct slot {
    float reward;
    int32_t action;
    uint32_t marks, padding;
    uint8_t observation[];
} slot;

static size_t observation_bytes(const qn_replay *r) {
    return r->n_values * (r->dtype == QN_U8 ? 1 : sizeof(float));
}

size_t qn_replay_slot_bytes(size_t bytes) {
    return (sizeof(slot) + bytes + 15) / 16 * 16;
}

/* Slot i, counted from the oldest. */
static slot *slot_at(const qn_replay *r, int64_t i) {
    const int64_t at = (r->place->next - r->place->n + i + r->capacity) % r->capacity;
    return (slot *)(r->memory + (size_t)at * qn_replay_slot_bytes(observation_bytes(r)));
}

qn_status qn_replay_check(const qn_replay *r, int n_actions) {
    const qn_replay_place *p = r->place;
    bool is_sound = p->n >= 0 && p->n <= r->capacity && p->next >= 0 && p->next < r->capacity;
    for (int64_t i = 0; is_sound && i < p->n; i++) {
        const slot *s = slot_at(r, i);
        is_sound =
            s->action >= 0 && s->action < n_actions && s->marks <= ALL_MARKS && isfinite(s->reward);
    }
    return is_sound ? QN_OK
                    : qn_fail(QN_ERROR_FORMAT, "the replay memory is none that was saved here");
}

/* ---- writing ---- */

static void append(qn_replay *r, const void *observation, uint32_t marks) {
    qn_replay_place *p = r->place;
    p->n += p->n < r->capacity;
    p->next = (p->next + 1) % r->capacity;
    slot *s = slot_at(r, p->n - 1);
    *s = (slot){.marks = marks | LAST};
    memcpy(s->observation, observation, observation_bytes(r));
}

void qn_replay_begin(qn_replay *r, const void *observation) {
    append(r, observation, FIRST);
}

void qn_replay_add(qn_replay *r, int action, double reward, bool is_terminal, const void *next) {
    slot *s = slot_at(r, r->place->n - 1);
    s->action = action;
    s->reward = (float)reward;
    s->marks = (s->marks & FIRST) | (is_terminal ? TERMINAL : 0);
    if (next)
        append(r, next, 0);
}

/* ---- reading ---- */

/* Four frames side by side, the usual case, in a form that compilers turn into vectors. */
static void weave_four(const uint8_t *const frames[4], size_t n, float *state) {
    const uint8_t *a = frames[0], *b = frames[1], *c = frames[2], *d = frames[3];
    for (size_t i = 0; i < n; i++, state += 4) {
        state[0] = (float)a[i] * (1.0f / 255);
        state[1] = (float)b[i] * (1.0f / 255);
        state[2] = (float)c[i] * (1.0f / 255);
        state[3] = (float)d[i] * (1.0f / 255);
    }
}

static void weave(const qn_replay *r, const uint8_t *const *observations, float *state) {
    for (int d = 0; d < r->depth; d++) {
        const uint8_t *bytes = observations[d];
        for (size_t i = 0; i < r->n_values; i++) {
            float value = (float)bytes[i] * (1.0f / 255);
            if (r->dtype == QN_F32)
                memcpy(&value, bytes + i * sizeof value, sizeof value);
            state[i * (size_t)r->depth + (size_t)d] = value;
        }
    }
}

/* The stack that ends with slot i. Before its episode's first observation there is that again. */
static void read_state(const qn_replay *r, int64_t i, float *state) {
    const uint8_t *observations[MAX_DEPTH];
    for (int d = r->depth - 1; d >= 0; d--) {
        const slot *s = slot_at(r, i);
        observations[d] = s->observation;
        i -= !(s->marks & FIRST) && i > 0;
    }
    if (r->dtype == QN_U8 && r->depth == 4)
        weave_four(observations, r->n_values, state);
    else
        weave(r, observations, state);
}

void qn_replay_newest(const qn_replay *r, float *state) {
    read_state(r, r->place->n - 1, state);
}

/* The oldest slot whose stack is sure to be there. */
static int64_t oldest(const qn_replay *r) {
    return r->place->n == r->capacity ? r->depth - 1 : 0;
}

bool qn_replay_is_ready(const qn_replay *r) {
    for (int64_t i = oldest(r); i < r->place->n; i++) {
        if (!(slot_at(r, i)->marks & LAST))
            return true;
    }
    return false;
}

/* A slot in which something was done: all are equally likely while such are not rare. */
static int64_t draw_slot(const qn_replay *r, qn_rng rng, uint64_t index) {
    const int64_t begin = oldest(r), n = r->place->n - begin;
    int64_t i = begin;
    for (uint64_t attempt = 0; attempt < TRIES; attempt++) {
        i = begin + (int64_t)qn_rng_below(rng, index * TRIES + attempt, (uint64_t)n);
        if (!(slot_at(r, i)->marks & LAST))
            return i;
    }
    while (slot_at(r, i)->marks & LAST)
        i = i + 1 < begin + n ? i + 1 : begin;
    return i;
}

qn_replay_sample qn_replay_draw(const qn_replay *r, uint64_t seed, uint64_t update, uint64_t index,
                                float *state, float *next) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("replay"), update);
    int64_t i = draw_slot(r, rng, index);
    double reward = 0, discount = 1;
    const int32_t action = slot_at(r, i)->action;
    bool is_terminal = false;
    read_state(r, i, state);
    for (int k = 0; k < r->n_steps && !is_terminal && !(slot_at(r, i)->marks & LAST); k++, i++) {
        reward += discount * (double)slot_at(r, i)->reward;
        discount *= r->discount;
        is_terminal = (slot_at(r, i)->marks & TERMINAL) != 0;
    }
    /* What follows a terminal action is there only if the episode goes on; it counts for nothing.
     */
    if (next)
        read_state(r, is_terminal ? i - 1 : i, next);
    return (qn_replay_sample){action, (float)reward, is_terminal ? 0 : (float)discount};
}
