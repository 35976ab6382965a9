/** Reasons by status code, as the Kubernetes API names them (doc/reference/tunnel-protocol.md 6.6). */
const reasons: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  409: 'Conflict',
  410: 'Expired',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
}

/** A failure that a client sees as a Kubernetes `Status`. */
export class StatusError extends Error {
  readonly code: number
  readonly reason: string
  readonly details: Record<string, unknown> | undefined

  constructor(code: number, message: string, options: { reason?: string; details?: Record<string, unknown> } = {}) {
    super(message)
    this.name = 'StatusError'
    this.code = code
    this.reason = options.reason ?? reasons[code] ?? ''
    this.details = options.details
  }

  static from(error: unknown): StatusError {
    if (error instanceof StatusError) return error
    return new StatusError(500, `the API double failed: ${error instanceof Error ? error.message : String(error)}`)
  }

  toStatus(): Record<string, unknown> {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      reason: this.reason,
      ...(this.details ? { details: this.details } : {}),
      code: this.code,
    }
  }
}
