/* Maps of names: what patterns match and make, which layout counts, what is refused, failing
 * allocations; and weights of another program against a plain rearrangement of every layout. */
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "format/foreign/foreign_weights.h"
#include "format/foreign/name_map.h"
#include "format/safetensors.h"
#include "quern/quern.h"
#include "small_models.h"

#include <stdlib.h>
#include <unistd.h>

static qn_status parse(qn_name_map *map, const char *text) {
    qn_name_map_init(map, NULL);
    return qn_name_map_parse(map, "m.csv", text, strlen(text));
}

/* What a name becomes by a map of these rows. */
static const char *become(const char *rows, const char *name) {
    static char to[QN_MAP_NAME];
    const qn_map_rule *rule;
    qn_name_map map;
    CHECK_OK(parse(&map, rows));
    CHECK_OK(qn_name_map_apply(&map, name, to, &rule));
    qn_name_map_deinit(&map);
    return to;
}

#define BECOMES(rows, name, wanted) CHECK(strcmp(become(rows, name), wanted) == 0)

static void test_patterns(void) {
    BECOMES("from,to\na.b,c\n", "a.b", "c");
    BECOMES("a.b,c", "a.bc", "a.bc");
    BECOMES("a*.b,{1}", "axy.b", "xy");
    BECOMES("a*.b,{1}", "a.b", "a.b");       /* a star stands for something */
    BECOMES("a*.b,{1}", "ax.y.b", "ax.y.b"); /* and for no dot */
    BECOMES("a**.b,{1}", "ax.y.b", "x.y");
    BECOMES("**.w,{1}.v", "w", "w");
    BECOMES("**.b.*,{1}-{2}", "a.b.c.b.d", "a.b.c-d");
    BECOMES("*b*,{1}+{2}", "abcbd", "a+cbd");
    BECOMES("**.conv*.weight,{1}/{2}", "s.conv.x.conv12.weight", "s.conv.x/12");
    BECOMES("l*.*.**,s{1}.b{2+1}.{3}", "l1.9.x.y", "s1.b10.x.y");
    BECOMES("l*,m{1+1}", "lx", "lx"); /* no number */
    BECOMES("l*,m{1-1}", "l0", "l0"); /* no name has a minus */
    BECOMES("*.*.*.*.*.*.*.*.*,{9}{1}", "a.b.c.d.e.f.g.h.i", "ia");
}

/* Rows go on with what those above have made; an empty name ends it. */
static void test_order(void) {
    BECOMES("a,b\nb,c\n", "a", "c");
    BECOMES("b,c\na,b\n", "a", "b");
    BECOMES("a,\na,b\n**,c\n", "a", "");
    BECOMES("# a,b\n\n  \r\n a , b ,\r\n", "a", "b");
}

static void test_layouts(void) {
    qn_name_map map;
    const qn_map_rule *rule;
    char to[QN_MAP_NAME];
    CHECK_OK(parse(&map, "a*,b{1},512x7x6\nb*,c{1}\nx,y,2/3\n"));
    CHECK_OK(qn_name_map_apply(&map, "a1", to, &rule));
    CHECK(strcmp(to, "c1") == 0 && rule && rule->layout == QN_LAYOUT_IMAGE);
    CHECK(rule && rule->numbers[0] == 512 && rule->numbers[1] == 7 && rule->numbers[2] == 6);
    CHECK_OK(qn_name_map_apply(&map, "x", to, &rule));
    CHECK(rule && rule->layout == QN_LAYOUT_PART && rule->numbers[0] == 2 && rule->numbers[1] == 3);
    CHECK_OK(qn_name_map_apply(&map, "q", to, &rule));
    CHECK(!rule && strcmp(to, "q") == 0);
    qn_name_map_deinit(&map);
}

static void refuses(const char *text, const char *message) {
    qn_name_map map;
    CHECK_FAILS(parse(&map, text), QN_ERROR_FORMAT, message);
    qn_name_map_deinit(&map);
}

static void test_refused(void) {
    refuses("a,b\nc\n", "m.csv:2: a row is");
    refuses("a,b,c,d\n", "m.csv:1: a row is");
    refuses(",b\n", "from is empty");
    refuses("a,b*\n", "to has no stars");
    refuses("a*,{2}\n", "to has no stars");
    refuses("a*,{1\n", "to has no stars");
    refuses("*.*.*.*.*.*.*.*.*.*,b\n", "more than nine");
    refuses("a,b,turn\n", "layout is");
    refuses("a,b,3/3\n", "layout is");
    refuses("a,b,0/65\n", "layout is");
    refuses("a,b,1x2\n", "layout is");
    refuses("a,\"b\"\n", "not quoted");
    qn_name_map map;
    const qn_map_rule *rule;
    char to[QN_MAP_NAME];
    CHECK_OK(parse(&map, "**,{1}{1}{1}{1}{1}{1}\n**,{1}{1}{1}{1}{1}{1}\n**,{1}{1}{1}{1}{1}{1}\n"));
    CHECK_FAILS(qn_name_map_apply(&map, "abc", to, &rule), QN_ERROR_FORMAT, "too long");
    qn_name_map_deinit(&map);
}

/* ---- weights ---- */

