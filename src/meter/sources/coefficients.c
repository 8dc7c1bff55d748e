/* See coefficients.h. */
#include "meter/sources/coefficients.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* ---- built in ---- */

void qn_coefficients_guess(const qn_processor *p, qn_coefficients *c) {
    /* Watts of a busy core at its highest clock: of laptops' x86, of ARM boards and phones. */
    static const struct {
        const char *kind;
        double x86_w, arm_w;
    } guesses[] = {
        {"cpu", 5, 1.3}, {"performance", 6, 1.5}, {"efficiency", 2.5, 0.4}, {"prime", 8, 2.2}};
    const bool is_x86 = strcmp(p->isa, "avx2") == 0 || strcmp(p->isa, "avx512") == 0;
    *c = (qn_coefficients){.package_w = is_x86 ? 2 : 0.2};
    for (int k = 0; k < p->n_kinds; k++) {
        double busy_w = is_x86 ? 5 : 1.3;
        for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
            if (strcmp(guesses[i].kind, p->kinds[k].name) == 0)
                busy_w = is_x86 ? guesses[i].x86_w : guesses[i].arm_w;
        }
        /* Hardware threads share what their core needs. */
        const double threads = (double)p->kinds[k].n_cores / fmax(p->kinds[k].n_physical, 1);
        c->kinds[k] = (qn_core_watts){.idle_w = 0.02 * busy_w / threads,
                                      .busy_w = busy_w / threads,
                                      .at_hz = (double)p->kinds[k].most_hz,
                                      .exponent = 2};
    }
}

double qn_core_power(const qn_core_watts *w, double utilisation, double hz) {
    const double speed = hz > 0 && w->at_hz > 0 ? pow(hz / w->at_hz, w->exponent) : 1;
    return w->idle_w + (w->busy_w - w->idle_w) * utilisation * speed;
}

/* ---- descriptions ---- */

static qn_status fail(const char *path, const char *where, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: %.40s: %s; see docs/power.md", path, where, what);
}

/* A number from 0 to most; fallback where there is none, unless that is NaN. */
static qn_status get_number(const char *path, const cJSON *object, const char *name, double most,
                            double fallback, double *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item && !isnan(fallback)) {
        *value = fallback;
        return QN_OK;
    }
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= most))
        return fail(path, name, "it must be a number of at least 0 and of a plausible size");
    *value = item->valuedouble;
    return QN_OK;
}

static qn_status parse_core(const char *path, const cJSON *object, qn_core_watts *w) {
    QN_TRY(get_number(path, object, "busy_w", 1000, NAN, &w->busy_w));
    QN_TRY(get_number(path, object, "idle_w", 1000, 0, &w->idle_w));
    QN_TRY(get_number(path, object, "at_hz", 1e11, 0, &w->at_hz));
    QN_TRY(get_number(path, object, "exponent", 4, 2, &w->exponent));
    if (w->at_hz > 0 && w->at_hz < 1e6)
        return fail(path, "at_hz", "it must be a frequency in hertz, as 2.4e9");
    if (w->idle_w > w->busy_w)
        return fail(path, "idle_w", "it must not be more than busy_w");
    return QN_OK;
}

/* The entry of a kind of cores, or that of any; null: neither. */
static const cJSON *find_kind(const cJSON *cores, const char *name) {
    const cJSON *item, *any = NULL;
    cJSON_ArrayForEach(item, cores) {
        const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "kind"));
        if (kind && strcmp(kind, name) == 0)
            return item;
        if (kind && strcmp(kind, "*") == 0)
            any = item;
    }
    return any;
}

/* A word that is not known is a mistake, not something to pass over. */
static qn_status check_names(const char *path, const cJSON *object, const char *names) {
    const cJSON *item;
    char word[48];
    if (!cJSON_IsObject(object))
        return fail(path, "description", "it must be a JSON object");
    cJSON_ArrayForEach(item, object) {
        snprintf(word, sizeof word, " %.40s ", item->string);
        if (!strstr(names, word))
            return fail(path, item->string, "unknown entry");
    }
    return QN_OK;
}

static qn_status parse(const char *path, const cJSON *json, const qn_processor *p,
                       qn_coefficients *c) {
    QN_TRY(check_names(path, json, " device package_w rest_w cores "));
    QN_TRY(get_number(path, json, "package_w", 1000, 0, &c->package_w));
    QN_TRY(get_number(path, json, "rest_w", 1000, 0, &c->rest_w));
    const cJSON *cores = cJSON_GetObjectItemCaseSensitive(json, "cores"), *item;
    if (!cJSON_IsArray(cores))
        return fail(path, "cores", "it must be a list with one entry for each kind of core");
    cJSON_ArrayForEach(item, cores)
        QN_TRY(check_names(path, item, " kind idle_w busy_w at_hz exponent "));
    for (int k = 0; k < p->n_kinds; k++) {
        item = find_kind(cores, p->kinds[k].name);
        if (!item)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: it has no entry for this device's cores of kind %s (quern devices "
                           "shows them); add one, or one of kind *",
                           path, p->kinds[k].name);
        QN_TRY(parse_core(path, item, &c->kinds[k]));
    }
    return QN_OK;
}

qn_status qn_coefficients_read(const qn_allocator *allocator, const char *path,
                               const qn_processor *p, qn_coefficients *coefficients) {
    qn_coefficients read = {0};
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    cJSON *json = bytes <= MOST_BYTES ? cJSON_ParseWithLength(text, bytes) : NULL;
    qn_release(allocator, text, bytes + 1, 1);
    const qn_status status =
        json ? parse(path, json, p, &read) : fail(path, "description", "it is not a JSON object");
    cJSON_Delete(json);
    if (status == QN_OK)
        *coefficients = read;
    return status;
}
