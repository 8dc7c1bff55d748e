/* A study's floor without quern profile: cells read from files of many kinds, and whole runs whose
 * processes are small scripts that do what processes do: leave a file, give up with a message, die,
 * leave rubbish. */
#include "study/study.h"

#include "base/status.h"

#include "check.h"
#include "data_files.h"
#include "graph/graph.h"
#include "os/os.h"
#include "study/demand.h"
#include "study/drip.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

/* A run of steps of 50 ms, sampled every 10, with a core that is busy in the first half of a step.
 */
static const char run_text[] =
    "{\"steps\":20,\"skipped_steps\":3,\"samples_per_step\":4,\"step_ms_mean\":50,"
    "\"step_ms_median\":49.5,\"throughput\":80,\"cpu_utilisation\":0.5,\"gpu_utilisation\":null,"
    "\"energy_mj_per_step\":210.5,\"energy_is_estimated\":true,"
    "\"part_energy_j\":{\"cpu\":3.5,\"gpu\":null},\"resident_peak_bytes\":3.2e7,"
    "\"memory\":{\"peak_bytes\":1000,\"kinds\":{\"parameter\":400,\"feature_map\":600}},"
    "\"step_rows\":[{\"begin_s\":0,\"end_s\":0.05,\"operations_ms\":49,\"idle_ms\":1}],"
    "\"series\":[{\"name\":\"cpu0\",\"source\":\"cores\",\"quantity\":\"utilisation\","
    "\"part\":\"core\",\"index\":0,\"mean\":0.5,\"idle_ratio\":0.4,\"period_s\":0.05,"
    "\"periodicity\":0.9,\"readings\":[[0,0.01,1],[0.01,0.02,1],[0.02,0.03,0]]},"
    "{\"name\":\"process\",\"source\":\"threads\",\"quantity\":\"utilisation\","
    "\"part\":\"process\",\"mean\":0.5,\"idle_ratio\":0.4,\"period_s\":0.05,"
    "\"periodicity\":0.8,\"readings\":[[0,0.01,1],[0.01,0.02,1],[0.02,0.03,0]]}],"
    "\"said\":[\"rapl: not here\"],\"meter_bytes\":5000000}";

static const char drip_text[] =
    "{\"drip\":{\"model\":\"lenet5\",\"data\":\"d\",\"batch\":16,\"pretraining_samples\":64,"
    "\"test_samples\":64,\"days\":[{\"accuracy\":0.5,\"loss\":1,\"became_right\":0,"
    "\"became_wrong\":0},{\"accuracy\":0.75,\"loss\":0.5,\"became_right\":16,"
    "\"became_wrong\":0}]}}";

static const qn_model *lenet(void) {
    return qn_model_find("lenet5");
}

/* ---- reading cells ---- */

static void test_reading(void) {
    qn_cell c;
    char text[128];
    qn_cell_init(&c, NULL, QN_CELL_TRAINING, lenet(), 4);
    qn_cell_name(&c, text, sizeof text);
    CHECK(strcmp(text, "lenet5-b4") == 0);
    CHECK_OK(qn_cell_parse(&c, run_text, sizeof run_text - 1, "x"));
    CHECK(c.state == QN_CELL_DONE);
    CHECK(c.m.step_ms_median == 49.5 && c.m.throughput == 80 && isnan(c.m.gpu_utilisation));
    CHECK(c.m.part_energy_j[QN_PART_CPU] == 3.5 && isnan(c.m.part_energy_j[QN_PART_GPU]));
    CHECK(c.m.memory.kind_bytes[QN_KIND_FEATURE] == 600);
    CHECK(c.m.n_series == 2 && c.m.series[0].n == 3 && c.m.series[0].readings[2].value == 0);
    CHECK(c.m.series[0].readings[1].end_ns == 20000000);
    CHECK(c.m.n_steps == 1 && c.m.steps[0].operations_ms == 49 && isnan(c.m.steps[0].energy_mj));
    CHECK(c.m.n_said == 1 && strcmp(c.m.said[0], "rapl: not here") == 0);
    CHECK(c.m.meter_bytes == 5000000 && c.m.energy_is_estimated);

    /* Another text takes its place; one that cannot be read leaves it as it is. */
    CHECK_FAILS(qn_cell_parse(&c, "{}", 2, "x"), QN_ERROR_FORMAT, "x: \"step_ms_mean\"");
    CHECK(c.state == QN_CELL_DONE && c.m.throughput == 80);
    CHECK_OK(qn_cell_parse(&c, "{\"failed\":\"no room\"}", 20, "x"));
    CHECK(c.state == QN_CELL_FAILED && strcmp(c.reason, "no room") == 0);
    qn_cell_deinit(&c);
}

