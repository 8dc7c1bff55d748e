/* Networks of files as models of tasks. Which of a file's inputs and outputs is what follows from
 * their types and axes, and where that does not tell them apart from their order or names. A task's
 * inputs are declared in the order of its file in src/tasks, under the names of the file; labels,
 * losses and results are those of the zoo's models (models/losses.c). */
#include "base/status.h"
#include "models/models.h"
#include "onnx/import.h"
#include "ops/ops.h"

#include <string.h>

/* ---- places ---- */

static bool is_index(const qn_onnx_place *place, int rank) {
    return place->dtype == QN_I32 && place->n_dims == rank;
}

static bool is_real(const qn_onnx_place *place, int rank) {
    return place->dtype == QN_F32 && place->n_dims == rank;
}

static int64_t last_of(const qn_onnx_place *place) {
    return place->n_dims > 0 ? place->dims[place->n_dims - 1] : -1;
}

/* Logits over rows and columns, (N, T, C) or (N * T, C), of tokens (N, T): as a trial gave them. */
static bool is_rows(const qn_onnx_network *n, int output, int tokens) {
    const qn_onnx_place *place = &n->outputs[output];
    const qn_shape asked = qn_onnx_guess_shape(&n->inputs[tokens]), made = n->tried[output];
    if (place->dtype != QN_F32 || last_of(place) < 2 || asked.rank != 2)
        return false;
    return made.rank == 3 ? made.dims[0] == asked.dims[0] && made.dims[1] == asked.dims[1]
                          : made.rank == 2 && made.dims[0] == asked.dims[0] * asked.dims[1];
}

static qn_value declare(qn_graph *graph, const qn_onnx_place *place, qn_shape shape) {
    return place->dtype == QN_I32 ? qn_index_input(graph, place->name, shape)
                                  : qn_input(graph, place->name, shape);
}

static qn_value *allocate_values(qn_graph *graph, int n) {
    qn_value *values = qn_arena_allocate(&graph->arena, (size_t)n + 1, sizeof *values);
    for (int i = 0; values && i < n; i++)
        values[i] = QN_NO_VALUE;
    if (!values)
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s", qn_error_message());
    return values;
}

/* Outputs of the network, one after the other, as results; the first of them. */
static qn_value finish_bare(qn_graph *graph, const qn_value *outputs, int n) {
    for (int i = 0; i < n; i++)
        qn_result(graph, outputs[i]);
    return outputs[0];
}

static qn_status mismatch(const qn_onnx_network *n, const char *task, const char *needs) {
    return qn_fail(QN_ERROR_UNSUPPORTED, "%s is not a network for %s, which %s", n->model.name,
                   task, needs);
}

/* The tensor of the file that a name is; or null. */
static const qn_onnx_tensor *find_tensor(const qn_onnx_model *m, const char *name) {
    for (int i = 0; i < m->n_initializers; i++) {
        if (strcmp(m->initializers[i].name, name) == 0)
            return &m->initializers[i];
    }
    return NULL;
}

/* Rows of the table that an input's numbers pick from, or -1. */
static int64_t table_rows(const qn_onnx_network *n, int input) {
    const char *name = n->inputs[input].name;
    for (int i = 0; i < n->source->n_nodes; i++) {
        const qn_onnx_node *node = &n->source->nodes[i];
        if (node->n_inputs < 1 || strcmp(node->inputs[node->n_inputs - 1], name) != 0)
            continue;
        if (strcmp(node->type, "Cast") == 0)
            name = node->outputs[0];
        const bool is_gather = strcmp(node->type, "Gather") == 0 && node->n_inputs == 2;
        const qn_onnx_tensor *t = is_gather ? find_tensor(n->source, node->inputs[0]) : NULL;
        if (t && t->n_dims == 2)
            return t->dims[0];
    }
    return -1;
}

/* The smaller of two counts, of which the first may be -1: not known. */
static int64_t least(int64_t a, int64_t b) {
    return a >= 0 && a < b ? a : b;
}

/* Fails the graph where data have more words than a network knows. */
static bool knows(qn_graph *graph, const qn_onnx_network *n, int64_t n_known, int64_t n_words) {
    if (n_known < 0 || n_words <= n_known)
        return true;
    qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                  "%s knows %lld words or characters, and the data has %lld: use the vocabulary "
                  "that it was made with, or a smaller one",
                  n->model.name, (long long)n_known, (long long)n_words);
    return false;
}

