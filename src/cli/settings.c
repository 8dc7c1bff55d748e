/* See settings.h. */
#include "cli/settings.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "cli/numbers/rules.h"
#include "numerics/numerics.h"
#include "os/heap.h"
#include "tasks/language/tokens.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the recipe as text ---- */

static bool recipe_text(const qn_recipe *r, const char *name, const char **text) {
    if (strcmp(name, "optimizer") == 0)
        *text = qn_optimizer_name((int)r->optimizer);
    else if (strcmp(name, "schedule") == 0)
        *text = qn_schedule_name((int)r->schedule);
    else if (strcmp(name, "nesterov") == 0)
        *text = r->nesterov ? "yes" : "no";
    else
        return false;
    return true;
}

static bool recipe_number(const qn_recipe *r, const char *name, double *number) {
    const struct {
        const char *name;
        double number;
        bool is_length; /* 0: the recipe does not say it */
    } numbers[] = {
        {"epochs", (double)r->epochs, true},
        {"steps", (double)r->steps, true},
        {"batch", (double)r->batch, true},
        {"warmup", (double)r->warmup, false},
        {"lr", r->rate, false},
        {"momentum", r->momentum, false},
        {"weight-decay", r->weight_decay, false},
        {"label-smoothing", r->label_smoothing, false},
        {"beta1", r->beta1 > 0 ? r->beta1 : 0.9, false},
        {"clip-norm", r->clip_norm, false},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(numbers[i].name, name) != 0)
            continue;
        *number = numbers[i].number;
        return numbers[i].is_length ? *number > 0 : true;
    }
    return false;
}

bool recipe_value(const qn_model *model, const char *name, char *text, size_t bytes) {
    const char *word;
    double number;
    if (recipe_text(&model->recipe, name, &word))
        snprintf(text, bytes, "%s", word);
    else if (recipe_number(&model->recipe, name, &number))
        qn_print(text, bytes, "%.15g", number);
    else
        return false;
    return true;
}

/* ---- resolving ---- */

/* Values of this row that were found, by where; null where there is none. */
typedef struct origins {
    const char *given, *stored;
} origins;

static qn_status find_stored(const option *o, const qn_metadata *checkpoint, settings *s,
                             const char **stored) {
    const char *value = checkpoint ? qn_metadata_get(checkpoint, o->name) : NULL;
    qn_shape shape;
    *stored = NULL;
    if (!value)
        return QN_OK;
    if (o->kind == OPTION_SHAPE && qn_shape_parse(value, &shape)) {
        *stored = value; /* one number is a row of so many here; typed, it is a side of images */
        return QN_OK;
    }
    if (option_canonical(o, value, &s->texts, stored) == QN_OK)
        return QN_OK;
    qn_fail_within(QN_ERROR_FORMAT, "the checkpoint's settings");
    return QN_ERROR_FORMAT;
}

/* What a message calls a value. */
static const char *value_name(const option *o, const char *value, char text[RULES_NAME]) {
    return o->kind == OPTION_RULES ? rules_name(value, text) : value;
}

static qn_status check_conflict(const arguments *a, const option *o, origins from) {
    char given[RULES_NAME], stored[RULES_NAME];
    if (!from.given || !from.stored || o->is_free || arguments_flag(a, "override") ||
        strcmp(from.given, from.stored) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--%s is %s, but %s was trained with %s; leave it out, or add --override",
                   o->name, value_name(o, from.given, given), arguments_get(a, "resume"),
                   value_name(o, from.stored, stored));
}

/* The optimizer comes first: defaults of others depend on it. */
static qn_status resolve_optimizer(const arguments *a, const qn_model *model,
                                   const qn_metadata *checkpoint, settings *s) {
    const int row = option_find(s->command, "optimizer");
    origins from = {.given = a->values[row]};
    QN_TRY(find_stored(option_at(s->command, row), checkpoint, s, &from.stored));
    s->is_new_optimizer = from.given && from.stored && strcmp(from.given, from.stored) != 0;
    s->values[row] = from.given    ? from.given
                     : from.stored ? from.stored
                                   : qn_optimizer_name((int)model->recipe.optimizer);
    return QN_OK;
}

/* What a row is where nobody says otherwise. */
static qn_status find_default(const qn_model *model, const option *o, settings *s,
                              const char **value) {
    char text[40];
    const char *optimizer = settings_get(s, "optimizer");
    const char *other = qn_optimizer_default(optimizer, o->name);
    const bool is_recipe = strcmp(optimizer, qn_optimizer_name((int)model->recipe.optimizer)) == 0;
    *value = o->fallback;
    if (other && !is_recipe)
        *value = other;
    else if (recipe_value(model, o->name, text, sizeof text))
        return option_canonical(o, text, &s->texts, value);
    return QN_OK;
}

/* An option of other tasks is left without a value, and must not be given. */
static qn_status check_task(const arguments *a, const qn_model *model, int row) {
    const option *o = option_at(a->command, row);
    if (!a->values[row])
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "--%s is only for tasks of: %s; the task of %s is %s",
                   o->name, o->of, model->name, qn_task_of(model));
}

/* What a task chooses for itself once it has seen how many photos there are. Rate and
 * regularisation go with the optimizer of the recipe. */
