/* Arrays: any network of an ONNX file on arrays by name (npz:TRAIN[,TEST]): each of its inputs, and
 * a target for each output that is to train, under the output's name, or as the array that is left
 * over. The loss follows from the targets, or is what the setting "loss" says: cross entropy over
 * classes at every position, binary cross entropy, squared, absolute or Huber's error, or an output
 * that is the loss itself. Arrays have the file's layout and are taken as they are. Data are
 * checked at opening. Programs are built for the extents of the arrays. */
#include "base/memory.h"
#include "base/status.h"
#include "data/npz.h"
#include "data/source.h"
#include "data/split/holdout.h"
#include "onnx/targets.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAINING = 0, MOST_BYTE = 255 };

/* An input or a target of the programs, filled a batch at a time. */
typedef struct column {
    const char *name;             /* of the array */
    const qn_npz_array *array[2]; /* by file; null: there is no such file */
    int64_t width, given;         /* elements of a sample: in the buffer, in the array */
    bool is_whole;                /* the buffer is of QN_I32, else QN_F32 */
    int64_t n_classes;            /* of a target of classes; 0: none */
    void *buffer;                 /* (batch, width) */
} column;

/* Sums over what was measured of one output, or of all. */
typedef struct sums {
    double loss, error; /* of losses; of absolute differences */
    int64_t n_losses, n_right, n_decided, n_errors;
} sums;

typedef struct arrays {
    qn_arena arena;
    qn_npz files[2]; /* training, test */
    int n_files;
    qn_onnx_network *network;
    qn_onnx_targets targets;
    qn_onnx_target *outputs; /* (n_outputs) */
    qn_shape *made;          /* (n_outputs): their extents for a batch */
    column *columns;         /* (n_inputs + n_targets) */
    int *trained;            /* (n_targets): outputs */
    int n_inputs, n_targets;
    sums *sums;                  /* (n_targets), at least 1 */
    const void **inputs;         /* (n_inputs + n_targets): the buffers */
    qn_holdout held, validation; /* of the training file; of what is left */
    int64_t n[QN_SPLITS];        /* samples */
    int64_t batch, n_batches;    /* a batch; trained on so far */
    int evaluation;              /* program */
    bool is_limited;             /* by a budget, in which what was read of files counts, too */
    size_t n_resident;           /* bytes of files that were read since they were forgotten */
    char input_text[128], output_text[128];
} arrays;

/* ---- data ---- */

static qn_status open_files(qn_task *task, arrays *a) {
    static const char prefix[] = "npz:";
    const char *data = qn_setting_text(task, "data", NULL);
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    if (strncmp(data, prefix, strlen(prefix)) != 0 || !data[strlen(prefix)])
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s does not fit %s (quern import says what it fits); its arrays by name "
                       "do: npz:TRAIN[,TEST], as numpy.savez writes them",
                       task->model->name, data);
    char *path = qn_arena_text(&a->arena, data + strlen(prefix));
    if (!path)
        return QN_ERROR_MEMORY;
    char *comma = strchr(path, ',');
    if (comma)
        *comma = 0;
    QN_TRY(qn_npz_open(task->allocator, path, &a->files[0]));
    a->n_files = 1;
    if (comma) {
        QN_TRY(qn_npz_open(task->allocator, comma + 1, &a->files[1]));
        a->n_files = 2;
    }
    return QN_OK;
}

/* Names of a file's arrays, as a message lists them. */
static const char *list_names(const qn_npz *npz, char text[256]) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < npz->n && used < 250; i++)
        used +=
            (size_t)snprintf(text + used, 256 - used, "%s%s", i ? ", " : "", npz->arrays[i].name);
    return text;
}

static qn_status find_array(const arrays *a, int file, const char *name, column *c) {
    char text[256];
    const qn_npz_array *array = qn_npz_find(&a->files[file], name);
    if (!array)
        return qn_fail(QN_ERROR_FORMAT, "the data have no array %s; they have %s", name,
                       list_names(&a->files[file], text));
    QN_TRY(qn_npz_check_numbers(array));
    const qn_shape shape = array->header.shape;
    const qn_npz_array *first = a->columns[0].array[file];
    const int64_t n = first ? first->header.shape.dims[0] : shape.dims[0];
    if (shape.rank < 1 || shape.dims[0] != n)
        return qn_fail(QN_ERROR_FORMAT,
                       "array %s has %lld samples, and %s has %lld: the first axis of each array "
                       "counts them",
                       name, shape.rank < 1 ? 0LL : (long long)shape.dims[0], a->columns[0].name,
                       (long long)n);
    c->name = name;
    c->array[file] = array;
    c->given = qn_shape_count_range(shape, 1, shape.rank);
    return QN_OK;
}