static char path[64];
static const char rows[] = "c1.*,conv1.{1}\nbn.weight,bn1.scale\nbn.bias,bn1.shift\n"
                           "bn.mean,bn1.running_mean\nbn.var,bn1.running_variance\n"
                           "c2.*,conv2.{1}\nl1.weight,fc1.weight,7x4x4\nl1.bias,fc1.bias,add\n"
                           "l1.bias2,fc1.bias,add\nl2.weight,fc2.weight,swap\nl2.bias,fc2.bias\n"
                           "steps,\n";

enum { N_TENSORS = 13 };

static float numbers[N_TENSORS][13 * 112];

static void write_file(int n) {
    static const struct {
        const char *name;
        qn_shape shape;
    } rows_there[N_TENSORS] = {
        {"c1.weight", {4, {7, 3, 3, 3}}},
        {"bn.weight", {1, {7}}},
        {"bn.bias", {1, {7}}},
        {"bn.mean", {1, {7}}},
        {"bn.var", {1, {7}}},
        {"c2.weight", {4, {7, 1, 3, 3}}},
        {"c2.bias", {1, {7}}},
        {"l1.weight", {2, {13, 112}}},
        {"l1.bias", {1, {13}}},
        {"l1.bias2", {1, {13}}},
        {"l2.weight", {2, {13, 5}}},
        {"l2.bias", {1, {5}}},
        {"steps", {0}},
    };
    qn_safetensor tensors[N_TENSORS];
    for (int i = 0; i < n; i++) {
        const size_t count = (size_t)qn_shape_count(rows_there[i].shape);
        for (size_t k = 0; k < count; k++)
            numbers[i][k] = (float)(i * 10000 + (int)k);
        tensors[i] = (qn_safetensor){.name = rows_there[i].name,
                                     .dtype = QN_F32,
                                     .shape = rows_there[i].shape,
                                     .bytes = count * sizeof(float),
                                     .data = numbers[i]};
    }
    CHECK_OK(qn_safetensors_write(NULL, path, tensors, (size_t)n, NULL, 0));
}

static qn_status load(const qn_allocator *allocator, qn_trainer **trainer, bool is_partial) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_name_map map;
    qn_foreign_counts counts;
    o.engine.allocator = allocator;
    o.engine.n_threads = 1;
    QN_TRY(qn_trainer_create(&o, trainer));
    qn_name_map_init(&map, allocator);
    qn_status status = qn_name_map_parse(&map, "m.csv", rows, strlen(rows));
    const qn_foreign_options options = {.map = &map, .is_partial = is_partial};
    if (status == QN_OK)
        status = qn_foreign_weights_load(qn_trainer_engine(*trainer), path, &options, &counts);
    qn_name_map_deinit(&map);
    return status;
}

static float at(const qn_trainer *trainer, const char *name, int64_t i) {
    return ((const float *)qn_engine_find(qn_trainer_engine(trainer), name).data)[i];
}

static void test_weights(void) {
    qn_trainer *trainer = NULL;
    write_file(N_TENSORS);
    CHECK_OK(load(NULL, &trainer, false));
    for (int k = 0; k < 7; k++) {
        for (int r = 0; r < 3; r++) {
            for (int s = 0; s < 3; s++) {
                for (int c = 0; c < 3; c++)
                    CHECK(at(trainer, "conv1.weight", ((k * 3 + r) * 3 + s) * 3 + c) ==
                          numbers[0][((k * 3 + c) * 3 + r) * 3 + s]);
                CHECK(at(trainer, "conv2.weight", (k * 3 + r) * 3 + s) ==
                      numbers[5][(k * 3 + r) * 3 + s]);
            }
        }
    }
    for (int k = 0; k < 13; k++) {
        for (int c = 0; c < 7; c++) {
            for (int p = 0; p < 16; p++)
                CHECK(at(trainer, "fc1.weight", k * 112 + p * 7 + c) ==
                      numbers[7][k * 112 + c * 16 + p]);
        }
        for (int o = 0; o < 5; o++)
            CHECK(at(trainer, "fc2.weight", o * 13 + k) == numbers[10][k * 5 + o]);
        CHECK(at(trainer, "fc1.bias", k) == numbers[8][k] + numbers[9][k]);
    }
    CHECK(at(trainer, "bn1.running_variance", 3) == numbers[4][3]);
    qn_trainer_destroy(trainer);
}

/* Nothing is filled where one tensor is missing, unless that is allowed. */
static void test_missing(void) {
    qn_trainer *trainer = NULL;
    write_file(10);
    CHECK_FAILS(load(NULL, &trainer, false), QN_ERROR_FORMAT, "2 tensors do not fit");
    CHECK(at(trainer, "bn1.scale", 2) == 1);
    qn_trainer_destroy(trainer);
    CHECK_OK(load(NULL, &trainer, true));
    CHECK(at(trainer, "bn1.scale", 2) == numbers[1][2]);
    qn_trainer_destroy(trainer);
}

static void test_failing(void) {
    failing f;
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    write_file(N_TENSORS);
    for (int64_t n = 0; status != QN_OK && n < 100000; n++) {
        qn_trainer *trainer = NULL;
        f = (failing){.left = n};
        status = load(&allocator, &trainer, false);
        qn_trainer_destroy(trainer);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/quern-foreign-%ld.safetensors", (long)getpid());
    test_patterns();
    test_order();
    test_layouts();
    test_refused();
    test_weights();
    test_missing();
    test_failing();
    remove(path);
    return checks_finish();
}
