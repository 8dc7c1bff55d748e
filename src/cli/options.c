/* See options.h. */
#include "cli/options.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/data_name.h"
#include "cli/name_list.h"
#include "cli/numbers/numerics.h"
#include "cli/numbers/rules.h"
#include "cli/terminal.h"
#include "cli/train/run_folder.h"
#include "os/heap.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static qn_status refuse(const option *o, const char *value, const char *wanted) {
    return qn_fail(QN_ERROR_ARGUMENT, "--%s %s: it must be %s", o->name, value, wanted);
}

static qn_status refuse_range(const option *o, const char *value) {
    char wanted[80];
    const char *what = o->kind == OPTION_COUNT ? "a whole number" : "a number";
    if (o->most >= 1e15)
        qn_print(wanted, sizeof wanted, "%s from %.15g", what, o->least);
    else
        qn_print(wanted, sizeof wanted, "%s from %.15g to %.15g", what, o->least, o->most);
    return refuse(o, value, wanted);
}

static qn_status keep(qn_arena *texts, const char *text, const char **kept) {
    *kept = qn_arena_text(texts, text);
    return *kept ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status canonical_count(const option *o, const char *value, qn_arena *texts,
                                 const char **canonical) {
    char *end, digits[24];
    errno = 0;
    const long long count = strtoll(value, &end, 10);
    if (end == value || *end || errno || (double)count < o->least || (double)count > o->most)
        return refuse_range(o, value);
    snprintf(digits, sizeof digits, "%lld", count);
    return keep(texts, digits, canonical);
}

/* The shortest digits that give the same number. */
static qn_status canonical_number(const option *o, const char *value, qn_arena *texts,
                                  const char **canonical) {
    char *end, digits[40];
    const double number = qn_decimal_read(value, &end);
    if (end != value && *end == 'W' && strcmp(o->argument, "WATTS") == 0)
        end++; /* "4W" */
    if (end == value || *end || !(number >= o->least && number <= o->most))
        return refuse_range(o, value);
    for (int precision = 1; precision <= 17; precision++) {
        qn_print(digits, sizeof digits, "%.*g", precision, number);
        if (qn_decimal_read(digits, NULL) == number)
            break;
    }
    return keep(texts, digits, canonical);
}

/* The next name of a list, in *bytes; false at its end. */
static bool next_name(const char **list, size_t *n_bytes, const char **name, char separator) {
    if (!**list)
        return false;
    const char *end = strchr(*list, separator);
    *n_bytes = end ? (size_t)(end - *list) : strlen(*list);
    *name = *list;
    *list += *n_bytes + (end != NULL);
    return true;
}

static bool has_name(const char *list, char separator, const char *wanted, size_t n_wanted) {
    const char *name;
    size_t n_bytes;
    while (next_name(&list, &n_bytes, &name, separator)) {
        if (n_bytes == n_wanted && memcmp(name, wanted, n_bytes) == 0)
            return true;
    }
    return false;
}

static qn_status canonical_choice(const option *o, const char *value, qn_arena *texts,
                                  const char **canonical) {
    if (!has_name(o->argument, '|', value, strlen(value)))
        return refuse(o, value, o->argument);
    return keep(texts, value, canonical);
}

static qn_status canonical_list(const option *o, const char *value, qn_arena *texts,
                                const char **canonical) {
    const char *rest = value, *names = o->argument, *name;
    size_t n_bytes, n_chosen = 0;
    char chosen[80] = "";
    if (strcmp(value, "none") == 0)
        return keep(texts, value, canonical);
    while (next_name(&rest, &n_bytes, &name, ',')) {
        if (!has_name(o->argument, ',', name, n_bytes))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s %s: there is no %.*s; there is %s and none",
                           o->name, value, (int)n_bytes, name, o->argument);
    }
    while (next_name(&names, &n_bytes, &name, ',')) {
        if (has_name(value, ',', name, n_bytes))
            n_chosen += (size_t)snprintf(chosen + n_chosen, sizeof chosen - n_chosen, "%s%.*s",
                                         n_chosen ? "," : "", (int)n_bytes, name);
    }
    return keep(texts, n_chosen ? chosen : "none", canonical);
}

