/** Enough to name it, and what `kas token revoke` takes. */
export function shortHash({ sha256 }: { readonly sha256?: unknown }): string {
  return String(sha256).toLowerCase().slice(0, 12)
}
