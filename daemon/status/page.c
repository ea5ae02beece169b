/* The page lies in a file of its own, page.html, which the assembler takes in: editors and browsers know it as it is. */
#include "daemon/status/page.h"

__asm__(".pushsection .rodata\n"
        ".global status_page\n"
        "status_page:\n"
        ".incbin \"daemon/status/page.html\"\n"
        ".byte 0\n"
        ".popsection\n");
