/* What an image shows: ./classify CHECKPOINT IMAGE, with a checkpoint that quern train has saved.
 */
#include <quern/quern.h>

#include <stdio.h>

int main(int argc, char **argv) {
    qn_predictor *predictor = NULL;
    qn_prediction best;
    if (argc != 3) {
        fprintf(stderr, "usage: classify CHECKPOINT IMAGE\n");
        return 2;
    }
    qn_status status = qn_predictor_open(argv[1], NULL, &predictor);
    if (status == QN_OK)
        status = qn_predictor_classify_file(predictor, argv[2], &best);
    if (status == QN_OK)
        printf("%s %.1f %%\n", best.name ? best.name : "?", 100 * best.value);
    else
        fprintf(stderr, "classify: %s\n", qn_error_message());
    qn_predictor_close(predictor);
    return status == QN_OK ? 0 : 1;
}