/* ---- classification ---- */

/* The number of outputs is the file's; who wants another has the last layer made anew. */
static qn_value build_classifier(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    const qn_onnx_network *n = user;
    qn_shape shape = qn_onnx_guess_shape(&n->inputs[0]);
    qn_value logits;
    (void)n_outputs;
    shape.dims[0] = qn_graph_shape(graph, x).dims[0];
    if (x.id >= 0 && qn_graph_shape(graph, x).rank != shape.rank)
        x = qn_reshape(graph, "samples", x, shape);
    return qn_onnx_build(user, graph, &x, &logits) == QN_OK ? logits : QN_NO_VALUE;
}

/* Samples are images or rows of numbers: others, as windows (T, C), are given as images of one
 * channel, whose elements lie in the same order. */
static qn_shape sample_shape(qn_shape sample) {
    if (sample.rank == 1 || sample.rank == 3)
        return sample;
    return QN_SHAPE(sample.dims[0], qn_shape_count_range(sample, 1, sample.rank), 1);
}

static qn_status match_classification(qn_onnx_network *n, qn_model *m) {
    if (n->n_inputs != 1 || n->n_outputs != 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: a classifier has one input and one output, and this has %d and %d; "
                       "build it with qn_onnx_build instead",
                       n->model.name, n->n_inputs, n->n_outputs);
    if (n->inputs[0].dtype != QN_F32 || n->inputs[0].n_dims < 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s: its input %s is not a batch of real samples",
                       n->model.name, n->inputs[0].name);
    if (n->outputs[0].dtype != QN_F32)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: its output %s is of whole numbers, which do not train", n->model.name,
                       n->outputs[0].name);
    if (n->outputs[0].n_dims != 2 || n->outputs[0].dims[1] < 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: its output %s has %d axes, where a classifier's is (N, classes)",
                       n->model.name, n->outputs[0].name, n->outputs[0].n_dims);
    const qn_shape whole = qn_onnx_guess_shape(&n->inputs[0]);
    m->input = sample_shape(qn_shape_make(whole.rank - 1, whole.dims + 1));
    m->n_classes = (int)n->outputs[0].dims[1];
    m->sizes.batch =
        n->inputs[0].batch_axis == 0 && n->inputs[0].dims[0] > 0 ? n->inputs[0].dims[0] : 0;
    m->has_fixed_outputs = true;
    m->recipe = (qn_recipe){.optimizer = QN_SGD,
                            .rate = 0.01,
                            .momentum = 0.9,
                            .schedule = QN_COSINE,
                            .epochs = 10,
                            .batch = 32};
    m->build = build_classifier;
    return QN_OK;
}

const qn_onnx_network *qn_onnx_network_of(const qn_model *model) {
    return model->build == build_classifier ? model->user : NULL;
}

/* ---- language: tokens and states to logits and states ---- */

enum { LOGITS }; /* roles: which output */

/* Open extents of a state are the batch. */
static qn_shape state_shape(const qn_onnx_place *place, int64_t batch) {
    qn_shape shape = {.rank = place->n_dims};
    for (int i = 0; i < place->n_dims; i++)
        shape.dims[i] = place->dims[i] < 0 ? batch : place->dims[i];
    return shape;
}

static qn_value build_language(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                               qn_value *kept) {
    qn_onnx_network *n = user;
    qn_value *inputs = allocate_values(graph, n->n_inputs);
    qn_value *outputs = allocate_values(graph, n->n_outputs);
    int n_states = 0;
    (void)phase;
    (void)kept;
    if (!inputs || !outputs)
        return QN_NO_VALUE;
    for (int i = 0; i < n->n_inputs; i++)
        inputs[i] =
            declare(graph, &n->inputs[i],
                    i == 0 ? QN_SHAPE(s->batch, s->length) : state_shape(&n->inputs[i], s->batch));
    if (qn_onnx_build(n, graph, inputs, outputs) != QN_OK)
        return QN_NO_VALUE;
    if (s->is_bare)
        return finish_bare(graph, outputs, n->n_outputs);
    const qn_value logits = outputs[n->roles[LOGITS]];
    for (int i = 0; i < n->n_outputs; i++) {
        if (i != n->roles[LOGITS])
            outputs[n_states++] = outputs[i];
    }
    return qn_language_loss(graph, logits, outputs, n_states);
}

