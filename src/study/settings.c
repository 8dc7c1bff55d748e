/* See settings.h. */
#include "study/settings.h"

#include "base/status.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

/* What is held: version and machine are settings, too. */
static int count(const qn_study *study) {
    return 2 + qn_study_get_options(study)->n_settings;
}

static qn_study_setting setting_at(const qn_study *study, int index) {
    if (index == 0)
        return (qn_study_setting){"version", qn_version()};
    if (index == 1)
        return (qn_study_setting){"machine", qn_study_machine(study)};
    return qn_study_get_options(study)->settings[index - 2];
}

static qn_status put(void *context, qn_writer *writer) {
    const qn_study *study = context;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    for (int i = 0; i < count(study); i++) {
        const qn_study_setting s = setting_at(study, i);
        if (s.value)
            qn_json_text(&out, s.name, s.value);
    }
    qn_json_close(&out, '}');
    qn_output_text(&out, "\n");
    return out.status;
}

/* The texts of two settings are compared; null is one that is not set. */
static qn_status compare(const qn_study *study, const cJSON *kept, const char *path) {
    static const char unset[] = "not set";
    if (!cJSON_IsObject(kept))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: not the settings of a study; remove it, or use another --out", path);
    for (int i = 0; i < count(study); i++) {
        const qn_study_setting s = setting_at(study, i);
        const char *now = s.value ? s.value : unset;
        const char *then = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kept, s.name));
        then = then ? then : unset;
        if (strcmp(now, then) != 0)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s: its cells were measured with %s %s, but now it is %s; use the same "
                           "value, or another --out",
                           path, s.name, then, now);
    }
    return QN_OK;
}

static qn_status compare_file(const qn_study *study, const char *path) {
    const qn_allocator *allocator = qn_allocator_or_default(qn_study_get_options(study)->allocator);
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    cJSON *kept = cJSON_ParseWithLength(text, bytes);
    qn_release(allocator, text, bytes + 1, 1);
    const qn_status status = compare(study, kept, path);
    cJSON_Delete(kept);
    return status;
}

qn_status qn_study_settings_hold(const qn_study *study, const char *path) {
    if (qn_path_is_file(path))
        return compare_file(study, path);
    return qn_file_replace(path, put, (void *)(uintptr_t)study);
}