/* The array of a name in each file, of one shape. */
static qn_status find_column(const arrays *a, const char *name, column *c) {
    for (int file = 0; file < a->n_files; file++)
        QN_TRY(find_array(a, file, name, c));
    if (a->n_files == 1)
        return QN_OK;
    const qn_shape x = c->array[0]->header.shape, y = c->array[1]->header.shape;
    if (x.rank != y.rank || memcmp(x.dims + 1, y.dims + 1, (size_t)(x.rank - 1) * sizeof *x.dims))
        return qn_fail(QN_ERROR_FORMAT, "array %s has other extents in the test file", name);
    return QN_OK;
}

static qn_status find_inputs(arrays *a) {
    qn_shape *shapes =
        qn_arena_allocate(&a->arena, (size_t)a->network->n_inputs + 1, sizeof *shapes);
    if (!shapes)
        return QN_ERROR_MEMORY;
    a->targets.inputs = shapes;
    for (int i = 0; i < a->network->n_inputs; i++) {
        const qn_onnx_place *place = &a->network->inputs[i];
        column *c = &a->columns[i];
        QN_TRY(find_column(a, place->name, c));
        c->is_whole = place->dtype == QN_I32;
        c->width = c->given;
        if (c->is_whole && !qn_npz_is_whole(c->array[0]))
            return qn_fail(QN_ERROR_FORMAT,
                           "array %s holds reals, and the network takes whole "
                           "numbers there",
                           c->name);
        shapes[i] = c->array[0]->header.shape;
        if (shapes[i].rank != place->n_dims)
            return qn_fail(QN_ERROR_FORMAT, "array %s has %d axes, and the input of the network %d",
                           c->name, shapes[i].rank, place->n_dims);
        shapes[i].dims[0] = a->batch;
        a->n_inputs++;
    }
    return QN_OK;
}

/* ---- targets ---- */

static bool is_input(const arrays *a, const char *name) {
    for (int i = 0; i < a->network->n_inputs; i++) {
        if (strcmp(a->network->inputs[i].name, name) == 0)
            return true;
    }
    return false;
}