/* Whether an output can be the state that goes into an input. */
static bool is_like(const qn_onnx_place *input, const qn_onnx_place *output) {
    bool is = output->dtype == QN_F32 && input->n_dims == output->n_dims;
    for (int i = 0; is && i < input->n_dims; i++)
        is = input->dims[i] < 0 || output->dims[i] < 0 || input->dims[i] == output->dims[i];
    return is;
}

static bool has_states(const qn_onnx_network *n, int logits) {
    bool has = is_rows(n, logits, 0);
    for (int i = 0, input = 1; has && i < n->n_outputs; i++) {
        if (i != logits)
            has = is_like(&n->inputs[input++], &n->outputs[i]);
    }
    return has;
}

static qn_status match_language(qn_onnx_network *n, qn_model *m) {
    const qn_onnx_place *tokens = &n->inputs[0];
    bool fits = n->n_inputs > 0 && is_index(tokens, 2) && n->n_outputs == n->n_inputs;
    for (int i = 1; fits && i < n->n_inputs; i++)
        fits = n->inputs[i].dtype == QN_F32 && n->inputs[i].n_dims > 0 && !n->inputs[i].is_image;
    n->roles[LOGITS] = fits && !has_states(n, 0) ? n->n_outputs - 1 : 0;
    if (!fits || !has_states(n, n->roles[LOGITS]))
        return mismatch(
            n, "language",
            "takes tokens (N, T) of whole numbers, then real states, and gives logits (N, "
            "T, characters), before or after as many states of the same shapes");
    const int64_t n_known = table_rows(n, 0), n_labels = last_of(&n->outputs[n->roles[LOGITS]]);
    if (n_known > n_labels)
        return qn_fail(
            QN_ERROR_UNSUPPORTED,
            "%s is no network for language: it gives %lld numbers for each of its tokens, "
            "of which it knows %lld, and so labels them instead of saying the next",
            n->model.name, (long long)n_labels, (long long)n_known);
    m->has_fixed_length = tokens->dims[1] > 0;
    m->sizes.length = m->has_fixed_length ? tokens->dims[1] : m->sizes.length;
    m->sizes.n_outputs = last_of(&n->outputs[n->roles[LOGITS]]);
    m->sizes.n_inputs = least(table_rows(n, 0), m->sizes.n_outputs);
    m->network = build_language;
    return QN_OK;
}

/* ---- answering: tokens, types, lengths to logits of both ends ---- */

enum { TOKENS, TYPES, LENGTHS, MASK }; /* roles: which input, or -1 */

/* (N, T): 1 up to the lengths. */
static qn_value add_mask(qn_onnx_network *n, qn_graph *graph, qn_value lengths, int64_t batch,
                         int64_t length) {
    double *places = qn_arena_allocate(&n->arena, (size_t)length, sizeof *places);
    const qn_given given = {.dtype = QN_F64, .data = places, .strides = {1}};
    for (int64_t i = 0; places && i < length; i++)
        places[i] = (double)i;
    if (!places) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    const qn_value row = qn_parameter_from(graph, "mask.places", QN_SHAPE(length), &given, false);
    qn_value ends = qn_op_cast(graph, "mask.lengths", lengths, graph->real);
    ends = qn_reshape(graph, "mask.ends", ends, QN_SHAPE(batch, 1));
    return qn_op_cast(graph, "mask",
                      qn_op_combine(graph, "mask.is_there", QN_COMBINE_LESS, row, ends), QN_I32);
}

static qn_value build_answering(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                                qn_value *kept) {
    static const char *const names[] = {"token_numbers", "type_numbers", "lengths"};
    qn_onnx_network *n = user;
    qn_value inputs[MASK + 1], logits[2], declared[3];
    (void)phase;
    (void)kept;
    if (!knows(graph, n, n->model.sizes.n_inputs, s->n_inputs))
        return QN_NO_VALUE;
    for (int role = TOKENS; role <= LENGTHS; role++) {
        const int place = n->roles[role];
        const char *name = place < 0 ? names[role] : n->inputs[place].name;
        const bool is_there = !s->is_bare || place >= 0 || (role == LENGTHS && n->roles[MASK] >= 0);
        declared[role] = is_there ? qn_index_input(graph, name,
                                                   role == LENGTHS ? QN_SHAPE(s->batch)
                                                                   : QN_SHAPE(s->batch, s->length))
                                  : QN_NO_VALUE;
        if (place >= 0)
            inputs[place] = declared[role];
    }
    if (n->roles[MASK] >= 0)
        inputs[n->roles[MASK]] = add_mask(n, graph, declared[LENGTHS], s->batch, s->length);
    if (qn_onnx_build(n, graph, inputs, logits) != QN_OK)
        return QN_NO_VALUE;
    return s->is_bare ? finish_bare(graph, logits, 2) : qn_answering_loss(graph, logits);
}

