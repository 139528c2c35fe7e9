"""The errors of certificates.

CertificateError
└── AuthorityUnreadable   a stored authority is incomplete or damaged, or its key is not its certificate's
"""

from __future__ import annotations


class CertificateError(Exception):
    """Base of all errors of this package."""


class AuthorityUnreadable(CertificateError):
    """The stored authority cannot be used; the message names the file and says what to do."""