static void test_drip_reading(void) {
    qn_cell c;
    qn_cell_init(&c, NULL, QN_CELL_DRIP, lenet(), 16);
    CHECK_OK(qn_cell_parse(&c, drip_text, sizeof drip_text - 1, "x"));
    CHECK(c.drip.n_days == 2 && c.drip.days[1].accuracy == 0.75 && c.drip.batch == 16);
    write_text("@/drip.json", "");
    CHECK_OK(qn_drip_write(&c.drip, at_root("@/drip.json")));
    CHECK_OK(qn_cell_read(&c, at_root("@/drip.json")));
    CHECK(c.drip.n_days == 2 && c.drip.days[1].became_right == 16 && c.drip.n_test == 64);
    CHECK(strcmp(c.drip.model, "lenet5") == 0);
    qn_cell_deinit(&c);
}

/* Every cut of a text, and things that are no cell. */
static void test_rubbish(void) {
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{",
        "{}",
        "{\"step_ms_mean\":\"a\"}",
        "{\"step_ms_mean\":1,\"step_ms_median\":0}",
        "{\"step_ms_mean\":1,\"step_ms_median\":1,\"series\":[3]}",
        "{\"step_ms_mean\":1,\"step_ms_median\":1,\"series\":[{\"quantity\":\"power\",\"part\":"
        "\"gpu\","
        "\"readings\":[[1,0,2]]}]}",
        "{\"step_ms_mean\":1,\"step_ms_median\":1,\"step_rows\":[{\"begin_s\":2,\"end_s\":1}]}",
    };
    qn_cell c;
    qn_cell_init(&c, NULL, QN_CELL_TRAINING, lenet(), 4);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(qn_cell_parse(&c, bad[i], strlen(bad[i]), "x") == QN_ERROR_FORMAT);
    char *cut = strdup(run_text);
    for (size_t n = 0; n + 1 < sizeof run_text - 1; n++) {
        cut[n] = 0;
        CHECK(qn_cell_parse(&c, cut, n, "x") == QN_ERROR_FORMAT);
        cut[n] = run_text[n];
    }
    free(cut);
    CHECK(c.state == QN_CELL_WAITING);
    qn_cell_deinit(&c);
}

/* The n-th allocation of the reader's own fails, for every n. */
static void test_reading_survives(void) {
    for (int n = 0; n < 100; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_cell c;
        qn_cell_init(&c, &allocator, QN_CELL_TRAINING, lenet(), 4);
        const qn_status status = qn_cell_parse(&c, run_text, sizeof run_text - 1, "x");
        qn_cell_deinit(&c);
        CHECK(f.held_bytes == 0);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK)
            return;
    }
    CHECK(!"reading ends at last");
}

/* ---- rows ---- */

