"""The one WSGI server: the app, the worker that serves it, and everything that runs beside it."""
