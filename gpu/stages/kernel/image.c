/* Reads users' files: CUDA C, PTX, cubins and fat binaries; see private.h. */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/stages/kernel/private.h"

#define FAT_MAGIC   "\x50\xed\x55\xba"
#define INFO_PREFIX ".nv.info."

enum { MOST_BYTES = 64 << 20, CUDA_MACHINE = 190 };

/* -- reading ------------------------------------------------------------------------------------------------------ */

static void drop(struct kernel_code *code) {
  free(code->bytes);
  *code = (struct kernel_code){0};
}

static bool read_all(int file, struct kernel_code *code) {
  struct stat status = {0};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > MOST_BYTES) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EFBIG;
    return false;
  }
  code->size = (size_t)status.st_size;
  code->bytes = calloc(1, code->size + 1);
  return code->bytes && kept_read(file, code->bytes, code->size);
}

static bool is_elf(const struct kernel_code *code) {
  return code->size >= sizeof(Elf64_Ehdr) && memcmp(code->bytes, ELFMAG, SELFMAG) == 0;
}

static Elf64_Ehdr elf_head(const struct kernel_code *code) {
  Elf64_Ehdr head;
  memcpy(&head, code->bytes, sizeof head);
  return head;
}

/* PTX begins with comments and its version. */
static bool is_ptx(const struct kernel_code *code) {
  const char *version = strstr(code->bytes, ".version"), *target = strstr(code->bytes, ".target");
  return version && target && !memchr(code->bytes, '#', (size_t)(version - code->bytes));
}

bool kernel_read(const char *file, struct kept_file *kept, struct kernel_code *code, enum kernel_kind *kind,
                 char problem[STAGE_TEXT]) {
  *code = (struct kernel_code){0};
  int descriptor = kept_open(file, 0, NULL, 0);
  bool good = descriptor >= 0 && read_all(descriptor, code) && kept_copy(kept, file, code->bytes, code->size);
  int why = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (!good) {
    drop(code);
    snprintf(problem, STAGE_TEXT, "%s cannot be read: %s", file, strerror(why));
    return false;
  }
  if (is_elf(code) && elf_head(code).e_machine != CUDA_MACHINE) {
    drop(code);
    snprintf(problem, STAGE_TEXT, "%s is a program or library for a processor, not for a GPU", file);
    return false;
  }
  bool fat = code->size > strlen(FAT_MAGIC) && memcmp(code->bytes, FAT_MAGIC, strlen(FAT_MAGIC)) == 0;
  *kind = is_elf(code) || fat || is_ptx(code) ? KERNEL_CODE : KERNEL_SOURCE;
  return true;
}

/* -- what was compiled ----------------------------------------------------------------------------------------------- */

/* What one program compiled of a file, before the number of the architecture. */
static void write_name(const char *file, char name[PATH_MAX]) { snprintf(name, PATH_MAX, "%s/" FRAMED_VERSION "/sm_", file); }

/* The architecture that such a name ends with, or KERNEL_UNKNOWN; -1 if it ends with something else. */
static int read_architecture(const char *text) {
  char *end;
  long number = strtol(text, &end, 10);
  return end != text && !*end && number >= 0 && number < INT_MAX ? (int)number : -1;
}

bool kernel_find_compiled(const char *file, int *architecture, struct kernel_code *code) {
  char name[PATH_MAX];
  write_name(file, name);
  const struct kept_file *kept = kept_find(name);
  int compiled_for = kept ? read_architecture(kept->path + strlen(name)) : -1;
  if (compiled_for < 0 || (*architecture != KERNEL_UNKNOWN && *architecture != compiled_for)) {
    return false;
  }
  if (!read_all(kept->descriptor, code)) {
    drop(code);
    return false;
  }
  *architecture = compiled_for;
  return true;
}

void kernel_keep_compiled(const char *file, int architecture, const struct kernel_code *code, struct kept_file *kept) {
  char name[PATH_MAX], whole[PATH_MAX + 16];
  write_name(file, name);
  snprintf(whole, sizeof whole, "%s%d", name, architecture);
  (void)kept_copy(kept, whole, code->bytes, code->size); /* without memory the source has to do */
}

/* -- what a cubin says of a kernel -------------------------------------------------------------------------------- */

/* The section of that name; false if there is none. Offsets of a broken file point nowhere else. */
static bool find_section(const struct kernel_code *code, const char *name, Elf64_Shdr *section) {
  const Elf64_Ehdr head = elf_head(code);
  Elf64_Shdr names;
  size_t end = head.e_shoff + (size_t)head.e_shnum * sizeof *section;
  if (head.e_shoff > code->size || end > code->size || head.e_shentsize != sizeof *section || head.e_shstrndx >= head.e_shnum) {
    return false;
  }
  memcpy(&names, code->bytes + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
  for (size_t i = 0; i < head.e_shnum; i++) {
    memcpy(section, code->bytes + head.e_shoff + i * sizeof *section, sizeof *section);
    if (names.sh_offset > code->size || section->sh_name >= code->size - names.sh_offset || section->sh_offset > code->size ||
        section->sh_size > code->size - section->sh_offset) {
      continue;
    }
    if (strcmp(code->bytes + names.sh_offset + section->sh_name, name) == 0) {
      return true;
    }
  }
  return false;
}

/* The section is a list of attributes: form, number, and a value of 16 bits, which with form 4 is the size of what follows. */
unsigned kernel_most_threads(const struct kernel_code *code, const char *symbol) {
  enum { SIZED = 4, MAX_THREADS = 5 };
  char name[sizeof INFO_PREFIX + KERNEL_SYMBOL];
  Elf64_Shdr section;
  snprintf(name, sizeof name, INFO_PREFIX "%s", symbol);
  if (!is_elf(code) || !find_section(code, name, &section)) {
    return KERNEL_UNKNOWN;
  }
  const unsigned char *at = (const unsigned char *)code->bytes + section.sh_offset, *end = at + section.sh_size;
  while (end - at >= 4) {
    size_t size = at[0] == SIZED ? (size_t)(at[2] | at[3] << 8) : 0;
    uint32_t sides[KERNEL_DIMENSIONS];
    if ((size_t)(end - at) < 4 + size) {
      break;
    }
    if (at[0] == SIZED && at[1] == MAX_THREADS && size == sizeof sides) {
      memcpy(sides, at + 4, sizeof sides);
      return sides[0] * sides[1] * sides[2];
    }
    at += 4 + size;
  }
  return KERNEL_UNKNOWN;
}