static void test_rows(void) {
    static const int kinds[] = {0, 1};
    const qn_study_cores cores = {.n_kinds = 2, .names = {"a", "b"}, .n_cores = 2, .kind = kinds};
    qn_cell c;
    qn_study_row r;
    qn_cell_init(&c, NULL, QN_CELL_TRAINING, lenet(), 4);
    CHECK_OK(qn_cell_parse(&c, run_text, sizeof run_text - 1, "x"));
    qn_study_row_fill(&c, NULL, &cores, &r);
    CHECK(r.domain == QN_DOMAIN_VISION && r.step_ms == 49.5 && r.cpu == 0.5);
    CHECK(r.throughput == 80 &&
          r.process == 0.25); /* 4 samples in 50 ms; half of one core of two */
    CHECK(r.kind_use[0] == 0.5 && r.kind_idle[0] == 0.4 && isnan(r.kind_use[1]));
    CHECK(r.use_periodicity == 0.8); /* of the process: single cores do not count */
    CHECK(isnan(r.power_periodicity) && r.power_is_estimated && isnan(r.inference_ms));
    qn_cell_deinit(&c);
}

/* A step of fewer than five readings shows no rhythm, and one with another period has none. */
static void test_rhythm_limits(void) {
    static const struct {
        const char *from, *to;
        double expected;
    } rows[] = {{"\"step_ms_mean\":50", "\"step_ms_mean\":40", NAN},
                {"\"step_ms_mean\":50", "\"step_ms_mean\":90", 0}};
    const qn_study_cores cores = {.n_kinds = 0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_cell c;
        qn_study_row r;
        char *text = strdup(run_text);
        memcpy(strstr(text, rows[i].from), rows[i].to, strlen(rows[i].to));
        qn_cell_init(&c, NULL, QN_CELL_TRAINING, lenet(), 4);
        CHECK_OK(qn_cell_parse(&c, text, strlen(text), "x"));
        qn_study_row_fill(&c, NULL, &cores, &r);
        CHECK(isnan(rows[i].expected) ? isnan(r.use_periodicity)
                                      : r.use_periodicity == rows[i].expected);
        qn_cell_deinit(&c);
        free(text);
    }
}

static void test_correlation(void) {
    qn_reading a[16], b[16], flat[16];
    for (int i = 0; i < 16; i++) {
        a[i] = (qn_reading){i * 10, i * 10 + 10, i % 4};
        b[i] = (qn_reading){i * 10, i * 10 + 10, -2.0 * (i % 4)};
        flat[i] = (qn_reading){i * 10, i * 10 + 10, 1};
    }
    const qn_series x = {.n = 16, .readings = a}, y = {.n = 16, .readings = b};
    const qn_series z = {.n = 16, .readings = flat}, few = {.n = 7, .readings = a};
    CHECK(fabs(qn_correlation(&x, &y) + 1) < 1e-12);
    CHECK(fabs(qn_correlation(&x, &x) - 1) < 1e-12);
    CHECK(isnan(qn_correlation(&x, &z)) && isnan(qn_correlation(&few, &x)));
}

/* ---- demand ---- */

static void test_demand(void) {
    qn_demand small, large;
    for (int i = 0; qn_model_at(i); i++) {
        if (strcmp(qn_model_at(i)->name, "bert-base") == 0 ||
            strstr(qn_model_at(i)->name, "1") != NULL)
            continue; /* those that take long to plan, and their like */
        CHECK_OK(qn_demand_find(NULL, qn_model_at(i), 1, 1, &small));
        CHECK(small.bytes > 40e6 && small.flops_per_step > small.forward_flops);
    }
    CHECK_OK(qn_demand_find(NULL, qn_model_find("squeezenet"), 4, 2, &small));
    CHECK_OK(qn_demand_find(NULL, qn_model_find("squeezenet"), 64, 2, &large));
    CHECK(large.bytes > small.bytes && large.forward_flops == 16 * small.forward_flops);
    CHECK(large.bytes < 1e9);
}

/* ---- programs ---- */

static bool stop_at_once(void *user) {
    return ++*(int *)user > 2;
}

