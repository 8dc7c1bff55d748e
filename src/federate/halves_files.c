/* Checkpoints of halves: each keeps its run's name and settings, and is read for that run alone.
 * See halves.h and halves_build.h. */
#include "base/decimal.h"
#include "base/status.h"
#include "federate/halves_build.h"
#include "format/checkpoint.h"
#include "format/metadata.h"
#include "os/os.h"
#include "os/random.h"

#include <stdio.h>
#include <string.h>

static const char run_key[] = "split.run", settings_key[] = "split.settings";

qn_status qn_halves_name_run(char run[QN_RUN_NAME]) {
    uint8_t bytes[(QN_RUN_NAME - 1) / 2];
    QN_TRY(qn_random_fill(bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(run + 2 * i, 3, "%02x", bytes[i]);
    return QN_OK;
}

/* ---- writing ---- */

/* The pairs with those of the run. */
static qn_status list_pairs(const qn_halves_options *o, const qn_metadata *pairs,
                            qn_metadata *all) {
    char settings[QN_LINK_TEXT];
    qn_halves_print_settings(o, settings);
    QN_TRY(qn_metadata_add(all, pairs));
    QN_TRY(qn_metadata_set(all, run_key, o->run));
    return qn_metadata_set(all, settings_key, settings);
}

qn_status qn_halves_save(const qn_engine *engine, const qn_halves_options *o,
                         const qn_metadata *pairs, qn_room *room, const char *path) {
    qn_metadata *all;
    QN_TRY(qn_metadata_create(NULL, &all));
    qn_status status = list_pairs(o, pairs, all);
    if (status == QN_OK)
        status = qn_checkpoint_save_in(room, engine, all, path);
    if (status == QN_OK)
        (void)qn_room_renew(room);
    qn_metadata_destroy(all);
    return status;
}

qn_status qn_halves_keep_room(const qn_engine *engine, const qn_halves_options *o,
                              const qn_metadata *pairs, const char *path, qn_room **room) {
    qn_metadata *all;
    QN_TRY(qn_metadata_create(NULL, &all));
    qn_status status = list_pairs(o, pairs, all);
    if (status == QN_OK)
        status = qn_checkpoint_keep_room(NULL, engine, all, path, room);
    qn_metadata_destroy(all);
    return status;
}

/* ---- reading ---- */

/* The name of the first line that differs. */
static void find_difference(const char *left, const char *right, char name[QN_CUT_NAME]) {
    for (;;) {
        const size_t n = strcspn(left, "\n"), m = strcspn(right, "\n");
        if (n != m || memcmp(left, right, n) != 0 || !left[n]) {
            snprintf(name, QN_CUT_NAME, "%.*s", (int)strcspn(left, " \n"), left);
            return;
        }
        left += n + 1;
        right += m + 1;
    }
}

/* what: whose checkpoint, for messages. */
static qn_status check_settings(const char *what, const char *kept, const qn_halves_options *o) {
    char settings[QN_LINK_TEXT], name[QN_CUT_NAME];
    qn_halves_print_settings(o, settings);
    if (strcmp(kept, settings) == 0)
        return QN_OK;
    find_difference(settings, kept, name);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s was trained with another setting \"%s\"; a run keeps its settings", what,
                   name);
}

qn_status qn_halves_resume(const char *path, qn_halves_options *o) {
    qn_metadata *pairs;
    QN_TRY(qn_checkpoint_read(NULL, path, &pairs));
    const char *run = qn_metadata_get(pairs, run_key);
    const char *kept = qn_metadata_get(pairs, settings_key);
    qn_status status = QN_OK;
    if (!run || !kept || strlen(run) != QN_RUN_NAME - 1)
        status = qn_fail(QN_ERROR_ARGUMENT,
                         "%s does not say which run it is half of; join it with the peer's file "
                         "(quern split join), and train on with quern train --resume",
                         path);
    if (status == QN_OK) {
        memcpy(o->run, run, QN_RUN_NAME);
        status = check_settings(path, kept, o);
    }
    qn_metadata_destroy(pairs);
    return status;
}

qn_status qn_halves_check_run(const char *path, const qn_halves_options *o, int64_t *step) {
    qn_metadata *pairs;
    double number;
    QN_TRY(qn_checkpoint_read(NULL, path, &pairs));
    const char *run = qn_metadata_get(pairs, run_key);
    const char *kept = qn_metadata_get(pairs, settings_key);
    const char *steps = qn_metadata_get(pairs, "step");
    qn_status status = QN_OK;
    if (!run || !kept || strcmp(run, o->run) != 0)
        status = qn_fail(QN_ERROR_ARGUMENT,
                         "the peer's file belongs to another run, and stays as it is; give quern "
                         "split serve another --save FILE, or a folder for many runs");
    else
        status = check_settings("the peer's half", kept, o);
    if (status == QN_OK && (!steps || !qn_decimal_parse(steps, &number)))
        status = qn_fail(QN_ERROR_FORMAT, "%s has no step", path);
    if (status == QN_OK)
        *step = (int64_t)number;
    qn_metadata_destroy(pairs);
    return status;
}

/* ---- the checkpoint before ---- */

qn_status qn_halves_before(const char *path, char before[QN_HALVES_PATH]) {
    if (snprintf(before, QN_HALVES_PATH, "%s.before", path) < QN_HALVES_PATH)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
}

qn_status qn_halves_keep(const char *path) {
    char before[QN_HALVES_PATH];
    QN_TRY(qn_halves_before(path, before));
    return qn_path_is_file(path) ? qn_file_copy(path, before) : QN_OK;
}
