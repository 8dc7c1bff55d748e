/* The list of drivers, and the names of devices. See driver.h. */
#include "driver/driver.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list: the build defines QN_WITH_NAME, 1 or 0, of every row ---- */

#define QN_ROW_1(id, scheme, title, usage, name) {scheme, title, usage, NULL, &qn_driver_##id},
#define QN_ROW_0(id, scheme, title, usage, name)                                                   \
    {scheme, title, usage, "left out of this build (QUERN_WITH_" #name ")", NULL},
#define QN_ROW_OF(built, ...) QN_ROW_##built(__VA_ARGS__)
#define QN_ROW(built, ...)    QN_ROW_OF(built, __VA_ARGS__)

#define QN_DRIVER(id, name, scheme, title, usage) extern const qn_driver_functions qn_driver_##id;
#define QN_TEST_DRIVER(id, scheme)                extern const qn_driver_functions qn_driver_##id;
#define QN_NO_DRIVER(scheme, reason)
#include "driver/drivers.def"
#undef QN_DRIVER
#undef QN_TEST_DRIVER
#undef QN_NO_DRIVER

#define QN_DRIVER(id, name, scheme, title, usage)                                                  \
    QN_ROW(QN_WITH_##name, id, scheme, title, usage, name)
#define QN_TEST_DRIVER(id, scheme)   {scheme, NULL, NULL, NULL, &qn_driver_##id},
#define QN_NO_DRIVER(scheme, reason) {scheme, NULL, NULL, reason, NULL},
const qn_driver qn_drivers[] = {
#include "driver/drivers.def"
    {NULL, NULL, NULL, NULL, NULL},
};

#undef QN_DRIVER
#undef QN_TEST_DRIVER
#undef QN_NO_DRIVER

#define QN_DRIVER(id, name, scheme, title, usage) "|" usage
#define QN_TEST_DRIVER(id, scheme)
#define QN_NO_DRIVER(scheme, reason)
const char qn_device_usage[] = "cpu"
#include "driver/drivers.def"
                               "|auto";

/* ---- names ---- */

/* Whether a name is a scheme, with a number or a placement behind it or nothing. */
static bool is_named(const char *name, const char *scheme, qn_device_name *parsed) {
    enum { MOST_NUMBER = 1000 };
    const size_t n = strlen(scheme);
    if (strncmp(name, scheme, n) != 0)
        return false;
    const char *end = name + n;
    parsed->number = 0;
    if (*end == ':' && end[1] >= '0' && end[1] <= '9') {
        char *behind;
        const long number = strtol(end + 1, &behind, 10);
        if (number >= MOST_NUMBER)
            return false;
        parsed->number = (int)number;
        end = behind;
    }
    parsed->placement = *end == '/' ? end + 1 : NULL;
    return *end == 0 || *end == '/';
}

qn_status qn_driver_parse(const char *name, qn_device_name *parsed) {
    for (const qn_driver *d = qn_drivers; d->scheme; d++) {
        parsed->driver = d;
        if (is_named(name, d->scheme, parsed))
            return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT, "there is no device \"%.80s\"; it is one of %s", name,
                   qn_device_usage);
}

/* ---- opening and describing ---- */

static qn_status check(const qn_driver *driver) {
    if (driver->functions)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "%s: %s; train on the cpu", driver->scheme,
                   driver->missing);
}

qn_status qn_driver_open(const qn_driver *driver, const qn_allocator *allocator,
                         const qn_driver_options *options, void **state) {
    QN_TRY(check(driver));
    return driver->functions->open(allocator, options, state);
}

qn_status qn_driver_count(const qn_driver *driver, int *n) {
    *n = 0;
    if (!driver->functions)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s", driver->missing);
    const qn_status status = driver->functions->count ? driver->functions->count(n) : QN_OK;
    *n = status == QN_OK ? *n : 0;
    return status;
}

static qn_driver_fact *add(qn_driver_info *info, const char *name, qn_fact_kind kind,
                           int64_t number) {
    qn_driver_fact *fact = &info->facts[info->n_facts];
    info->n_facts += info->n_facts < QN_MOST_FACTS - 1;
    *fact = (qn_driver_fact){.name = name, .kind = kind, .number = number};
    return fact;
}

void qn_driver_add_text(qn_driver_info *info, const char *name, const char *text) {
    qn_driver_fact *fact = add(info, name, QN_FACT_IS_TEXT, 0);
    snprintf(fact->text, sizeof fact->text, "%s", text);
}

void qn_driver_add_count(qn_driver_info *info, const char *name, int64_t number) {
    (void)add(info, name, QN_FACT_IS_COUNT, number);
}

void qn_driver_add_flag(qn_driver_info *info, const char *name, bool is) {
    (void)add(info, name, QN_FACT_IS_FLAG, is);
}
