"""The page `kubectl queue ui`: the queues of a cluster in a browser on the same machine, live.

It runs in the plugin, with the viewer's own rights: the server of Sluice has no part in it. Flask comes with
`kubectl-queue[ui]`; no other command imports this package.

Read in this order
- `guard`: which requests are answered at all; `keys`: who holds the page.
- `rows`: frames of all queues, and what differs between two; `board`: the newest one, which streams wait for.
- `queue_watch`: the threads that read queues and publish frames; `stream`: the lines for one window,
  `websocket`: how they get there.
- `app`: the routes; `serving`: the socket, and the way into a browser.

Promises
- What is shown comes from the values of `views`, and what an edit does from those of `edit`: commands and the
  page say the same.
- The script is plain and the project's own; it builds text nodes, never markup.
"""