static qn_status canonical_shape(const option *o, const char *value, qn_arena *texts,
                                 const char **canonical) {
    char square[64];
    qn_shape shape;
    snprintf(square, sizeof square, "%sx%sx3", value, value);
    if (*value && strspn(value, "0123456789") == strlen(value) && qn_shape_parse(square, &shape))
        return keep(texts, square, canonical);
    if (!qn_shape_parse(value, &shape))
        return refuse(o, value, "a shape as 32x32x3, or a side as 224");
    return keep(texts, value, canonical);
}

static qn_status canonical_size(const option *o, const char *value, qn_arena *texts,
                                const char **canonical) {
    uint64_t bytes;
    char digits[24];
    if (!qn_text_size(value, &bytes) || bytes == 0)
        return refuse(o, value, "a size as 300M or 1.5G");
    snprintf(digits, sizeof digits, "%" PRIu64, bytes);
    return keep(texts, digits, canonical);
}

/* Whether it can be written is tried when it was held against the inputs (outputs/outputs.h). */
static qn_status canonical_target(const option *o, const char *value, qn_arena *texts,
                                  const char **canonical) {
    char folder[4096];
    const char *slash = strrchr(value, '/');
    if (!*value || qn_path_is_folder(value))
        return qn_fail(QN_ERROR_ARGUMENT, "--%s \"%s\": it must name a file", o->name, value);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - value) : 0, value);
    if (*folder && !qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO, "--%s %s: there is no folder %s", o->name, value, folder);
    return keep(texts, value, canonical);
}

/* A checkpoint, or the folder of a run. */
static qn_status canonical_input(const option *o, const char *value, qn_arena *texts,
                                 const char **canonical) {
    char found[PATH_MAX];
    const char *what;
    if (!o->of_run || !qn_path_is_folder(value))
        return keep(texts, value, canonical);
    QN_TRY(run_folder_find(value, o->of_run, found, &what));
    terminal_note("--%s %s: %s, %s", o->name, value, found, what);
    return keep(texts, found, canonical);
}

/* "NAME=N" as "N,NAME"; what is so already stays. */
static qn_status canonical_head(const option *o, const char *value, qn_arena *texts,
                                const char **canonical) {
    const char *comma = strchr(value, ','), *equals = comma ? NULL : strrchr(value, '=');
    const char *count = equals ? equals + 1 : value, *name = comma ? comma + 1 : value;
    char *end;
    const long long n = strtoll(count, &end, 10);
    const bool is_count = end != count && (!*end || *end == ',');
    const bool is_data = strncmp(count, "data", 4) == 0 && (!count[4] || count[4] == ',');
    int n_name = (int)(equals ? (size_t)(equals - value) : strlen(name));
    if ((is_count && (n < 1 || n > 1000000)) || (equals && !is_count && !is_data) || !*value ||
        ((comma || equals) && n_name == 0) || (comma && !is_count && !is_data))
        return refuse(o, value, "N, NAME or NAME=N, with N from 1 to 1000000");
    if (!comma && !equals && (is_count || is_data))
        n_name = 0;
    char digits[24] = "data";
    if (is_count)
        snprintf(digits, sizeof digits, "%lld", n);
    *canonical = qn_arena_format(texts, "%s%s%.*s", digits, n_name > 0 ? "," : "", n_name, name);
    return *canonical ? QN_OK : QN_ERROR_MEMORY;
}

static bool takes(const char *part, size_t n_bytes, const char *key, const char **value) {
    const size_t n_key = strlen(key);
    *value = part + n_key;
    return n_bytes > n_key && strncmp(part, key, n_key) == 0;
}

/* What follows "layers=" without a key of its own is another pattern. */
static qn_status canonical_lora(const option *o, const char *value, qn_arena *texts,
                                const char **canonical) {
    const char *rest = value, *part, *found, *layers = "";
    size_t n_bytes;
    long long rank = 0;
    double alpha = 0;
    bool is_right = true;
    while (is_right && next_name(&rest, &n_bytes, &part, ',')) {
        char *end = NULL;
        if (takes(part, n_bytes, "rank=", &found))
            rank = strtoll(found, &end, 10);
        else if (takes(part, n_bytes, "alpha=", &found))
            alpha = qn_decimal_read(found, &end);
        else if (!takes(part, n_bytes, "layers=", &found))
            found = *layers ? part : NULL;
        is_right = found && (!end || (end > found && end == part + n_bytes));
        if (is_right && !end)
            layers = qn_arena_format(texts, "%s%s%.*s", layers, *layers ? "," : "",
                                     (int)(part + n_bytes - found), found);
        if (!layers)
            return QN_ERROR_MEMORY;
    }
    if (!is_right || rank < 1 || rank > 65536 || !(alpha >= 0 && alpha < 1e9))
        return refuse(o, value, "rank=N,layers=PATTERN, with alpha=X or without");
    *canonical =
        qn_arena_format(texts, "rank=%lld,alpha=%.17g%s%s", rank, alpha > 0 ? alpha : (double)rank,
                        *layers ? ",layers=" : "", layers);
    return *canonical ? QN_OK : QN_ERROR_MEMORY;
}

