/* Trains a model for some steps on one batch from given weights, for a comparison elsewhere:
 *     dump_model MODEL HxWxC CLASSES BATCH f32|f64 RATE STEPS IN OUT [SETTING...]
 * IN: all parameters in order, the batch (NHWC), its labels; OUT: the loss of every step, then the
 * gradients of the first, of the parameters that train; all as doubles. The step is SGD with
 * momentum 0.9, whose buffer after one step is the gradient. Dropout is off. SETTING: weights of
 * the classes with commas between; freeze=PATTERNS, only=PATTERNS, rates=PATTERN=X, rank=N,
 * alpha=X, layers=PATTERNS. */
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what) {
    fprintf(stderr, "dump_model: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void *take_memory(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory)
        stop("out of memory");
    return memory;
}

/* n doubles of the file into memory of a type. */
static void read_reals(FILE *file, qn_dtype dtype, size_t n, void *memory) {
    for (size_t i = 0; i < n; i++) {
        double value;
        if (fread(&value, sizeof value, 1, file) != 1)
            stop("the input ends early");
        if (dtype == QN_F64)
            ((double *)memory)[i] = value;
        else if (dtype == QN_F32)
            ((float *)memory)[i] = (float)value;
        else
            ((int32_t *)memory)[i] = (int32_t)value;
    }
}

static void write_real(FILE *file, double value) {
    if (fwrite(&value, sizeof value, 1, file) != 1)
        stop("the output cannot be written");
}

static size_t element_bytes(qn_dtype dtype) {
    return dtype == QN_F64 ? sizeof(double) : sizeof(float);
}

/* Numbers with commas between. */
static double *parse_weights(char *text, int n) {
    double *weights = take_memory((size_t)n * sizeof *weights);
    for (int i = 0; i < n; i++) {
        weights[i] = strtod(text, &text);
        text += *text == ',';
    }
    return weights;
}

/* A setting of the tuning; false: it is none. */
static bool tune(qn_tuning *tuning, const char *setting) {
    const struct {
        const char *key, **text;
    } texts[] = {{"freeze=", &tuning->freeze},
                 {"only=", &tuning->train_only},
                 {"rates=", &tuning->rates},
                 {"layers=", &tuning->lora_layers}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t n = strlen(texts[i].key);
        if (strncmp(setting, texts[i].key, n) == 0) {
            *texts[i].text = setting + n;
            return true;
        }
    }
    if (strncmp(setting, "rank=", 5) == 0)
        tuning->lora_rank = atoi(setting + 5);
    else if (strncmp(setting, "alpha=", 6) == 0)
        tuning->lora_alpha = atof(setting + 6);
    else
        return false;
    return true;
}

static qn_trainer *make_trainer(char **arguments) {
    const qn_model *model = qn_model_find(arguments[0]);
    if (!model)
        stop(arguments[0]);
    qn_trainer_options options = qn_trainer_options_for(model);
    long long h, w, c;
    if (sscanf(arguments[1], "%lldx%lldx%lld", &h, &w, &c) != 3)
        stop("the shape must be HxWxC");
    options.input = QN_SHAPE(h, w, c);
    options.n_outputs = atoi(arguments[2]);
    options.batch = atoi(arguments[3]);
    options.evaluation_batch = 1;
    options.engine.real = strcmp(arguments[4], "f64") == 0 ? QN_F64 : QN_F32;
    options.engine.update.optimizer = QN_SGD;
    options.engine.update.rate = atof(arguments[5]);
    options.engine.update.momentum = 0.9;
    options.engine.update.weight_decay = 0;
    options.label_smoothing = 0;
    options.engine.update.nesterov = false;
    options.engine.update.schedule = QN_CONSTANT;
    options.engine.update.warmup = 0;
    options.engine.no_dropout = true;
    options.engine.n_threads = 2;
    double *class_weights = NULL;
    for (int i = 9; arguments[i]; i++) {
        if (strncmp(arguments[i], "update=", 7) == 0)
            options.engine.sparse_update = arguments[i] + 7;
        else if (!tune(&options.engine.tuning, arguments[i]) && !class_weights)
            class_weights = parse_weights(arguments[i], options.n_outputs);
    }
    options.class_weights = class_weights;
    qn_trainer *trainer;
    if (qn_trainer_create(&options, &trainer) != QN_OK)
        stop(arguments[0]);
    free(class_weights);
    return trainer;
}

static void fill_parameters(qn_trainer *trainer, FILE *file) {
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        if (!t.is_state && !strstr(t.name, ".running_"))
            read_reals(file, t.dtype, t.bytes / element_bytes(t.dtype), t.data);
    }
}

/* The momentum buffer of a parameter. */
static qn_stored_tensor find_momentum(const qn_trainer *trainer, const char *parameter) {
    char name[512];
    snprintf(name, sizeof name, "optimizer.momentum.%s", parameter);
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        if (strcmp(t.name, name) == 0)
            return t;
    }
    stop(name);
    return (qn_stored_tensor){0};
}

/* All gradients as doubles, in the parameters' order; memory of the caller's. */
static double *copy_gradients(const qn_trainer *trainer, size_t *n) {
    double *copy = NULL;
    *n = 0;
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        const qn_stored_tensor p = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        if (p.is_state || !p.trainable)
            continue;
        const qn_stored_tensor m = find_momentum(trainer, p.name);
        const size_t count = m.bytes / element_bytes(m.dtype);
        copy = realloc(copy, (*n + count) * sizeof *copy);
        if (!copy)
            stop("out of memory");
        for (size_t j = 0; j < count; j++)
            copy[*n + j] = m.dtype == QN_F64 ? ((double *)m.data)[j] : ((float *)m.data)[j];
        *n += count;
    }
    return copy;
}

int main(int argc, char **argv) {
    if (argc < 10)
        stop("usage: MODEL HxWxC CLASSES BATCH f32|f64 RATE STEPS IN OUT [SETTING...]");
    qn_trainer *trainer = make_trainer(argv + 1);
    const qn_trainer_options *o = qn_trainer_get_options(trainer);
    const size_t n_x = (size_t)(o->batch * o->input.dims[0] * o->input.dims[1] * o->input.dims[2]);
    FILE *in = fopen(argv[8], "rb"), *out = fopen(argv[9], "wb");
    if (!in || !out)
        stop("the files cannot be opened");
    void *x = take_memory(n_x * sizeof(double)), *y = take_memory((size_t)o->batch * 4);
    fill_parameters(trainer, in);
    read_reals(in, o->engine.real, n_x, x);
    read_reals(in, QN_I32, (size_t)o->batch, y);
    double *gradients = NULL;
    size_t n_gradients = 0;
    for (int step = 0; step < atoi(argv[7]); step++) {
        qn_step_result result;
        if (qn_trainer_step(trainer, x, y, &result) != QN_OK)
            stop("step");
        write_real(out, result.loss);
        if (step == 0)
            gradients = copy_gradients(trainer, &n_gradients);
    }
    for (size_t i = 0; i < n_gradients; i++)
        write_real(out, gradients[i]);
    const bool is_written = fclose(out) == 0;
    fclose(in);
    free(gradients);
    free(x);
    free(y);
    qn_trainer_destroy(trainer);
    return is_written ? 0 : 1;
}
