#include "daemon/measure/links.h"

const char *const link_role_names[LINK_ROLES] = {
    [LINK_ROLE_SINK] = "sink", [LINK_ROLE_SOURCE] = "source", [LINK_ROLE_MQTT] = "mqtt"};

void links_report(struct links *links, enum link_role role, const struct link_state *state, int64_t now) {
  struct link_state *known = &links->states[role];
  int64_t warned = known->warns ? known->trouble.since : now;
  *known = *state;
  trouble_clear(&known->trouble);
  if (!known->connected) {
    trouble_note(&known->trouble, now, "see whether the broker runs and lets it in: journalctl -u framed-link",
                 "the broker of its link (%s) is unreachable%s%s", link_role_names[role], known->error[0] ? ": " : "",
                 known->error);
    known->trouble.since = known->since;
  } else if (known->warns) {
    trouble_note(&known->trouble, now, "see to the stream and the rights at the broker: framed-link(1)",
                 "its link (%s) does not work as it should: %s", link_role_names[role], known->error);
    known->trouble.since = warned;
  }
  links_expire(links, now);
}

void links_expire(struct links *links, int64_t now) {
  for (enum link_role role = 0; role < LINK_ROLES; role++) {
    if (now >= links->states[role].until) {
      links->states[role] = (struct link_state){0};
    }
  }
}
