/* Options of both halves as lines "name value"; see halves.h. What the device says decides what the
 * peer builds, so every line must be there once, with a number in its range. */
#include "federate/halves.h"

#include "base/decimal.h"
#include "base/status.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of the options: a count, or a real. */
typedef struct field {
    const char *name;
    size_t offset;
    bool is_real;
    double least, most;
} field;

#define FIELD(name, member, is_real, least, most)                                                  \
    { name, offsetof(numbers, member), is_real, least, most }

/* The numbers of a qn_halves_options, each in the widest type. */
typedef struct numbers {
    int64_t version, n_outputs, batch, test_batch, optimizer, nesterov, schedule, warmup,
        schedule_steps, is_int8, seed, saves, step, rank, dims[QN_MAX_RANK];
    double rate, momentum, weight_decay, beta1, beta2, epsilon, label_smoothing;
} numbers;

enum { VERSION = 2, MOST = 1 << 24 };

static const field fields[] = {
    FIELD("version", version, false, 0, 1e6),
    FIELD("outputs", n_outputs, false, 1, MOST),
    FIELD("batch", batch, false, 1, MOST),
    FIELD("test-batch", test_batch, false, 1, MOST),
    FIELD("optimizer", optimizer, false, QN_SGD, QN_ADAMW),
    FIELD("nesterov", nesterov, false, 0, 1),
    FIELD("schedule", schedule, false, QN_CONSTANT, QN_COSINE),
    FIELD("warmup", warmup, false, 0, 1e15),
    FIELD("schedule-steps", schedule_steps, false, 0, 1e15),
    FIELD("int8", is_int8, false, 0, 1),
    FIELD("seed", seed, false, 0, 9e15),
    FIELD("saves", saves, false, 0, 1),
    FIELD("step", step, false, 0, 1e15),
    FIELD("rank", rank, false, 1, QN_MAX_RANK - 1),
    FIELD("extent0", dims[0], false, 0, MOST),
    FIELD("extent1", dims[1], false, 0, MOST),
    FIELD("extent2", dims[2], false, 0, MOST),
    FIELD("extent3", dims[3], false, 0, MOST),
    FIELD("extent4", dims[4], false, 0, MOST),
    FIELD("rate", rate, true, 0, 1e9),
    FIELD("momentum", momentum, true, 0, 1),
    FIELD("weight-decay", weight_decay, true, 0, 1e9),
    FIELD("beta1", beta1, true, 0, 1),
    FIELD("beta2", beta2, true, 0, 1),
    FIELD("epsilon", epsilon, true, 0, 1e9),
    FIELD("smoothing", label_smoothing, true, 0, 1),
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static numbers numbers_of(const qn_halves_options *o) {
    numbers n = {.version = VERSION,
                 .n_outputs = o->n_outputs,
                 .batch = o->batch,
                 .test_batch = o->test_batch,
                 .optimizer = o->update.optimizer,
                 .nesterov = o->update.nesterov,
                 .schedule = o->update.schedule,
                 .warmup = o->update.warmup,
                 .schedule_steps = o->update.schedule_steps,
                 .is_int8 = o->is_int8,
                 .seed = (int64_t)o->seed,
                 .saves = o->saves,
                 .step = o->step,
                 .rank = o->input.rank,
                 .rate = o->update.rate,
                 .momentum = o->update.momentum,
                 .weight_decay = o->update.weight_decay,
                 .beta1 = o->update.beta1,
                 .beta2 = o->update.beta2,
                 .epsilon = o->update.epsilon,
                 .label_smoothing = o->label_smoothing};
    memcpy(n.dims, o->input.dims, sizeof n.dims);
    return n;
}

static void take_numbers(const numbers *n, qn_halves_options *o) {
    o->n_outputs = (int)n->n_outputs;
    o->batch = n->batch;
    o->test_batch = n->test_batch;
    o->update = (qn_update_options){.optimizer = (qn_optimizer)n->optimizer,
                                    .rate = n->rate,
                                    .momentum = n->momentum,
                                    .weight_decay = n->weight_decay,
                                    .nesterov = n->nesterov != 0,
                                    .beta1 = n->beta1,
                                    .beta2 = n->beta2,
                                    .epsilon = n->epsilon,
                                    .schedule = (qn_schedule)n->schedule,
                                    .warmup = n->warmup,
                                    .schedule_steps = n->schedule_steps};
    o->label_smoothing = n->label_smoothing;
    o->is_int8 = n->is_int8 != 0;
    o->seed = (uint64_t)n->seed;
    o->saves = n->saves != 0;
    o->step = n->step;
    o->input.rank = (int)n->rank;
    memcpy(o->input.dims, n->dims, sizeof n->dims);
    for (int i = o->input.rank; i < QN_MAX_RANK; i++)
        o->input.dims[i] = 0;
}

void qn_halves_print(const qn_halves_options *o, char text[QN_LINK_TEXT]) {
    const numbers n = numbers_of(o);
    size_t at = (size_t)snprintf(text, QN_LINK_TEXT, "model %s\ncut %s\nrun %s\n", o->model->name,
                                 o->cut, o->run);
    for (int i = 0; i < N_FIELDS && at < QN_LINK_TEXT; i++) {
        /* reals by their bits: both halves must have the same */
        const char *number = (const char *)&n + fields[i].offset;
        uint64_t bits;
        memcpy(&bits, number, sizeof bits);
        at += (size_t)snprintf(text + at, QN_LINK_TEXT - at,
                               fields[i].is_real ? "%s %016" PRIx64 "\n" : "%s %" PRIu64 "\n",
                               fields[i].name, bits);
    }
}

/* The next line "name value" of a name; its value goes to value. */
static qn_status next_line(const char **text, const char *name, char value[QN_CUT_NAME]) {
    const size_t n = strlen(name), length = strcspn(*text, "\n");
    const char *at = *text + n + 1;
    if (strncmp(*text, name, n) != 0 || (*text)[n] != ' ' || (*text)[length] != '\n' ||
        length - n - 1 >= QN_CUT_NAME)
        return qn_fail(QN_ERROR_FORMAT, "the device's options lack \"%s\" where it belongs", name);
    memcpy(value, at, length - n - 1);
    value[length - n - 1] = '\0';
    *text += length + 1;
    return QN_OK;
}

/* A whole number, or the 16 digits of a real's bits. */
static bool parse_number(const field *f, const char *value, double *real) {
    const size_t n = strlen(value);
    if (!f->is_real)
        return qn_decimal_parse(value, real) && *real == trunc(*real);
    if (n != 16 || strspn(value, "0123456789abcdef") != n)
        return false;
    const uint64_t bits = strtoull(value, NULL, 16);
    memcpy(real, &bits, sizeof bits);
    return true;
}

static qn_status read_number(const field *f, const char *value, numbers *n) {
    char *number = (char *)n + f->offset;
    double real;
    if (!parse_number(f, value, &real) || !(real >= f->least && real <= f->most))
        return qn_fail(QN_ERROR_FORMAT, "the device's option %s is %s", f->name, value);
    const int64_t whole = f->is_real ? 0 : (int64_t)real;
    memcpy(number, f->is_real ? (const void *)&real : (const void *)&whole, sizeof real);
    return QN_OK;
}

void qn_halves_print_settings(const qn_halves_options *o, char text[QN_LINK_TEXT]) {
    qn_halves_options settings = *o;
    settings.step = 0;
    settings.saves = false;
    qn_halves_print(&settings, text);
}

static bool is_run_name(const char *name) {
    return strlen(name) == QN_RUN_NAME - 1 && strspn(name, "0123456789abcdef") == QN_RUN_NAME - 1;
}

qn_status qn_halves_parse(const char *text, qn_halves_options *o) {
    char value[QN_CUT_NAME];
    numbers n = {0};
    *o = (qn_halves_options){0};
    QN_TRY(next_line(&text, "model", value));
    o->model = qn_model_find(value);
    if (!o->model)
        return QN_ERROR_ARGUMENT;
    QN_TRY(next_line(&text, "cut", o->cut));
    QN_TRY(next_line(&text, "run", value));
    if (!is_run_name(value))
        return qn_fail(QN_ERROR_FORMAT, "the device's run has no name of 32 hexadecimal digits");
    memcpy(o->run, value, sizeof o->run);
    for (int i = 0; i < N_FIELDS; i++) {
        QN_TRY(next_line(&text, fields[i].name, value));
        QN_TRY(read_number(&fields[i], value, &n));
        if (i == 0 && n.version != VERSION)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "the device speaks version %" PRId64 ", and this peer version %d; "
                           "install the same quern on both",
                           n.version, VERSION);
    }
    if (*text)
        return qn_fail(QN_ERROR_FORMAT, "the device's options go on where they should end");
    take_numbers(&n, o);
    return QN_OK;
}
