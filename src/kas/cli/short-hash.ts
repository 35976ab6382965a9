/** Hash of a token in the directory file. */
export function hashOf({ sha256 }: { readonly sha256?: unknown }): string {
  return String(sha256).toLowerCase()
}

/** Short hash that names a token, also for `kas token revoke`. */
export function shortHash(token: { readonly sha256?: unknown }): string {
  return hashOf(token).slice(0, 12)
}
