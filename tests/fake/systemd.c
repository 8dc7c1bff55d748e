/* Stands for libsystemd and logind behind it: QUERN_FAKE_IDLE is "busy", "none" (no session),
 * "away" (no system bus), or the seconds for which all sessions have been idle. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))

API int sd_bus_open_system(void **bus);
API int sd_bus_get_property_trivial(void *bus, const char *destination, const char *path,
                                    const char *interface, const char *member, void *error,
                                    char type, void *value);
API void *sd_bus_flush_close_unref(void *bus);

static const char *what(void) {
    const char *idle = getenv("QUERN_FAKE_IDLE");
    return idle ? idle : "away";
}

int sd_bus_open_system(void **bus) {
    *bus = bus;
    return strcmp(what(), "away") == 0 ? -2 : 0;
}

int sd_bus_get_property_trivial(void *bus, const char *destination, const char *path,
                                const char *interface, const char *member, void *error, char type,
                                void *value) {
    (void)bus, (void)path, (void)error;
    if (strcmp(destination, "org.freedesktop.login1") != 0 ||
        strcmp(interface, "org.freedesktop.login1.Manager") != 0)
        return -22;
    if (strcmp(member, "IdleHint") == 0 && type == 'b') {
        *(int *)value = strcmp(what(), "busy") != 0;
        return 0;
    }
    if (strcmp(member, "IdleSinceHint") != 0 || type != 't')
        return -22;
    const int64_t seconds = atoll(what());
    *(uint64_t *)value =
        strcmp(what(), "none") == 0 ? 0 : (uint64_t)(time(NULL) - seconds) * 1000000;
    return 0;
}

void *sd_bus_flush_close_unref(void *bus) {
    (void)bus;
    return NULL;
}
