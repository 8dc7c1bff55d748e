/* Tables of rules: what is read, what is refused and where, and what is chosen. */
#include "kernels/rules.h"

#include "check.h"

static qn_rule rows[QN_MAX_RULES];

static qn_status parse(const char *text, qn_rules *rules) {
    return qn_rules_parse(text, strlen(text), rows, rules);
}

static void test_reading(void) {
    qn_rules rules;
    CHECK_OK(parse("quern rules 1", &rules));
    CHECK(rules.n == 0);
    CHECK_OK(parse("quern rules 1\r\n# a; comment\n\n * forward winograd c>=32 k<=8 # more\n"
                   "avx2\tbackward_filter chunks;neon * product",
                   &rules));
    CHECK(rules.n == 3);
    CHECK(rules.rules[0].sets == QN_ALL_SETS && rules.rules[0].passes == 1);
    CHECK(rules.rules[0].algorithm == QN_ALGORITHM_WINOGRAD && rules.rules[0].n == 2);
    CHECK(rules.rules[0].conditions[0].feature == QN_FEATURE_C);
    CHECK(!rules.rules[0].conditions[0].is_most && rules.rules[0].conditions[0].value == 32);
    CHECK(rules.rules[0].conditions[1].is_most && rules.rules[0].conditions[1].value == 8);
    CHECK(rules.rules[1].sets == 1 << QN_ISA_AVX2 && rules.rules[1].n == 0);
    CHECK(rules.rules[2].passes == QN_ALL_PASSES);
}

static void test_mistakes(void) {
    static const struct {
        const char *text, *says;
    } mistakes[] = {
        {"", "line 1"},
        {"quern rules 2\n", "line 1"},
        {"quern rules 1 * * product\n", "line 1: \"*\" is no part"},
        {"quern rules 1\n\nsse * product\n", "line 3: \"sse\" is no instruction set"},
        {"quern rules 1\n* backwards product\n", "line 2: \"backwards\" is no pass"},
        {"quern rules 1\n*\n", "line 2: \"\" is no pass"},
        {"quern rules 1\n* * direct\n", "line 2: \"direct\" is no algorithm"},
        {"quern rules 1\n* forward chunks\n", "\"chunks\" is no algorithm of this pass"},
        {"quern rules 1\n* * product\n* * thin c>4\n", "line 3: \"c>4\" is no condition"},
        {"quern rules 1\n* * thin c>=\n", "\"c>=\" is no condition"},
        {"quern rules 1\n* * thin c>=4x\n", "\"c>=4x\" is no condition"},
        {"quern rules 1\n* * thin c>=-4\n", "is no condition"},
        {"quern rules 1\n* * thin c=4\n", "is no condition"},
        {"quern rules 1\n* * thin z>=4\n", "is no condition"},
        {"quern rules 1\n* * thin c>=2147483648\n", "is no condition"},
        {"quern rules 1\n* * thin c>=99999999999999999999999\n", "is no condition"},
        {"quern rules 1\n* * thin c>=1 c>=1 c>=1 c>=1 c>=1 c>=1 c>=1\n", "more than 6"},
    };
    char many[32 + (QN_MAX_RULES + 1) * 12] = "quern rules 1\n";
    qn_rules rules;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        CHECK_FAILS(parse(mistakes[i].text, &rules), QN_ERROR_FORMAT, mistakes[i].says);
    CHECK_FAILS(qn_rules_parse("quern rules 1\n\0* * thin", 24, rows, &rules), QN_ERROR_FORMAT,
                "line 2");
    CHECK_OK(parse("quern rules 1\n* * thin c>=2147483647", &rules));
    for (int i = 0; i < QN_MAX_RULES; i++)
        strcat(many, "* * product\n");
    CHECK_OK(parse(many, &rules));
    CHECK(rules.n == QN_MAX_RULES);
    strcat(many, "* * product");
    CHECK_FAILS(parse(many, &rules), QN_ERROR_FORMAT, "line 50: more than 48 rules");
}

