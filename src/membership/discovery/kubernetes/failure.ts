/** The used properties of errors of client-node and fetch. */
interface ApiFailure {
  /** of a list */
  readonly code?: unknown
  /** of a watch */
  readonly statusCode?: unknown
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** HTTP status of the refusal; undefined: there was none. */
export function statusOf(error: unknown): number | undefined {
  const { code, statusCode } = error as ApiFailure
  return [code, statusCode].find((one) => typeof one === 'number')
}

/** True if the rights are missing, or if this API server does not have the kind. */
export function isDenied(error: unknown): boolean {
  const status = statusOf(error)
  return status === 403 || status === 404
}

/** Pause that the server asked for, in ms; 0: none. */
export function retryAfterMs(error: unknown): number {
  const seconds = Number((error as ApiFailure).headers?.['retry-after'] ?? 0)
  return seconds > 0 ? seconds * 1000 : 0
}

/** `Date` of the refusal; undefined: there was none. */
export function answeredDate(error: unknown): string | undefined {
  const { date, Date: capital } = (error as ApiFailure).headers ?? {}
  return date ?? capital
}

/** Text for people: the server's own words, else those of the connection. It never has headers. */
export function failureText(error: unknown): string {
  const status = statusOf(error)
  const message = error instanceof Error ? error.message : String(error)
  if (status !== undefined) return `HTTP ${status}${messageIn((error as ApiFailure).body)}`
  const { cause } = error as ApiFailure
  const wrapped = error instanceof TypeError && cause instanceof Error // the error of fetch has no reason itself
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
