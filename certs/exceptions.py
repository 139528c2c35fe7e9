"""What can go wrong with certificates.

CertificateError
└── AuthorityUnreadable   a stored authority is missing a half, damaged, or does not match itself
"""

from __future__ import annotations


class CertificateError(Exception):
    """Base of all errors of this package."""


class AuthorityUnreadable(CertificateError):
    """The stored authority cannot be used; the message names the file and the way out."""