/* The role of an input: of those of two axes by their names, where these tell. */
static int answering_role(const qn_onnx_place *place) {
    if (is_index(place, 1))
        return LENGTHS;
    if (strstr(place->name, "mask"))
        return MASK;
    return strstr(place->name, "type") || strstr(place->name, "segment") ? TYPES : TOKENS;
}

static qn_status match_answering(qn_onnx_network *n, qn_model *m) {
    bool fits = n->n_inputs >= 1 && n->n_inputs <= MASK && n->n_outputs == 2 &&
                is_real(&n->outputs[0], 2) && is_real(&n->outputs[1], 2);
    for (int role = 0; role < QN_ONNX_ROLES; role++)
        n->roles[role] = -1;
    for (int i = 0; fits && i < n->n_inputs; i++) {
        const int role = answering_role(&n->inputs[i]);
        fits = (role == LENGTHS || is_index(&n->inputs[i], 2)) && n->roles[role] < 0;
        n->roles[role] = i;
    }
    if (!fits || n->roles[TOKENS] < 0)
        return mismatch(
            n, "answering",
            "takes tokens (N, T), and, if it wants to, types (N, T) (\"type\" in the "
            "name), and lengths (N) or a mask (N, T) (\"mask\" in the name), of whole "
            "numbers, and gives logits (N, T) of the answer's first and of its last token");
    const int64_t length = n->inputs[n->roles[TOKENS]].dims[1];
    m->has_fixed_length = length > 0;
    m->sizes.length = length > 0 ? length : m->sizes.length;
    m->sizes.n_inputs = table_rows(n, n->roles[TOKENS]);
    m->network = build_answering;
    return QN_OK;
}

/* ---- translation: source, lengths, target to logits ---- */

enum { SOURCE, SOURCE_LENGTHS, TARGET }; /* roles: which input, or -1 */

static qn_value build_translation(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                                  qn_value *kept) {
    qn_onnx_network *n = user;
    qn_value inputs[TARGET + 1], logits;
    const qn_shape shapes[] = {QN_SHAPE(s->batch, s->length), QN_SHAPE(s->batch),
                               QN_SHAPE(s->batch, s->target_length)};
    (void)phase;
    (void)kept;
    if (!knows(graph, n, n->model.sizes.n_inputs, s->n_inputs) ||
        !knows(graph, n, n->model.sizes.n_outputs, s->n_outputs))
        return QN_NO_VALUE;
    for (int role = SOURCE; role <= TARGET; role++) {
        const int place = n->roles[role];
        if (place >= 0)
            inputs[place] = declare(graph, &n->inputs[place], shapes[role]);
        else if (!s->is_bare)
            qn_index_input(graph, "source_lengths", shapes[role]);
    }
    if (qn_onnx_build(n, graph, inputs, &logits) != QN_OK)
        return QN_NO_VALUE;
    return s->is_bare ? finish_bare(graph, &logits, 1) : qn_translation_loss(graph, logits);
}

