/* A stand-in for NVIDIA's management library, so that its source is tested where there is no GPU.
 * The test that loads it sets what it answers by the variables that are named fake_. */
#include <stddef.h>

#define API __attribute__((visibility("default")))

API int fake_init_result, fake_result;
API unsigned long long fake_energy_mj;
API unsigned fake_power_mw = 41000, fake_use = 37, fake_has_energy = 1;

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API const char *nvmlErrorString(int result);
API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
API int nvmlDeviceGetPowerUsage(void *device, unsigned *mw);
API int nvmlDeviceGetUtilizationRates(void *device, unsigned use[2]);
API int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]);
API int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *mhz);
API int nvmlDeviceGetTemperature(void *device, unsigned kind, unsigned *celsius);

static char device;

int nvmlInit_v2(void) {
    return fake_init_result;
}

int nvmlShutdown(void) {
    return 0;
}

const char *nvmlErrorString(int result) {
    return result == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 1;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    *to = &device;
    return index == 0 ? 0 : 2;
}

int nvmlDeviceGetTotalEnergyConsumption(void *of, unsigned long long *mj) {
    *mj = fake_energy_mj;
    return of != &device ? 2 : fake_has_energy ? fake_result : 3;
}

int nvmlDeviceGetPowerUsage(void *of, unsigned *mw) {
    *mw = fake_power_mw;
    return of == &device ? fake_result : 2;
}

int nvmlDeviceGetUtilizationRates(void *of, unsigned use[2]) {
    use[0] = fake_use;
    use[1] = 5;
    return of == &device ? fake_result : 2;
}

int nvmlDeviceGetMemoryInfo(void *of, unsigned long long memory[3]) {
    memory[0] = 1000;
    memory[1] = 750;
    memory[2] = 250;
    return of == &device ? fake_result : 2;
}

int nvmlDeviceGetClockInfo(void *of, unsigned kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1410 : 0;
    return of == &device ? fake_result : 2;
}

/* This one measures no temperature. */
int nvmlDeviceGetTemperature(void *of, unsigned kind, unsigned *celsius) {
    (void)of, (void)kind;
    *celsius = 0;
    return 3;
}