static int find_output(const arrays *a, const char *name) {
    for (int i = 0; i < a->network->n_outputs; i++) {
        if (strcmp(a->network->outputs[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* The array that output i trains towards, or null. *left: the one that has no name of any. */
static const char *target_name(const arrays *a, int i, const char *left) {
    const char *name = a->network->outputs[i].name;
    if (a->made[i].rank < 0)
        return NULL;
    if (qn_npz_find(&a->files[0], name))
        return name;
    for (int j = 0; left && j < i; j++) {
        if (a->made[j].rank >= 0)
            return NULL; /* it is the first's */
    }
    return left;
}

/* The one array that is neither an input's nor an output's; null: none. */
static qn_status find_left(const arrays *a, const char **left) {
    *left = NULL;
    for (int i = 0; i < a->files[0].n; i++) {
        const char *name = a->files[0].arrays[i].name;
        if (is_input(a, name) || find_output(a, name) >= 0)
            continue;
        if (*left)
            return qn_fail(QN_ERROR_FORMAT,
                           "arrays %s and %s are of no input: name a target like the output that "
                           "trains towards it, such as %s",
                           *left, name, a->network->outputs[0].name);
        *left = name;
    }
    return QN_OK;
}

/* Whether an output's extents without an axis, and the batch, are a target's. */
static bool fits_without(qn_shape output, int axis, qn_shape target) {
    bool fits = axis >= 1 && target.rank == output.rank - 1;
    for (int i = 1; fits && i < output.rank; i++) {
        if (i != axis)
            fits = output.dims[i] == target.dims[i < axis ? i : i - 1];
    }
    return fits;
}

/* The axis of the classes that a target names: of images the second, else the last, where both may
 * be. -1: it names none. */
static int find_class_axis(const arrays *a, int output, qn_shape target) {
    const qn_shape made = a->made[output];
    const bool is_image = a->network->outputs[output].is_image;
    const int first = is_image ? 1 : made.rank - 1, second = is_image ? made.rank - 1 : 1;
    while (target.rank > 1 && target.rank >= made.rank && target.dims[target.rank - 1] == 1)
        target.rank--;
    if (fits_without(made, first, target))
        return first;
    if (fits_without(made, second, target))
        return second;
    /* positions side by side: (N * T, C) */
    const int64_t rows = a->batch * qn_shape_count_range(target, 1, target.rank);
    return made.rank == 2 && target.rank > 1 && made.dims[0] == rows && rows > a->batch ? 1 : -1;
}

static int64_t sample_count(const arrays *a, int output) {
    const qn_shape made = a->made[output];
    return made.rank > 0 && made.dims[0] == a->batch ? qn_shape_count_range(made, 1, made.rank)
                                                     : qn_shape_count(made) / a->batch;
}

static qn_loss asked_loss(const qn_task *task) {
    const char *text = qn_setting_text(task, "loss", qn_loss_names[0]);
    int loss = QN_LOSSES - 1;
    while (loss > 0 && strcmp(qn_loss_names[loss], text) != 0)
        loss--;
    return (qn_loss)loss;
}

static qn_loss choose_loss(const arrays *a, int output, const column *c, int axis) {
    const bool is_whole = qn_npz_is_whole(c->array[0]);
    if (qn_onnx_output_is_of(a->network, output, "Sigmoid"))
        return QN_LOSS_BCE;
    if (is_whole && axis >= 0 && a->made[output].dims[axis] > 1)
        return QN_LOSS_CROSS_ENTROPY;
    return QN_LOSS_MSE;
}

static qn_status refuse_target(const arrays *a, int output, const column *c, qn_loss loss) {
    char made[QN_SHAPE_TEXT], given[QN_SHAPE_TEXT];
    qn_shape target = c->array[0]->header.shape;
    target.dims[0] = a->batch;
    return qn_fail(QN_ERROR_FORMAT,
                   "a batch of array %s is %s%s, and of output %s %s: %s does not go between them; "
                   "--loss says another",
                   c->name, qn_shape_print(target, given),
                   qn_npz_is_whole(c->array[0]) ? " whole numbers" : " reals",
                   a->network->outputs[output].name, qn_shape_print(a->made[output], made),
                   qn_loss_names[loss]);
}

/* The loss of an output, and what its target becomes for it. */
static qn_status set_target(const qn_task *task, arrays *a, int output, column *c) {
    qn_onnx_target *t = &a->outputs[output];
    const int axis = find_class_axis(a, output, c->array[0]->header.shape);
    const bool is_whole = qn_npz_is_whole(c->array[0]);
    t->loss = asked_loss(task);
    if (t->loss == QN_LOSS_AUTO)
        t->loss = choose_loss(a, output, c, axis);
    c->is_whole = t->loss == QN_LOSS_CROSS_ENTROPY;
    c->width = c->is_whole ? c->given : sample_count(a, output);
    if (c->is_whole) {
        t->class_axis = axis;
        c->n_classes = axis >= 0 ? a->made[output].dims[axis] : 0;
        return is_whole && axis >= 0 ? QN_OK : refuse_target(a, output, c, t->loss);
    }
    if (c->given == c->width)
        return QN_OK;
    if (t->loss == QN_LOSS_BCE && is_whole && axis == a->made[output].rank - 1)
        c->n_classes = a->made[output].dims[axis];
    return c->n_classes > 0 ? QN_OK : refuse_target(a, output, c, t->loss);
}

static void say_target(const qn_task *task, const arrays *a, int output, const column *c) {
    char text[512];
    snprintf(text, sizeof text, "output %s trains by %s towards array %s",
             a->network->outputs[output].name, qn_loss_names[a->outputs[output].loss], c->name);
    if (task->training && task->log)
        task->log->write(task->log->user, 0, text);
}

/* An output of one number that is the loss. */
static qn_status find_own_loss(const qn_task *task, arrays *a) {
    for (int i = 0; i < a->network->n_outputs; i++) {
        if (a->made[i].rank >= 0 && qn_shape_count(a->made[i]) == 1) {
            a->outputs[i].loss = QN_LOSS_OWN;
            return QN_OK;
        }
    }
    return qn_fail(QN_ERROR_FORMAT,
                   "there is no target for an output of %s, and none of its outputs is a loss, one "
                   "number; give an array named like an output, such as %s",
                   task->model->name, a->network->outputs[0].name);
}

static qn_status find_targets(const qn_task *task, arrays *a) {
    const char *left;
    const bool is_own = asked_loss(task) == QN_LOSS_OWN;
    if (!is_own)
        QN_TRY(find_left(a, &left));
    for (int i = 0; i < a->network->n_outputs && !is_own; i++) {
        column *c = &a->columns[a->n_inputs + a->n_targets];
        const char *name = target_name(a, i, left);
        if (!name)
            continue;
        QN_TRY(find_column(a, name, c));
        QN_TRY(set_target(task, a, i, c));
        say_target(task, a, i, c);
        a->trained[a->n_targets++] = i;
    }
    return a->n_targets > 0 ? QN_OK : find_own_loss(task, a);
}

/* ---- memory ---- */

/* Under a budget, pages of a mapped file that was read do not stay. */
static void note_read(arrays *a, size_t bytes) {
    enum { MOST_BYTES = 4 << 20 };
    a->n_resident += bytes;
    if (!a->is_limited || a->n_resident < MOST_BYTES)
        return;
    for (int i = 0; i < a->n_files; i++)
        qn_npz_forget(&a->files[i]);
    a->n_resident = 0;
}

/* ---- checks ---- */

static bool is_ignored(const column *c, const qn_npz_array *array, int32_t class) {
    const bool is_byte = array->header.kind == 'u' && array->header.element_bytes == 1;
    return class < 0 || (is_byte && class == MOST_BYTE && c->n_classes <= MOST_BYTE);
}

static qn_status check_wholes(const column *c, const qn_npz_array *array, int64_t begin,
                              int64_t end) {
    const bool is_class = c->n_classes > 0;
    for (int64_t i = begin; i < end; i++) {
        int32_t value;
        int64_t bad;
        if (!qn_npz_read_indices(array, i, 1, &value, &bad))
            return qn_fail(QN_ERROR_FORMAT, "array %s: sample %lld has a number beyond 32 bits",
                           c->name, (long long)(i / c->given));
        if (is_class && value >= c->n_classes && !is_ignored(c, array, value))
            return qn_fail(QN_ERROR_FORMAT,
                           "array %s: sample %lld is of class %d, and the output has %lld: 0 to "
                           "%lld; negative ones are ignored",
                           c->name, (long long)(i / c->given), value, (long long)c->n_classes,
                           (long long)c->n_classes - 1);
    }
    return QN_OK;
}

static qn_status check_reals(const column *c, const qn_npz_array *array, int64_t begin,
                             int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        float value;
        qn_npz_read_reals(array, i, 1, &value);
        if (!isfinite(value))
            return qn_fail(QN_ERROR_FORMAT,
                           "array %s: sample %lld has %g in it; leave the sample out, or put a "
                           "number there",
                           c->name, (long long)(i / c->given), (double)value);
    }
    return QN_OK;
}

/* Piece by piece, for what of it is in memory. */
static qn_status check_column(arrays *a, const column *c, const qn_npz_array *array) {
    enum { PIECE = 1 << 18 };
    const int64_t n = array->header.shape.dims[0] * c->given;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t end = n - at < PIECE ? n : at + PIECE;
        QN_TRY(c->is_whole || c->n_classes > 0 ? check_wholes(c, array, at, end)
                                               : check_reals(c, array, at, end));
        note_read(a, (size_t)(end - at) * array->header.element_bytes);
    }
    return QN_OK;
}

static qn_status check_columns(arrays *a) {
    for (int i = 0; i < a->n_inputs + a->n_targets; i++) {
        for (int file = 0; file < a->n_files; file++)
            QN_TRY(check_column(a, &a->columns[i], a->columns[i].array[file]));
    }
    return QN_OK;
}

/* ---- batches ---- */

/* One row for each class's element: 1 at the class, 0 at others and where it is ignored. */
static void fill_classes(const column *c, const qn_npz_array *array, int64_t row, float *to) {
    memset(to, 0, (size_t)c->width * sizeof *to);
    for (int64_t i = 0; i < c->given; i++) {
        int32_t class;
        int64_t bad;
        qn_npz_read_indices(array, row * c->given + i, 1, &class, &bad);
        if (!is_ignored(c, array, class))
            to[i * c->n_classes + class] = 1;
    }
}

static void fill_wholes(const column *c, const qn_npz_array *array, int64_t row, int32_t *to) {
    int64_t bad;
    qn_npz_read_indices(array, row * c->given, c->given, to, &bad);
    for (int64_t i = 0; c->n_classes > 0 && i < c->given; i++)
        to[i] = is_ignored(c, array, to[i]) ? -1 : to[i];
}

/* What one fault may bring: systems map the file's pages together that they have together. */
enum { FAULT_BYTES = 2 << 20 };

/* Place i of the buffers. */
static void fill(arrays *a, int file, int64_t row, int64_t i) {
    for (int n = 0; n < a->n_inputs + a->n_targets; n++) {
        const column *c = &a->columns[n];
        const qn_npz_array *array = c->array[file];
        if (c->is_whole)
            fill_wholes(c, array, row, (int32_t *)c->buffer + i * c->width);
        else if (c->n_classes > 0)
            fill_classes(c, array, row, (float *)c->buffer + i * c->width);
        else
            qn_npz_read_reals(array, row * c->given, c->given, (float *)c->buffer + i * c->width);
        note_read(a, FAULT_BYTES + (size_t)c->given * array->header.element_bytes);
    }
}

/* Sample `index` of a split. */
static void fill_sample(arrays *a, qn_split split, int64_t index, int64_t i) {
    if (split == QN_TEST && a->n_files == 2) {
        fill(a, 1, index, i);
        return;
    }
    if (split != QN_TEST)
        index =
            qn_holdout_index(&a->validation, split == QN_VALIDATION ? QN_TEST : QN_TRAIN, index);
    fill(a, 0, qn_holdout_index(&a->held, split == QN_TEST ? QN_TEST : QN_TRAIN, index), i);
}

/* After the buffers were filled: what was read of a file that is cut or gone does not count. */
static qn_status check_files(const arrays *a) {
    for (int i = 0; i < a->n_files; i++)
        QN_TRY(qn_npz_check(&a->files[i]));
    return QN_OK;
}

/* Batch `number` of training: what is in it depends on seed and number alone. */
static qn_status fill_batch(const qn_task *task, arrays *a, int64_t number) {
    for (int64_t i = 0; i < a->batch; i++)
        fill_sample(a, QN_TRAIN,
                    qn_task_sample_at(task, "arrays.order", a->n[QN_TRAIN], number * a->batch + i),
                    i);
    return check_files(a);
}

/* ---- opening ---- */

/* What is looked at: all rows of the training file, or those that are left behind the test. */
typedef struct looking {
    arrays *a;
    bool is_second;
} looking;

/* Rows of equal inputs are on one side. */
static qn_status look(void *context, int64_t index, uint64_t *content, int32_t *class) {
    const looking *l = context;
    arrays *a = l->a;
    const int64_t row = l->is_second ? qn_holdout_index(&a->held, QN_TRAIN, index) : index;
    *class = 0;
    *content = 0;
    for (int n = 0; n < a->n_inputs; n++) {
        const qn_npz_array *array = a->columns[n].array[0];
        const size_t bytes = (size_t)(array->header.data_bytes / array->header.shape.dims[0]);
        *content = *content * 31 + qn_hash_bytes(array->data + (size_t)row * bytes, bytes);
        note_read(a, bytes);
    }
    return QN_OK;
}

static void tell_copies(const qn_task *task, const qn_holdout *held) {
    char text[200];
    if (held->n_copies == 0 || !task->log || !task->log->write)
        return;
    snprintf(text, sizeof text,
             "%s%lld of %lld samples are copies of others; copies are held out together, or not at "
             "all",
             held->is_estimate ? "about " : "", (long long)held->n_copies, (long long)held->n);
    task->log->write(task->log->user, 0, text);
}

/* As versions did that kept no rule. */
static qn_status hold_out_by_place(const qn_task *task, arrays *a, int64_t n, double test,
                                   double validation) {
    const uint64_t seed = (uint64_t)qn_setting_count(task, "seed", 1);
    QN_TRY(qn_holdout_by_place(n, test, seed, &a->held));
    return qn_holdout_by_place(n - a->held.n_test, validation, seed ^ qn_hash_text("validation"),
                               &a->validation);
}

static qn_status hold_out(qn_task *task, arrays *a, int64_t n, double test, double validation) {
    const bool was_left = !qn_task_uses_last_batch(task);
    looking first = {.a = a}, second = {.a = a, .is_second = true};
    qn_holdout_options how = {.allocator = task->allocator,
                              .part = test,
                              .seed = (uint64_t)qn_setting_count(task, "seed", 1),
                              .purpose = "test"};
    if (!qn_setting_text(task, QN_HELD_OUT, NULL) && (!task->training || was_left))
        return hold_out_by_place(task, a, n, test, validation);
    if (task->training)
        QN_TRY(qn_setting_set(task, QN_HELD_OUT, "content"));
    a->held = (qn_holdout){.n = n};
    const qn_holdout_samples all = {n, 0, &first, look};
    if (test > 0)
        QN_TRY(qn_holdout_by_content(&a->arena, &all, &how, &a->held));
    const qn_holdout_samples left = {n - a->held.n_test, 0, &second, look};
    a->validation = (qn_holdout){.n = left.n};
    how.part = validation;
    how.purpose = "validation";
    if (validation > 0)
        QN_TRY(qn_holdout_by_content(&a->arena, &left, &how, &a->validation));
    tell_copies(task, &a->held);
    return QN_OK;
}

static qn_status split(qn_task *task, arrays *a) {
    const double held = a->n_files == 2 ? 0 : qn_setting_number(task, "holdout", 0);
    const int64_t n = a->columns[0].array[0]->header.shape.dims[0];
    QN_TRY(hold_out(task, a, n, held, qn_setting_number(task, "validation", 0)));
    a->n[QN_TEST] = a->n_files == 2 ? a->columns[0].array[1]->header.shape.dims[0] : a->held.n_test;
    a->n[QN_VALIDATION] = a->validation.n_test;
    a->n[QN_TRAIN] = n - a->held.n_test - a->validation.n_test;
    if (a->n[QN_TRAIN] < 1)
        return task->training ? qn_fail(QN_ERROR_FORMAT, "%s has no training samples",
                                        qn_setting_text(task, "data", ""))
                              : QN_OK;
    QN_TRY(qn_task_fit_batch(task, a->n[QN_TRAIN], "samples"));
    a->batch = qn_task_batch(task);
    return QN_OK;
}

static qn_status make_lists(arrays *a) {
    const size_t n = (size_t)(a->network->n_inputs + a->network->n_outputs) + 1;
    a->columns = qn_arena_allocate(&a->arena, n, sizeof *a->columns);
    a->outputs = qn_arena_allocate(&a->arena, n, sizeof *a->outputs);
    a->made = qn_arena_allocate(&a->arena, n, sizeof *a->made);
    a->trained = qn_arena_allocate(&a->arena, n, sizeof *a->trained);
    a->inputs = qn_arena_allocate(&a->arena, n, sizeof *a->inputs);
    a->sums = qn_arena_allocate(&a->arena, n, sizeof *a->sums);
    return a->columns && a->outputs && a->made && a->trained && a->inputs && a->sums
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static qn_status make_buffers(arrays *a) {
    for (int i = 0; i < a->n_inputs + a->n_targets; i++) {
        column *c = &a->columns[i];
        c->buffer = qn_arena_allocate(&a->arena, (size_t)(a->batch * c->width) + 1, 4);
        a->inputs[i] = c->buffer;
        if (!c->buffer)
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

static qn_status make_engine(qn_task *task, arrays *a) {
    qn_program_options programs[2];
    int n = 0;
    a->targets.network = a->network;
    a->targets.outputs = a->outputs;
    if (task->training)
        programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options),
                                             .name = "training", .training = true,
                                             .user = &a->targets, .build = qn_onnx_build_targets};
    a->evaluation = n;
    programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "evaluation",
                                         .user = &a->targets, .build = qn_onnx_build_targets};
    return qn_task_make_engine(task, programs, n);
}

static void fill_facts(qn_task *task, arrays *a) {
    qn_task_facts *f = &task->facts;
    snprintf(a->input_text, sizeof a->input_text, "%d array%s, %s first", a->n_inputs,
             a->n_inputs == 1 ? "" : "s", a->network->inputs[0].name);
    snprintf(a->output_text, sizeof a->output_text, "%d trained output%s",
             a->n_targets > 0 ? a->n_targets : 1, a->n_targets > 1 ? "s" : "");
    f->data = qn_setting_text(task, "data", "");
    f->input = a->input_text;
    f->output = a->output_text;
    f->unit = "samples";
    f->batch = a->batch;
    f->sizes = task->model->sizes;
    for (int i = 0; i < QN_SPLITS; i++)
        f->n_samples[i] = a->n[i];
    f->n_left_out = task->training ? qn_task_left_out(task, a->n[QN_TRAIN]) : 0;
}

/* Data, and what of them goes where. */
static qn_status open_data(qn_task *task, arrays *a) {
    a->is_limited = task->how->memory_budget_bytes > 0;
    QN_TRY(open_files(task, a));
    QN_TRY(find_inputs(a));
    QN_TRY(qn_onnx_find_outputs(a->network, a->targets.inputs, a->made));
    QN_TRY(find_targets(task, a));
    const qn_status status = check_columns(a);
    QN_TRY(check_files(a));
    QN_TRY(status);
    return split(task, a);
}

/* Without data there are still weights, to be exported. */
static qn_status open_weights(qn_task *task, arrays *a) {
    qn_task_network network = {task->model, task->model->sizes};
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .name = "network",
                                        .user = &network, .build = qn_task_build};
    a->n_files = 0;
    task->facts.data = qn_setting_text(task, "data", "");
    task->facts.sizes = task->model->sizes;
    return qn_task_make_engine(task, &program, 1);
}

static qn_status arrays_open(qn_task *task) {
    arrays *a;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *a, &a));
    task->self = a;
    qn_arena_init(&a->arena, task->allocator);
    a->network = task->model->user;
    a->batch = qn_task_batch(task);
    if (task->training)
        QN_TRY(qn_task_choose_last_batch(task, NULL));
    QN_TRY(make_lists(a));
    const qn_status status = open_data(task, a);
    if (status == QN_ERROR_IO && !task->training)
        return open_weights(task, a);
    QN_TRY(status);
    QN_TRY(make_buffers(a));
    QN_TRY(qn_onnx_leave_out(a->network, a->outputs));
    if (task->training)
        qn_task_set_length(task, qn_task_epoch_batches(task, a->n[QN_TRAIN]));
    fill_facts(task, a);
    return make_engine(task, a);
}

