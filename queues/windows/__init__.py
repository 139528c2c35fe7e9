"""Change windows: when a queue is held by the calendar. Pure; read `rules` first.

| module       | what it has                                                       |
|--------------|-------------------------------------------------------------------|
| `window`     | a window and an override, as values, and their fields             |
| `rules`      | the table of cases: when a window is on, and what is next         |
| `recurrence` | when a schedule begins in its time zone                           |
| `schedule`   | five fields as in Debian's cron                                   |
| `zones`      | time zones by name, and wall clocks as moments                    |
| `times`      | durations, and moments as people write them                       |
| `reader`     | windows from the fields of a Queue, and what is refused           |
| `refusals`   | what is wrong with a field, and where it stands                   |
| `entries`    | a window that is on, as it is written                             |
| `in_window`  | what is written at each edge                                      |
| `edges`      | what is to be written now, and when to look again                 |
| `stops`      | what windows set, and what counts of several                      |
| `overriding` | what people do to one occurrence                                  |
| `drains`     | which drain counts while a window drains                          |
| `resuming`   | what a resume does to the windows that are on                     |
| `soon`       | what begins soon                                                  |
| `texts`      | what users are told                                               |
"""
