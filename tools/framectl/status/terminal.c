#include "tools/framectl/status/terminal.h"

#include <curses.h>
#include <term.h>
#include <unistd.h>

bool terminal_can_draw(void) {
  int why;
  if (setupterm(NULL, STDOUT_FILENO, &why) != OK) {
    return false;
  }
  const char *move = tigetstr("cup");
  del_curterm(cur_term);
  return move != NULL;
}
