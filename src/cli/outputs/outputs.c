/* See outputs.h. */
#include "cli/outputs/outputs.h"

#include "base/status.h"
#include "os/files/target.h"
#include "os/os.h"
#include "quern/model.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Of the command that runs, once its own inputs were looked at. */
static const arguments *current;

static bool is_input(const option *o) {
    return o->kind == OPTION_INPUT || o->kind == OPTION_DATA || o->kind == OPTION_NUMERICS ||
           o->kind == OPTION_RULES || o->kind == OPTION_NAMES;
}

/* The output of a row, and the n-th file that goes beside it; false: there is none. */
static bool output_at(const arguments *a, int row, int n, char path[PATH_MAX]) {
    const option *o = option_at(a->command, row);
    if (!option_is_output(o) || !a->values[row] || n > 1 || (n == 1 && !o->beside))
        return false;
    return snprintf(path, PATH_MAX, "%s%s", a->values[row], n == 1 ? o->beside : "") < PATH_MAX;
}

/* ---- an input ---- */

/* What is held against all outputs. */
typedef struct input {
    const arguments *a;
    const char *what; /* "--data" */
    const char *name; /* of the option; null: a word, or what a checkpoint names */
} input;

static qn_status refuse(const input *in, const option *o, const char *path, const char *held) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--%s %s: that is %s of %s, and would be lost; choose another name", o->name,
                   path, held, in->what);
}

/* Whether what is there is of the option's own kind, which no data are. */
static bool is_own(const option *o, const char *path) {
    bool is_own = false;
    return qn_own_file_check(path, o->makes, &is_own) == QN_OK && is_own;
}

static qn_status compare_output(const input *in, const option *o, const char *output,
                                const char *path) {
    qn_file_identity written, read;
    if (!qn_file_identify(path, &read))
        return QN_OK;
    if (qn_target_clears(output, read))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--%s %s: %s is the file of %s, and has a name of files that are not "
                       "complete, which are removed; rename it",
                       o->name, output, path, in->what);
    if (!qn_file_identify(output, &written))
        return QN_OK;
    if (in->name && o->replaces && strcmp(o->replaces, in->name) == 0)
        return QN_OK;
    if (qn_file_is_same(written, read))
        return refuse(in, o, output, "the file");
    if (qn_path_is_file(output) && qn_path_is_folder(path) && qn_folder_holds(path, written) &&
        !is_own(o, output))
        return refuse(in, o, output, "a file");
    return QN_OK;
}

static qn_status compare_path(const input *in, const char *path) {
    char output[PATH_MAX];
    const int n = option_count(in->a->command);
    qn_rights_narrow(path);
    for (int row = 0; row < n; row++) {
        for (int i = 0; output_at(in->a, row, i, output); i++)
            QN_TRY(compare_output(in, option_at(in->a->command, row), output, path));
    }
    return QN_OK;
}

static qn_status compare_part(const input *in, const char *from, size_t bytes) {
    char path[PATH_MAX];
    if (bytes == 0 || bytes >= sizeof path)
        return QN_OK;
    memcpy(path, from, bytes);
    path[bytes] = 0;
    return compare_path(in, path);
}

/* "FILE", "kind:FILE", "kind:FILE,FILE", "kind:1:FILE": all that may be a path. What is none is not
 * there. */
static qn_status compare_value(const input *in, const char *value) {
    const char *colon = strchr(value, ':'), *from = colon ? colon + 1 : value;
    QN_TRY(compare_path(in, value));
    while (*from) {
        const size_t n = strcspn(from, ",");
        QN_TRY(compare_part(in, from, n));
        from += n + (from[n] == ',');
    }
    for (; colon; colon = strchr(colon + 1, ':'))
        QN_TRY(compare_path(in, colon + 1));
    return QN_OK;
}

/* ---- the command line ---- */

