/* The devices of all drivers of this machine (driver/driver.h), for quern devices. */
#ifndef CLI_METER_DRIVER_DEVICES_H
#define CLI_METER_DRIVER_DEVICES_H

#include "meter/roofline.h"

/* Through print(label, text): a line for each driver and each of its devices, with the speeds that
 * were measured; or the reason why a driver has none. */
void driver_devices_print(const qn_roofline *roofline,
                          void (*print)(const char *label, const char *text));

/* For each driver, such as OpenCL, a list "opencl" of the open JSON object; "opencl_missing" is why
 * it is empty. */
void driver_devices_json(const qn_roofline *roofline);

#endif
