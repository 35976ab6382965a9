/** Of a token as the directory file has it. */
export function hashOf({ sha256 }: { readonly sha256?: unknown }): string {
  return String(sha256).toLowerCase()
}

/** Enough to name it, and what `kas token revoke` takes. */
export function shortHash(token: { readonly sha256?: unknown }): string {
  return hashOf(token).slice(0, 12)
}
