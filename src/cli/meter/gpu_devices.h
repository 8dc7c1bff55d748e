/* The OpenCL and CUDA devices of this machine, for quern devices. */
#ifndef CLI_METER_GPU_DEVICES_H
#define CLI_METER_GPU_DEVICES_H

/* Through print(label, text), a line each; or the reason why there are none. */
void opencl_devices_print(void (*print)(const char *label, const char *text));
void cuda_devices_print(void (*print)(const char *label, const char *text));

/* As the list "opencl" or "cuda" of the open JSON object; "opencl_missing" or "cuda_missing" is why
 * it is empty. */
void opencl_devices_json(void);
void cuda_devices_json(void);

#endif
