#include "tools/framectl/status/clients.h"

#include <pwd.h>
#include <string.h>

#include "tools/framectl/common/text.h"

/* Looks up a user's name. The daemon sends only the number, since it must not wait for a directory service. */
static const char *user_name(char text[TEXT_ROOM], json_int_t user) {
  const struct passwd *entry = getpwuid((uid_t)user);
  if (entry) {
    snprintf(text, TEXT_ROOM, "%s", entry->pw_name);
  } else {
    snprintf(text, TEXT_ROOM, "%lld", (long long)user);
  }
  return text;
}

static const char *string_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static long long number_of(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

/* "1"; "0,1" for frames that are spread over several; "-" for a reader. */
static const char *devices_text(const json_t *client, char text[TEXT_ROOM]) {
  const json_t *device = json_object_get(client, "device"), *list = json_object_get(client, "devices"), *number;
  size_t at, length = 0;
  snprintf(text, TEXT_ROOM, "-");
  if (device) {
    snprintf(text, TEXT_ROOM, "%lld", number_of(client, "device"));
  }
  json_array_foreach(list, at, number) {
    if (length < TEXT_ROOM) {
      length += (size_t)snprintf(text + length, TEXT_ROOM - length, at > 0 ? ",%lld" : "%lld", json_integer_value(number));
    }
  }
  return text;
}

bool clients_print(FILE *out, const json_t *pipeline, bool colour) {
  struct table *table = table_new("CLIENT|PROCESS|>PID|USER|>SINCE|>FRAMES|>MISSED|DEVICE|WAITS FOR");
  json_t *list = json_object_get(pipeline, "connected"), *client;
  size_t at;
  json_array_foreach(list, at, client) {
    char text[TEXT_ROOM];
    const char *process = string_of(client, "process"), *waiting = string_of(client, "waiting");
    if (table) {
      table_cell(table, COLOUR_NONE, "%s", string_of(client, "role"));
      table_cell(table, COLOUR_BOLD, "%s", process[0] ? process : "-");
      table_cell(table, COLOUR_NONE, "%lld", number_of(client, "pid"));
      table_cell(table, COLOUR_NONE, "%s", user_name(text, number_of(client, "user")));
      table_cell(table, COLOUR_NONE, "%s", text_age(text, json_number_value(json_object_get(client, "since_s"))));
      table_cell(table, COLOUR_NONE, "%lld", number_of(client, "frames"));
      table_cell(table, COLOUR_NONE, "%lld", number_of(client, "missed"));
      table_cell(table, COLOUR_NONE, "%s", devices_text(client, text));
      table_cell(table, COLOUR_NONE, "%s", strcmp(waiting, "nothing") == 0 ? "-" : waiting);
    }
  }
  bool fine = table && (json_array_size(list) == 0 || (table_print(table, out, "  ", colour) && fputc('\n', out) != EOF));
  table_free(table);
  return fine;
}
