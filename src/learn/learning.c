/* The service as programs have it: see quern/learn.h. Texts of the options are copied. */
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "learn/service.h"
#include "os/heap.h"
#include "quern/learn.h"

static const double usual_watts = 5;

struct qn_learning {
    qn_arena arena; /* of texts */
    qn_service *service;
};

static qn_service *service_of(const qn_learning *learning) {
    return learning->service;
}

static qn_status check(const qn_learning_options *o) {
    if (!o->folder)
        return qn_fail(QN_ERROR_ARGUMENT, "qn_learning_options: folder is null");
    if (o->n_kept < 0 || o->batch < 0 || o->seed < 0 || o->n_fresh < 0 || o->memory_bytes < 0 ||
        o->disk_bytes < 0 || o->n_threads < 0)
        return qn_fail(QN_ERROR_ARGUMENT, "qn_learning_options: a count below 0");
    if (!(o->day_joules >= 0) || !(o->day_minutes >= 0) || !(o->watts >= 0) ||
        !(o->power_watts >= 0))
        return qn_fail(QN_ERROR_ARGUMENT, "qn_learning_options: an amount that is not 0 or more");
    return QN_OK;
}

static qn_status open_service(const qn_learning_options *o, qn_learning *l) {
    const char *given[] = {
        o->folder, o->model, o->inbox, o->old, o->when ? o->when : "idle,charging,cool",
        o->sysroot};
    for (int i = 0; i < 6; i++) {
        const char *copy = given[i] ? qn_arena_text(&l->arena, given[i]) : NULL;
        if (given[i] && !copy)
            return QN_ERROR_MEMORY;
        given[i] = copy;
    }
    const qn_service_options wanted = {.allocator = o->allocator,
                                       .folder = given[0],
                                       .model = given[1],
                                       .inbox = given[2],
                                       .old = given[3],
                                       .n_kept = o->n_kept,
                                       .batch = o->batch,
                                       .seed = o->seed,
                                       .n_fresh = o->n_fresh,
                                       .memory_bytes = o->memory_bytes,
                                       .disk_bytes = o->disk_bytes,
                                       .n_threads = o->n_threads,
                                       .when = given[4],
                                       .day_joules = o->day_joules,
                                       .day_seconds = 60 * o->day_minutes,
                                       .watts = o->watts > 0 ? o->watts : usual_watts,
                                       .power_watts = o->power_watts,
                                       .root = given[5],
                                       .user = o->user,
                                       .said = o->said,
                                       .should_stop = o->should_stop};
    return qn_service_open(&wanted, &l->service);
}

qn_status qn_learning_open(const qn_learning_options *options, qn_learning **learning) {
    qn_learning_options o;
    qn_learning *l;
    QN_NEED(options, "options");
    QN_NEED(learning, "learning");
    QN_TRY(QN_OPTIONS_TAKE(qn_learning_options, options, &o));
    QN_TRY(check(&o));
    const qn_allocator *allocator = qn_allocator_or_default(o.allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *l, &l));
    qn_arena_init(&l->arena, allocator);
    const qn_status status = open_service(&o, l);
    if (status != QN_OK) {
        qn_learning_close(l);
        return status;
    }
    *learning = l;
    return QN_OK;
}

void qn_learning_close(qn_learning *l) {
    if (!l)
        return;
    const qn_allocator *allocator = l->arena.allocator;
    qn_service_close(l->service);
    qn_arena_deinit(&l->arena);
    qn_release(allocator, l, 1, sizeof *l);
}

qn_shape qn_learning_input(const qn_learning *learning) {
    QN_NEED_OR(learning, "learning", (qn_shape){0});
    return qn_service_input(service_of(learning));
}

qn_status qn_learning_offer(qn_learning *learning, const uint8_t *pixels, int32_t label,
                            const char *name) {
    QN_NEED(learning, "learning");
    QN_NEED(pixels, "pixels");
    return qn_service_offer(service_of(learning), pixels, label, name ? name : "");
}

qn_status qn_learning_turn(qn_learning *learning, qn_learn_turn *turn, int64_t *rest_ns) {
    QN_NEED(learning, "learning");
    QN_NEED(turn, "turn");
    QN_NEED(rest_ns, "rest_ns");
    return qn_service_turn(service_of(learning), turn, rest_ns);
}

qn_learning_facts qn_learning_get_facts(const qn_learning *learning) {
    QN_NEED_OR(learning, "learning", (qn_learning_facts){0});
    return qn_service_get_facts(service_of(learning));
}

qn_status qn_learning_undo(qn_learning *learning) {
    QN_NEED(learning, "learning");
    return qn_service_undo(service_of(learning));
}

qn_status qn_learning_set_paused(qn_learning *learning, bool is_paused) {
    QN_NEED(learning, "learning");
    return qn_service_set_paused(qn_service_folder(service_of(learning)), is_paused);
}
