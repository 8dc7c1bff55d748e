/* Sizes as people write them, read and printed. */
#include "base/text.h"
#include "check.h"

static void check_size(const char *text, uint64_t wanted) {
    uint64_t bytes = 0;
    CHECK(qn_text_size(text, &bytes) && bytes == wanted);
}

static void check_printed(uint64_t bytes, const char *wanted) {
    char text[QN_SIZE_TEXT];
    CHECK(strcmp(qn_text_print_size(bytes, text), wanted) == 0);
}

int main(void) {
    static const char *const bad[] = {"",   "M",   "-1",  "+1",  "1X",   "1MM",   "1 M", "1Mx",
                                      "iB", "1iB", "nan", "inf", "1e40", "2e18T", ".5M"};
    check_size("300M", UINT64_C(300) << 20);
    check_size("1.5G", UINT64_C(3) << 29);
    check_size("64k", 65536);
    check_size("64KiB", 65536);
    check_size("64kb", 65536);
    check_size("4096", 4096);
    check_size("4096B", 4096);
    check_size("0", 0);
    check_size("1T", UINT64_C(1) << 40);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes;
        CHECK(!qn_text_size(bad[i], &bytes));
    }
    check_printed(0, "0 bytes");
    check_printed(999, "999 bytes");
    check_printed(1000, "0.98 KiB");
    check_printed(1024, "1 KiB");
    check_printed(UINT64_C(300) << 20, "300 MiB");
    check_printed((UINT64_C(300) << 20) - 1, "300 MiB");
    check_printed(UINT64_C(3) << 29, "1.50 GiB");
    check_printed(UINT64_C(12345678), "11.8 MiB");
    check_printed(UINT64_MAX, "16777216 TiB");
    return checks_finish();
}