static qn_status match_translation(qn_onnx_network *n, qn_model *m) {
    bool fits = n->n_inputs >= 2 && n->n_inputs <= TARGET + 1 && n->n_outputs == 1;
    for (int role = 0; role < QN_ONNX_ROLES; role++)
        n->roles[role] = -1;
    for (int i = 0; fits && i < n->n_inputs; i++) {
        const int role = is_index(&n->inputs[i], 1) ? SOURCE_LENGTHS
                         : n->roles[SOURCE] < 0     ? SOURCE
                                                    : TARGET;
        fits = n->roles[role] < 0 &&
               (role == SOURCE_LENGTHS || (is_index(&n->inputs[i], 2) && n->inputs[i].dims[1] < 0));
        n->roles[role] = i;
    }
    if (!fits || n->roles[TARGET] < 0 || !is_rows(n, 0, n->roles[TARGET]))
        return mismatch(
            n, "translation",
            "takes words (N, S), their lengths (N), if it wants to, and words (N, T) of "
            "the other language, whole numbers with S and T open, and gives logits (N, T, "
            "words)");
    m->sizes.n_outputs = least(table_rows(n, n->roles[TARGET]), last_of(&n->outputs[0]));
    m->sizes.n_inputs = table_rows(n, n->roles[SOURCE]);
    if (m->sizes.n_inputs < 0)
        m->sizes.n_inputs = m->sizes.n_outputs;
    m->has_one_variant = true;
    m->network = build_translation;
    return QN_OK;
}

/* ---- control: states to values of actions ---- */

static qn_value build_control(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                              qn_value *kept) {
    qn_onnx_network *n = user;
    qn_value values;
    (void)phase;
    const qn_value state =
        s->is_bare && kept[0].id >= 0 ? kept[0] : declare(graph, &n->inputs[0], qn_dqn_input(s));
    if (qn_onnx_build(n, graph, &state, &values) != QN_OK)
        return QN_NO_VALUE;
    const int64_t n_actions = qn_graph_shape(graph, values).dims[1];
    if (s->n_outputs > 0 && n_actions != s->n_outputs) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s gives values of %lld actions, where %lld are",
                      n->model.name, (long long)n_actions, (long long)s->n_outputs);
        return QN_NO_VALUE;
    }
    return s->is_bare ? finish_bare(graph, &values, 1) : qn_control_loss(graph, values);
}

/* Four frames of 84 x 84, or what may be. */
static bool is_frames(const qn_onnx_place *place) {
    static const int64_t wanted[] = {-1, 4, 84, 84};
    bool is = is_real(place, 4) && place->is_image;
    for (int i = 1; i < 4 && is; i++)
        is = place->dims[i] < 0 || place->dims[i] == wanted[i];
    return is;
}

static qn_status match_control(qn_onnx_network *n, qn_model *m) {
    const qn_onnx_place *state = &n->inputs[0], *values = &n->outputs[0];
    if (n->n_inputs != 1 || n->n_outputs != 1 || !is_real(values, 2) || last_of(values) < 2 ||
        (!is_real(state, 2) && !is_frames(state)))
        return mismatch(n, "control",
                        "takes a state (N, 4, 84, 84) or (N, numbers), and gives the values (N, "
                        "actions) of its actions");
    m->sizes.variant = state->n_dims == 2 ? QN_DQN_MLP : QN_DQN_FRAMES;
    m->sizes.n_inputs = state->n_dims == 2 ? state->dims[1] : 0;
    m->sizes.n_outputs = last_of(values);
    m->network = build_control;
    return QN_OK;
}

/* ---- generation: noise to images, images to logits ---- */

enum { NOISE, REAL, MADE, JUDGED }; /* roles: two inputs, two outputs */

/* An output of one input. */
static qn_value run_part(qn_graph *graph, void *user, qn_value x, int input, int output) {
    qn_onnx_network *n = user;
    qn_value inputs[2] = {QN_NO_VALUE, QN_NO_VALUE};
    inputs[n->roles[input]] = x;
    return qn_onnx_build_part(n, graph, inputs, n->roles[output]);
}

static qn_value generate(qn_graph *graph, void *user, qn_value noise) {
    return run_part(graph, user, noise, NOISE, MADE);
}

static qn_value judge(qn_graph *graph, void *user, qn_value images) {
    return run_part(graph, user, images, REAL, JUDGED);
}

static qn_value build_generation(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                                 qn_value *kept) {
    const qn_onnx_network *n = user;
    const qn_adversaries adversaries = {user, generate, judge};
    const qn_shape input = n->model.input, noise = QN_SHAPE(s->batch, n->model.sizes.n_inputs);
    const qn_shape images = QN_SHAPE(s->batch, input.dims[0], input.dims[1], input.dims[2]);
    return s->is_bare ? qn_generation_bare(graph, &adversaries, images, noise)
                      : qn_generation_loss(graph, &adversaries, images, noise, phase, kept);
}

