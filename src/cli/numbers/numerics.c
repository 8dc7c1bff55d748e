/* quern numerics: which types integer and mixed-precision training use, as a table or as the file
 * that --numerics reads. */
#include "cli/numbers/numerics.h"

#include "base/status.h"
#include "cli/commands.h"
#include "numerics/numerics.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

/* The text of a file or of built-in numerics, checked; a file's is released with `bytes`. */
static qn_status load(const char *value, char **file, const char **text, size_t *bytes) {
    qn_numerics numerics;
    *file = NULL;
    *text = NULL;
    if (value[0] != '{' && strpbrk(value, "./")) {
        QN_TRY(qn_file_read_whole(qn_allocator_default(), value, file, bytes));
        *text = *file;
    } else {
        *text = value[0] == '{' ? value : qn_numerics_find(value);
        *bytes = *text ? strlen(*text) : 0;
    }
    if (!*text)
        return QN_ERROR_ARGUMENT;
    const qn_status status = qn_numerics_read(*text, *bytes, &numerics);
    if (status == QN_OK)
        return QN_OK;
    if (*file)
        qn_release(qn_allocator_default(), *file, *bytes + 1, 1);
    return qn_fail_within(status, "%s", *file ? value : "numerics");
}

static void unload(char *file, size_t bytes) {
    if (file)
        qn_release(qn_allocator_default(), file, bytes + 1, 1);
}

qn_status numerics_canonical(const char *value, qn_arena *texts, const char **canonical) {
    char *file;
    const char *text;
    size_t bytes;
    if (strcmp(value, "f32") == 0) {
        *canonical = "f32";
        return QN_OK;
    }
    QN_TRY(load(value, &file, &text, &bytes));
    const qn_status status = qn_numerics_print(text, bytes, texts, canonical);
    unload(file, bytes);
    return status;
}

/* ---- the command ---- */

static void print_row(const qn_numerics *n) {
    printf("%-10s", n->name);
    for (int role = 0; role < QN_ROLE_COUNT; role++) {
        char text[QN_ROLE_TEXT];
        qn_role_print(&n->roles[role], text);
        printf("  %-14s", text);
    }
    printf("  %-8s  %-14s  %s\n", n->is_integer ? "i32" : "f32",
           n->stores_weights ? "i8, subtract" : "f32, optimiser", n->integer_loss ? "i8" : "f32");
}

static qn_status print_table(void) {
    printf("%-10s  %-14s  %-14s  %-14s  %-14s  %-8s  %-14s  %s\n", "name", "weight", "activation",
           "error", "gradient", "products", "update", "loss");
    for (int i = 0; qn_numerics_built_in(i); i++) {
        qn_numerics n;
        const char *text = qn_numerics_built_in(i);
        QN_TRY(qn_numerics_read(text, strlen(text), &n));
        print_row(&n);
    }
    return QN_OK;
}

static qn_status print_file(const char *value) {
    char *file;
    const char *text;
    size_t bytes;
    QN_TRY(load(value, &file, &text, &bytes));
    fwrite(text, 1, bytes, stdout);
    unload(file, bytes);
    return QN_OK;
}

static int run(const arguments *a) {
    const qn_status status = a->n_words > 0 ? print_file(a->words[0]) : print_table();
    return status == QN_OK ? EXIT_DONE : report_failed_run();
}

const command command_numerics = {
    .name = "numerics",
    .words = "[NAME|FILE.json]",
    .most_words = 1,
    .summary = "Show the types that integer and mixed-precision training use",
    .description =
        "Without a word, a table: the types of weights, activations, errors and gradients, what\n"
        "products are summed in, how weights are stored and updated, and the type of the loss.\n"
        "With a name, the description as JSON, which can be edited and given to quern train\n"
        "--numerics; with a file, the file, after checking it.",
    .run = run,
};