qn_status option_canonical(const option *o, const char *value, qn_arena *texts,
                           const char **canonical) {
    switch (o->kind) {
    case OPTION_COUNT:
        return canonical_count(o, value, texts, canonical);
    case OPTION_NUMBER:
        return canonical_number(o, value, texts, canonical);
    case OPTION_CHOICE:
        return canonical_choice(o, value, texts, canonical);
    case OPTION_LIST:
        return canonical_list(o, value, texts, canonical);
    case OPTION_SHAPE:
        return canonical_shape(o, value, texts, canonical);
    case OPTION_SIZE:
        return canonical_size(o, value, texts, canonical);
    case OPTION_TARGET:
    case OPTION_OUTPUT:
        return canonical_target(o, value, texts, canonical);
    case OPTION_HEAD:
        return canonical_head(o, value, texts, canonical);
    case OPTION_NUMERICS:
        return numerics_canonical(value, texts, canonical);
    case OPTION_RULES:
        return rules_canonical(value, texts, canonical);
    case OPTION_DATA:
        return data_name_find(value, texts, canonical);
    case OPTION_NAMES:
        return name_list_read(value, texts, canonical);
    case OPTION_LORA:
        return canonical_lora(o, value, texts, canonical);
    case OPTION_FLAG:
    case OPTION_INPUT:
        return canonical_input(o, value, texts, canonical);
    case OPTION_TEXT:
    case OPTION_PARTS:
        break;
    }
    return keep(texts, value, canonical);
}

/* ---- parsing ---- */

static const option force = {
    .name = "force",
    .kind = OPTION_FLAG,
    .fallback = "no",
    .help = "replace files that quern did not write, but none that is read",
};

/* The row, of the command's own options and those that it shares; null beyond the last. */
static const option *listed_at(const command *c, int row) {
    if (row < c->n_options)
        return &c->options[row];
    row -= c->n_options;
    for (int i = 0; c->shared[i]; i++) {
        if (row < c->shared[i]->n)
            return &c->shared[i]->rows[row];
        row -= c->shared[i]->n;
    }
    return NULL;
}

static int count_listed(const command *c) {
    int n = c->n_options;
    for (int i = 0; c->shared[i]; i++)
        n += c->shared[i]->n;
    return n;
}

bool option_is_output(const option *o) {
    return o->makes != 0;
}

bool option_has_outputs(const command *c) {
    const option *o;
    for (int i = 0; (o = listed_at(c, i)); i++) {
        if (option_is_output(o))
            return true;
    }
    return false;
}

const option *option_at(const command *c, int row) {
    const option *o = listed_at(c, row);
    return o || row != count_listed(c) || !option_has_outputs(c) ? o : &force;
}

int option_count(const command *c) {
    return count_listed(c) + option_has_outputs(c);
}

int option_find(const command *c, const char *name) {
    const option *o;
    for (int i = 0; (o = option_at(c, i)); i++) {
        if (strcmp(o->name, name) == 0)
            return i;
    }
    return -1;
}

static qn_status fail_unknown(const command *c, const char *name) {
    const char *names[MAX_OPTIONS + 1] = {"help"};
    const int n = option_count(c);
    for (int i = 0; i < n; i++)
        names[i + 1] = option_at(c, i)->name;
    const char *nearest = qn_text_nearest(name, names, n + 1);
    if (nearest)
        return qn_fail(QN_ERROR_ARGUMENT, "unknown option --%s; did you mean --%s?", name, nearest);
    return qn_fail(QN_ERROR_ARGUMENT, "unknown option --%s; see quern %s --help", name, c->name);
}

/* Where parsing is. */
typedef struct cursor {
    char **texts; /* (n) */
    int i, n;
} cursor;