static void arrays_close(qn_task *task) {
    arrays *a = task->self;
    if (!a)
        return;
    for (int i = 0; i < a->n_files; i++)
        qn_npz_close(&a->files[i]);
    qn_arena_deinit(&a->arena);
    qn_release(task->allocator, a, 1, sizeof *a);
}

static qn_status arrays_resume(qn_task *task) {
    arrays *a = task->self;
    a->n_batches = qn_engine_steps(task->engine) * qn_setting_count(task, "accumulate", 1);
    return QN_OK;
}

/* ---- running ---- */

static double loss_of(const qn_task *task, const arrays *a, int program) {
    const int last = program == a->evaluation ? 2 * a->n_targets : 0;
    return (double)*(const float *)qn_engine_result(task->engine, program, last);
}

static qn_status arrays_step(qn_task *task, qn_metrics *metrics) {
    arrays *a = task->self;
    const int64_t step = qn_engine_steps(task->engine);
    double sum = 0;
    int64_t n = 0;
    while (qn_engine_steps(task->engine) == step) {
        QN_TRY(fill_batch(task, a, a->n_batches));
        QN_TRY(qn_engine_run(task->engine, TRAINING, a->inputs));
        sum += loss_of(task, a, TRAINING);
        a->n_batches++;
        n++;
    }
    qn_metrics_add(metrics, "loss", sum / (double)n, false);
    return QN_OK;
}

