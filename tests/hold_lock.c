/* Holds a database locked against writers until standard input ends: what
 * another process does to a shared history.  Prints "locked" when it does. */
#include "config.h"

#include <stdio.h>

#include <sqlite3.h>

int
main(int argc, char **argv)
{
  sqlite3 *db;
  if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK)
    return 1;
  int status = sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
  if (status == SQLITE_OK) {
    puts("locked");
    fflush(stdout);
    while (getchar() != EOF)
      ;
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  sqlite3_close(db);
  return status != SQLITE_OK;
}