static qn_conv2d_shape square(int64_t n, int64_t size, int64_t c, int64_t k, int64_t taps) {
    return (qn_conv2d_shape){.n = n,
                             .h = size,
                             .w = size,
                             .c = c,
                             .k = k,
                             .r = taps,
                             .s = taps,
                             .p = size,
                             .q = size,
                             .stride_h = 1,
                             .stride_w = 1,
                             .pad_top = taps / 2,
                             .pad_left = taps / 2,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
}

/* All are possible, but for Winograd's where the filter is none of 3x3. */
static qn_algorithm choose(const qn_rules *rules, qn_conv2d_pass pass, qn_conv2d_shape d) {
    const unsigned all = (1u << QN_ALGORITHM_COUNT) - 1;
    return qn_rules_choose(rules, QN_ISA_AVX2, pass, &d,
                           d.r == 3 ? all : all & ~(1u << QN_ALGORITHM_WINOGRAD));
}

static void test_built_in(void) {
    const qn_conv2d_pass forward = QN_CONV2D_FORWARD, data = QN_CONV2D_BACKWARD_DATA,
                         filter = QN_CONV2D_BACKWARD_FILTER;
    CHECK(choose(NULL, forward, square(4, 32, 64, 64, 3)) == QN_ALGORITHM_WINOGRAD);
    CHECK(choose(NULL, data, square(4, 32, 64, 64, 3)) == QN_ALGORITHM_WINOGRAD);
    CHECK(choose(NULL, forward, square(4, 32, 31, 7, 3)) == QN_ALGORITHM_SLIDING);
    CHECK(choose(NULL, forward, square(4, 5, 64, 64, 3)) == QN_ALGORITHM_PRODUCT);
    CHECK(choose(NULL, forward, square(4, 28, 1, 6, 5)) == QN_ALGORITHM_THIN);
    CHECK(choose(NULL, filter, square(4, 28, 1, 6, 5)) == QN_ALGORITHM_STRIPS);
    CHECK(choose(NULL, forward, square(4, 14, 6, 16, 5)) == QN_ALGORITHM_STRIPS);
    CHECK(choose(NULL, filter, square(4, 80, 1, 6, 5)) == QN_ALGORITHM_SLIDING);
    CHECK(choose(NULL, filter, square(4, 28, 64, 64, 1)) == QN_ALGORITHM_CHUNKS);
    CHECK(choose(NULL, filter, square(4, 28, 64, 512, 1)) == QN_ALGORITHM_PRODUCT);
    CHECK(choose(NULL, data, square(4, 32, 3, 64, 7)) == QN_ALGORITHM_SCATTER);
    /* 4x4 at stride 2: by the tiles of the pass. */
    qn_conv2d_shape halved = square(4, 20, 32, 64, 4);
    halved.stride_h = halved.stride_w = 2;
    halved.pad_top = halved.pad_left = 0;
    halved.p = halved.q = 9;
    const unsigned all = (1u << QN_ALGORITHM_COUNT) - 1;
    for (int pass = 0; pass < 3; pass++)
        CHECK(qn_rules_choose(NULL, QN_ISA_AVX2, (qn_conv2d_pass)pass, &halved, all) ==
              QN_ALGORITHM_WINOGRAD);
    halved.h = halved.w = 8;
    halved.p = halved.q = 3;
    CHECK(qn_rules_choose(NULL, QN_ISA_AVX2, forward, &halved, all) == QN_ALGORITHM_PRODUCT);
    CHECK(qn_rules_choose(NULL, QN_ISA_AVX2, data, &halved, all) == QN_ALGORITHM_SCATTER);
    /* Pieces of a batch go the way of the whole. */
    qn_conv2d_shape piece = square(1, 8, 64, 64, 3);
    CHECK(choose(NULL, forward, piece) != QN_ALGORITHM_WINOGRAD);
    piece.batch = 4;
    CHECK(choose(NULL, forward, piece) == QN_ALGORITHM_WINOGRAD);
}

static void test_order(void) {
    const qn_conv2d_shape d = square(4, 32, 64, 64, 3);
    qn_rules rules;
    CHECK_OK(parse("quern rules 1\nneon * winograd\navx2 backward_data product h>=33\n"
                   "avx2 backward_data scatter\n* * winograd batch<=4",
                   &rules));
    CHECK(choose(&rules, QN_CONV2D_FORWARD, d) == QN_ALGORITHM_WINOGRAD);
    CHECK(choose(&rules, QN_CONV2D_BACKWARD_DATA, d) == QN_ALGORITHM_SCATTER);
    CHECK(choose(&rules, QN_CONV2D_FORWARD, square(5, 32, 64, 64, 3)) == QN_ALGORITHM_PRODUCT);
    CHECK(qn_rules_choose(&rules, QN_ISA_AVX2, QN_CONV2D_BACKWARD_DATA, &d,
                          1 << QN_ALGORITHM_WINOGRAD) == QN_ALGORITHM_WINOGRAD);
}

int main(void) {
    test_reading();
    test_mistakes();
    test_built_in();
    test_order();
    return checks_finish();
}
