/** What client-node and fetch throw, as far as it matters here. */
interface ApiFailure {
  /** of a list */
  readonly code?: unknown
  /** of a watch */
  readonly statusCode?: unknown
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** The HTTP status of the refusal; undefined if there was none. */
export function statusOf(error: unknown): number | undefined {
  const { code, statusCode } = error as ApiFailure
  return [code, statusCode].find((one) => typeof one === 'number')
}

/** These rights are not ours, or this API server does not have the kind. */
export function isDenied(error: unknown): boolean {
  const status = statusOf(error)
  return status === 403 || status === 404
}

/** How long the server asked us to wait, in ms; 0 if it did not. */
export function retryAfterMs(error: unknown): number {
  const seconds = Number((error as ApiFailure).headers?.['retry-after'] ?? 0)
  return seconds > 0 ? seconds * 1000 : 0
}

/** `Date` of the refusal; undefined: there was none. */
export function answeredDate(error: unknown): string | undefined {
  const { date, Date: capital } = (error as ApiFailure).headers ?? {}
  return date ?? capital
}

/** For people: the server's own words if it had any, else those of the connection. Never headers. */
export function failureText(error: unknown): string {
  const status = statusOf(error)
  const message = error instanceof Error ? error.message : String(error)
  if (status !== undefined) return `HTTP ${status}${messageIn((error as ApiFailure).body)}`
  const { cause } = error as ApiFailure
  const wrapped = error instanceof TypeError && cause instanceof Error // fetch says only that it failed
  return wrapped && cause.message !== '' ? cause.message : message
}

function messageIn(body: unknown): string {
  if (typeof body !== 'string') return messageOf(body)
  try {
    return messageOf(JSON.parse(body))
  } catch {
    return ''
  }
}

function messageOf(status: unknown): string {
  const { message } = (status ?? {}) as { message?: unknown }
  return typeof message === 'string' ? `: ${message}` : ''
}
