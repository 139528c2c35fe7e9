"""Tells what happens to queues to one URL (`queues.notices`): off unless setting `notices_dir` is set.

| module     | what it has                                               |
|------------|-----------------------------------------------------------|
| `sender`   | the thread: what is sent, and when                        |
| `news`     | what the store has to tell                                |
| `receiver` | one request to the URL, and what came of it               |
| `storage`  | the cursor in a ConfigMap                                 |
"""
