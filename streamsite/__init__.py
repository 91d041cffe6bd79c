"""The Django project: settings, routes and the ASGI application."""
