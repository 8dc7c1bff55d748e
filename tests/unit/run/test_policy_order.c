/* An engine calls the policies of its list in order, and in the reverse order what begins a run or
 * ends something; a policy that plans or runs does so in the engine's place; where one fails the
 * engine is not made, and what was made is released. The list is the test's own: two policies that
 * write down their calls. */
#include "three_nodes.h"

/* Calls as "a.create b.create ...". */
static char calls[4096];
static const char *fails; /* the call that fails; null: none */
static bool a_plans, b_runs;

static qn_status note(const char *call) {
    strncat(calls, call, sizeof calls - strlen(calls) - 1);
    strncat(calls, " ", sizeof calls - strlen(calls) - 1);
    return fails && strcmp(fails, call) == 0 ? QN_ERROR_UNSUPPORTED : QN_OK;
}

#define NOTES(id)                                                                                  \
    static qn_status id##_create(qn_engine *e) {                                                   \
        CHECK(e->n_programs == 2 && !e->programs);                                                 \
        return note(#id ".create");                                                                \
    }                                                                                              \
    static qn_status id##_build(qn_engine *e, qn_program *p) {                                     \
        CHECK(p == &e->programs[0] && !p->plan);                                                   \
        return note(#id ".build");                                                                 \
    }                                                                                              \
    static qn_status id##_prepare(qn_engine *e) {                                                  \
        CHECK(!e->planning.is_done && !e->programs[0].plan);                                       \
        return note(#id ".prepare");                                                               \
    }                                                                                              \
    static size_t id##_reserve(const qn_engine *e) {                                               \
        CHECK(!e->memory.arena);                                                                   \
        note(#id ".reserve");                                                                      \
        return 1000;                                                                               \
    }                                                                                              \
    static qn_status id##_plan(qn_engine *e, qn_program *p) {                                      \
        note(#id ".plan");                                                                         \
        return qn_plan_create(&e->allocator, p->graph, &e->machine, &p->plan);                     \
    }                                                                                              \
    static qn_status id##_open(qn_engine *e) {                                                     \
        CHECK(e->programs[0].executor && !e->memory.arena);                                        \
        return note(#id ".open");                                                                  \
    }                                                                                              \
    static qn_status id##_start(qn_engine *e) {                                                    \
        CHECK(e->memory.arena != NULL);                                                            \
        return note(#id ".start");                                                                 \
    }                                                                                              \
    static qn_status id##_begin_run(qn_engine *e, int program) {                                   \
        CHECK(program < e->n_programs);                                                            \
        return note(#id ".begin_run");                                                             \
    }                                                                                              \
    static void id##_end_run(qn_engine *e, int program) {                                          \
        CHECK(program < e->n_programs);                                                            \
        note(#id ".end_run");                                                                      \
    }                                                                                              \
    static qn_status id##_run(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {   \
        note(#id ".run");                                                                          \
        return qn_executor_run(e->programs[program].executor, e->options.seed, step, watch);       \
    }                                                                                              \
    static void id##_stop(qn_engine *e) {                                                          \
        CHECK(e->n_programs == 2);                                                                 \
        note(#id ".stop");                                                                         \
    }                                                                                              \
    static void id##_destroy(qn_engine *e) {                                                       \
        CHECK(e->n_programs == 2);                                                                 \
        note(#id ".destroy");                                                                      \
    }

NOTES(a)
NOTES(b)

static bool plans(const qn_engine *e) {
    return !e->memory.arena && a_plans;
}

static bool runs(const qn_engine *e, int program) {
    return e->memory.arena && program == 0 && b_runs;
}

#define ROW(id, ...)                                                                               \
    static const qn_policy policy_##id = {.name = #id,                                             \
                                          .create = id##_create,                                   \
                                          .build = id##_build,                                     \
                                          .prepare = id##_prepare,                                 \
                                          .reserve = id##_reserve,                                 \
                                          .plan = id##_plan,                                       \
                                          .open = id##_open,                                       \
                                          .start = id##_start,                                     \
                                          .begin_run = id##_begin_run,                             \
                                          .end_run = id##_end_run,                                 \
                                          .run = id##_run,                                         \
                                          .stop = id##_stop,                                       \
                                          .destroy = id##_destroy,                                 \
                                          __VA_ARGS__}

ROW(a, .plans = plans);
ROW(b, .runs = runs);

const qn_policy *const qn_policy_rows[QN_POLICIES] = {[1] = &policy_a, [3] = &policy_b};

static qn_engine *make(qn_status wanted) {
    const qn_engine_options options = three_options();
    qn_engine *engine;
    calls[0] = 0;
    CHECK(three_try(&options, &engine) == wanted);
    return engine;
}

static void check_calls(const char *wanted) {
    if (strcmp(calls, wanted) != 0)
        printf("called: %s\nwanted: %s\n", calls, wanted);
    CHECK(strcmp(calls, wanted) == 0);
    calls[0] = 0;
}

static void test_life(void) {
    qn_engine *e = make(QN_OK);
    check_calls("a.create b.create a.build b.build a.prepare b.prepare a.reserve b.reserve "
                "a.open b.open a.start b.start ");
    CHECK(e->memory.outside_bytes == 2000);
    three_run(e, 0);
    three_run(e, 1);
    check_calls("b.begin_run a.begin_run a.end_run b.end_run "
                "b.begin_run a.begin_run ");
    qn_engine_destroy(e);
    check_calls("b.stop a.stop b.destroy a.destroy ");
}

static void test_instead(void) {
    a_plans = b_runs = true;
    qn_engine *e = make(QN_OK);
    check_calls("a.create b.create a.build b.build a.prepare b.prepare a.reserve b.reserve "
                "a.plan a.plan a.open b.open a.start b.start ");
    three_run(e, 0);
    three_run(e, 1);
    check_calls("b.begin_run a.begin_run b.run a.end_run b.end_run "
                "b.begin_run a.begin_run ");
    qn_engine_destroy(e);
    a_plans = b_runs = false;
}

static void test_failures(void) {
    fails = "b.create";
    CHECK(!make(QN_ERROR_UNSUPPORTED));
    check_calls("a.create b.create b.stop a.stop b.destroy a.destroy ");
    fails = "a.open";
    CHECK(!make(QN_ERROR_UNSUPPORTED));
    CHECK(strstr(calls, "a.open b.stop a.stop b.destroy a.destroy ") != NULL);
    fails = NULL;
}

int main(void) {
    test_life();
    test_instead();
    test_failures();
    return checks_finish();
}
