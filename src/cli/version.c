/* quern version. */
#include "cli/commands.h"

#include <stdio.h>

static int run(const arguments *a) {
    (void)a;
    printf("quern %s\n", qn_version());
    return EXIT_DONE;
}

const command command_version = {.name = "version", .summary = "Print the version", .run = run};
