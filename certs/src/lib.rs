//! The admission certificate: issue, renew, caBundle.