static bool is_left_to_task(const arguments *a, const qn_model *model,
                            const qn_metadata *checkpoint, const settings *s, const char *name) {
    static const char *const names[] = {"batch", "epochs",       "augment",
                                        "lr",    "weight-decay", "label-smoothing"};
    const char *data = arguments_get(a, "data");
    if (!data && checkpoint)
        data = qn_metadata_get(checkpoint, "data");
    if (!data || strncmp(data, "images:", 7) != 0 ||
        strcmp(qn_task_of(model), "classification") != 0)
        return false;
    const bool is_of_recipe = strcmp(name, "lr") == 0 || strcmp(name, "weight-decay") == 0 ||
                              strcmp(name, "label-smoothing") == 0;
    if (is_of_recipe &&
        strcmp(settings_get(s, "optimizer"), qn_optimizer_name((int)model->recipe.optimizer)) != 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* What is given, in the words of the checkpoint, which has a language model's parts as patterns. */
static qn_status find_given(const arguments *a, const qn_model *model, int row, settings *s,
                            const char **given) {
    *given = a->values[row];
    if (!*given || strcmp(option_at(s->command, row)->name, "lora") != 0 ||
        strcmp(qn_task_of(model), "tokens") != 0)
        return QN_OK;
    return qn_tokens_expand_lora(&s->texts, *given, given);
}

static qn_status resolve_row(const arguments *a, const qn_model *model,
                             const qn_metadata *checkpoint, int row, settings *s) {
    const option *o = option_at(s->command, row);
    origins from = {.stored = NULL};
    QN_TRY(find_given(a, model, row, s, &from.given));
    QN_TRY(find_stored(o, checkpoint, s, &from.stored));
    QN_TRY(check_conflict(a, o, from));
    if (s->is_new_optimizer && qn_optimizer_default("sgd", o->name))
        from.stored = NULL;
    const char *value = from.given ? from.given : from.stored;
    if (!value && !is_left_to_task(a, model, checkpoint, s, o->name))
        QN_TRY(find_default(model, o, s, &value));
    s->values[row] = value;
    return QN_OK;
}

/* --steps given alone replaces epochs, --epochs given alone steps. */
static void resolve_length(const arguments *a, const qn_metadata *checkpoint, settings *s) {
    const int epochs = option_find(s->command, "epochs"), steps = option_find(s->command, "steps");
    if (epochs < 0 || steps < 0)
        return;
    const bool has_steps = s->values[steps] != NULL;
    if (a->values[epochs] && !a->values[steps])
        s->values[steps] = NULL;
    else if (a->values[steps] && !a->values[epochs])
        s->values[epochs] = NULL;
    else if (!a->values[epochs] && checkpoint && has_steps &&
             !qn_metadata_get(checkpoint, "epochs"))
        s->values[epochs] = NULL;
}

/* The numerics come before all that a recipe says: they may have an optimizer of their own. */
static qn_status take_numerics(const arguments *a, const qn_metadata *checkpoint, settings *s,
                               qn_model *model) {
    const int row = option_find(s->command, "numerics");
    qn_numerics numerics;
    const char *text;
    if (row < 0)
        return QN_OK;
    QN_TRY(find_stored(option_at(s->command, row), checkpoint, s, &text));
    text = a->values[row] ? a->values[row] : text;
    if (!text || text[0] != '{')
        return QN_OK;
    QN_TRY(qn_numerics_read(text, strlen(text), &numerics));
    model->recipe = qn_numerics_recipe(&numerics, &model->recipe);
    return QN_OK;
}

qn_status settings_resolve(const arguments *a, const qn_model *of, const qn_metadata *checkpoint,
                           settings *s) {
    qn_model trained = *of, *model = &trained;
    *s = (settings){.command = a->command};
    qn_arena_init(&s->texts, qn_allocator_default());
    QN_TRY(take_numerics(a, checkpoint, s, model));
    QN_TRY(resolve_optimizer(a, model, checkpoint, s));
    const option *o;
    for (int i = 0; (o = option_at(s->command, i)); i++) {
        if (!option_is_of(o, qn_task_of(model)))
            QN_TRY(check_task(a, model, i));
        else if (o->is_kept)
            QN_TRY(resolve_row(a, model, checkpoint, i, s));
    }
    resolve_length(a, checkpoint, s);
    return QN_OK;
}

void settings_deinit(settings *s) {
    if (s->command)
        qn_arena_deinit(&s->texts);
}

/* ---- reading ---- */

const char *settings_get(const settings *s, const char *name) {
    return s->values[option_find(s->command, name)];
}

bool settings_flag(const settings *s, const char *name) {
    const char *value = settings_get(s, name);
    return value && strcmp(value, "yes") == 0;
}

int64_t settings_count(const settings *s, const char *name) {
    const char *value = settings_get(s, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

double settings_number(const settings *s, const char *name) {
    const char *value = settings_get(s, name);
    return value ? qn_decimal_read(value, NULL) : 0;
}

qn_status settings_set(settings *s, const char *name, const char *value) {
    const int row = option_find(s->command, name);
    return option_canonical(option_at(s->command, row), value, &s->texts, &s->values[row]);
}

qn_status settings_store(const settings *s, qn_metadata *metadata) {
    for (int i = 0; i < option_count(s->command); i++) {
        if (s->values[i])
            QN_TRY(qn_metadata_set(metadata, option_at(s->command, i)->name, s->values[i]));
    }
    return QN_OK;
}
