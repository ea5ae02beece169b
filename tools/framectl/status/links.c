#include "tools/framectl/status/links.h"

#include "tools/framectl/common/text.h"

void links_print(FILE *out, const char *before, const json_t *pipeline, bool all, bool colour) {
  const char *role;
  json_t *link;
  json_object_foreach(json_object_get(pipeline, "links"), role, link) {
    bool connected = json_is_true(json_object_get(link, "connected"));
    bool well = connected && !json_is_true(json_object_get(link, "warns"));
    const char *error = json_string_value(json_object_get(link, "error"));
    char age[TEXT_ROOM];
    if (well && !all) {
      continue;
    }
    fputs(before, out);
    text_colour_begin(out, well ? COLOUR_NONE : COLOUR_RED, colour);
    fprintf(out, "link (%s): %s for %s", role, connected ? "has its broker" : "its broker is unreachable",
            text_uptime(age, json_number_value(json_object_get(link, "since_s"))));
    text_colour_end(out, well ? COLOUR_NONE : COLOUR_RED, colour);
    fprintf(out, ", %lld unacknowledged%s%s\n", (long long)json_integer_value(json_object_get(link, "unacknowledged")),
            !error ? ""
            : well ? "; last error: "
                   : ": ",
            error ? error : "");
  }
}
