/* An app that learns while nobody uses it: ./learn FOLDER CHECKPOINT < SAMPLES, with a checkpoint
 * of an image classifier. A sample is a byte for its class and the bytes of its pixels; what cannot
 * be learned now waits in the folder for the next time. */
#include <quern/quern.h>

#include <stdio.h>
#include <stdlib.h>

static void say(void *user, int64_t second, const char *text) {
    (void)user;
    (void)second;
    printf("%s\n", text);
}

/* Hands over all samples of standard input. */
static qn_status take(qn_learning *learning) {
    const qn_shape shape = qn_learning_input(learning);
    const size_t bytes = (size_t)(shape.dims[0] * shape.dims[1] * shape.dims[2]);
    uint8_t *pixels = malloc(bytes);
    qn_status status = pixels ? QN_OK : QN_ERROR_MEMORY;
    for (int label; status == QN_OK && (label = getchar()) != EOF;) {
        if (fread(pixels, 1, bytes, stdin) != bytes)
            break;
        status = qn_learning_offer(learning, pixels, label, "standard input");
    }
    free(pixels);
    return status;
}

int main(int argc, char **argv) {
    qn_learning *learning = NULL;
    qn_learn_turn turn = QN_TURN_WORKED;
    int64_t rest_ns;
    if (argc != 3) {
        fprintf(stderr, "usage: learn FOLDER CHECKPOINT < SAMPLES\n");
        return 2;
    }
    const qn_learning_options options = {QN_OPTIONS_INIT(qn_learning_options), .folder = argv[1],
                                         .model = argv[2], .when = "cool", .said = say};
    qn_status status = qn_learning_open(&options, &learning);
    if (status == QN_OK)
        status = take(learning);
    while (status == QN_OK && turn == QN_TURN_WORKED)
        status = qn_learning_turn(learning, &turn, &rest_ns);
    if (status == QN_OK)
        printf("version %lld is in use\n", (long long)qn_learning_get_facts(learning).version);
    else
        fprintf(stderr, "learn: %s\n", qn_error_message());
    qn_learning_close(learning);
    return status == QN_OK ? 0 : 1;
}
