/* Drivers: what --device names, a row of drivers.def and a folder each. A driver finds the devices
 * of its kind, describes them, and opens one as a device of the machine (device/device.h). Drivers
 * open their libraries at run time; a library that is missing is no error until a device of it is
 * asked for. The disk is no driver: plans that swap open it themselves (device/disk.h). */
#ifndef QN_DRIVER_DRIVER_H
#define QN_DRIVER_DRIVER_H

#include "device/device.h"

enum { QN_MOST_FACTS = 12, QN_FACT_TEXT = 128 };

typedef enum qn_fact_kind { QN_FACT_IS_TEXT, QN_FACT_IS_COUNT, QN_FACT_IS_FLAG } qn_fact_kind;

/* A property of a device, by the name that JSON has for it. */
typedef struct qn_driver_fact {
    const char *name;
    qn_fact_kind kind;
    char text[QN_FACT_TEXT]; /* of a text */
    int64_t number;          /* of a count or a flag */
} qn_driver_fact;

/* One device of a driver. */
typedef struct qn_driver_info {
    char name[128];
    char summary[600]; /* name, size and versions in a line for people */
    int n_facts;
    qn_driver_fact facts[QN_MOST_FACTS]; /* (n_facts) */
} qn_driver_info;

typedef struct qn_driver_options {
    int number;  /* of the devices that count counts; what else it means, the driver says */
    bool shares; /* the device works in the host's memory where it can */
} qn_driver_options;

/* What a driver's folder provides. */
typedef struct qn_driver_functions {
    const qn_device *device;
    bool is_numbered; /* its devices are SCHEME:0, SCHEME:1, ...; else SCHEME is the only one */
    bool is_tried;    /* by "auto" */
    bool is_placed;   /* nodes go where its counted costs say, unless the name says where */
    /* How many devices there are. QN_ERROR_UNSUPPORTED: none, and the message says what is
     * missing. Null, with describe: opening one tells. */
    qn_status (*count)(int *n);
    qn_status (*describe)(int number, qn_driver_info *info);
    /* Makes the device's own options of these, and opens it. */
    qn_status (*open)(const qn_allocator *allocator, const qn_driver_options *options,
                      void **state);
} qn_driver_functions;

/* A row of the list. Either functions or missing is null. */
typedef struct qn_driver {
    const char *scheme;
    const char *title;   /* null: it is not listed */
    const char *usage;   /* "opencl[:N]"; null: it is not listed */
    const char *missing; /* why there is none */
    const qn_driver_functions *functions;
} qn_driver;

/* The rows; one without a scheme ends the list. */
extern const qn_driver qn_drivers[];

/* "cpu|opencl[:N]|...|auto": the names that a user may give. */
extern const char qn_device_usage[];

/* What a device's name consists of: "SCHEME" or "SCHEME:NUMBER", and "/PLACEMENT" behind it. */
typedef struct qn_device_name {
    const qn_driver *driver;
    int number;            /* 0: the name has none */
    const char *placement; /* in the name; null: none */
} qn_device_name;

/* QN_ERROR_ARGUMENT, with the names that there are: no driver is called that. */
qn_status qn_driver_parse(const char *name, qn_device_name *parsed);

/* Opens a device of a driver; QN_ERROR_UNSUPPORTED where it is missing, with the reason. */
qn_status qn_driver_open(const qn_driver *driver, const qn_allocator *allocator,
                         const qn_driver_options *options, void **state);

/* How many devices a driver has; QN_ERROR_UNSUPPORTED says what is missing. */
qn_status qn_driver_count(const qn_driver *driver, int *n);

/* Adds a fact. */
void qn_driver_add_text(qn_driver_info *info, const char *name, const char *text);
void qn_driver_add_count(qn_driver_info *info, const char *name, int64_t number);
void qn_driver_add_flag(qn_driver_info *info, const char *name, bool is);

#endif
