/* Rectangles of time and bytes cut into boxes, so that a perfect packing is known: by straight cuts
 * (guillotine), by straight cuts and pinwheels, which no straight cut makes, and by a wall laid
 * brick by brick on the lowest place. */
#ifndef QN_TESTS_CUT_RECTANGLE_H
#define QN_TESTS_CUT_RECTANGLE_H

#include "base/rng.h"
#include "plan/packing/packing.h"

#include <stdlib.h>
#include <string.h>

typedef enum cut_kind { CUT_STRAIGHT, CUT_PINWHEEL, CUT_BRICKS, CUT_KINDS } cut_kind;

static const char *const cut_names[CUT_KINDS] = {"straight", "pinwheel", "bricks"};

/* What is cut, and the numbers that say where. */
typedef struct cutter {
    qn_rng rng;
    uint64_t next;
    qn_box *boxes; /* (n of most) */
    int32_t n, most;
} cutter;

/* Uniform in [least, most]. */
static inline int64_t cut_number(cutter *c, int64_t least, int64_t most) {
    return least + (int64_t)qn_rng_below(c->rng, c->next++, (uint64_t)(most - least + 1));
}

static inline void cut_add(cutter *c, int64_t lower, int64_t upper, int64_t bottom, int64_t top) {
    c->boxes[c->n++] = (qn_box){lower, upper, (size_t)(top - bottom), (size_t)bottom};
}

/* Cuts a box in two across time or across bytes. */
static inline void cut_straight(cutter *c, qn_box *box, bool is_in_time) {
    const int64_t bottom = (int64_t)box->offset, top = bottom + (int64_t)box->bytes;
    if (is_in_time) {
        const int64_t t = cut_number(c, box->lower + 1, box->upper - 1);
        cut_add(c, t, box->upper, bottom, top);
        box->upper = t;
    } else {
        const int64_t y = cut_number(c, bottom + 1, top - 1);
        cut_add(c, box->lower, box->upper, y, top);
        box->bytes = (size_t)(y - bottom);
    }
}

/* Cuts a box in five, four of them around the one in the middle. */
static inline void cut_pinwheel(cutter *c, qn_box *box) {
    const int64_t bottom = (int64_t)box->offset, top = bottom + (int64_t)box->bytes;
    const int64_t lower = box->lower, upper = box->upper;
    const int64_t t0 = cut_number(c, lower + 1, upper - 2), t1 = cut_number(c, t0 + 1, upper - 1);
    const int64_t y0 = cut_number(c, bottom + 1, top - 2), y1 = cut_number(c, y0 + 1, top - 1);
    *box = (qn_box){t0, t1, (size_t)(y1 - y0), (size_t)y0};
    cut_add(c, lower, t1, bottom, y0);
    cut_add(c, t1, upper, bottom, y1);
    cut_add(c, t0, upper, y1, top);
    cut_add(c, lower, t0, y0, top);
}

/* Cuts boxes at random until there are enough; of three, the one with the largest area. */
static inline void cut_pieces(cutter *c, int64_t times, int64_t bytes, bool with_pinwheels) {
    cut_add(c, 0, times, 0, bytes);
    for (int tries = 0; c->n + 4 <= c->most && tries < 100 * c->most; tries++) {
        qn_box *box = &c->boxes[cut_number(c, 0, c->n - 1)];
        for (int i = 0; i < 2; i++) {
            qn_box *other = &c->boxes[cut_number(c, 0, c->n - 1)];
            if ((double)other->bytes * (double)(other->upper - other->lower) >
                (double)box->bytes * (double)(box->upper - box->lower))
                box = other;
        }
        const bool is_in_time = cut_number(c, 0, 1) == 0;
        if (with_pinwheels && cut_number(c, 0, 3) == 0 && box->bytes >= 3 &&
            box->upper - box->lower >= 3)
            cut_pinwheel(c, box);
        else if (is_in_time ? box->upper - box->lower >= 2 : box->bytes >= 2)
            cut_straight(c, box, is_in_time);
    }
}

/* Lays boxes on the lowest place of a wall, as wide as the place at most, until it is full. */
static inline void cut_bricks(cutter *c, int64_t times, int64_t bytes) {
    int64_t *floor = calloc((size_t)times, sizeof *floor);
    const double mean = 1.6 / (double)c->most;
    for (;;) {
        int64_t a = 0, b, n_places = 1;
        for (int64_t t = 1; t < times; t++) {
            a = floor[t] < floor[a] ? t : a;
            n_places += floor[t] != floor[t - 1];
        }
        for (b = a; b < times && floor[b] == floor[a]; b++)
            ;
        if (floor[a] == bytes)
            break;
        const double area =
            mean * (double)times * (double)bytes * (double)cut_number(c, 1, 100) / 50;
        const bool is_last = c->n + n_places + 2 > c->most;
        int64_t width = is_last ? b - a : cut_number(c, 1, 2 * (b - a));
        width = width > b - a ? b - a : width;
        int64_t top = floor[a] + 1 + (int64_t)(area / (double)width);
        top = top > bytes || is_last ? bytes : top;
        cut_add(c, a, a + width, floor[a], top);
        for (int64_t t = a; t < a + width; t++)
            floor[t] = top;
    }
    free(floor);
}

/* Cuts times by bytes into at most n boxes, of which it returns how many, in no order and without
 * offsets. */
static inline int32_t cut_rectangle(cut_kind kind, uint64_t seed, int64_t times, int64_t bytes,
                                    qn_box *boxes, int32_t n) {
    cutter c = {.rng = qn_rng_make(seed, 11, (uint64_t)kind), .boxes = boxes, .most = n};
    if (kind == CUT_BRICKS)
        cut_bricks(&c, times, bytes);
    else
        cut_pieces(&c, times, bytes, kind == CUT_PINWHEEL);
    for (int32_t i = c.n - 1; i > 0; i--) {
        const int64_t j = cut_number(&c, 0, i);
        const qn_box box = boxes[i];
        boxes[i] = boxes[j];
        boxes[j] = box;
    }
    for (int32_t i = 0; i < c.n; i++)
        boxes[i].offset = 0;
    return c.n;
}

#endif
