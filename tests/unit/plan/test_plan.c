/* Plans of every model's training and evaluation keep their invariants; plans broken on purpose
 * are refused; the packer against instances whose best size is known. */
#include "a_machine.h"
#include "base/rng.h"
#include "check.h"
#include "os/heap.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/trainer.h"
#include "small_models.h"
#include "training_program.h"

#include <stdlib.h>

static const qn_kernels *kernels;

static void plan_program(qn_program *p) {
    CHECK_OK(qn_plan_create(qn_allocator_default(), p->graph, A_MACHINE(kernels, 3), &p->plan));
    if (!p->plan)
        exit(checks_finish());
    CHECK_OK(qn_plan_check(p->plan, p->graph));
}

static qn_status build(qn_program *p, const qn_trainer_options *o, int index) {
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = o->engine.allocator, .real = o->engine.real,
                                      .update = o->engine.update};
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    qn_trainer_describe(o, programs);
    return qn_program_build(p, &programs[index], &engine);
}

/* The training program of a model that is no classifier. */
static void check_network(const qn_model *model, int64_t accumulate) {
    const qn_update_options update = {.optimizer = QN_SGD, .accumulate = accumulate};
    qn_program training;
    CHECK_OK(build_training(model, 2, &update, &training));
    plan_program(&training);
    qn_program_deinit(&training);
}

static void check_model(const qn_model *model, int64_t accumulate) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.engine.allocator = qn_allocator_default();
    o.engine.real = QN_F32;
    o.n_outputs = model->n_classes;
    o.batch = o.evaluation_batch = 2;
    o.engine.update.accumulate = accumulate;
    qn_program training, evaluation;
    CHECK_OK(build(&training, &o, QN_TRAINER_TRAINING));
    CHECK_OK(build(&evaluation, &o, QN_TRAINER_EVALUATION));
    plan_program(&training);
    plan_program(&evaluation);
    CHECK(training.plan->arena_bytes <= training.plan->lower_bound_bytes * 11 / 10);
    CHECK(evaluation.plan->arena_bytes < training.plan->arena_bytes);
    qn_program_deinit(&training);
    qn_program_deinit(&evaluation);
}

static void test_models(void) {
    check_model(&small_conv, 1);
    check_model(&small_conv, 2);
    for (int i = 0; qn_model_at(i); i++) {
        const qn_model *model = qn_model_at(i);
        if (model->network)
            check_network(model, model->n_phases > 1 ? 1 : 1 + i % 2);
        else
            check_model(model, 1 + i % 2);
    }
}

/* A feature map whose storage lives for more than one step. */
static int32_t find_storage(const qn_plan *plan) {
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (!s->is_bound && s->last > s->first + 1 && s->last < plan->n_steps)
            return i;
    }
    CHECK(!"a storage that lives long");
    exit(checks_finish());
}

static void test_broken_plans(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    o.engine.allocator = qn_allocator_default();
    o.engine.real = QN_F32;
    o.n_outputs = 5;
    o.engine.update.accumulate = 1;
    qn_program p;
    CHECK_OK(build(&p, &o, QN_TRAINER_TRAINING));
    plan_program(&p);
    qn_plan *plan = p.plan;
    qn_storage *storage = &plan->storages[find_storage(plan)], kept = *storage;

    storage->last = storage->first;
    CHECK_FAILS(qn_plan_check(plan, p.graph), QN_ERROR_ARGUMENT, "alive only from");
    *storage = kept;
    storage->offset = plan->arena_bytes;
    CHECK_FAILS(qn_plan_check(plan, p.graph), QN_ERROR_ARGUMENT, "exceeds the arena");
    *storage = kept;
    storage->offset += 1;
    CHECK_FAILS(qn_plan_check(plan, p.graph), QN_ERROR_ARGUMENT, "misaligned");
    *storage = kept;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        if (!plan->storages[i].is_bound)
            plan->storages[i].offset = 0;
    }
    CHECK_FAILS(qn_plan_check(plan, p.graph), QN_ERROR_ARGUMENT, "overlap");
    CHECK_OK(qn_plan_pack(plan));
    CHECK_OK(qn_plan_check(plan, p.graph));

    qn_step swapped = plan->steps[0];
    plan->steps[0] = plan->steps[plan->n_steps - 1];
    plan->steps[plan->n_steps - 1] = swapped;
    CHECK(qn_plan_check(plan, p.graph) == QN_ERROR_ARGUMENT);
    qn_program_deinit(&p);
}

/* Cuts a rectangle of time and bytes into boxes, so that a perfect packing exists. */
static void cut(qn_plan *plan, qn_rng rng, uint64_t *next, qn_storage box, int depth) {
    const size_t units = box.bytes / QN_ALIGNMENT;
    const int32_t times = box.last - box.first + 1;
    const uint64_t choice = qn_rng_below(rng, (*next)++, 2);
    if (depth == 0 || (units < 2 && times < 2)) {
        plan->storages[plan->n_storages++] = box;
        return;
    }
    qn_storage left = box, right = box;
    if (units >= 2 && (choice || times < 2)) {
        left.bytes = QN_ALIGNMENT * (1 + qn_rng_below(rng, (*next)++, units - 1));
        right.bytes = box.bytes - left.bytes;
    } else {
        left.last = box.first + (int32_t)qn_rng_below(rng, (*next)++, (uint64_t)times - 1);
        right.first = left.last + 1;
    }
    cut(plan, rng, next, left, depth - 1);
    cut(plan, rng, next, right, depth - 1);
}

static void test_packer(void) {
    static qn_storage storages[64];
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t next = 0;
        qn_plan plan = {.allocator = qn_allocator_default(), .n_steps = 40, .storages = storages};
        const qn_storage whole = {.bytes = 4096 * QN_ALIGNMENT, .first = 0, .last = 39};
        cut(&plan, qn_rng_make(seed, 5, 0), &next, whole, 5);
        CHECK_OK(qn_plan_pack(&plan));
        CHECK(plan.lower_bound_bytes == whole.bytes);
        CHECK(plan.arena_bytes >= whole.bytes && plan.arena_bytes <= 2 * whole.bytes);
        for (int32_t i = 0; i < plan.n_storages; i++) {
            for (int32_t j = 0; j < i; j++) {
                const qn_storage *a = &storages[i], *b = &storages[j];
                CHECK(a->last < b->first || b->last < a->first ||
                      a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            }
        }
    }
}

int main(void) {
    kernels = qn_kernels_get(QN_F32, QN_ISA_REF);
    test_packer();
    test_broken_plans();
    test_models();
    return checks_finish();
}
