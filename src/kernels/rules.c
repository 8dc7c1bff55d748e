/* See rules.h. */
#include "kernels/rules.h"

#include "base/status.h"
#include "kernels/vector/tiles.h"

#include <string.h>

const char *const qn_algorithm_names[QN_ALGORITHM_COUNT] = {
    [QN_ALGORITHM_PRODUCT] = "product", [QN_ALGORITHM_WINOGRAD] = "winograd",
    [QN_ALGORITHM_SLIDING] = "sliding", [QN_ALGORITHM_THIN] = "thin",
    [QN_ALGORITHM_SCATTER] = "scatter", [QN_ALGORITHM_CHUNKS] = "chunks",
    [QN_ALGORITHM_STRIPS] = "strips",
};

const char *const qn_feature_names[QN_FEATURE_COUNT] = {
    "batch", "h",    "w",   "c",      "k",       "r",     "s",    "p",
    "q",     "taps", "run", "pixels", "weights", "tiles", "gain", "spread",
};

const char *const qn_pass_names[3] = {"forward", "backward_data", "backward_filter"};

/* ---- the built-in table ---- */

#define AT_LEAST(FEATURE, VALUE)                                                                   \
    { QN_FEATURE_##FEATURE, false, VALUE }
#define AT_MOST(FEATURE, VALUE)                                                                    \
    { QN_FEATURE_##FEATURE, true, VALUE }
#define COUNT(...) (sizeof((qn_condition[]){__VA_ARGS__}) / sizeof(qn_condition))
#define RULE(SETS, PASSES, ALGORITHM, ...)                                                         \
    {                                                                                              \
        SETS, PASSES, QN_ALGORITHM_##ALGORITHM, COUNT(__VA_ARGS__), {                              \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

enum {
    NEON = 1 << QN_ISA_NEON,
    AVX2 = 1 << QN_ISA_AVX2,
    AVX512 = 1 << QN_ISA_AVX512,
    FORWARD = 1 << QN_CONV2D_FORWARD,
    DATA = 1 << QN_CONV2D_BACKWARD_DATA,
    FILTER = 1 << QN_CONV2D_BACKWARD_FILTER,
};

static const qn_rule built_in[] = {
    RULE(QN_ALL_SETS, FORWARD, WINOGRAD, AT_LEAST(C, 8), AT_LEAST(K, 8), AT_LEAST(TILES, 16),
         AT_LEAST(GAIN, 160)),
    RULE(QN_ALL_SETS, DATA, WINOGRAD, AT_LEAST(C, 8), AT_LEAST(K, 8), AT_LEAST(TILES, 16),
         AT_LEAST(GAIN, 160)),
    RULE(QN_ALL_SETS, FILTER, WINOGRAD, AT_LEAST(C, 32), AT_LEAST(K, 32), AT_LEAST(TILES, 16),
         AT_LEAST(GAIN, 160)),
    /* Filters of 4x4 at stride 2, whose few planes cost less to make. */
    RULE(QN_ALL_SETS, QN_ALL_PASSES, WINOGRAD, AT_LEAST(C, 8), AT_LEAST(K, 8), AT_LEAST(R, 4),
         AT_LEAST(TILES, 16), AT_LEAST(GAIN, 115)),
    RULE(AVX512, FORWARD, THIN, AT_MOST(C, 4), AT_LEAST(S, 3), AT_LEAST(Q, 16)),
    RULE(AVX2, FORWARD, THIN, AT_MOST(C, 4), AT_LEAST(S, 3), AT_LEAST(Q, 8)),
    RULE(NEON, FORWARD, THIN, AT_MOST(C, 4), AT_LEAST(S, 3), AT_LEAST(Q, 4)),
    RULE(QN_ALL_SETS, FORWARD, STRIPS, AT_MOST(C, 8), AT_LEAST(TAPS, 2), AT_LEAST(Q, 4)),
    RULE(QN_ALL_SETS, FILTER, STRIPS, AT_MOST(C, 8), AT_MOST(K, 128), AT_LEAST(TAPS, 2),
         AT_MOST(TAPS, 25), AT_LEAST(Q, 10), AT_MOST(Q, 64)),
    RULE(QN_ALL_SETS, FORWARD, SLIDING, AT_LEAST(PIXELS, 129), AT_LEAST(TAPS, 2), AT_LEAST(Q, 8),
         AT_LEAST(RUN, 32)),
    RULE(QN_ALL_SETS, DATA, SLIDING, AT_LEAST(PIXELS, 129), AT_LEAST(TAPS, 2), AT_LEAST(Q, 8),
         AT_LEAST(C, 8), AT_LEAST(K, 8)),
    RULE(QN_ALL_SETS, FILTER, SLIDING, AT_LEAST(TAPS, 2), AT_LEAST(Q, 8), AT_LEAST(RUN, 32)),
    RULE(AVX512, FILTER, SLIDING, AT_MOST(C, 4), AT_MOST(K, 12), AT_LEAST(S, 3), AT_LEAST(Q, 16)),
    RULE(AVX2, FILTER, SLIDING, AT_MOST(C, 4), AT_MOST(K, 6), AT_LEAST(S, 3), AT_LEAST(Q, 8)),
    RULE(NEON, FILTER, SLIDING, AT_MOST(C, 4), AT_MOST(K, 8), AT_LEAST(S, 3), AT_LEAST(Q, 4)),
    RULE(QN_ALL_SETS, DATA, SCATTER, AT_LEAST(SPREAD, 201)),
    /* Windows beyond the border multiply zeros; a task is a sample. */
    RULE(QN_ALL_SETS, DATA, SCATTER, AT_LEAST(SPREAD, 110), AT_LEAST(BATCH, 4)),
    RULE(QN_ALL_SETS, FILTER, CHUNKS, AT_MOST(WEIGHTS, 8192)),
};

const qn_rules qn_rules_built_in = {sizeof built_in / sizeof built_in[0], built_in};

/* ---- choosing ---- */

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t padded(int64_t n, qn_isa isa) {
    static const int64_t lanes[] = {
        [QN_ISA_REF] = 1, [QN_ISA_NEON] = 4, [QN_ISA_AVX2] = 8, [QN_ISA_AVX512] = 16};
    return ceil_div(n, lanes[isa]) * lanes[isa];
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t tiles_of(int64_t h, int64_t w) {
    return ceil_div(h, QN_WINOGRAD_OUT) * ceil_div(w, QN_WINOGRAD_OUT);
}

static int64_t gain_of(int64_t h, int64_t w) {
    return 100 * 9 * h * w / (QN_WINOGRAD_POINTS * tiles_of(h, w));
}

/* Filters of 4x4 at stride 2 have tiles of their own, those of the pass. */
static bool is_phased(const qn_conv2d_shape *d) {
    return d->r == 4 && d->s == 4 && d->stride_h == 2 && d->stride_w == 2;
}

static int64_t phased_tiles(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const bool is_data = pass == QN_CONV2D_BACKWARD_DATA;
    const int64_t h = is_data ? ceil_div(d->h + d->pad_top, 2) : d->p;
    const int64_t w = is_data ? ceil_div(d->w + d->pad_left, 2) : d->q;
    return ceil_div(h, QN_PHASED_OUT) * ceil_div(w, QN_PHASED_OUT);
}

static int64_t phased_gain(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    return 100 * 16 * d->p * d->q / (QN_PHASES * QN_PHASED_POINTS * phased_tiles(d, pass));
}

static int64_t spread_of(const qn_conv2d_shape *d, qn_isa isa) {
    const int64_t taps = d->r * d->s;
    return 100 * d->h * d->w * taps * padded(d->c, isa) /
           (d->stride_h * d->stride_w * d->p * d->q * padded(taps * d->c, isa));
}

/* The passes that an algorithm is of. */
static const uint8_t passes_of[QN_ALGORITHM_COUNT] = {
    [QN_ALGORITHM_PRODUCT] = QN_ALL_PASSES,
    [QN_ALGORITHM_WINOGRAD] = QN_ALL_PASSES,
    [QN_ALGORITHM_SLIDING] = QN_ALL_PASSES,
    [QN_ALGORITHM_THIN] = FORWARD,
    [QN_ALGORITHM_SCATTER] = DATA,
    [QN_ALGORITHM_CHUNKS] = FILTER,
    [QN_ALGORITHM_STRIPS] = FORWARD | FILTER,
};

static int64_t feature_of(const qn_conv2d_shape *d, qn_isa isa, qn_conv2d_pass pass,
                          qn_feature feature) {
    const int64_t batch = d->batch ? d->batch : d->n, taps = d->r * d->s;
    switch (feature) {
    case QN_FEATURE_BATCH:
        return batch;
    case QN_FEATURE_H:
        return d->h;
    case QN_FEATURE_W:
        return d->w;
    case QN_FEATURE_C:
        return d->c;
    case QN_FEATURE_K:
        return d->k;
    case QN_FEATURE_R:
        return d->r;
    case QN_FEATURE_S:
        return d->s;
    case QN_FEATURE_P:
        return d->p;
    case QN_FEATURE_Q:
        return d->q;
    case QN_FEATURE_TAPS:
        return taps;
    case QN_FEATURE_RUN:
        return d->s * d->c;
    case QN_FEATURE_PIXELS:
        return batch * d->p * d->q;
    case QN_FEATURE_WEIGHTS:
        return d->k / d->groups * taps * (d->c / d->groups);
    case QN_FEATURE_TILES:
        if (is_phased(d))
            return batch * phased_tiles(d, pass);
        return batch * least(tiles_of(d->h, d->w), tiles_of(d->p, d->q));
    case QN_FEATURE_GAIN:
        if (is_phased(d))
            return phased_gain(d, pass);
        return least(gain_of(d->h, d->w), gain_of(d->p, d->q));
    case QN_FEATURE_SPREAD:
        return spread_of(d, isa);
    case QN_FEATURE_COUNT:
        break;
    }
    return 0;
}

static bool fits(const qn_rule *rule, const qn_conv2d_shape *shape, qn_isa isa,
                 qn_conv2d_pass pass) {
    for (int i = 0; i < rule->n; i++) {
        const qn_condition *c = &rule->conditions[i];
        const int64_t value = feature_of(shape, isa, pass, (qn_feature)c->feature);
        if (c->is_most ? value > c->value : value < c->value)
            return false;
    }
    return true;
}

qn_algorithm qn_rules_choose(const qn_rules *rules, qn_isa isa, qn_conv2d_pass pass,
                             const qn_conv2d_shape *shape, unsigned possible) {
    rules = rules ? rules : &qn_rules_built_in;
    for (int i = 0; i < rules->n; i++) {
        const qn_rule *rule = &rules->rules[i];
        const unsigned passes = rule->passes & passes_of[rule->algorithm];
        if (rule->sets >> isa & passes >> pass & possible >> rule->algorithm & 1 &&
            fits(rule, shape, isa, pass))
            return (qn_algorithm)rule->algorithm;
    }
    return QN_ALGORITHM_PRODUCT;
}

/* ---- the text ---- */

/* What is left of the text, and the line that it is in. */
typedef struct reader {
    const char *at, *end;
    int line;
} reader;

typedef struct word {
    const char *text;
    int length;
} word;

static bool is_end(char c) {
    return c == '\n' || c == ';';
}

/* The next word of the line; length 0: there is none. Comments end with a newline. */
static word next_word(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
    while (r->at < r->end && *r->at == '#') {
        while (r->at < r->end && *r->at != '\n')
            r->at++;
    }
    word w = {r->at, 0};
    while (r->at < r->end && !is_end(*r->at) && !memchr(" \t\r#", *r->at, 4))
        r->at++;
    w.length = (int)(r->at - w.text);
    return w;
}

/* Goes on to the next line; false: that was the last. */
static bool end_line(reader *r) {
    if (r->at == r->end)
        return false;
    r->line += *r->at++ == '\n';
    return true;
}

static qn_status refuse(const reader *r, word w, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "rules: line %d: \"%.*s\" is no %s", r->line,
                   w.length > 40 ? 40 : w.length, w.text, what);
}

static bool is_word(word w, const char *text) {
    return (size_t)w.length == strlen(text) && memcmp(w.text, text, (size_t)w.length) == 0;
}

static int find_word(word w, const char *const *names, int n) {
    int i = 0;
    while (i < n && !is_word(w, names[i]))
        i++;
    return i;
}

static qn_status read_set(const reader *r, word w, uint8_t *sets) {
    *sets = QN_ALL_SETS;
    if (is_word(w, "*"))
        return QN_OK;
    for (int isa = QN_ISA_REF; isa <= QN_ISA_AVX512; isa++) {
        if (is_word(w, qn_isa_name((qn_isa)isa))) {
            *sets = (uint8_t)(1 << isa);
            return QN_OK;
        }
    }
    return refuse(r, w, "instruction set (or *)");
}

static qn_status read_pass(const reader *r, word w, uint8_t *passes) {
    const int pass = find_word(w, qn_pass_names, 3);
    *passes = is_word(w, "*") ? QN_ALL_PASSES : (uint8_t)(1 << pass);
    return pass < 3 || is_word(w, "*") ? QN_OK : refuse(r, w, "pass (or *)");
}

static qn_status read_algorithm(const reader *r, word w, qn_rule *rule) {
    const int algorithm = find_word(w, qn_algorithm_names, QN_ALGORITHM_COUNT);
    if (algorithm == QN_ALGORITHM_COUNT)
        return refuse(r, w, "algorithm");
    rule->algorithm = (uint8_t)algorithm;
    return rule->passes & passes_of[algorithm] ? QN_OK : refuse(r, w, "algorithm of this pass");
}

/* "FEATURE>=N", "FEATURE<=N". */
static qn_status read_condition(const reader *r, word w, qn_condition *c) {
    int n = 0, i;
    while (n < w.length && w.text[n] != '<' && w.text[n] != '>')
        n++;
    const int feature = find_word((word){w.text, n}, qn_feature_names, QN_FEATURE_COUNT);
    int64_t value = 0;
    for (i = n + 2; i < w.length && w.text[i] >= '0' && w.text[i] <= '9' && value <= INT32_MAX; i++)
        value = 10 * value + (w.text[i] - '0');
    if (feature == QN_FEATURE_COUNT || n + 2 >= w.length || w.text[n + 1] != '=' || i < w.length ||
        value > INT32_MAX)
        return refuse(r, w, "condition");
    *c = (qn_condition){(uint8_t)feature, w.text[n] == '<', (int32_t)value};
    return QN_OK;
}

static qn_status read_rule(reader *r, word first, qn_rule *rule) {
    *rule = (qn_rule){0};
    QN_TRY(read_set(r, first, &rule->sets));
    QN_TRY(read_pass(r, next_word(r), &rule->passes));
    QN_TRY(read_algorithm(r, next_word(r), rule));
    for (word w; (w = next_word(r)).length > 0;) {
        if (rule->n == QN_RULE_CONDITIONS)
            return qn_fail(QN_ERROR_FORMAT, "rules: line %d: more than %d conditions", r->line,
                           QN_RULE_CONDITIONS);
        QN_TRY(read_condition(r, w, &rule->conditions[rule->n++]));
    }
    return QN_OK;
}

qn_status qn_rules_parse(const char *text, size_t bytes, qn_rule rows[QN_MAX_RULES],
                         qn_rules *rules) {
    static const char *const header[] = {"quern", "rules", "1"};
    reader r = {text, text + bytes, 1};
    *rules = (qn_rules){0, rows};
    for (int i = 0; i < 3; i++) {
        if (!is_word(next_word(&r), header[i]))
            return qn_fail(QN_ERROR_FORMAT, "rules: line 1 is not \"quern rules 1\"");
    }
    const word more = next_word(&r);
    if (more.length > 0)
        return refuse(&r, more, "part of line 1");
    while (end_line(&r)) {
        const word w = next_word(&r);
        if (w.length == 0)
            continue;
        if (rules->n == QN_MAX_RULES)
            return qn_fail(QN_ERROR_FORMAT, "rules: line %d: more than %d rules", r.line,
                           QN_MAX_RULES);
        QN_TRY(read_rule(&r, w, &rows[rules->n]));
        rules->n++;
    }
    return QN_OK;
}
