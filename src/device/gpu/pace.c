/* Kernels in pieces, so that whoever draws with the same device waits for a piece at most. */
#include "base/rng.h"
#include "device/gpu/state.h"
#include "os/os.h"

void qn_gpu_set_pace(void *state, int64_t piece_ns, int64_t pause_ns) {
    ((qn_gpu *)state)->pace = (qn_gpu_pace){.piece_ns = piece_ns, .pause_ns = pause_ns};
}

/* What a launch of this kind and extent took before; two that share a place mislead each other
 * once. */
static float *known_ns(qn_gpu *d, const qn_gpu_launch *l) {
    uint64_t hash = (uint64_t)l->kernel;
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < sizeof l->arguments->n / sizeof l->arguments->n[0]; i++)
        hash = (hash ^ (uint64_t)(uint32_t)l->arguments->n[i]) * factor;
    hash = (hash ^ l->x ^ l->y << 20 ^ l->z << 40) * factor;
    return &d->pace.known_ns[(hash >> 32) % QN_GPU_KNOWN_LAUNCHES];
}

static void rest(qn_gpu *d, int64_t worked_ns) {
    qn_gpu_pace *p = &d->pace;
    p->since_pause_ns += worked_ns;
    if (p->since_pause_ns < p->piece_ns)
        return;
    qn_sleep_ns(p->pause_ns);
    p->since_pause_ns = 0;
}

/* Along one axis, n of `all`: groups of a tiled kernel, or of items. */
typedef struct cut {
    int axis;
    size_t all, unit; /* unit: items of a group along the axis */
} cut;

static cut cut_of(const qn_gpu_launch *l) {
    const size_t extents[3] = {l->x, l->y, l->z};
    const bool is_tiled = qn_gpu_is_tiled(l->kernel);
    cut c = {.axis = 0};
    for (int axis = 0; axis < 3; axis++) {
        const size_t unit = axis == 0 && !is_tiled ? QN_GPU_GROUP_ITEMS : 1;
        const size_t all = (extents[axis] + unit - 1) / unit;
        if (all > c.all)
            c = (cut){axis, all, unit};
    }
    return c;
}

static qn_gpu_launch part_of(const qn_gpu_launch *l, const cut *c, size_t done, size_t n) {
    size_t extents[3] = {l->x, l->y, l->z};
    qn_gpu_launch part = *l;
    const size_t left = extents[c->axis] - done * c->unit;
    part.first[c->axis] = done * c->unit;
    extents[c->axis] = left < n * c->unit ? left : n * c->unit;
    part.x = extents[0];
    part.y = extents[1];
    part.z = extents[2];
    return part;
}

static bool run(qn_gpu *d, void *stream, const qn_gpu_launch *l, int64_t *ns) {
    const int64_t begin_ns = qn_clock_ns();
    if (!d->driver->launch(d, stream, l) || !qn_gpu_finish(d, stream))
        return false;
    *ns = qn_clock_ns() - begin_ns;
    return true;
}

/* Groups of the next piece, by what those before took. */
static size_t next_piece(const qn_gpu *d, size_t left, double ns, size_t of) {
    const double fitting = ns > 0 ? (double)d->pace.piece_ns / ns * (double)of : 1;
    return fitting < 1 ? 1 : fitting < (double)left ? (size_t)fitting : left;
}

bool qn_gpu_start_paced(qn_gpu *d, void *stream, const qn_gpu_launch *l) {
    enum { FIRST_PARTS = 16 };
    const cut c = cut_of(l);
    float *known = known_ns(d, l);
    size_t n = *known > 0 ? next_piece(d, c.all, *known, c.all) : c.all / FIRST_PARTS + 1;
    int64_t ns, all_ns = 0;
    for (size_t done = 0; done < c.all;) {
        n = !d->driver->can_start_parts || n > c.all - done ? c.all - done : n;
        const qn_gpu_launch part = part_of(l, &c, done, n);
        if (!run(d, stream, &part, &ns))
            return false;
        done += n;
        all_ns += ns;
        rest(d, ns);
        n = next_piece(d, c.all - done, (double)ns, n);
    }
    *known = (float)all_ns;
    return true;
}
