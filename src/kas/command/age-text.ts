/** Returns an age as `3s`, `5m`, `2h`, `12d`; empty: unknown. */
export function ageText(at: number | undefined, now: number): string {
  if (at === undefined) return ''
  const seconds = Math.max(0, Math.round((now - at) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}