static void test_programs(void) {
    qn_program_end end;
    int asked = 0;
    const char *const fine[] = {"/bin/sh", "-c", "echo a >&2; printf 'last' >&2; exit 3", NULL};
    const char *const killed[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
    const char *const long_one[] = {"/bin/sh", "-c", "sleep 1000 & sleep 1000", NULL};
    const char *const missing[] = {"/nowhere/at/all", NULL};
    CHECK_OK(qn_subprocess_run(fine, NULL, NULL, &end));
    CHECK(end.status == 3 && end.signal == 0 && strcmp(end.last, "last") == 0);
    CHECK(end.peak_bytes > 0);
    CHECK_OK(qn_subprocess_run(killed, NULL, NULL, &end));
    CHECK(end.status == -1 && end.signal == SIGKILL && !end.was_stopped);
    CHECK_OK(qn_subprocess_run(long_one, stop_at_once, &asked, &end));
    CHECK(end.was_stopped && end.signal == SIGKILL);
    CHECK_OK(qn_subprocess_run(missing, NULL, NULL, &end));
    CHECK(end.status == 127);
    CHECK(qn_memory_available_bytes() >= 0);
}

/* ---- whole runs ---- */

/* What the processes of a test do, and what was told of them. */
typedef struct script {
    const char *text; /* with the file to leave as $1 */
    int n_runs, n_told, n_warned;
    bool stops;
} script;

static qn_status command_of(void *user, const qn_cell *cell, int64_t steps, const char *path,
                            qn_arena *texts, const char **arguments) {
    script *s = user;
    const char *const words[] = {"/bin/sh", "-c", s->text, "sh", qn_arena_text(texts, path), NULL};
    (void)cell;
    CHECK(steps >= 2);
    s->n_runs++;
    memcpy(arguments, words, sizeof words);
    return QN_OK;
}

static bool should_stop(void *user) {
    const script *s = user;
    return s->stops && s->n_runs > 0;
}

static void tell(void *user, const qn_study *study, const qn_cell *cell) {
    script *s = user;
    s->n_told += cell->state != QN_CELL_WAITING;
    CHECK(qn_study_seconds_left(study) >= 0);
}

static void warn(void *user, const char *text) {
    script *s = user;
    s->n_warned++;
    CHECK(strstr(text, ".json"));
}

static const int64_t batches[] = {4, 16};

static const qn_model *const *models(void) {
    static const qn_model *list[1];
    list[0] = lenet();
    return list;
}

static qn_study_options options_of(script *s, const qn_study_setting *setting) {
    static char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", at_root("@/s"));
    return (qn_study_options){.folder = folder,
                              .n_models = 1,
                              .models = models(),
                              .n_batches = 2,
                              .batches = batches,
                              .steps = 2,
                              .settings = setting,
                              .n_settings = setting ? 1 : 0,
                              .drip_model = lenet(),
                              .memory_limit = 1e12,
                              .user = s,
                              .command = command_of,
                              .should_stop = should_stop,
                              .tell = tell,
                              .warn = warn};
}

static int count_state(const qn_study_options *o, qn_cell_state state) {
    qn_study *study;
    if (qn_study_open(o, &study) != QN_OK)
        return -1;
    const int n = qn_study_count_in(study, state);
    qn_study_close(study);
    return n;
}

static qn_status run_study(const qn_study_options *o) {
    qn_study *study;
    QN_TRY(qn_study_open(o, &study));
    const qn_status status = qn_study_run(study);
    qn_study_close(study);
    return status;
}

static char *leave_file(void) {
    static char text[8192];
    snprintf(text, sizeof text, "cat > \"$1\" <<'END'\n%s\nEND\n", run_text);
    return text;
}

static void check_results(const char *wanted) {
    char *text;
    size_t bytes;
    CHECK_OK(qn_file_read_whole(NULL, at_root("@/s/study.csv"), &text, &bytes));
    CHECK(strstr(text, wanted));
    CHECK(strncmp(text, "model,domain,kind,state,reason", 30) == 0);
    free(text);
    CHECK_OK(qn_file_read_whole(NULL, at_root("@/s/study.json"), &text, &bytes));
    CHECK(strstr(text, "\"observations\"") && strstr(text, "cannot be judged here"));
    free(text);
}

static void clear(void) {
    CHECK(system(at_root("rm -rf @/s")) == 0);
}

static void test_run(void) {
    script s = {.text = leave_file()};
    const qn_study_options o = options_of(&s, NULL);
    clear();
    CHECK_OK(run_study(&o));
    CHECK(s.n_runs == 3 && s.n_told == 3); /* two of training, one of inference */
    check_results("lenet5,vision,training,done,,yes,16");
    CHECK(count_state(&o, QN_CELL_DONE) == 3);
    CHECK_OK(run_study(&o));
    CHECK(s.n_runs == 3); /* nothing was left to do */

    /* One cell goes missing, one is cut short: both are run again. */
    CHECK(unlink(at_root("@/s/cells/lenet5-b4.json")) == 0);
    write_text("@/s/cells/lenet5-b16.json", "{\"step_ms_mean\":3,");
    write_text("@/s/cells/lenet5-b16.json.tmp-77", "{");
    write_text("@/s/cells/other", "{");
    CHECK_OK(run_study(&o));
    CHECK(s.n_runs == 5 && s.n_warned == 1);
}

/* A process that gives up, dies, or leaves rubbish is a row with its reason. */
static void test_failures(void) {
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"echo 'quern: it is broken' >&2; exit 1", "failed,it is broken"},
        {"kill -9 $$", "the system ran out of memory"},
        {"kill -11 $$", "ended by signal 11"},
        {"exit 1", "ended with status 1 and no message"},
        {"echo '{' > \"$1\"", "it is not JSON"},
        {"true", "cannot open"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        script s = {.text = rows[i].text};
        qn_study_options o = options_of(&s, NULL);
        clear();
        CHECK_OK(run_study(&o));
        CHECK(s.n_runs == 3);
        check_results(rows[i].reason);
        CHECK(count_state(&o, QN_CELL_FAILED) == 3);
        s.text = leave_file();
        CHECK_OK(run_study(&o));
        CHECK(s.n_runs == 3); /* kept as failed */
        o.retries = true;
        CHECK_OK(run_study(&o));
        CHECK(s.n_runs == 6 && count_state(&o, QN_CELL_DONE) == 3);
    }
}