/* How all names of weights that an output depends on begin; "" where in no way. Null: memory is
 * out. */
static const char *find_prefix(qn_onnx_network *n, int output) {
    const qn_onnx_model *m = n->source;
    const bool *wanted = qn_onnx_mark_part(n, output);
    char *prefix = NULL;
    for (int i = 0; wanted && i < m->n_initializers; i++) {
        const qn_onnx_tensor *t = &m->initializers[i];
        bool is_read = false;
        for (int node = 0; node < m->n_nodes && t->n_dims > 0; node++) {
            for (int k = 0; wanted[node] && k < m->nodes[node].n_inputs; k++)
                is_read = is_read || strcmp(m->nodes[node].inputs[k], t->name) == 0;
        }
        if (!is_read || (t->type != QN_ONNX_FLOAT && t->type != QN_ONNX_DOUBLE))
            continue;
        if (!prefix && !(prefix = qn_arena_format(&n->arena, "%s", t->name)))
            return NULL;
        size_t same = 0;
        while (prefix[same] && prefix[same] == t->name[same])
            same++;
        prefix[same] = 0;
    }
    return prefix ? prefix : wanted ? "" : NULL;
}

static bool begins_with(const char *text, const char *begin) {
    return strncmp(text, begin, strlen(begin)) == 0;
}

static qn_status find_trained(qn_onnx_network *n, qn_model *m) {
    m->trained[0] = find_prefix(n, n->roles[JUDGED]);
    m->trained[1] = find_prefix(n, n->roles[MADE]);
    if (!m->trained[0] || !m->trained[1])
        return QN_ERROR_MEMORY;
    if (begins_with(m->trained[0], m->trained[1]) || begins_with(m->trained[1], m->trained[0]))
        return mismatch(n, "generation",
                        "tells the weights of its two networks by how their names begin, as "
                        "\"generator.\" and \"discriminator.\"");
    return QN_OK;
}

static qn_status match_generation(qn_onnx_network *n, qn_model *m) {
    bool fits = n->n_inputs == 2 && n->n_outputs == 2;
    n->roles[NOISE] = fits && is_real(&n->inputs[1], 2);
    n->roles[REAL] = !n->roles[NOISE];
    n->roles[MADE] = fits && n->outputs[1].n_dims == 4;
    n->roles[JUDGED] = !n->roles[MADE];
    const qn_onnx_place *noise = &n->inputs[n->roles[NOISE]], *real = &n->inputs[n->roles[REAL]];
    if (!fits || !is_real(noise, 2) || noise->dims[1] < 1 || !is_real(real, 4) || !real->is_image ||
        n->outputs[n->roles[MADE]].n_dims != 4 || n->outputs[n->roles[JUDGED]].n_dims != 2 ||
        last_of(&n->outputs[n->roles[JUDGED]]) != 1)
        return mismatch(
            n, "generation",
            "takes random numbers (N, K) and images (N, C, H, W), and gives images made "
            "of the first alone, and of the second alone logits (N, 1) of being real");
    const qn_shape whole = qn_onnx_guess_shape(real);
    m->input = qn_shape_make(3, whole.dims + 1);
    m->sizes.n_inputs = noise->dims[1];
    m->network = build_generation;
    m->n_phases = 2;
    return find_trained(n, m);
}

/* ---- arrays: any inputs, any outputs ---- */

/* The network alone, over guessed extents; the task adds losses of its own (onnx/targets.h). */
static qn_value build_arrays(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                             qn_value *kept) {
    qn_onnx_network *n = user;
    qn_value *inputs = allocate_values(graph, n->n_inputs);
    qn_value *outputs = allocate_values(graph, n->n_outputs);
    (void)phase;
    (void)kept;
    if (!inputs || !outputs)
        return QN_NO_VALUE;
    for (int i = 0; i < n->n_inputs; i++) {
        qn_shape shape = qn_onnx_guess_input(n, i);
        if (n->inputs[i].dims[0] < 0)
            shape.dims[0] = s->batch;
        inputs[i] = declare(graph, &n->inputs[i], shape);
    }
    if (qn_onnx_build(n, graph, inputs, outputs) != QN_OK)
        return QN_NO_VALUE;
    return finish_bare(graph, outputs, n->n_outputs);
}