static qn_status compare_options(const arguments *a) {
    const option *o;
    char what[64];
    for (int i = 0; (o = option_at(a->command, i)); i++) {
        snprintf(what, sizeof what, "--%s", o->name);
        const input in = {.a = a, .what = what, .name = o->name};
        if (is_input(o) && a->given[i])
            QN_TRY(compare_value(&in, a->given[i]));
    }
    return QN_OK;
}

/* A word that is a model's name or an action is no file, even where there is one of the name. */
static qn_status compare_words(const arguments *a) {
    const char *words = a->command->words;
    const bool has_action = words && strncmp(words, "ACTION", 6) == 0;
    for (int i = has_action; i < a->n_words; i++) {
        const input in = {.a = a, .what = a->words[i]};
        if (!words || !strstr(words, "MODEL") || i > 0 || !qn_model_find(a->words[i]))
            QN_TRY(compare_value(&in, a->words[i]));
    }
    return QN_OK;
}

static qn_status compare_pair(const arguments *a, int first, int second) {
    const option *o = option_at(a->command, first), *p = option_at(a->command, second);
    char one[PATH_MAX], two[PATH_MAX];
    for (int i = 0; output_at(a, first, i, one); i++) {
        for (int k = 0; output_at(a, second, k, two); k++) {
            qn_file_identity x, y;
            const bool has_one = qn_file_identify(one, &x), has_two = qn_file_identify(two, &y);
            const bool is_same = has_one && has_two
                                     ? qn_path_is_file(one) && qn_file_is_same(x, y)
                                     : !has_one && !has_two && qn_path_is_same(one, two);
            if (is_same)
                return qn_fail(QN_ERROR_ARGUMENT, "--%s %s and --%s %s are one file; they need two",
                               o->name, one, p->name, two);
        }
    }
    return QN_OK;
}

static qn_status compare_outputs(const arguments *a) {
    const int n = option_count(a->command);
    for (int i = 0; i < n; i++) {
        for (int k = i + 1; k < n; k++)
            QN_TRY(compare_pair(a, i, k));
    }
    return QN_OK;
}

static qn_status check_owned(const option *o, const char *path) {
    bool is_own;
    const qn_status status = qn_own_file_check(path, o->makes, &is_own);
    if (status != QN_OK)
        return qn_fail_within(status, "--%s", o->name);
    if (is_own)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--%s %s: the file is there, and is not %s that quern wrote; choose another "
                   "name, or --force replaces it",
                   o->name, path, qn_own_kind_words(o->makes));
}

static qn_status check_all_owned(const arguments *a) {
    const option *o;
    for (int i = 0; (o = option_at(a->command, i)); i++) {
        if (option_is_output(o) && a->values[i])
            QN_TRY(check_owned(o, a->values[i]));
    }
    return QN_OK;
}

/* A path that cannot be written is found before the work, not after. What may be a folder, too, is
 * the command's to try. */
static qn_status try_all(const arguments *a) {
    const option *o;
    for (int i = 0; (o = option_at(a->command, i)); i++) {
        const bool is_file = o->kind == OPTION_TARGET || o->kind == OPTION_OUTPUT;
        if (!is_file || !a->values[i])
            continue;
        const qn_status status = qn_file_check_target(a->values[i], o->kind == OPTION_OUTPUT);
        if (status != QN_OK)
            return qn_fail_within(status, "--%s", o->name);
    }
    return QN_OK;
}

qn_status outputs_check(const arguments *a) {
    current = a;
    if (!option_has_outputs(a->command))
        return QN_OK;
    QN_TRY(compare_options(a));
    QN_TRY(compare_words(a));
    QN_TRY(compare_outputs(a));
    if (!arguments_flag(a, "force"))
        QN_TRY(check_all_owned(a));
    return try_all(a);
}

qn_status outputs_check_input(const char *what, const char *value) {
    const input in = {.a = current, .what = what};
    return current && value ? compare_value(&in, value) : QN_OK;
}