static void test_left_out(void) {
    script s = {.text = leave_file()};
    qn_study_options o = options_of(&s, NULL);
    clear();
    o.memory_limit = 1e6;
    CHECK_OK(run_study(&o));
    CHECK(s.n_runs == 0);
    check_results(", but the limit is 977 KiB");
    o.memory_limit = 1e12;
    CHECK_OK(run_study(&o)); /* what was left out is not kept as failed */
    CHECK(s.n_runs == 3);
}

static void test_stop(void) {
    script s = {.text = leave_file(), .stops = true};
    qn_study_options o = options_of(&s, NULL);
    clear();
    CHECK_FAILS(run_study(&o), QN_ERROR_INTERRUPTED, "stopped");
    CHECK(s.n_runs == 1);
    s.stops = false;
    CHECK_OK(run_study(&o));
    CHECK(count_state(&o, QN_CELL_DONE) == 3);
}

static void test_settings(void) {
    script s = {.text = leave_file()};
    const qn_study_setting two = {"steps", "2"}, three = {"steps", "3"}, none = {"steps", NULL};
    qn_study_options o = options_of(&s, &two);
    clear();
    CHECK(count_state(&o, QN_CELL_WAITING) == 3);
    o.settings = &three;
    CHECK_FAILS(run_study(&o), QN_ERROR_ARGUMENT, "measured with steps 2, but now it is 3");
    o.settings = &none;
    CHECK_FAILS(run_study(&o), QN_ERROR_ARGUMENT, "but now it is not set");
    o.settings = &two;
    CHECK(count_state(&o, QN_CELL_WAITING) == 3);
    write_text("@/s/settings.json", "rubbish");
    CHECK_FAILS(run_study(&o), QN_ERROR_FORMAT, "not the settings of a study");
    CHECK(s.n_runs == 0);
}

