/* A plug-in of qemu's user mode that counts what is executed and prints it to standard error at the
 * end: on Hexagon one instruction of qemu's is one packet. qemu's interface, version 1, is declared
 * here, since no package has its header. For programs of one thread. */
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct block;

enum { INLINE_ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*made)(plugin_id, struct block *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct block *block, int operation, void *counter,
                                              uint64_t by);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*at_end)(plugin_id, void *), void *user);
size_t qemu_plugin_tb_n_insns(const struct block *block);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t n_packets;

static void block_made(plugin_id id, struct block *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &n_packets,
                                             qemu_plugin_tb_n_insns(block));
}

static void print(plugin_id id, void *user) {
    (void)id;
    (void)user;
    fprintf(stderr, "packets %llu\n", (unsigned long long)n_packets);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info,
                                                               int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, block_made);
    qemu_plugin_register_atexit_cb(id, print, NULL);
    return 0;
}
