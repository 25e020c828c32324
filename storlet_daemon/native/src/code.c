/*
 * Why a file cannot run here, in words for its author: found at the load, before the first
 * invocation. The kernel's own error would be "Exec format error", and nothing more.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define LOADER "/lib/ld-linux-aarch64.so.1"
#else
#error "the sandbox runs on x86-64 and AArch64"
#endif

#define PATH_BYTES 256
#define HEADERS_MAX 128

static const char *machine_name(unsigned machine) {
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"},  {EM_AARCH64, "AArch64"}, {EM_386, "32-bit x86"},
                 {EM_ARM, "32-bit ARM"}, {EM_RISCV, "RISC-V"},    {EM_PPC64, "POWER"},
                 {EM_S390, "IBM Z"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].machine == machine) {
            return names[i].name;
        }
    }
    return "another one";
}

static bool refuse(struct outcome *outcome, const char *name, const char *reason,
                   const char *what) {
    fail(outcome, CODE_LOAD, "%.200s %s%.600s", name, reason, what);
    return false;
}

/* --- the head of a file ------------------------------------------------------------------------
 */

struct head {
    union {
        unsigned char bytes[4096];
        Elf64_Ehdr elf;
    } at;
    size_t size;
};

static bool read_head(const char *path, const char *name, struct head *head,
                      struct outcome *outcome) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0) {
        return refuse(outcome, name,
                      errno == ENOENT ? "is missing: main names no file of the storlet"
                                      : "cannot be read",
                      "");
    }
    ssize_t size = fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                       ? read(fd, head->at.bytes, sizeof head->at)
                       : -1;
    close(fd);
    if (size < 0) {
        return refuse(outcome, name, "is not a regular file", "");
    }
    head->size = (size_t)size;
    return true;
}

static bool is_elf(const struct head *head) {
    return head->size >= sizeof(Elf64_Ehdr) && memcmp(head->at.bytes, ELFMAG, SELFMAG) == 0;
}

static bool check_machine(const struct head *head, const char *name, struct outcome *outcome) {
    const Elf64_Ehdr *elf = &head->at.elf;
    /* The field is at the same place in files of 32 bits. */
    if (elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_ident[EI_DATA] == ELFDATA2LSB &&
        elf->e_machine == MACHINE) {
        return true;
    }
    fail(outcome, CODE_LOAD, "%.200s is for another machine: %s; this sandbox has %s", name,
         machine_name(elf->e_machine), machine_name(MACHINE));
    return false;
}

