#include "tools/framectl/status/details.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/status/status.h"

enum { INDENTED = 2 /* pipelines are indented below their section */ };

/* Whether the line is the pipeline's key: "  cam0:", with quotes where YAML needs them. */
static bool is_key(const char *line, const char *name) {
  size_t length = strlen(name);
  bool quoted = strncmp(line, "  \"", INDENTED + 1) == 0;
  const char *key = line + INDENTED + quoted;
  return strncmp(line, "  ", INDENTED) == 0 && strncmp(key, name, length) == 0 &&
         strncmp(key + length, quoted ? "\":" : ":", 1 + quoted) == 0;
}

/* Prints the pipeline's part of the configuration: from its key to the next line with the same indentation. */
static void print_config(FILE *out, const char *config, const char *name) {
  bool pipelines = false, inside = false;
  for (const char *line = config; *line;) {
    size_t length = strcspn(line, "\n");
    bool is_deep = strncmp(line, "   ", INDENTED + 1) == 0;
    pipelines = line[0] == ' ' ? pipelines : strncmp(line, "pipelines:", 10) == 0;
    inside = inside ? is_deep : pipelines && is_key(line, name);
    if (inside) {
      fprintf(out, "%.*s\n", (int)length, line);
    }
    line += length + (line[length] == '\n');
  }
}

char *details_text(json_t *document, const char *name, const char *config) {
  char *text = NULL;
  size_t length;
  struct problem problem = {0};
  FILE *out = open_memstream(&text, &length);
  bool fine = out && status_print_one(out, document, name, false, &problem);
  if (fine && config) {
    fputs("\n  CONFIGURATION\n", out);
    print_config(out, config, name);
  }
  fine = out && fclose(out) == 0 && fine;
  problem_clear(&problem);
  if (!fine) {
    free(text);
    text = NULL;
  }
  return text;
}