/* Cells of the folder that this run does not ask for are part of the results. */
static void test_others(void) {
    script s = {.text = leave_file()};
    const qn_study_options o = options_of(&s, NULL);
    clear();
    make_folder("@/s/cells");
    write_text("@/s/cells/mobilenet-v2-b8.json", run_text);
    write_text("@/s/cells/drip-b16.json", drip_text);
    write_text("@/s/cells/nosuchmodel-b8.json", run_text);
    write_text("@/s/cells/lenet5-bx.json", "{");
    CHECK_OK(run_study(&o));
    CHECK(s.n_runs == 3 && count_state(&o, QN_CELL_DONE) == 5);
    check_results("mobilenet-v2,vision,training,done,,yes,8");
}

static void test_full_disk(void) {
    script s = {.text = leave_file()};
    const qn_study_options o = options_of(&s, NULL);
    clear();
    make_folder("@/s/study.csv"); /* stands in the way of a result */
    CHECK_FAILS(run_study(&o), QN_ERROR_ARGUMENT, "study.csv is there already");
    CHECK(s.n_runs == 0); /* known before the first cell */
    clear();
    make_folder("@/s/cells/lenet5-b4.json");
    CHECK_FAILS(run_study(&o), QN_ERROR_IO, "lenet5-b4.json");
}

/* The n-th allocation of the study's own fails, for every n. */
static void test_open_survives(void) {
    script s = {.text = leave_file()};
    qn_study_options o = options_of(&s, NULL);
    clear();
    CHECK_OK(run_study(&o));
    for (int n = 0; n < 2000; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_study *study;
        o.allocator = &allocator;
        qn_status status = qn_study_open(&o, &study);
        if (status == QN_OK) {
            status = qn_study_write(study);
            qn_study_close(study);
        }
        CHECK(f.held_bytes == 0);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK)
            return;
    }
    CHECK(!"it ends at last");
}

/* ---- drip training ---- */

static void test_drip(void) {
    qn_drip drip, again;
    qn_drip_options o = {.model = qn_model_find("mlp"),
                         .data = "synthetic",
                         .batch = 16,
                         .n_pretraining = 256,
                         .n_epochs = 1,
                         .n_test = 200,
                         .weights = at_root("@/drip.safetensors")};
    CHECK_OK(qn_drip_run(&o, &drip));
    CHECK(drip.n_days == QN_DRIP_DAYS + 1 && drip.n_test == 192 && drip.n_pretraining == 256);
    CHECK(qn_path_is_file(o.weights));
    for (int i = 0; i < drip.n_days; i++) {
        const qn_drip_day *d = &drip.days[i];
        CHECK(fabs((d->accuracy - drip.days[0].accuracy) * 192 -
                   (double)(d->became_right - d->became_wrong)) < 1e-6);
        CHECK(isfinite(d->loss));
    }
    CHECK(drip.days[0].became_right == 0 && drip.days[0].became_wrong == 0);
    /* From the weights that are there now, the same numbers. */
    CHECK_OK(qn_drip_run(&o, &again));
    CHECK(memcmp(drip.days, again.days, sizeof drip.days) == 0);
    o.batch = 24;
    CHECK_FAILS(qn_drip_run(&o, &drip), QN_ERROR_ARGUMENT, "divides 64");
    o.batch = 16;
    o.data = "idx:/nowhere";
    CHECK_FAILS(qn_drip_run(&o, &drip), QN_ERROR_IO, "/nowhere");
}

int main(void) {
    files_begin();
    test_reading();
    test_drip_reading();
    test_rubbish();
    test_reading_survives();
    test_rows();
    test_rhythm_limits();
    test_correlation();
    test_demand();
    test_programs();
    test_run();
    test_failures();
    test_left_out();
    test_stop();
    test_settings();
    test_others();
    test_full_disk();
    test_open_survives();
    test_drip();
    files_end();
    return checks_finish();
}
