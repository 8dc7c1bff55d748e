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
     .of = "classification",
     .kind = OPTION_FLAG,
     .is_kept = true,
     .help = "resize arrays of images to the network's input; otherwise they must fit"},
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
