/* quern cache: what is kept in the user's cache folder, and how much of it may be. */
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "os/files/cache_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "limit",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "5 GiB, or as set before",
     .help = "what is read from data may be so large together, from now on; what was not used for "
             "longest goes first"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- listing ---- */

static void print_file(const qn_cached *file, bool is_json) {
    char size[QN_SIZE_TEXT], name[PATH_MAX];
    qn_text_printable(file->name, name, sizeof name);
    if (!is_json) {
        terminal_print(4, "%-21s %10s  %6.1f days ago  %s%s%s", file->kind,
                       qn_text_print_size((uint64_t)file->bytes, size), file->days, name,
                       *file->source ? "  of " : "", file->source);
        return;
    }
    json_begin();
    json_text("event", "cached");
    json_text("name", file->name);
    json_text("kind", file->kind);
    json_text("source", file->source);
    json_count("bytes", file->bytes);
    json_number("days", file->days);
    json_end();
}

static int64_t sum_of(const qn_cache_list *list) {
    int64_t sum = 0;
    for (size_t i = 0; i < list->n; i++)
        sum += list->files[i].is_derived ? list->files[i].bytes : 0;
    return sum;
}

static void print_sum(const qn_cache_list *list, bool is_json) {
    char sum[QN_SIZE_TEXT], limit[QN_SIZE_TEXT];
    if (!is_json) {
        terminal_print(4, "%s: %zu files; %s of data, at most %s", list->folder, list->n,
                       qn_text_print_size((uint64_t)sum_of(list), sum),
                       qn_text_print_size((uint64_t)qn_cache_limit(), limit));
        return;
    }
    json_begin();
    json_text("event", "cache");
    json_text("folder", list->folder);
    json_count("files", (int64_t)list->n);
    json_count("data_bytes", sum_of(list));
    json_count("limit_bytes", qn_cache_limit());
    json_end();
}

static void print_list(const qn_cache_list *list, bool is_json) {
    for (size_t i = 0; i < list->n; i++)
        print_file(&list->files[i], is_json);
    print_sum(list, is_json);
}

/* ---- removing ---- */

/* A name as it is listed, or the file or folder that it is of, or one above that. */
static bool is_meant(const qn_cached *file, const char *word) {
    char path[PATH_MAX], printable[PATH_MAX];
    if (strcmp(file->name, word) == 0)
        return true;
    if (qn_path_resolve(word, path, sizeof path) != QN_OK)
        snprintf(path, sizeof path, "%s", word); /* perhaps it is gone, and its path is known */
    qn_text_printable(path, printable, sizeof printable);
    const size_t n = strlen(printable);
    return n > 1 && strncmp(file->source, printable, n) == 0 &&
           (!file->source[n] || file->source[n] == '/');
}

static qn_status remove_meant(qn_cache_list *list, const char *word, bool is_json) {
    int n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->files[i].is_removed || (word && !is_meant(&list->files[i], word)))
            continue;
        n++;
        if (!qn_cache_remove(list, &list->files[i]))
            return qn_fail(QN_ERROR_IO, "cannot remove %s/%s", list->folder, list->files[i].name);
        if (!is_json)
            terminal_print(4, "removed %s", list->files[i].name);
    }
    return n > 0 || !word ? QN_OK
                          : qn_fail(QN_ERROR_ARGUMENT,
                                    "nothing in the cache has the name %s or is of such a file; "
                                    "quern cache lists it",
                                    word);
}

/* ---- the command ---- */

static bool is_action(const arguments *a, const char *action) {
    return strcmp(a->n_words > 0 ? a->words[0] : "list", action) == 0;
}

static qn_status check_words(const arguments *a) {
    if (!is_action(a, "list") && !is_action(a, "remove") && !is_action(a, "clear"))
        return qn_fail(QN_ERROR_ARGUMENT, "unknown action %s; list, remove or clear", a->words[0]);
    if (is_action(a, "remove") != (a->n_words > 1))
        return qn_fail(QN_ERROR_ARGUMENT, "%s",
                       is_action(a, "remove") ? "remove needs names of files, as quern cache lists "
                                                "them, or of the data they are of"
                                              : "only remove takes names of files");
    return QN_OK;
}

static qn_status act(const arguments *a, qn_cache_list *list) {
    const bool is_json = arguments_flag(a, "json");
    if (is_action(a, "list")) {
        print_list(list, is_json);
        return QN_OK;
    }
    if (is_action(a, "clear"))
        QN_TRY(remove_meant(list, NULL, is_json));
    for (int i = 1; i < a->n_words; i++)
        QN_TRY(remove_meant(list, a->words[i], is_json));
    return qn_cache_drop_notes(list);
}

static qn_status set_limit(const arguments *a) {
    if (!arguments_has(a, "limit"))
        return QN_OK;
    QN_TRY(qn_cache_keep_limit(arguments_count(a, "limit")));
    qn_cache_apply_limit(NULL);
    return QN_OK;
}

static int run(const arguments *a) {
    qn_cache_list list;
    qn_status status = check_words(a);
    if (status != QN_OK)
        return report_failure(status);
    status = set_limit(a);
    if (status == QN_OK)
        status = qn_cache_list_open(NULL, &list);
    if (status != QN_OK)
        return report_failed_run();
    status = act(a, &list);
    qn_cache_list_close(&list);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_cache = {
    .name = "cache",
    .words = "[list|remove|clear] [NAME...]",
    .most_words = -1,
    .summary = "List and remove what is kept of data and measurements",
    .description =
        "quern keeps what takes long to make: data that were unpacked or read, decoded pictures,\n"
        "and measurements of this machine. They are in $XDG_CACHE_HOME/quern or ~/.cache/quern,\n"
        "which nobody else may enter, and are made again when they are gone. remove takes names\n"
        "as listed, or data, of which it removes all that was kept; clear removes everything.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