/* The loader that a program names, or "" for a static one. */
static void loader_of(const char *path, const struct head *head, char loader[PATH_BYTES]) {
    const Elf64_Ehdr *elf = &head->at.elf;
    loader[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; fd >= 0 && i < elf->e_phnum && i < HEADERS_MAX; i++) {
        Elf64_Phdr part;
        if (pread(fd, &part, sizeof part, (off_t)(elf->e_phoff + i * sizeof part)) !=
            (ssize_t)sizeof part) {
            break;
        }
        if (part.p_type == PT_INTERP) {
            size_t size = part.p_filesz < PATH_BYTES ? part.p_filesz : PATH_BYTES - 1;
            ssize_t got = pread(fd, loader, size, (off_t)part.p_offset);
            loader[got > 0 ? got : 0] = '\0';
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* --- libraries ---------------------------------------------------------------------------------
 */

/* The lines that the dynamic loader prints for ldd; it runs no code of the file. */
static bool list_libraries(const char *loader, const char *path, char *printed, size_t capacity) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
    char *arguments[] = {(char *)loader, (char *)path, NULL};
    char *environment[] = {"LD_TRACE_LOADED_OBJECTS=1", NULL};
    pid_t pid;
    int error = posix_spawn(&pid, loader, &files, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got;
         error == 0 && (got = read(ends[0], printed + used, capacity - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    printed[used] = '\0';
    close(ends[0]);
    int status = -1;
    return error == 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The missing parts by the loader's lines: `lib.so => not found`, `...: version `V' not found ...`.
 */
static void missing_of(char *printed, const char *path, char *missing, size_t capacity) {
    size_t used = 0;
    missing[0] = '\0';
    for (char *line; (line = strsep(&printed, "\n")) != NULL;) {
        char *library = strstr(line, " => not found");
        char *version = strstr(line, "' not found");
        if (library == NULL && version == NULL) {
            continue;
        }
        *(library != NULL ? library : version + 1) = '\0';
        size_t length = strlen(path);
        line += strspn(line, " \t");
        line += strncmp(line, path, length) == 0 ? length + strspn(line + length, ": ") : 0;
        int added = snprintf(missing + used, capacity - used, "%s%s", used > 0 ? ", " : "", line);
        used = added > 0 && used + (size_t)added < capacity ? used + (size_t)added : capacity - 1;
    }
}

static bool check_libraries(const char *loader, const char *path, const char *name,
                            struct outcome *outcome) {
    char printed[8192], lines[8192], missing[512];
    bool is_listed = list_libraries(loader, path, printed, sizeof printed);
    memcpy(lines, printed, sizeof lines);
    missing_of(lines, path, missing, sizeof missing);
    if (is_listed && missing[0] == '\0') {
        return true;
    }
    if (missing[0] != '\0') {
        fail(outcome, CODE_LOAD, "%.200s needs what is not in this sandbox: %.600s", name, missing);
    } else {
        fail(outcome, CODE_LOAD, "%.200s cannot be loaded: its libraries cannot be listed", name);
    }
    set_detail(outcome, printed, strlen(printed));
    return false;
}

/* --- programs and shared objects ---------------------------------------------------------------
 */

static bool check_script(struct head *head, const char *name, struct outcome *outcome) {
    char interpreter[PATH_BYTES];
    size_t at = 2;
    while (at < head->size && (head->at.bytes[at] == ' ' || head->at.bytes[at] == '\t')) {
        at++;
    }
    size_t length = 0;
    while (at + length < head->size && length < sizeof interpreter - 1 &&
           strchr(" \t\r\n", head->at.bytes[at + length]) == NULL) {
        length++;
    }
    memcpy(interpreter, head->at.bytes + at, length);
    interpreter[length] = '\0';
    if (access(interpreter, X_OK) != 0) {
        return refuse(
            outcome, name,
            "needs the interpreter of its first line, which is not in this sandbox: ", interpreter);
    }
    const unsigned char *end = memchr(head->at.bytes, '\n', head->size);
    if (end != NULL && end[-1] == '\r') {
        return refuse(outcome, name,
                      "ends its first line with a carriage return: save it with Unix line ends",
                      "");
    }
    return true;
}

bool check_program(const char *path, const char *name, struct outcome *outcome) {
    struct head head = {0};
    char loader[PATH_BYTES];
    if (!read_head(path, name, &head, outcome)) {
        return false;
    }
    if (access(path, X_OK) != 0) {
        return refuse(outcome, name, "is not executable: give it the execute permission", "");
    }
    if (head.size > 2 && memcmp(head.at.bytes, "#!", 2) == 0) {
        return check_script(&head, name, outcome);
    }
    if (!is_elf(&head)) {
        return refuse(outcome, name,
                      "is not a program: want an ELF file, or a script that begins with #!", "");
    }
    if (!check_machine(&head, name, outcome)) {
        return false;
    }
    loader_of(path, &head, loader);
    if (loader[0] == '\0') {
        return (head.at.elf.e_type == ET_EXEC || head.at.elf.e_entry != 0) ||
               refuse(outcome, name, "is a shared object: name its function, as main FILE:FUNCTION",
                      "");
    }
    if (access(loader, X_OK) != 0) {
        return refuse(outcome, name,
                      "needs the program loader, which is not in this sandbox: ", loader);
    }
    return check_libraries(loader, path, name, outcome);
}

bool check_library(const char *path, const char *name, struct outcome *outcome) {
    struct head head = {0};
    char loader[PATH_BYTES];
    if (!read_head(path, name, &head, outcome)) {
        return false;
    }
    if (!is_elf(&head)) {
        return refuse(outcome, name, "is not a shared object: want an ELF file", "");
    }
    if (!check_machine(&head, name, outcome)) {
        return false;
    }
    loader_of(path, &head, loader);
    if (head.at.elf.e_type != ET_DYN || loader[0] != '\0') {
        return refuse(outcome, name,
                      "is a program and not a shared object: want main without a function", "");
    }
    return check_libraries(LOADER, path, name, outcome);
}
