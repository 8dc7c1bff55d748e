/* See fill.h. */
#include "plan/packing/fill.h"

#include <string.h>

/* What is left over from a section on, and is not yet a box. */
typedef struct open_box {
    int32_t lower;
    size_t bytes;
} open_box;

typedef struct filling {
    qn_packing_problem *filled;
    int32_t most;   /* boxes that the filled problem has room for */
    bool is_over;   /* there would be more */
    open_box *open; /* (n_open), the last opened last */
    int32_t n_open;
} filling;

/* Makes a box of so many bytes of an open one, up to a section. */
static void make_box(filling *f, const open_box *open, size_t bytes, int32_t section) {
    qn_packing_problem *p = f->filled;
    f->is_over |= p->n == f->most;
    if (f->is_over || open->lower == section)
        return;
    p->boxes[p->n] =
        (qn_packed_box){.bytes = bytes, .lower = open->lower, .upper = section, .id = p->n};
    p->n++;
}

/* A part of an open box ends here. */
static void end_part(filling *f, int32_t i, size_t bytes, int32_t section) {
    make_box(f, &f->open[i], bytes, section);
    f->open[i].bytes -= bytes;
    if (f->open[i].bytes > 0)
        return;
    f->n_open--;
    memmove(&f->open[i], &f->open[i + 1], (size_t)(f->n_open - i) * sizeof *f->open);
}

/* All open boxes end, and others go on. */
static void end_all(filling *f, int32_t section) {
    for (int32_t i = 0; i < f->n_open; i++) {
        make_box(f, &f->open[i], f->open[i].bytes, section);
        f->open[i].lower = section;
    }
}

/* Ends one that has just so many bytes, or two that have, if there are. */
static bool end_exactly(filling *f, size_t bytes, int32_t section) {
    for (int32_t i = f->n_open - 1; i >= 0; i--) {
        if (f->open[i].bytes == bytes) {
            end_part(f, i, bytes, section);
            return true;
        }
    }
    for (int32_t i = f->n_open - 1; i > 0; i--) {
        for (int32_t j = i - 1; j >= 0; j--) {
            if (f->open[i].bytes + f->open[j].bytes != bytes)
                continue;
            end_part(f, i, f->open[i].bytes, section);
            end_part(f, j, f->open[j].bytes, section);
            return true;
        }
    }
    return false;
}

/* The smallest open box that has more bytes, else the largest. */
static int32_t choose_open(const filling *f, size_t bytes) {
    int32_t best = 0;
    for (int32_t i = 1; i < f->n_open; i++) {
        const size_t old = f->open[best].bytes, new = f->open[i].bytes;
        if (old > bytes ? new > bytes &&new <= old : new >= old)
            best = i;
    }
    return best;
}

/* From a section on so many bytes less are left over. */
static void end_boxes(filling *f, size_t bytes, int32_t section) {
    while (bytes > 0 && !end_exactly(f, bytes, section)) {
        const int32_t i = choose_open(f, bytes);
        const size_t part = f->open[i].bytes < bytes ? f->open[i].bytes : bytes;
        end_part(f, i, part, section);
        bytes -= part;
    }
}

static void fill(const qn_packing_problem *p, size_t capacity, bool is_sliced, filling *f) {
    size_t left = 0;
    for (int32_t i = 0; i <= p->n_sections; i++) {
        const size_t next = i < p->n_sections ? capacity - p->load_bytes[i] : 0;
        if (next != left && is_sliced)
            end_all(f, i);
        if (next > left)
            f->open[f->n_open++] = (open_box){i, next - left};
        else if (next < left)
            end_boxes(f, left - next, i);
        left = next;
        if (i < p->n_sections)
            f->filled->load_bytes[i] = capacity;
    }
}

qn_status qn_packing_fill(const qn_packing_problem *p, size_t capacity, bool is_sliced,
                          qn_arena *arena, qn_packing_problem *filled) {
    const size_t n = (size_t)p->n, n_sections = (size_t)p->n_sections;
    *filled = (qn_packing_problem){.n = p->n, .n_sections = p->n_sections, .bound_bytes = capacity};
    filling f = {.filled = filled, .most = 3 * p->n};
    filled->boxes = qn_arena_allocate(arena, 3 * n, sizeof *filled->boxes);
    filled->load_bytes = qn_arena_allocate(arena, n_sections, sizeof *filled->load_bytes);
    f.open = qn_arena_allocate(arena, n_sections + 1, sizeof *f.open);
    if (!filled->boxes || !filled->load_bytes || !f.open)
        return QN_ERROR_MEMORY;
    memcpy(filled->boxes, p->boxes, n * sizeof *filled->boxes);
    fill(p, capacity, is_sliced, &f);
    if (f.is_over)
        filled->n = 0;
    return QN_OK;
}
