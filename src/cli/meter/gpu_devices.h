/* The OpenCL and CUDA devices of this machine, for quern devices. */
#ifndef CLI_METER_GPU_DEVICES_H
#define CLI_METER_GPU_DEVICES_H

#include "meter/roofline.h"

/* Through print(label, text), a line each, with the speeds that were measured; or the reason why
 * there are none. */
void opencl_devices_print(const qn_roofline *roofline,
                          void (*print)(const char *label, const char *text));
void cuda_devices_print(const qn_roofline *roofline,
                        void (*print)(const char *label, const char *text));

/* As the list "opencl" or "cuda" of the open JSON object; "opencl_missing" or "cuda_missing" is why
 * it is empty. */
void opencl_devices_json(const qn_roofline *roofline);
void cuda_devices_json(const qn_roofline *roofline);

#endif