static qn_status arrays_infer(qn_task *task, double *loss) {
    arrays *a = task->self;
    if (a->n_batches == 0)
        return QN_OK;
    QN_TRY(fill_batch(task, a, a->n_batches - 1));
    QN_TRY(qn_engine_run(task->engine, a->evaluation, a->inputs));
    *loss = loss_of(task, a, a->evaluation);
    return QN_OK;
}

/* ---- measuring ---- */

static bool is_likeliest(const float *values, int64_t n, int32_t class) {
    for (int64_t i = 0; i < n; i++) {
        if (values[i] > values[class] || (values[i] == values[class] && i < class))
            return false;
    }
    return true;
}

static void add_classes(const column *c, const float *losses, const float *values, int64_t n,
                        sums *s) {
    const int32_t *classes = c->buffer;
    for (int64_t i = 0; i < n * c->width; i++) {
        if (classes[i] < 0)
            continue;
        s->loss += (double)losses[i];
        s->n_losses++;
        s->n_decided++;
        s->n_right += is_likeliest(values + i * c->n_classes, c->n_classes, classes[i]);
    }
}

/* n_losses: of a sample. */
static void add_reals(const column *c, qn_loss loss, const float *losses, int64_t n_losses,
                      const float *values, int64_t n, sums *s) {
    const float *targets = c->buffer;
    for (int64_t i = 0; i < n * n_losses; i++)
        s->loss += (double)losses[i];
    s->n_losses += n * n_losses;
    for (int64_t i = 0; i < n * c->width; i++) {
        s->error += fabs((double)values[i] - (double)targets[i]);
        s->n_right += (values[i] > 0) == (targets[i] > 0.5F);
    }
    if (loss == QN_LOSS_BCE)
        s->n_decided += n * c->width;
    else
        s->n_errors += n * c->width;
}