static qn_status match_arrays(qn_onnx_network *n, qn_model *m) {
    bool has_real = false;
    for (int i = 0; i < n->n_outputs; i++)
        has_real = has_real || n->outputs[i].dtype == QN_F32;
    for (int i = 0; i < n->n_inputs; i++) {
        if (n->inputs[i].n_dims < 1)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s: its input %s has no axis for the samples of a batch", n->model.name,
                           n->inputs[i].name);
    }
    if (!has_real || n->n_inputs < 1)
        return mismatch(n, "arrays",
                        "takes inputs of any kind, and gives at least one output of "
                        "reals to train");
    m->recipe = (qn_recipe){
        .optimizer = QN_ADAM, .rate = 0.001, .schedule = QN_COSINE, .epochs = 10, .batch = 32};
    m->sizes = (qn_network_sizes){.batch = 1};
    m->input_text = "arrays";
    m->network = build_arrays;
    return QN_OK;
}

/* ---- all of them ---- */

const qn_onnx_task_model qn_onnx_task_models[] = {
    {"classification", match_classification},
    {"language", match_language},
    {"answering", match_answering},
    {"translation", match_translation},
    {"generation", match_generation},
    {"control", match_control},
    {"arrays", match_arrays},
    {NULL, NULL},
};

/* A model of the zoo whose recipe is taken: the one that the file is, else the task's first. */
static const qn_model *find_example(const qn_onnx_network *n, const char *task) {
    const char *name = qn_onnx_property_of(n, "model");
    const qn_model *first = NULL, *m;
    for (int i = 0; (m = qn_model_at(i)); i++) {
        if (!m->task || strcmp(m->task, task) != 0)
            continue;
        if (name && strcmp(m->name, name) == 0)
            return m;
        first = first ? first : m;
    }
    return first;
}

qn_status qn_onnx_match(qn_onnx_network *n, const qn_onnx_task_model *form) {
    const qn_model *example = find_example(n, form->task);
    qn_model m = {.name = n->model.name, .domain = "ONNX file", .task = form->task};
    m.source = *n->source->producer ? n->source->producer : "ONNX";
    m.user = n;
    if (example) {
        m.recipe = example->recipe;
        m.sizes = example->sizes;
        m.input_text = example->input_text;
    }
    QN_TRY(form->fit(n, &m));
    m.sizes.batch = n->inputs[0].dims[0] > 0 ? n->inputs[0].dims[0] : 1;
    if (!m.network) /* classification, which needs not be said */
        m.task = NULL;
    n->model = m;
    return QN_OK;
}

static const qn_onnx_task_model *find_form(const char *task) {
    for (const qn_onnx_task_model *form = qn_onnx_task_models; task && form->task; form++) {
        if (strcmp(form->task, task) == 0)
            return form;
    }
    return NULL;
}

static qn_status match_any(qn_onnx_network *n) {
    for (const qn_onnx_task_model *form = qn_onnx_task_models; form->task; form++) {
        const qn_status status = qn_onnx_match(n, form);
        if (status != QN_ERROR_UNSUPPORTED)
            return status;
    }
    if (n->n_inputs == 1 && n->n_outputs == 1 && n->inputs[0].dtype == QN_F32)
        return qn_onnx_match(n, &qn_onnx_task_models[0]);
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "%s fits no task with its %d inputs and %d outputs: quern import says what "
                   "each needs",
                   n->model.name, n->n_inputs, n->n_outputs);
}

qn_status qn_onnx_model_for(qn_onnx_network *network, const char *task, const qn_model **model) {
    QN_NEED(network, "network");
    QN_NEED(model, "model");
    const qn_onnx_task_model *said = find_form(qn_onnx_property_of(network, "task"));
    const qn_onnx_task_model *form = task ? find_form(task) : said;
    if (task && !form)
        return qn_fail(QN_ERROR_ARGUMENT, "no task is called %s", task);
    QN_TRY(form ? qn_onnx_match(network, form) : match_any(network));
    if (network->softmax >= 0 && network->log)
        network->log->write(network->log->user, 0,
                            "the softmax at the end is left out: the loss has one of its own");
    *model = &network->model;
    return QN_OK;
}

qn_status qn_onnx_model_of(qn_onnx_network *network, const qn_model **model) {
    QN_NEED(network, "network");
    QN_NEED(model, "model");
    return qn_onnx_model_for(network, "classification", model);
}
