/* See dsp_devices.h. Without QN_WITH_HEXAGON there is none. */
#include "cli/meter/dsp_devices.h"

#include "base/status.h"
#include "cli/json.h"

#ifdef QN_WITH_HEXAGON
#include "device/hexagon/hexagon.h"
#endif

/* Why there is none; null: there is one. */
static const char *missing(void) {
#ifdef QN_WITH_HEXAGON
    return qn_hexagon_check() == QN_OK ? NULL : qn_error_message();
#else
    return "left out of this build (QUERN_WITH_HEXAGON)";
#endif
}

void dsp_devices_print(void (*print)(const char *label, const char *text)) {
    const char *why = missing();
    print("Hexagon", why ? why : "hexagon:emulated, by qemu-hexagon, for tests");
}

void dsp_devices_json(void) {
    const char *why = missing();
    json_open_list("hexagon");
    if (!why) {
        json_begin_item();
        json_text("name", "hexagon:emulated");
        json_text("emulator", "qemu-hexagon");
        json_end_item();
    }
    json_close_list();
    if (why)
        json_text("hexagon_missing", why);
    else
        json_null("hexagon_missing");
}