static bool is_negated_flag(const command *c, const char *name, int *row) {
    if (strncmp(name, "no-", 3) != 0)
        return false;
    *row = option_find(c, name + 3);
    return *row >= 0 && option_at(c, *row)->kind == OPTION_FLAG;
}

static qn_status parse_flag(arguments *a, int row, const char *name, const char *value,
                            const char *state) {
    if (value)
        return qn_fail(QN_ERROR_ARGUMENT, "--%s takes no value", name);
    a->values[row] = state;
    return QN_OK;
}

/* The option named name; value is what follows its "=", or null. */
static qn_status parse_option(arguments *a, const char *name, const char *value, cursor *at) {
    const command *c = a->command;
    int row = option_find(c, name), negated;
    if (row < 0 && is_negated_flag(c, name, &negated))
        return parse_flag(a, negated, name, value, "no");
    if (row < 0)
        return fail_unknown(c, name);
    const option *o = option_at(c, row);
    if (o->kind == OPTION_FLAG)
        return parse_flag(a, row, name, value, "yes");
    if (!value && at->i == at->n)
        return qn_fail(QN_ERROR_ARGUMENT, "--%s needs a value: --%s %s", name, name, o->argument);
    if (!value)
        value = at->texts[at->i++];
    if (o->kind == OPTION_PARTS && a->values[row])
        value = qn_arena_format(&a->texts, "%s,%s", a->values[row], value);
    if (!value)
        return QN_ERROR_MEMORY;
    a->given[row] = value;
    return option_canonical(o, value, &a->texts, &a->values[row]);
}

static qn_status parse_dashed(arguments *a, const char *text, cursor *at) {
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        a->wants_help = true;
        return QN_OK;
    }
    if (text[1] != '-')
        return qn_fail(QN_ERROR_ARGUMENT, "unknown option %s; options begin with two dashes", text);
    char *name = qn_arena_text(&a->texts, text + 2);
    if (!name)
        return QN_ERROR_MEMORY;
    char *equals = strchr(name, '=');
    if (equals)
        *equals++ = 0;
    return parse_option(a, name, equals, at);
}

static qn_status check_words(const arguments *a) {
    const command *c = a->command;
    if (a->n_words < c->least_words)
        return qn_fail(QN_ERROR_ARGUMENT, "quern %s needs %s; see quern %s --help", c->name,
                       c->words, c->name);
    if (c->most_words >= 0 && a->n_words > c->most_words)
        return qn_fail(QN_ERROR_ARGUMENT, "\"%s\" is one word too many; see quern %s --help",
                       a->words[c->most_words], c->name);
    return QN_OK;
}

qn_status arguments_parse(const command *c, int n, char **texts, arguments *a) {
    cursor at = {texts, 0, n};
    bool is_option = true;
    *a = (arguments){.command = c};
    qn_arena_init(&a->texts, qn_allocator_default());
    a->words = qn_arena_allocate(&a->texts, (size_t)n + 1, sizeof *a->words);
    if (!a->words)
        return QN_ERROR_MEMORY;
    while (at.i < n) {
        const char *text = texts[at.i++];
        if (is_option && strcmp(text, "--") == 0)
            is_option = false;
        else if (is_option && text[0] == '-' && text[1])
            QN_TRY(parse_dashed(a, text, &at));
        else
            a->words[a->n_words++] = text;
    }
    return a->wants_help ? QN_OK : check_words(a);
}

bool option_is_of(const option *o, const char *task) {
    const size_t length = strlen(task);
    const char *at = o->of;
    for (; at && (at = strstr(at, task)); at += length) {
        const bool is_start = at == o->of || at[-1] == ' ';
        if (is_start && (at[length] == ' ' || !at[length]))
            return true;
    }
    return !o->of;
}

void arguments_deinit(arguments *a) {
    qn_arena_deinit(&a->texts);
}

bool arguments_has(const arguments *a, const char *name) {
    return a->values[option_find(a->command, name)] != NULL;
}

const char *arguments_get(const arguments *a, const char *name) {
    const int row = option_find(a->command, name);
    return a->values[row] ? a->values[row] : option_at(a->command, row)->fallback;
}

bool arguments_flag(const arguments *a, const char *name) {
    const char *value = arguments_get(a, name);
    return value && strcmp(value, "yes") == 0;
}

int64_t arguments_count(const arguments *a, const char *name) {
    const char *value = arguments_get(a, name);
    return value ? strtoll(value, NULL, 10) : 0;
}