/* The first n samples of the batch. */
static void add_batch(const qn_task *task, const arrays *a, int64_t n, sums *s) {
    for (int t = 0; t < a->n_targets; t++) {
        const column *c = &a->columns[a->n_inputs + t];
        const qn_loss loss = a->outputs[a->trained[t]].loss;
        const float *losses = qn_engine_result(task->engine, a->evaluation, 2 * t);
        const float *values = qn_engine_result(task->engine, a->evaluation, 2 * t + 1);
        if (loss == QN_LOSS_CROSS_ENTROPY)
            add_classes(c, losses, values, n, &s[t]);
        else
            add_reals(c, loss, losses, loss == QN_LOSS_MSE ? 1 : c->width, values, n, &s[t]);
    }
    if (a->n_targets == 0) {
        s[0].loss += loss_of(task, a, a->evaluation) * (double)n;
        s[0].n_losses += n;
    }
}

static void put_metrics(const arrays *a, const sums *s, qn_metrics *metrics) {
    sums all = {.loss = 0};
    for (int t = 0; t < a->n_targets || t == 0; t++) {
        all.loss += s[t].n_losses > 0 ? s[t].loss / (double)s[t].n_losses : 0;
        all.n_right += s[t].n_decided > 0 ? s[t].n_right : 0;
        all.n_decided += s[t].n_decided;
        all.error += s[t].n_errors > 0 ? s[t].error : 0;
        all.n_errors += s[t].n_errors;
    }
    qn_metrics_add(metrics, "loss", all.loss, false);
    if (all.n_decided > 0)
        qn_metrics_add(metrics, "accuracy", (double)all.n_right / (double)all.n_decided, true);
    if (all.n_errors > 0)
        qn_metrics_add(metrics, "mean_absolute_error", all.error / (double)all.n_errors, false);
}

