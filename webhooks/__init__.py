"""What kube-apiserver asks: one module for each kind of object, the review codec, the routes.

Each module has pure-looking functions from a review's request and the store to an `Answer`;
no I/O, no waiting.
"""
