/* Drivers of devices that tests and experiments use (device/simulated.h): a simulated one with
 * memory of its own, and a core that is slowed down to so many percent. */
#include "device/simulated.h"

#include "driver/driver.h"

static qn_status open_simulated(const qn_allocator *allocator, const qn_driver_options *options,
                                void **state) {
    static const qn_simulated_options own = {.lost_at = -1};
    (void)options;
    return qn_device_simulated.open(allocator, &own, state);
}

/* The number is the percent of the time of a core that a work takes. */
static qn_status open_slowed(const qn_allocator *allocator, const qn_driver_options *options,
                             void **state) {
    const qn_simulated_options own = {.lost_at = -1, .slowed_percent = options->number};
    return qn_device_slowed.open(allocator, &own, state);
}

const qn_driver_functions qn_driver_simulated = {.device = &qn_device_simulated,
                                                 .open = open_simulated};
const qn_driver_functions qn_driver_slowed = {
    .device = &qn_device_slowed, .is_placed = true, .open = open_slowed};