/* Samples that a loss of the network's own can be measured on: whole batches, as it is over one. */
static qn_status count_measured(const arrays *a, qn_split split, int64_t *n) {
    *n = a->n_targets > 0 ? a->n[split] : a->n[split] / a->batch * a->batch;
    return *n > 0 || a->n[split] == 0
               ? QN_OK
               : qn_fail(QN_ERROR_ARGUMENT,
                         "the network's own loss is over a batch of %lld, and there are %lld "
                         "samples; use a smaller --batch",
                         (long long)a->batch, (long long)a->n[split]);
}

static qn_status arrays_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                 void *user, qn_metrics *metrics, int64_t *n_samples) {
    arrays *a = task->self;
    sums *s = a->sums;
    int64_t n;
    if (a->n_files == 0)
        return open_files(task, a); /* which says why there are no data */
    QN_TRY(count_measured(a, split, &n));
    memset(s, 0, ((size_t)a->n_targets + 1) * sizeof *s);
    for (int64_t at = 0; at < n; at += a->batch) {
        const int64_t n_valid = n - at < a->batch ? n - at : a->batch;
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        for (int64_t i = 0; i < a->batch; i++)
            fill_sample(a, split, i < n_valid ? at + i : at, i);
        QN_TRY(check_files(a));
        QN_TRY(qn_engine_run(task->engine, a->evaluation, a->inputs));
        add_batch(task, a, n_valid, s);
    }
    *n_samples = n;
    if (n > 0)
        put_metrics(a, s, metrics);
    return QN_OK;
}

const qn_task_kind qn_task_arrays = {
    .name = "arrays",
    .summary = "any network of an ONNX file, on arrays by name",
    .open = arrays_open,
    .close = arrays_close,
    .resume = arrays_resume,
    .step = arrays_step,
    .evaluate = arrays_evaluate,
    .infer = arrays_infer,
};
