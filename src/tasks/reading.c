/* See reading.h. */
#include "tasks/reading.h"

#include <string.h>

static void set_table(const qn_metadata *settings, qn_data_options *options) {
    const char *separator = qn_metadata_get(settings, "separator");
    options->header = qn_metadata_get(settings, "header");
    options->separator = separator && strcmp(separator, "bar") == 0 ? "|" : separator;
    options->decimal = qn_metadata_get(settings, "decimal");
    options->dates = qn_metadata_get(settings, "dates");
    options->target = qn_metadata_get(settings, "target");
    options->ignore = qn_metadata_get(settings, "ignore");
    options->categories = qn_metadata_get(settings, "categories");
    options->task = qn_metadata_get(settings, "task");
}

void qn_reading_set(const qn_metadata *settings, qn_data_options *options) {
    const char *classes = settings ? qn_metadata_get(settings, "classes-from") : NULL;
    if (settings)
        set_table(settings, options);
    if (classes)
        options->classes_from = strcmp(classes, "leaf") == 0   ? QN_CLASSES_FROM_LEAF
                                : strcmp(classes, "path") == 0 ? QN_CLASSES_FROM_PATH
                                                               : QN_CLASSES_FROM_TOP;
}
