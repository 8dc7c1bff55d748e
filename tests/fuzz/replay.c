/* Runs a fuzz target once for every file of its corpus, where libFuzzer does not drive it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    enum { MOST_BYTES = 1 << 24 };
    uint8_t *data = malloc(MOST_BYTES);
    if (data)
        LLVMFuzzerTestOneInput(data, fread(data, 1, MOST_BYTES, file));
    int failed = !data || ferror(file);
    free(data);
    fclose(file);
    return failed;
}

int main(int n_arguments, char **arguments) {
    int n_files = 0, n_failed = 0;
    DIR *folder = n_arguments == 2 ? opendir(arguments[1]) : NULL;
    if (!folder) {
        printf("usage: %s CORPUS-FOLDER\n", arguments[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        n_failed += replay(path);
        n_files++;
    }
    closedir(folder);
    printf("%d inputs replayed, %d failed\n", n_files, n_failed);
    return n_failed > 0 || n_files == 0;
}
