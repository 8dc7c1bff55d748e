/* See reading.h. */
#include "cli/look/reading.h"

#include "base/status.h"

static const option rows[] = {
    {.name = "classes-from",
     .of = "classification",
     .kind = OPTION_CHOICE,
     .argument = "top|leaf|path",
     .is_kept = true,
     .otherwise = "top",
     .help = "class of a picture: the first folder, the one it lies in, or all"},
    {.name = "resize",
     .of = "classification generation",
     .kind = OPTION_FLAG,
     .is_kept = true,
     .help = "resize arrays of images to the network's input; otherwise they must fit"},
    {.name = "group",
     .of = "classification",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .is_kept = true,
     .otherwise = "each sample is of its own",
     .help = "kept on one side of the split: a column; pictures: folder[:N], name:TEXT"},
    {.name = "window",
     .of = "classification",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 2,
     .most = 65535,
     .is_kept = true,
     .otherwise = "a sample is a row",
     .help = "a sample is N rows that follow each other, steps of time"},
    {.name = "stride",
     .of = "answering classification",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "the window; a third of the length",
     .help = "rows from one window to the next; tokens, over a long passage"},
    {.name = "window-label",
     .of = "classification",
     .kind = OPTION_CHOICE,
     .argument = "majority|last|mean|same",
     .is_kept = true,
     .otherwise = "majority; of amounts last",
     .help = "target of a window, by its rows'; same: only windows of one label"},
    {.name = "time",
     .of = "classification",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .is_kept = true,
     .otherwise = "a column called time, timestamp or date",
     .help = "column of time, where a window ends at gaps; none: there is none"},
};

const option_list reading_options = {rows, sizeof rows / sizeof rows[0]};

static qn_status store(const arguments *a, const option_list *list, qn_metadata *settings) {
    for (int i = 0; i < list->n; i++) {
        const char *name = list->rows[i].name;
        if (option_find(a->command, name) >= 0 && arguments_has(a, name))
            QN_TRY(qn_metadata_set(settings, name, arguments_get(a, name)));
    }
    return QN_OK;
}

qn_status reading_store(const arguments *a, qn_metadata *settings) {
    QN_TRY(store(a, &reading_options, settings));
    QN_TRY(store(a, &table_options, settings));
    return store(a, &table_form_options, settings);
}
